"""Clients with no plugin: an agent through standard LSP alone.

`workspace/executeCommand` starts work and answers at once, because some editors stand still until it does;
`$/progress` shows the work and cancels it; messages with buttons ask; the answer is a message when it is short, else
a Markdown transcript in an editor. Such editors know no workspace trust, so the user is asked once for each folder,
when the agent first would change or run something there, or read its instruction files.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.records import (
    ChunkRecord,
    ClaimRecord,
    Receipt,
    StateRecord,
    ToolCallRecord,
    TurnStartRecord,
)
from pilotfish.engine import commands as slash_commands
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import SessionUpdate
from pilotfish.engine.session.undo import Reverted
from pilotfish.errors import PilotfishError, UnknownSession
from pilotfish.lsp import command_names, presentation
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import Connection
from pilotfish.lsp.connection.request_order import RequestOrder
from pilotfish.lsp.editor.choices import Choices
from pilotfish.lsp.generic_client.answers import Answers, end_words
from pilotfish.lsp.generic_client.arguments import Starts, prompt_arguments, text_argument
from pilotfish.lsp.generic_client.progress import Progresses, WorkDoneProgress
from pilotfish.lsp.generic_client.questions import Questions
from pilotfish.lsp.handlers import Handlers
from pilotfish.protocol import present, wire

log = logging.getLogger(__name__)

LISTED_SESSIONS = 9
ANY = "any"
"""one key for all prompts of a generic client: they are ordered across sessions, because it need not know sessions"""
WAITING_WORDS = "waits for your next prompt; stop once more to withdraw it"
ERROR, WARNING, INFO = types.MessageType.Error, types.MessageType.Warning, types.MessageType.Info


@dataclass(slots=True)
class _Turn:
    """A turn that a generic client has started."""

    session_id: str
    prompt_id: str
    progress: WorkDoneProgress
    chunks: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """item → its text so far; the last item is the answer"""
    unverified: list[str] = field(default_factory=list[str])
    """statements of the answer that no call shows"""

    @property
    def answer(self) -> str:
        return "".join(list(self.chunks.values())[-1]) if self.chunks else ""


class GenericClient:
    """The commands of a generic client."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        engine: Engine,
        handlers: Handlers,
        progresses: Progresses,
        choices: Choices,
    ) -> None:
        self._connection = connection
        self._engine = engine
        self._handlers = handlers
        self._progresses = progresses
        self.questions = Questions(connection, engine, choices, lambda: handlers.roots)
        self._answers = Answers(connection, client, engine)
        self._current: dict[str | None, str] = {}
        """folder → the session that prompts go on in"""
        self._latest: dict[str | None, str] = {}
        """folder → the session of the last prompt: undo and the transcript mean this one"""
        self._turns: dict[str, _Turn] = {}
        """prompt → its turn, from the moment it is asked for; those of one session run one after the other"""
        self._running: dict[str, _Turn] = {}
        """session → the turn that runs there"""
        self._order = RequestOrder()
        self._tasks: set[asyncio.Task[None]] = set()
        self._text_wanted: dict[str, asyncio.Future[str]] = {}
        """session → a question that the next prompt answers"""

    async def run(self, command: str, arguments: Sequence[Any], token: Any) -> Any:
        """`workspace/executeCommand`"""
        return await COMMANDS[command](self, arguments, token)

    def on_update(self, update: SessionUpdate) -> None:
        """Show an update of a session in its progress."""
        if isinstance(update.record, TurnStartRecord) and (began := self._turns.get(update.record.prompt_id or "")):
            self._running[update.session_id] = began
        turn = self._running.get(update.session_id)
        if turn is None:
            return
        match update.record:
            case ChunkRecord(channel="message", item_id=item_id, text=text):
                if item_id not in turn.chunks:
                    turn.unverified.clear()  # they were in an answer before this one
                turn.chunks.setdefault(item_id, []).append(text)
            case ClaimRecord(verdict="unsupported", text=text, evidence=evidence):
                turn.unverified.append(f"Not verified: “{text}” ({evidence})")
            case StateRecord(state="assistant", iteration=iteration):
                turn.progress.report("thinking" if iteration <= 1 else f"thinking, step {iteration}")
            case ToolCallRecord(call=call) if call.status is CallStatus.IN_PROGRESS:
                turn.progress.report(call.title or call.name)
            case ToolCallRecord(call=call) if call.status is CallStatus.FAILED:
                turn.progress.report(f"failed: {call.title or call.name}")
            case ToolCallRecord(call=call) if call.status is CallStatus.AWAITING_APPROVAL:
                turn.progress.report(f"waits for you: {call.title or call.name}")
            case _:
                pass

    # -- the commands ---------------------------------------------------------------------------------------------

    async def prompt(self, arguments: Sequence[Any], token: Any) -> Any:
        asked = prompt_arguments(arguments)
        async with self._order.prompt(ANY):
            if asked.session_id is not None:
                await self._engine.session(asked.session_id)  # raises if there is no such session
            session_id = asked.session_id or await self._session(asked.starts)
            wanted = self._text_wanted.get(session_id)
            if wanted is not None and not wanted.done():
                wanted.set_result("\n".join(block.text for block in asked.prompt if isinstance(block, wire.TextBlock)))
                return {"sessionId": session_id}
            work = await self._start(session_id, asked.prompt, token)
        if asked.wait:
            await work()
        return {"sessionId": session_id}

    async def edit(self, arguments: Sequence[Any], token: Any) -> Any:
        """The argument has the fields of `edit/inline`, and `wait`."""
        argument = as_object(arguments[0] if arguments else None) or {}
        wait = argument.pop("wait", None) is True
        async with self._order.prompt(ANY):
            edit = await self._handlers.edits.begin(read(wire.InlineEditParams, argument))
            work = await self._start(edit.session_id, edit.prompt, token)
        if wait:
            await work()
        return {"sessionId": edit.session_id}

    async def retry_edit(self, arguments: Sequence[Any], token: Any) -> Any:
        session_id = text_argument(arguments, "sessionId") or ""
        async with self._order.prompt(ANY):
            edit = await self._handlers.edits.again(session_id)
            await self._start(session_id, edit.prompt, token)
        return {"sessionId": session_id}

    async def cancel(self, arguments: Sequence[Any], _token: Any) -> Any:
        wanted = text_argument(arguments, "sessionId")
        await self._order.before(ANY)
        sessions = [wanted] if wanted else list(dict.fromkeys(turn.session_id for turn in self._turns.values()))
        receipts = [present.same(wire.Receipt, await self._stop(session_id)) for session_id in sessions]
        return [receipt.model_dump(mode="json", by_alias=True, exclude_none=True) for receipt in receipts if receipt]

    async def sessions(self, arguments: Sequence[Any], _token: Any) -> Any:
        listed = await self._engine.list(self._folder(), text_argument(arguments, "query"), None, LISTED_SESSIONS)
        shown = [presentation.session(session) for session in listed.sessions]
        work = asyncio.get_running_loop().create_task(self._choose(shown))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        return [session.model_dump(mode="json", by_alias=True, exclude_none=True) for session in shown]

    async def undo(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = text_argument(arguments, "sessionId") or await self._latest_session()
        await slash_commands.require_trust(self._engine, session_id)
        return self._reverted(await self._engine.undo(session_id), "put back")

    async def redo(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = text_argument(arguments, "sessionId") or await self._latest_session()
        await slash_commands.require_trust(self._engine, session_id)
        return self._reverted(await self._engine.redo(session_id), "put forward again")

    async def transcript(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = text_argument(arguments, "sessionId") or await self._latest_session()
        return {"uri": (await self._answers.open_transcript(session_id)).as_uri()}

    # -- a turn ---------------------------------------------------------------------------------------------------

    async def _start(
        self, session_id: str, prompt: Sequence[wire.ContentBlock], token: Any
    ) -> Callable[[], Awaitable[None]]:
        """Run a prompt in the background; returns when later requests find it in its session. What it returns waits
        for the end of the turn."""
        stop, arrived = asyncio.Event(), asyncio.Event()
        turn = self._turn(session_id, prompt, token, stop, arrived.set)
        work = asyncio.get_running_loop().create_task(turn)
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        work.add_done_callback(lambda _: arrived.set())
        await _or_stop(arrived.wait(), stop)
        return lambda: _or_stop(asyncio.shield(work), stop)

    async def _turn(
        self,
        session_id: str,
        prompt: Sequence[wire.ContentBlock],
        token: Any,
        stop: asyncio.Event,
        in_line: Callable[[], None],
    ) -> None:
        progress = self._progresses.start("Pilotfish", token, stop)
        turn = _Turn(session_id, self._engine.new_id("prompt"), progress)
        self._latest[self._folder()] = session_id
        try:
            self._turns[turn.prompt_id] = turn
            params = wire.PromptParams(
                session_id=session_id, prompt=tuple(prompt), prompt_id=turn.prompt_id, when_busy="queue"
            )
            result = await self._handlers.prompt(params, stop, in_line)
            await self._progresses.finish(turn.progress, end_words(result))
            if result.session_id is not None:
                self._current[self._folder()] = result.session_id
            await self._answers.show(session_id, turn.answer, turn.unverified, result)
        except PilotfishError as error:
            await self._progresses.finish(turn.progress, "failed")
            self._connection.message(ERROR, str(error))
        except Exception:
            log.exception("a plain client's turn failed")
            await self._progresses.finish(turn.progress, "failed")
            self._connection.message(ERROR, "Pilotfish failed; its log says more.")
        finally:
            del self._turns[turn.prompt_id]
            if self._running.get(session_id) is turn:
                del self._running[session_id]

    async def _stop(self, session_id: str) -> Receipt:
        """Stop what runs. The prompts behind it are kept and wait; a second stop, when nothing runs, ends them."""
        receipt = await self._engine.cancel(session_id, None)
        for turn in self._turns.values():
            if turn.session_id == session_id and turn is not self._running.get(session_id):
                if receipt.turn_id is None:
                    turn.progress.cancelled.set()
                else:
                    turn.progress.report(WAITING_WORDS)
        return receipt

    async def ask_for_text(self, session_id: str, question: str) -> str:
        """Show a question; the next prompt to its session is the answer."""
        wanted = self._text_wanted[session_id] = asyncio.get_running_loop().create_future()
        self._connection.message(WARNING, f"{question}\n(Your next prompt is the answer.)")
        if (turn := self._running.get(session_id)) is not None:
            turn.progress.report("waits for your answer: send it as a prompt")
        try:
            return await wanted
        finally:
            del self._text_wanted[session_id]

    # -- what the client shows ------------------------------------------------------------------------------------

    async def _choose(self, sessions: Sequence[wire.Session]) -> None:
        titles = {
            f"{number}. {session.title or 'Untitled'}{' (imported)' if session.imported else ''}": session
            for number, session in enumerate(sessions, 1)
        }
        if not titles:
            self._connection.message(INFO, "There are no sessions in this folder yet.")
            return
        chosen = await self.questions.choose("Which session should go on?", tuple(titles))
        if chosen is not None:
            session = titles[chosen]
            self._current[self._folder()] = session.id
            await self._answers.open_transcript(session.id)

    def _reverted(self, done: Reverted, verb: str) -> Any:
        self._connection.message(WARNING if done.refused else INFO, slash_commands.reverted_text(done, verb))
        return presentation.reverted(done).model_dump(mode="json", by_alias=True, exclude_none=True)

    def _folder(self) -> str | None:
        return str(self._handlers.roots[0]) if self._handlers.roots else None

    async def _session(self, starts: Starts) -> str:
        """The session for a prompt."""
        folder = self._folder()
        if starts == "none" and (latest := self._latest.get(folder)) in self._text_wanted:
            return latest  # the text answers its question
        if starts == "none" and folder in self._current:
            with contextlib.suppress(UnknownSession):  # another window has deleted it
                return (await self._engine.session(self._current[folder])).id
        session_id = (await self._engine.new(folder)).id
        if starts != "own":
            self._current[folder] = session_id
        return session_id

    async def _latest_session(self) -> str:
        with contextlib.suppress(KeyError, UnknownSession):
            return (await self._engine.session(self._latest[self._folder()])).id
        return await self._session("none")


Command = Callable[[GenericClient, Sequence[Any], Any], Awaitable[Any]]

COMMANDS: Mapping[str, Command] = {
    command_names.PROMPT: GenericClient.prompt,
    command_names.EDIT: GenericClient.edit,
    command_names.EDIT_RETRY: GenericClient.retry_edit,
    command_names.CANCEL: GenericClient.cancel,
    command_names.SESSIONS: GenericClient.sessions,
    command_names.UNDO: GenericClient.undo,
    command_names.REDO: GenericClient.redo,
    command_names.TRANSCRIPT: GenericClient.transcript,
}


async def _or_stop(wait: Awaitable[object], stop: asyncio.Event) -> None:
    """Wait; when the wait is cancelled, stop the work too."""
    try:
        await wait
    except asyncio.CancelledError:
        stop.set()
        raise
