"""Live sessions: what every face talks to.

Hides: which sessions are open, how questions wait, how rules and models are found. Promises: every method is safe
to call at any time, raises only `RequestError`, `StorageError` or `TurnError`, and leaves every session usable.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai import CancellationToken

from pilotfish import __version__
from pilotfish.core.fold import Item
from pilotfish.core.policy import Rule
from pilotfish.core.records import Receipt, SessionRecord
from pilotfish.engine import models, pages
from pilotfish.engine.line import Waiting
from pilotfish.engine.mcp import Servers
from pilotfish.engine.observe import trace
from pilotfish.engine.orchestrator import Outcome
from pilotfish.engine.ports import Answer, Face, Question, Session
from pilotfish.engine.providers import name_of_key
from pilotfish.engine.questions import Questions
from pilotfish.engine.rules import RuleBook
from pilotfish.engine.session import LiveSession
from pilotfish.engine.undo import Reverted, revert
from pilotfish.errors import BadRequest, PilotfishError, SessionBusy, UnknownCall
from pilotfish.settings import Settings
from pilotfish.store.catalog import Catalog, SessionRow
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import Snippet, StoreNotice
from pilotfish.workspace.sandbox import chosen_sandbox
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

log = logging.getLogger(__name__)

TIDY_AFTER = 2.0  # seconds without a turn, before what is left of the last one is collected

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
        self._tidying: asyncio.TimerHandle | None = None
        self._frozen_too = False
        self._sessions: dict[str, LiveSession] = {}
        self.asked = Questions(face, self.new_id, self.add_rule)
        self.ask_for_trust: Callable[[Path], Awaitable[None]] | None = None
        """for clients that know no workspace trust: asks the user and keeps the answer in the book"""
        self._store_notices: list[StoreNotice] = []
        self._sandbox_words: dict[tuple[str, bool], str] = {}
        self._gate = asyncio.Lock()
        self.warmed: asyncio.Event | None = None
        """set once the provider's modules are loaded, where another thread does that"""

    # -- the world around -------------------------------------------------------------------------------------------

    def set_settings(self, settings: Settings) -> None:
        """New settings hold from the next turn on."""
        if settings.telemetry != self.settings.telemetry:
            trace(settings.telemetry)
        self.settings = settings

    def set_secret(self, provider: str, key: str) -> None:
        """A key from the editor's secret store: memory only. The provider as a model string or `models` names it."""
        name = name_of_key(provider)
        if key:
            self._secrets[name] = key
        else:
            self._secrets.pop(name, None)

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
        """Lets one turn through in each round of the event loop. Fifty that are woken together, by one commit or one
        packet, would each do their step in a row, and nobody else would be served meanwhile."""
        async with self._gate:
            await asyncio.sleep(0)

    async def warm(self) -> None:
        """Returns when a model can be made without loading modules: on the event loop that would hold up everyone."""
        if self.warmed is not None:
            await self.warmed.wait()

    def new_id(self, kind: str) -> str:
        return f"{kind}_{uuid.uuid4().hex[:20]}"

    async def aclose(self) -> None:
        """End everything: turns stopped, processes killed, questions refused, the ledger closed."""
        self.asked.let_go()
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
            items, has_more = await pages.newest(self.ledger, session_id, limit, running)
        else:
            items, has_more = await pages.older(self.ledger, session_id, before, limit, running)
        return LoadedSession(
            session=self._session(session.row),
            items=items,
            has_more=has_more,
            last_seq=session.conversation.last_seq,
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
        self._frozen_too = True
        self.tidy_up()

    def tidy_up(self) -> None:
        """Collect what a turn or a session leaves behind once nothing runs. That may be a hundred megabytes, and the
        collector by itself comes when much is made, not when much is there."""
        if self._tidying is None:
            self._tidying = asyncio.get_running_loop().call_later(TIDY_AFTER, self._tidy)

    def _tidy(self) -> None:
        self._tidying = None
        if any(session.turn is not None for session in self._sessions.values()):
            return  # the end of that turn calls
        if self._frozen_too:  # what was frozen while the session was open
            gc.unfreeze()
        gc.collect()
        if self._frozen_too:
            gc.freeze()
            self._frozen_too = False

    def transcript_path(self, session_id: str) -> Path:
        """Where a face may write a session's transcript for an editor to open. It is deleted with the session."""
        return self.ledger.directory / "transcripts" / f"{session_id}.md"

    async def fork(self, session_id: str, item_id: str | None = None) -> Session:
        session = await self._open(session_id)
        await session.settled()
        upto = None if item_id is None else await pages.end_of(self.ledger, session_id, item_id)
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
        in_line: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Run a prompt; returns when its turn has ended. Cancelling this cancels the turn, and still returns. `in_line`
        is called when the session has it: what is asked of the session from then on finds it there."""
        session = self._sessions.get(session_id)
        if session is None or not session.conversation.is_open:
            session = await self._open(session_id)
        if session.asks_again:
            await session.let_go()
        if session.line.busy and when_busy == "reject":
            raise SessionBusy("A turn is running in this session. Stop it, or send the prompt to the queue.")
        waiting = Waiting(
            prompt_id=prompt_id or self.new_id("prompt"),
            blocks=tuple(blocks),
            kind="steer" if when_busy == "steer" and session.line.busy else "queue",
            answer=asyncio.get_running_loop().create_future(),
        )
        try:
            if waiting.kind == "steer":
                session.line.slip_in(waiting)
            else:
                session.line.submit(waiting)
            in_line()
            if waiting.kind == "steer":
                await session.steer(waiting)
            return await asyncio.shield(waiting.answer)
        except asyncio.CancelledError:
            # Answered in the same moment: what runs now is somebody else's.
            if not waiting.answer.done() and not session.line.withdraw(waiting):
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

    async def retry(self, session_id: str) -> None:
        """The rest of a wait before the next try is not waited for; nothing to do when nobody waits."""
        session = await self._open(session_id)
        if session.turn is not None:
            session.turn.hurry()

    async def queue(self, session_id: str) -> tuple[Waiting, ...]:
        return tuple((await self._open(session_id)).line.waiting)

    async def withdraw(self, session_id: str, prompt_id: str) -> None:
        session = await self._open(session_id)
        for waiting in tuple(session.line.waiting):
            if waiting.prompt_id == prompt_id and session.line.withdraw(waiting):
                return
        raise UnknownCall(f"No waiting prompt has the id {prompt_id!r}.")

    async def undo(self, session_id: str, turn_id: str | None = None, *, dry_run: bool = False) -> Reverted:
        return await revert(self.ledger, await self._open(session_id), turn_id, "undo", dry_run=dry_run)

    async def redo(self, session_id: str, turn_id: str | None = None, *, dry_run: bool = False) -> Reverted:
        return await revert(self.ledger, await self._open(session_id), turn_id, "redo", dry_run=dry_run)

    async def compact(self, session_id: str) -> bool:
        """Summarise the older part of a conversation. False: there is nothing to summarise."""
        session = await self._open(session_id)
        if session.line.busy:
            raise SessionBusy("A turn is running in this session. Stop it first.")
        hold = await self.ledger.hold(session_id)
        try:
            return await session.ports.compact("", CancellationToken())
        except PilotfishError:
            raise
        except Exception as error:
            raise models.failure(error) from error
        finally:
            hold.release()

    # -- questions ----------------------------------------------------------------------------------------------------

    def answer(self, approval_id: str, answer: Answer | None) -> bool:
        """The user's answer, from any surface; None: there is nobody to answer. False: it was answered already."""
        return self.asked.answer(approval_id, answer)

    def questions(self, session_id: str | None = None) -> tuple[Question, ...]:
        return self.asked.open(session_id)

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
            turns=live.conversation.turns if live else row.turns,
            busy=(live.line.busy or live.conversation.elsewhere is not None) if live else False,
            usage=live.conversation.usage if live else row.usage,
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


def _mode(mode: str) -> str:
    if mode not in ("ask", "plan", "edit", "auto"):
        raise BadRequest(f"mode: {mode!r} is none of ask, plan, edit, auto", field="mode")
    return mode


def _resident_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
