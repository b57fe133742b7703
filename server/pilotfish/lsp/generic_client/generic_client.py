"""Clients with no plugin: an agent through standard LSP alone.

`workspace/executeCommand` starts work and answers at once, because some editors stand still until it does;
`$/progress` shows the work and cancels it; messages with buttons ask; the answer is a message when it is short, else
a Markdown transcript in an editor. Such editors know no workspace trust, so the user is asked once for each folder,
when the agent first would change or run something there, or read its instruction files.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

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
from pilotfish.errors import BadRequest, PilotfishError, StorageError, UnknownSession
from pilotfish.lsp import command_names, presentation
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.connection.request_order import RequestOrder
from pilotfish.lsp.editor.choices import Choices
from pilotfish.lsp.generic_client.progress import Progresses, WorkDoneProgress
from pilotfish.lsp.handlers import Handlers
from pilotfish.protocol import present, wire

log = logging.getLogger(__name__)

SHORT_CHARS = 300
SHORT_LINES = 4
ONE_LINE_CHARS = 80
"""that fit in the one line in which some editors show a message"""
LISTED_SESSIONS = 9
ANY = "any"
"""one key for all prompts of a generic client: they are ordered across sessions, because it need not know sessions"""
WAITING_WORDS = "waits for your next prompt; stop once more to withdraw it"
TRUST, READ_ONLY = "Trust this folder", "Read only"
WRITE_ALWAYS, WRITE_ONCE, WRITE_NEVER = "Always write edits to disk", "Write them now", "Never"
PROMPT_IN_VIEW = 15
"""lines between a prompt and its answer that leave both on the screen"""
LAST_PROMPT = "## You"
"""the heading of a prompt in a Markdown transcript"""
ERROR, WARNING, INFO = types.MessageType.Error, types.MessageType.Warning, types.MessageType.Info


Starts = Literal["none", "new", "own"]
"""which session a prompt starts: none, one that later prompts go on in, or one for itself alone"""


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
        self._client = client
        self._engine = engine
        self._handlers = handlers
        self._progresses = progresses
        self._choices = choices
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
        self._transcripts: dict[str, Path] = {}
        """session → the transcript that is shown"""
        self._numbers = itertools.count(2)

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
        asked = _asked(arguments)
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
        session_id = _words(arguments, "sessionId") or ""
        async with self._order.prompt(ANY):
            edit = await self._handlers.edits.again(session_id)
            await self._start(session_id, edit.prompt, token)
        return {"sessionId": session_id}

    async def cancel(self, arguments: Sequence[Any], _token: Any) -> Any:
        wanted = _words(arguments, "sessionId")
        await self._order.before(ANY)
        sessions = [wanted] if wanted else list(dict.fromkeys(turn.session_id for turn in self._turns.values()))
        receipts = [present.same(wire.Receipt, await self._stop(session_id)) for session_id in sessions]
        return [receipt.model_dump(mode="json", by_alias=True, exclude_none=True) for receipt in receipts if receipt]

    async def sessions(self, arguments: Sequence[Any], _token: Any) -> Any:
        listed = await self._engine.list(self._folder(), _words(arguments, "query"), None, LISTED_SESSIONS)
        shown = [presentation.session(session) for session in listed.sessions]
        work = asyncio.get_running_loop().create_task(self._choose(shown))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        return [session.model_dump(mode="json", by_alias=True, exclude_none=True) for session in shown]

    async def undo(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = _words(arguments, "sessionId") or await self._latest_session()
        await slash_commands.require_trust(self._engine, session_id)
        return self._reverted(await self._engine.undo(session_id), "put back")

    async def redo(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = _words(arguments, "sessionId") or await self._latest_session()
        await slash_commands.require_trust(self._engine, session_id)
        return self._reverted(await self._engine.redo(session_id), "put forward again")

    async def transcript(self, arguments: Sequence[Any], _token: Any) -> Any:
        session_id = _words(arguments, "sessionId") or await self._latest_session()
        path, _ = await self._show(session_id, await self._engine.export(session_id, "markdown"))
        return {"uri": path.as_uri()}

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
        receipt = await self._engine.cancel(session_id, None)
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
        if turn.unverified:
            self._connection.message(WARNING, "\n".join(turn.unverified))
        if not text:
            return
        if _is_short(text, one_line=self._client.one_line_messages):
            self._connection.message(INFO, text)
            return
        whole = result.reply or await self._engine.export(turn.session_id, "markdown")
        path, shown = await self._show(turn.session_id, whole, text)
        if not shown:
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
            self._engine.book.trust(folder, chosen == TRUST)
        except StorageError as error:
            self._connection.message(WARNING, f"{error} Your answer applies until the editor is closed. {error.remedy}")

    async def ask_to_write(self, paths: Sequence[Path]) -> bool:
        """Ask once for each folder whether edits are written to disk too, because such an editor cannot be asked to
        save, and a command reads the disk."""
        folder = self._handlers.roots[0] if self._handlers.roots else None
        stored = self._engine.book.writes_edits(folder) if folder else None
        if stored is not None:
            return stored
        names = ", ".join(path.name for path in paths[:5]) + (" and more" if len(paths) > 5 else "")
        message = (
            "A command will run now. It reads files from disk, but Pilotfish's edits are unsaved in the editor "
            f"({names}). Write them to disk too?"
        )
        chosen = await self._choice(message, (WRITE_ALWAYS, WRITE_ONCE, WRITE_NEVER))
        if folder is not None and chosen in (WRITE_ALWAYS, WRITE_NEVER):
            try:
                self._engine.book.store_writes_edits(folder, chosen == WRITE_ALWAYS)
            except StorageError as error:
                self._connection.message(WARNING, f"{error} Your answer applies until the editor is closed.")
        return chosen in (WRITE_ALWAYS, WRITE_ONCE)

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
        chosen = await self._choice("Which session should go on?", tuple(titles))
        if chosen is not None:
            session = titles[chosen]
            self._current[self._folder()] = session.id
            await self._show(session.id, await self._engine.export(session.id, "markdown"))

    async def _choice(self, message: str, options: Sequence[str]) -> str | None:
        try:
            return await self._choices.choose(message, options)
        except ClientError as error:
            log.warning("window/showMessageRequest: %s", error)
            return None

    async def _show(self, session_id: str, text: str, answer: str = "") -> tuple[Path, bool]:
        """Write a transcript where an editor can open it and only the user can read it, and show its last prompt, or
        the answer if the calls before it would fill the screen.

        Editors do not read a file again that they have open, so a transcript that was shown gets a new name and the old
        file is deleted.
        """
        first = self._engine.transcript_path(session_id)
        old = self._transcripts.get(session_id)
        path = first if old is None else first.with_stem(f"{first.stem}-{next(self._numbers)}")

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_text(text, "utf-8")
            if old is not None:
                old.unlink(missing_ok=True)

        await asyncio.to_thread(write)
        lines = text.split("\n")
        last = max((number for number, line in enumerate(lines) if line.startswith(LAST_PROMPT)), default=0)
        said = text.count("\n", 0, text.rfind(answer)) if answer and answer in text else last
        shown = self._client.show_document and await self._connection.show(
            path, said if said - last > PROMPT_IN_VIEW else last
        )
        if shown:
            self._transcripts[session_id] = path
        return path, shown

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


@dataclass(frozen=True, slots=True)
class _Asked:
    prompt: tuple[wire.ContentBlock, ...]
    session_id: str | None
    starts: Starts
    wait: bool


def _asked(arguments: Sequence[Any]) -> _Asked:
    """The argument of `pilotfish.prompt`: a text, or `{prompt, uri?, range?, sessionId?, new?, own?, wait?}`, where
    `prompt` is a text or content blocks and `uri` with `range` is the selection it is about. `new` starts a session
    that later prompts go on in, `own` one for this prompt alone."""
    first = arguments[0] if arguments else None
    argument: dict[str, Any] = {"prompt": first} if isinstance(first, str) else as_object(first) or {}
    prompt = argument.get("prompt")
    blocks: list[Any] = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else as_objects(prompt)
    if isinstance(uri := argument.get("uri"), str):
        blocks.append({"type": "resource", "uri": uri, "range": argument.get("range")})
    session_id = argument.get("sessionId")
    checked = read(wire.PromptParams, {"sessionId": session_id or "", "prompt": blocks})
    if not any(isinstance(block, wire.TextBlock) and block.text.strip() for block in checked.prompt):
        raise BadRequest("arguments: a prompt needs a text", field="arguments")
    starts: Starts = "own" if argument.get("own") is True else "new" if argument.get("new") is True else "none"
    return _Asked(checked.prompt, checked.session_id or None, starts, argument.get("wait") is True)


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


def _is_short(text: str, *, one_line: bool) -> bool:
    """Whether a message shows this text whole."""
    if one_line:
        return len(text) <= ONE_LINE_CHARS and "\n" not in text
    return len(text) <= SHORT_CHARS and text.count("\n") < SHORT_LINES


def _stopped_words(receipt: wire.Receipt | None) -> str:
    if receipt is None:
        return "Stopped."
    edits, ended = len(receipt.changed_files), len(receipt.killed_processes)
    words = [f"{edits} changed file{'' if edits == 1 else 's'} kept" if edits else ""]
    words.append(f"{ended} command{'' if ended == 1 else 's'} ended" if ended else "")
    parts = ", ".join(word for word in words if word)
    return f"Stopped. {parts[0].upper()}{parts[1:]}." if parts else "Stopped."
