"""Live sessions: what every face talks to.

Hides: which sessions are open, how questions wait, how rules and models are found. Promises: every method is safe
to call at any time, raises only `RequestError`, `StorageError` or `TurnError`, and leaves every session usable.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai import CancellationToken

from pilotfish import __version__
from pilotfish.core.fold import Item, transcript
from pilotfish.core.messages import CanonicalToolCall
from pilotfish.core.policy import CallFacts, Rule, Verdict, describe, narrowest_rule, refusing_rule
from pilotfish.core.records import FileChangeRecord, Receipt, SessionRecord, TurnEndRecord, TurnStartRecord, UndoRecord
from pilotfish.engine import models
from pilotfish.engine.mcp import Servers
from pilotfish.engine.observe import trace
from pilotfish.engine.orchestrator import Outcome
from pilotfish.engine.ports import Answer, Face, Option, OptionId, Question, Session
from pilotfish.engine.rules import RuleBook
from pilotfish.engine.session import LiveSession, Waiting
from pilotfish.errors import BadRequest, PilotfishError, SessionBusy, UnknownCall
from pilotfish.settings import Settings
from pilotfish.store.catalog import Catalog, SessionRow
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import Snippet, StoreNotice
from pilotfish.tools.tool import Preview
from pilotfish.workspace.changes import FileChange
from pilotfish.workspace.sandbox import chosen_sandbox
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

log = logging.getLogger(__name__)

EVERYTHING = 1 << 40  # more records than any session has

WhenBusy = Literal["reject", "queue", "steer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSession:
    session: Session
    items: tuple[Item, ...]
    has_more: bool
    last_seq: int
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSessions:
    sessions: tuple[Session, ...]
    next_cursor: str | None
    snippets: Mapping[str, Snippet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """Files put back, and those that were not, with the reason."""

    changes: tuple[FileChange, ...]
    refused: tuple[tuple[Path, str], ...]


@dataclass(slots=True)
class _Open:
    """A question that waits."""

    question: Question
    facts: CallFacts
    session: LiveSession
    answer: asyncio.Future[Answer | None]


class Live:
    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        face: Face,
        *,
        roots: Sequence[Path] = (),
        trusted: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        if settings.telemetry:
            trace(True)
        self.ledger = ledger
        self.catalog = Catalog(ledger)
        self.face = face
        self.clock = clock
        self.book = RuleBook()
        self.mcp = Servers()
        self.started = clock()
        self._roots = [root.resolve() for root in roots]
        self._trusted = trusted
        self._secrets: dict[str, str] = {}
        self._sessions: dict[str, LiveSession] = {}
        self._questions: dict[str, _Open] = {}
        self.ask_for_trust: Callable[[Path], Awaitable[None]] | None = None
        """for clients that know no workspace trust: asks the user and keeps the answer in the book"""
        self._store_notices: list[StoreNotice] = []
        self._sandbox_words: dict[tuple[str, bool], str] = {}
        self._gate = asyncio.Lock()

    # -- the world around -------------------------------------------------------------------------------------------

    def set_settings(self, settings: Settings) -> None:
        """New settings hold from the next turn on."""
        if settings.telemetry != self.settings.telemetry:
            trace(settings.telemetry)
        self.settings = settings

    def set_secret(self, provider: str, key: str) -> None:
        """A key from the editor's secret store: memory only."""
        if key:
            self._secrets[provider] = key
        else:
            self._secrets.pop(provider, None)

    def set_roots(self, roots: Sequence[Path]) -> None:
        """The editor's folders. A session sees new ones from its next turn on."""
        self._roots = [root.resolve() for root in roots]

    def set_trusted(self, trusted: bool) -> None:
        self._trusted = trusted

    def trusted(self, folder: str | None) -> bool:
        """Whether the editor, or the user by name, trusts the folder."""
        return self._trusted or (folder is not None and self.book.trusts(Path(folder)))

    def model_for(self, name: str) -> Model:
        """The model of a session; a TurnError with a remedy when it cannot be had."""
        return models.resolve(name, self.settings, self._secrets)

    def make_workspace(self, folder: str | None) -> Workspace:
        return Workspace(self.roots_for(folder), self.face.editor, sandbox=lambda: chosen_sandbox(self.settings))

    def standing_rules(self, folder: str | None) -> tuple[Rule, ...]:
        return self.book.rules_for(Path(folder) if folder else None, self.settings, trusted=self.trusted(folder))

    def store_notices(self) -> Sequence[StoreNotice]:
        """What the user should know of the store; each is given once."""
        fresh = [notice for notice in self.ledger.notices if notice not in self._store_notices]
        self._store_notices += fresh
        return fresh

    async def one_by_one(self) -> None:
        """Lets one turn through in each round of the event loop. Fifty that are woken together would make their
        requests in a row, and nobody else would be served meanwhile."""
        async with self._gate:
            await asyncio.sleep(0)

    def new_id(self, kind: str) -> str:
        return f"{kind}_{uuid.uuid4().hex[:20]}"

    async def aclose(self) -> None:
        """End everything: turns stopped, processes killed, questions refused, the ledger closed."""
        for question in tuple(self._questions.values()):
            self._resolve(question, None, "client gone")
        await asyncio.gather(*(session.aclose() for session in self._sessions.values()), return_exceptions=True)
        # Side by side: a foreign server that does not let go must not cost the store its time to close.
        await asyncio.gather(self.mcp.aclose(), models.aclose(), self.ledger.aclose())

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def new(
        self, folder: str | None = None, title: str | None = None, model: str | None = None, mode: str | None = None
    ) -> Session:
        if folder is None and self._roots:
            folder = str(self._roots[0])
        now = self.clock()
        row = SessionRow(
            id=self.new_id("ses"),
            title=title or "",
            workspace=folder,
            model=model or self.settings.model,
            mode=_mode(mode or self.settings.mode),
            created_at=now,
            updated_at=now,
        )
        await self.catalog.create(row)
        self._sessions[row.id] = session = LiveSession(self, row)
        await session.open()
        return self._session(row)

    async def list(
        self, folder: str | None = None, query: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> ListedSessions:
        listed = await self.catalog.list(folder, query, cursor, limit)
        return ListedSessions(
            sessions=tuple(self._session(row) for row in listed.sessions),
            next_cursor=listed.next_cursor,
            snippets=listed.snippets,
        )

    async def load(self, session_id: str, before: str | None = None, limit: int = 200) -> LoadedSession:
        """The newest items of the transcript, or those before the item `before`."""
        session = await self._open(session_id)
        await session.resume()
        await session.settled()
        running = session.running_turn
        if before is None:
            items, has_more = await self._newest(session_id, limit, running)
        else:
            items, has_more = await self._older(session_id, before, limit, running)
        return LoadedSession(
            session=self._session(session.row),
            items=items,
            has_more=has_more,
            last_seq=session.last_seq,
            questions=self.questions(session_id),
        )

    async def session(self, session_id: str) -> Session:
        """A session as it is now."""
        return self._session((await self._open(session_id)).row)

    async def rename(self, session_id: str, title: str) -> Session:
        session = await self._open(session_id)
        if not title.strip():
            raise BadRequest("title: a session needs a name", field="title")
        session.row = await self.catalog.rename(session_id, title.strip())
        return await self._told(session)

    async def configure(self, session_id: str, model: str | None = None, mode: str | None = None) -> Session:
        session = await self._open(session_id)
        session.row = await self.catalog.configure(
            session_id, model or session.row.model, _mode(mode or session.row.mode)
        )
        return await self._told(session)

    async def delete(self, session_id: str) -> None:
        session = await self._open(session_id)
        await session.aclose()
        del self._sessions[session_id]
        await self.catalog.delete(session_id)
        self.transcript_path(session_id).unlink(missing_ok=True)

    def transcript_path(self, session_id: str) -> Path:
        """Where a face may write a session's transcript for an editor to open. It is deleted with the session."""
        return self.ledger.directory / "transcripts" / f"{session_id}.md"

    async def fork(self, session_id: str, item_id: str | None = None) -> Session:
        session = await self._open(session_id)
        await session.settled()
        upto = None if item_id is None else await self._end_of(session_id, await self._place_of(session_id, item_id))
        row = await self.catalog.fork(session_id, self.new_id("ses"), upto)
        self._sessions[row.id] = forked = LiveSession(self, row)
        await forked.open(forked=True)
        return self._session(row)

    async def export(self, session_id: str, form: Literal["markdown", "json"]) -> str:
        await (await self._open(session_id)).settled()
        if form == "markdown":
            return await self.catalog.export_markdown(session_id)
        return await self.catalog.export_json(session_id)

    async def import_session(self, text: str, folder: str | None = None) -> Session:
        """Take a session in: our own JSON export, or the older `sessions/{id}.json`."""
        new_id = self.new_id("ses")
        try:
            row = await self.catalog.import_json(text, new_id)
        except BadRequest as error:
            try:
                row = await self.catalog.import_legacy(
                    text, new_id, workspace=folder, model=self.settings.model, mode=self.settings.mode
                )
            except BadRequest:
                raise error from None
        return self._session(row)

    # -- turns ------------------------------------------------------------------------------------------------------

    async def prompt(
        self,
        session_id: str,
        blocks: Sequence[Mapping[str, Any]],
        prompt_id: str | None = None,
        when_busy: WhenBusy = "reject",
    ) -> Outcome:
        """Run a prompt; returns when its turn has ended. Cancelling this cancels the turn, and still returns."""
        session = await self._open(session_id)
        if session.asks_again:
            await session.let_go()
        if session.busy and when_busy == "reject":
            raise SessionBusy("A turn is running in this session. Stop it, or send the prompt to the queue.")
        waiting = Waiting(
            prompt_id=prompt_id or self.new_id("prompt"),
            blocks=tuple(blocks),
            kind="steer" if when_busy == "steer" and session.busy else "queue",
            answer=asyncio.get_running_loop().create_future(),
        )
        try:
            if waiting.kind == "steer":
                await session.steer(waiting)
            else:
                session.submit(waiting)
            return await asyncio.shield(waiting.answer)
        except asyncio.CancelledError:
            # Answered in the same moment: what runs now is somebody else's.
            if not waiting.answer.done() and not session.withdraw(waiting):
                await session.stop()
            return await waiting.answer

    async def cancel(self, session_id: str, call_id: str | None = None) -> Receipt:
        """Stop the turn, or one call of it."""
        session = await self._open(session_id)
        began = self.clock()
        if call_id is not None:
            if session.turn is None or not await session.turn.stop_call(call_id):
                raise UnknownCall(f"No running call has the id {call_id!r}.")
            return Receipt(
                turn_id=session.turn.turn_id if session.turn else None,
                took_ms=round((self.clock() - began) * 1000),
                cancelled_calls=(call_id,),
                killed_processes=session.workspace.processes.take_killed(),
            )
        outcome = await session.stop()
        if outcome is None or outcome.receipt is None:
            return Receipt(took_ms=round((self.clock() - began) * 1000))
        return outcome.receipt

    async def queue(self, session_id: str) -> tuple[Waiting, ...]:
        return tuple((await self._open(session_id)).line)

    async def withdraw(self, session_id: str, prompt_id: str) -> None:
        session = await self._open(session_id)
        for waiting in tuple(session.line):
            if waiting.prompt_id == prompt_id and session.withdraw(waiting):
                return
        raise UnknownCall(f"No waiting prompt has the id {prompt_id!r}.")

    async def undo(self, session_id: str, turn_id: str | None = None, *, dry_run: bool = False) -> Reverted:
        return await self._revert(session_id, turn_id, "undo", dry_run=dry_run)

    async def redo(self, session_id: str, turn_id: str | None = None, *, dry_run: bool = False) -> Reverted:
        return await self._revert(session_id, turn_id, "redo", dry_run=dry_run)

    async def compact(self, session_id: str) -> bool:
        """Summarise the older part of a conversation. False: there is nothing to summarise."""
        session = await self._open(session_id)
        if session.busy:
            raise SessionBusy("A turn is running in this session. Stop it first.")
        hold = await self.ledger.hold(session_id)
        try:
            return await session.compact("", CancellationToken())
        except PilotfishError:
            raise
        except Exception as error:
            raise models.failure(error) from error
        finally:
            hold.release()

    # -- questions ----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        session: LiveSession,
        turn_id: str,
        call: CanonicalToolCall,
        facts: CallFacts,
        verdict: Verdict,
        preview: Preview | None,
        mark: str,
        *,
        amendable: bool,
    ) -> tuple[Answer | None, Question]:
        """Ask the user, on every surface. The first answer wins; None means that nobody can answer."""
        question = Question(
            approval_id=self.new_id("apr"),
            session_id=session.row.id,
            turn_id=turn_id,
            call=call,
            reason=verdict.reason,
            digest=mark,
            preview=preview or Preview(kind="text", text=_in_words(call)),
            parsed=verdict.commands,
            options=_options(facts),
            amendable=amendable,
        )
        waiting = _Open(question, facts, session, asyncio.get_running_loop().create_future())
        self._questions[question.approval_id] = waiting
        try:
            self.face.ask(question)
            answer = await waiting.answer
        except asyncio.CancelledError:
            self._resolve(waiting, None, "cancelled")
            raise
        if answer is not None:
            self._learn(session, facts, answer)
        return answer, question

    def answer(self, approval_id: str, answer: Answer | None) -> bool:
        """The user's answer, from any surface; None: there is nobody to answer. False: it was answered already."""
        waiting = self._questions.get(approval_id)
        if waiting is None or waiting.answer.done():
            return False
        self._resolve(waiting, answer, answer.by if answer else "nobody")
        return True

    def questions(self, session_id: str | None = None) -> tuple[Question, ...]:
        return tuple(
            waiting.question
            for waiting in self._questions.values()
            if session_id is None or waiting.question.session_id == session_id
        )

    def _resolve(self, waiting: _Open, answer: Answer | None, by: str) -> None:
        self._questions.pop(waiting.question.approval_id, None)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        self.face.resolved(waiting.question, answer.option_id if answer else "cancelled", by)

    def _learn(self, session: LiveSession, facts: CallFacts, answer: Answer) -> None:
        """Write the standing rule that the answer asked for."""
        match answer.option_id:
            case "allow_session":
                if rule := narrowest_rule(facts, "session"):
                    session.rules.append(rule)
            case "allow_always":
                if rule := narrowest_rule(facts, "workspace"):
                    self.add_rule(rule, session.row.workspace)
            case "reject_always":
                if rule := _never(facts):
                    self.add_rule(rule, session.row.workspace)
            case "allow_once" | "reject":
                pass

    # -- rules, models, status --------------------------------------------------------------------------------------

    def rules(self, session_id: str | None = None) -> tuple[Rule, ...]:
        session = self._sessions.get(session_id) if session_id else None
        folder = session.row.workspace if session else (str(self._roots[0]) if self._roots else None)
        asked = self._sessions.values() if session_id is None else filter(None, (session,))
        own = tuple(rule for live in asked for rule in live.rules)
        return (*own, *self.standing_rules(folder))

    def add_rule(self, rule: Rule, folder: str | None) -> None:
        self.book.add(rule, Path(folder) if folder else None)

    async def add_session_rule(self, session_id: str, rule: Rule) -> None:
        """A rule that holds in one session, for as long as it is open."""
        session = await self._open(session_id)
        if rule not in session.rules:
            session.rules.append(rule)

    def remove_rule(self, rule: Rule, folder: str | None) -> bool:
        for session in self._sessions.values():
            if rule in session.rules:
                session.rules.remove(rule)
                return True
        return self.book.remove(rule, Path(folder) if folder else None)

    async def models(self) -> Sequence[models.Available]:
        return await models.available(self.settings, self._secrets)

    async def sandbox_words(self) -> str:
        """How commands are confined, for people. Trying the machine's sandbox takes a moment, once."""
        wanted = (self.settings.sandbox, self.settings.network)
        if wanted not in self._sandbox_words:  # else no thread: they may all be busy, and a status is wanted at once
            self._sandbox_words[wanted] = (await asyncio.to_thread(chosen_sandbox, self.settings)).words
        return self._sandbox_words[wanted]

    def status(self) -> Mapping[str, Any]:
        return {
            "version": __version__,
            "model": self.settings.model,
            "store": {"directory": str(self.ledger.directory), "unsaved": self.ledger.unsaved},
            "mcp": [
                {
                    "name": server.name,
                    "available": server.available,
                    "reason": server.reason,
                    "tools": server.tools,
                }
                for server in self.mcp.found.values()
            ],
            "runningTurns": sum(session.turn is not None for session in self._sessions.values()),
            "sessions": len(self._sessions),
            "uptime": self.clock() - self.started,
            "memory": _resident_bytes(),
        }

    # -- within -----------------------------------------------------------------------------------------------------

    async def _open(self, session_id: str) -> LiveSession:
        session = self._sessions.get(session_id)
        if session is None:
            row = await self.catalog.get(session_id)
            session = self._sessions.setdefault(session_id, LiveSession(self, row))
        await session.open()
        return session

    def _session(self, row: SessionRow) -> Session:
        live = self._sessions.get(row.id)
        return Session(
            id=row.id,
            title=row.title,
            workspace_folder=row.workspace,
            model=row.model,
            mode=row.mode,
            created_at=row.created_at,
            updated_at=row.updated_at,
            turns=live.turns if live else row.turns,
            busy=(live.busy or live.elsewhere is not None) if live else False,
            usage=live.usage if live else row.usage,
        )

    async def _told(self, session: LiveSession) -> Session:
        row = session.row
        session.emit(SessionRecord(turn_id="", title=row.title, model=row.model, mode=row.mode))
        await session.settled()
        return self._session(row)

    def use_mcp(self) -> None:
        """Connect to the MCP servers of the settings, unless that is done; only where something is trusted."""
        config = self.settings.mcp_config
        self.mcp.use(Path(config).expanduser() if config else None)

    def session_of(self, session_id: str) -> Session | None:
        """A session as it is now, when it is open here."""
        live = self._sessions.get(session_id)
        return self._session(live.row) if live else None

    def roots_for(self, folder: str | None) -> list[Path]:
        """The session's folder first, then the editor's other folders."""
        roots = [Path(folder).resolve()] if folder else []
        return roots + [root for root in self._roots if root not in roots]

    async def _newest(self, session_id: str, limit: int, running: str | None) -> tuple[tuple[Item, ...], bool]:
        """The last items, and whether there are more. Read from the start of a turn: an item's place is that of its
        first record, so half a turn would show its items in other places than the whole one."""
        size = 4 * limit
        while True:
            page = await self.ledger.page(session_id, None, size)
            whole = 0
            if page.has_more:
                starts = (at for at, entry in enumerate(page.entries) if isinstance(entry.record, TurnStartRecord))
                whole = next(starts, len(page.entries))
            items = transcript(page.entries[whole:], running=running)
            if len(items) >= limit or not page.has_more:
                return items[-limit:], page.has_more or len(items) > limit
            size *= 4

    async def _older(
        self, session_id: str, before: str, limit: int, running: str | None
    ) -> tuple[tuple[Item, ...], bool]:
        page = await self.ledger.page(session_id, None, EVERYTHING)
        items = await asyncio.to_thread(transcript, page.entries, running=running)
        end = next((at for at, item in enumerate(items) if item.id == before), None)
        if end is None:
            raise UnknownCall(f"No item has the id {before!r}.")
        return items[max(0, end - limit) : end], end > limit

    async def _place_of(self, session_id: str, item_id: str) -> int:
        """The record an item stands in, or ends with."""
        place: int | None = None
        message_id = item_id.rpartition(".")[0]
        for entry in await self.ledger.history(session_id):
            record = entry.record
            match record.type:
                case "message" if record.message_id in (item_id, message_id):
                    place = entry.n
                case "tool_call" if record.call.id == item_id:
                    place = entry.n
                case _:
                    pass
        if place is None:
            for entry in await self.ledger.history(session_id):
                if any(item.id == item_id for item in transcript([entry])):
                    place = entry.n
        if place is None:
            raise UnknownCall(f"No item has the id {item_id!r}.")
        return place

    async def _end_of(self, session_id: str, place: int) -> int:
        """The end of the turn, when nothing but the end comes after this place; else the place itself."""
        for entry in await self.ledger.history(session_id):
            if entry.n > place:
                if isinstance(entry.record, TurnEndRecord):
                    return entry.n
                if transcript([entry]) or isinstance(entry.record, TurnStartRecord):
                    break
        return place

    async def _revert(
        self, session_id: str, turn_id: str | None, direction: Literal["undo", "redo"], *, dry_run: bool
    ) -> Reverted:
        session = await self._open(session_id)
        if session.busy:
            raise SessionBusy("A turn is running in this session. Stop it first.")
        changes: dict[str, list[FileChangeRecord]] = {}
        undone: dict[str, bool] = {}
        for entry in await self.ledger.history(session_id):
            match entry.record:
                case FileChangeRecord() as record:
                    changes.setdefault(record.turn_id, []).append(record)
                    undone[record.turn_id] = False
                case UndoRecord() as record:
                    undone[record.turn_id] = record.direction == "undo"
                case _:
                    pass
        wanted = [turn for turn, is_undone in undone.items() if is_undone == (direction == "redo")]
        chosen = turn_id or (wanted[-1 if direction == "undo" else 0] if wanted else None)
        if chosen is None or chosen not in wanted:
            if turn_id is not None and turn_id not in undone:
                raise UnknownCall(f"Turn {turn_id!r} changed no files.")
            return Reverted(changes=(), refused=())
        parts = [await self._change(record) for record in changes[chosen]]
        revert = session.workspace.undo if direction == "undo" else session.workspace.redo
        done, refused = await revert(parts, dry_run=dry_run)
        if done and not dry_run:
            session.emit(
                UndoRecord(
                    turn_id=chosen,
                    direction=direction,
                    uris=tuple(change.path.as_uri() for change in done),
                    timestamp=self.clock(),
                )
            )
            await session.settled()
        return Reverted(changes=tuple(done), refused=tuple(refused))

    async def _change(self, record: FileChangeRecord) -> FileChange:
        return FileChange(
            path=_path(record.uri),
            change=record.change,
            before=None if record.before is None else await self.ledger.get_blob(record.before),
            after=None if record.after is None else await self.ledger.get_blob(record.after),
            added=record.added,
            removed=record.removed,
            via=record.via,
            old_path=_path(record.old_uri) if record.old_uri else None,
        )


def _options(facts: CallFacts) -> tuple[Option, ...]:
    session, always = narrowest_rule(facts, "session"), narrowest_rule(facts, "workspace")
    options: list[tuple[OptionId, str, Rule | None]] = [("allow_once", "Allow once", None)]
    if session:
        options.append(("allow_session", "Allow for this session", session))
    if always:
        options.append(("allow_always", "Always allow", always))
    options.append(("reject", "Deny", None))
    if never := _never(facts):
        options.append(("reject_always", "Always deny", never))
    return tuple(
        Option(id=option, label=label, rule=describe(rule) if rule else None, standing=rule)
        for option, label, rule in options
    )


def _never(facts: CallFacts) -> Rule | None:
    """The rule of “Always deny”: this very command, or every way to change this file."""
    allowing = None if facts.command is not None else narrowest_rule(facts, "workspace")
    return replace(allowing, decision="deny") if allowing else refusing_rule(facts, "workspace")


def _in_words(call: CanonicalToolCall) -> str:
    """What is asked for, when the tool has nothing better to show."""
    return f"{call.title}\n{json.dumps(call.args, indent=2, ensure_ascii=False)}" if call.args else call.title


def _mode(mode: str) -> str:
    if mode not in ("ask", "plan", "edit", "auto"):
        raise BadRequest(f"mode: {mode!r} is none of ask, plan, edit, auto", field="mode")
    return mode


def _path(uri: str) -> Path:
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(uri).path))


def _resident_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
