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
from pathlib import Path
from typing import Any

from lsprotocol import types

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.records import ChunkRecord, Receipt, StateRecord, ToolCallRecord, TurnStartRecord
from pilotfish.engine import commands as slash_commands
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import SessionUpdate
from pilotfish.engine.session.undo import Reverted
from pilotfish.errors import BadRequest, PilotfishError, StorageError, UnknownSession
from pilotfish.lsp import command_names, presentation
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.connection.request_order import RequestOrder
from pilotfish.lsp.generic_client.progress import Progresses, WorkDoneProgress
from pilotfish.lsp.handlers import Handlers
from pilotfish.protocol import present, wire

log = logging.getLogger(__name__)

SHORT_CHARS = 300
SHORT_LINES = 4
LISTED_SESSIONS = 9
ANY = "any"
"""one key for all prompts of a generic client: they are ordered across sessions, because it need not know sessions"""
WAITING_WORDS = "waits for your next prompt; stop once more to withdraw it"
TRUST, READ_ONLY = "Trust this folder", "Read only"
ERROR, WARNING, INFO = types.MessageType.Error, types.MessageType.Warning, types.MessageType.Info


@dataclass(slots=True)
class _Turn:
    """A turn that a generic client has started."""

    session_id: str
    prompt_id: str
    progress: WorkDoneProgress
    said: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """item → its text so far; the last item is the answer"""

    @property
    def answer(self) -> str:
        return "".join(list(self.said.values())[-1]) if self.said else ""


class GenericClient:
    """The commands of a generic client."""

    def __init__(
        self, connection: Connection, client: Client, live: Engine, handlers: Handlers, progresses: Progresses
    ) -> None:
        self._connection = connection
        self._client = client
        self._live = live
        self._handlers = handlers
        self._progresses = progresses
        self._current: dict[str | None, str] = {}
        self._turns: dict[str, _Turn] = {}
        """prompt → its turn, from the moment it is asked for; those of one session run one after the other"""
        self._running: dict[str, _Turn] = {}
        """session → the turn that runs there"""
        self._order = RequestOrder()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, command: str, arguments: Sequence[Any], token: Any) -> Any:
        """`workspace/executeCommand`"""
        return await COMMANDS[command](self, arguments, token)

    def told(self, told: SessionUpdate) -> None:
        """Show an update of a session in its progress."""
        if isinstance(told.record, TurnStartRecord) and (began := self._turns.get(told.record.prompt_id or "")):
            self._running[told.session_id] = began
        turn = self._running.get(told.session_id)
        if turn is None:
            return
        match told.record:
            case ChunkRecord(channel="message", item_id=item_id, text=text):
                turn.said.setdefault(item_id, []).append(text)
            case StateRecord(state="assistant", iteration=iteration):
                turn.progress.report("thinking" if iteration <= 1 else f"thinking, step {iteration}")
            case ToolCallRecord(call=call) if call.status is CallStatus.IN_PROGRESS:
                turn.progress.report(call.title or call.name)
            case ToolCallRecord(call=call) if call.status is CallStatus.AWAITING_APPROVAL:
                turn.progress.report(f"waits for you: {call.title or call.name}")
            case _:
                pass

    # -- the commands ---------------------------------------------------------------------------------------------

    async def prompt(self, arguments: Sequence[Any], token: Any) -> Any:
        asked = _asked(arguments)
        stop, arrived = asyncio.Event(), asyncio.Event()
        async with self._order.prompt(ANY):
            if asked.session_id is not None:
                await self._live.session(asked.session_id)  # raises if there is no such session
            session_id = asked.session_id or await self._session(new=asked.new)
            turn = self._turn(session_id, asked.prompt, token, stop, arrived.set)
            work = asyncio.get_running_loop().create_task(turn)
            self._tasks.add(work)
            work.add_done_callback(self._tasks.discard)
            work.add_done_callback(lambda _: arrived.set())
            await _or_stop(arrived.wait(), stop)
        if asked.wait:
            await _or_stop(asyncio.shield(work), stop)
        return {"sessionId": session_id}

    async def cancel(self, arguments: Sequence[Any], _token: Any) -> Any:
        wanted = _words(arguments, "sessionId")
        await self._order.before(ANY)
        sessions = [wanted] if wanted else list(dict.fromkeys(turn.session_id for turn in self._turns.values()))
        receipts = [present.receipt(await self._stop(session_id)) for session_id in sessions]
        return [receipt.model_dump(mode="json", by_alias=True, exclude_none=True) for receipt in receipts if receipt]

    async def sessions(self, arguments: Sequence[Any], _token: Any) -> Any:
        listed = await self._live.list(self._folder(), _words(arguments, "query"), None, LISTED_SESSIONS)
        shown = [presentation.session(session) for session in listed.sessions]
        work = asyncio.get_running_loop().create_task(self._choose(shown))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        return [session.model_dump(mode="json", by_alias=True, exclude_none=True) for session in shown]

    async def undo(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = _words(arguments, "sessionId") or await self._session()
        await slash_commands.require_trust(self._live, session_id)
        return self._reverted(await self._live.undo(session_id), "put back")

    async def redo(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = _words(arguments, "sessionId") or await self._session()
        await slash_commands.require_trust(self._live, session_id)
        return self._reverted(await self._live.redo(session_id), "put forward again")

    async def transcript(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = _words(arguments, "sessionId") or await self._session()
        path = await self._write(session_id, await self._live.export(session_id, "markdown"))
        await self._show(path)
        return {"uri": path.as_uri()}

    # -- a turn ---------------------------------------------------------------------------------------------------

    async def _turn(
        self,
        session_id: str,
        prompt: Sequence[wire.ContentBlock],
        token: Any,
        stop: asyncio.Event,
        in_line: Callable[[], None],
    ) -> None:
        progress = self._progresses.start("Pilotfish", token, stop)
        turn = _Turn(session_id, self._live.new_id("prompt"), progress)
        try:
            self._turns[turn.prompt_id] = turn
            params = wire.PromptParams(
                session_id=session_id, prompt=tuple(prompt), prompt_id=turn.prompt_id, when_busy="queue"
            )
            result = await self._handlers.prompt(params, stop, in_line)
            await self._progresses.finish(turn.progress, _end_words(result))
            await self._answer(turn, result)
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
        receipt = await self._live.cancel(session_id, None)
        for turn in self._turns.values():
            if turn.session_id == session_id and turn is not self._running.get(session_id):
                if receipt.turn_id is None:
                    turn.progress.cancelled.set()
                else:
                    turn.progress.report(WAITING_WORDS)
        return receipt

    async def _answer(self, turn: _Turn, result: wire.PromptResult) -> None:
        if result.session_id is not None:
            self._current[self._folder()] = result.session_id
        if result.error is not None:
            self._connection.message(ERROR, f"{result.error.message} {result.error.remedy}".strip())
            return
        if result.stop_reason == "cancelled":
            self._connection.message(INFO, _stopped_words(result.receipt))
            return
        text = (result.reply or turn.answer).strip()
        if result.stop_reason not in ("end_turn", "refusal"):
            self._connection.message(WARNING, _end_words(result))
        if not text:
            return
        if len(text) <= SHORT_CHARS and text.count("\n") < SHORT_LINES:
            self._connection.message(INFO, text)
            return
        whole = result.reply or await self._live.export(turn.session_id, "markdown")
        path = await self._write(turn.session_id, whole)
        if not await self._show(path):
            self._connection.message(INFO, f"{text[:SHORT_CHARS]}… The whole answer is in {path}")

    async def ask_for_trust(self, folder: Path) -> None:
        """Ask once for each folder and save the answer in the user's config. A dismissed question is asked again."""
        message = (
            f"Do you trust the folder {folder.name}? There Pilotfish would change files, run commands and follow "
            "instruction files, asking you as its mode says."
        )
        chosen = await self._choice(message, (TRUST, READ_ONLY))
        if chosen is None:
            return
        try:
            self._live.book.trust(folder, chosen == TRUST)
        except StorageError as error:
            self._connection.message(WARNING, f"{error} Your answer applies until the editor is closed. {error.remedy}")

    # -- what the client shows ------------------------------------------------------------------------------------

    async def _choose(self, sessions: Sequence[wire.Session]) -> None:
        titles = {f"{number}. {session.title or 'Untitled'}": session for number, session in enumerate(sessions, 1)}
        if not titles:
            self._connection.message(INFO, "There are no sessions in this folder yet.")
            return
        chosen = await self._choice("Which session should go on?", tuple(titles))
        if chosen is not None:
            session = titles[chosen]
            self._current[self._folder()] = session.id
            await self._show(await self._write(session.id, await self._live.export(session.id, "markdown")))

    async def _choice(self, message: str, options: Sequence[str]) -> str | None:
        try:
            return await self._connection.choose(message, options)
        except ClientError as error:
            log.warning("window/showMessageRequest: %s", error)
            return None

    async def _show(self, path: Path) -> bool:
        return self._client.show_document and await self._connection.show(path)

    async def _write(self, session_id: str, text: str) -> Path:
        """Write a transcript where an editor can open it and only the user can read it."""
        path = self._live.transcript_path(session_id)

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_text(text, "utf-8")

        await asyncio.to_thread(write)
        return path

    def _reverted(self, done: Reverted, verb: str) -> Any:
        self._connection.message(WARNING if done.refused else INFO, slash_commands.reverted_text(done, verb))
        return presentation.reverted(done).model_dump(mode="json", by_alias=True, exclude_none=True)

    def _folder(self) -> str | None:
        return str(self._handlers.roots[0]) if self._handlers.roots else None

    async def _session(self, *, new: bool = False) -> str:
        """The current session of this folder, or a new one."""
        folder = self._folder()
        if not new and folder in self._current:
            with contextlib.suppress(UnknownSession):  # another window has deleted it
                return (await self._live.session(self._current[folder])).id
        self._current[folder] = (await self._live.new(folder)).id
        return self._current[folder]


Command = Callable[[GenericClient, Sequence[Any], Any], Awaitable[Any]]

COMMANDS: Mapping[str, Command] = {
    command_names.PROMPT: GenericClient.prompt,
    command_names.CANCEL: GenericClient.cancel,
    command_names.SESSIONS: GenericClient.sessions,
    command_names.UNDO: GenericClient.undo,
    command_names.REDO: GenericClient.redo,
    command_names.TRANSCRIPT: GenericClient.transcript,
}


@dataclass(frozen=True, slots=True)
class _Asked:
    prompt: tuple[wire.ContentBlock, ...]
    session_id: str | None
    new: bool
    wait: bool


def _asked(arguments: Sequence[Any]) -> _Asked:
    """The argument of `pilotfish.prompt`: a text, or `{prompt, uri?, range?, sessionId?, new?, wait?}`, where `prompt`
    is a text or content blocks and `uri` with `range` is the selection it is about."""
    first = arguments[0] if arguments else None
    said: dict[str, Any] = {"prompt": first} if isinstance(first, str) else as_object(first) or {}
    prompt = said.get("prompt")
    blocks: list[Any] = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else as_objects(prompt)
    if isinstance(uri := said.get("uri"), str):
        blocks.append({"type": "resource", "uri": uri, "range": said.get("range")})
    session_id = said.get("sessionId")
    checked = read(wire.PromptParams, {"sessionId": session_id or "", "prompt": blocks})
    if not any(isinstance(block, wire.TextBlock) and block.text.strip() for block in checked.prompt):
        raise BadRequest("arguments: a prompt needs a text", field="arguments")
    return _Asked(checked.prompt, checked.session_id or None, said.get("new") is True, said.get("wait") is True)


async def _or_stop(wait: Awaitable[object], stop: asyncio.Event) -> None:
    """Wait; when the wait is cancelled, stop the work too."""
    try:
        await wait
    except asyncio.CancelledError:
        stop.set()
        raise


def _words(arguments: Sequence[Any], name: str) -> str | None:
    """The first argument: a string, or an object with one of this name."""
    first = arguments[0] if arguments else None
    value = first if isinstance(first, str) else (as_object(first) or {}).get(name)
    return value if isinstance(value, str) and value else None


def _end_words(result: wire.PromptResult) -> str:
    match result.stop_reason:
        case "end_turn":
            return "done"
        case "cancelled":
            return "stopped"
        case "failed":
            return "failed"
        case "refusal":
            return "the model declined"
        case "max_iterations":
            return "Stopped at the limit of steps. Send “continue” to go on."
        case "max_tokens":
            return "The answer was cut off at the model's limit. Send “continue” to go on."
        case "budget":
            return "Stopped at the budget of this turn."


def _stopped_words(receipt: wire.Receipt | None) -> str:
    if receipt is None:
        return "Stopped."
    edits, ended = len(receipt.changed_files), len(receipt.killed_processes)
    words = [f"{edits} changed file{'' if edits == 1 else 's'} kept" if edits else ""]
    words.append(f"{ended} command{'' if ended == 1 else 's'} ended" if ended else "")
    told = ", ".join(word for word in words if word)
    return f"Stopped. {told[0].upper()}{told[1:]}." if told else "Stopped."
