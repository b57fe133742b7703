"""The engine: the interface that every frontend uses to work with sessions.

Hides: which sessions are open, pending questions. Promises: every method can be called at any time, raises only
`RequestError`, `StorageError` or `TurnError`, and leaves every session usable.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pilotfish.config.settings import Mode
from pilotfish.conversation.messages import Category
from pilotfish.conversation.model_history import Item
from pilotfish.conversation.records import FileChangeRecord, Receipt
from pilotfish.engine import transcript_pages
from pilotfish.engine.background_job import JobSpec, drop_results
from pilotfish.engine.extensions.memory import MemoryFile
from pilotfish.engine.frontend import Outcome, Question, Session
from pilotfish.engine.mcp.config import ServerDefinition
from pilotfish.engine.open_sessions import OpenSessions
from pilotfish.engine.session.blame import WrittenFiles, WrittenLines
from pilotfish.engine.session.prompt_queue import WaitingPrompt, WhenBusy
from pilotfish.engine.session.review import PendingFile
from pilotfish.engine.session.session import LOOK_SECONDS
from pilotfish.engine.session.take_over import take_over
from pilotfish.engine.session.undo import RestorePoint, Reverted, restore_point, revert, revert_all
from pilotfish.errors import BadRequest, ToolError
from pilotfish.policy.rule_suggestions import suggest_rule
from pilotfish.policy.rules import CallFacts, PathFact, Rule
from pilotfish.store.catalog import SessionRow
from pilotfish.store.rows import Snippet
from pilotfish.store.tables.jobs import Jobs
from pilotfish.store.tables.tables import Tables
from pilotfish.telemetry.export import flush_export
from pilotfish.workspace.edits.changes import FileChange

if TYPE_CHECKING:
    from pilotfish.engine.mcp.servers import Server

T = TypeVar("T")

BLAMED_SESSIONS = 20
"""how many sessions of a folder are searched for the turn that wrote a line"""


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
class RestoredSession:
    session: Session
    point: RestorePoint
    reverted: Reverted


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    location: str
    """of the store: a directory, or a URL without a password"""
    unsaved: str | None
    """what is not saved, and why"""
    mcp_servers: tuple[Server, ...]
    running_turns: int


class Engine(OpenSessions):
    """What a client can do with the sessions of this process (`OpenSessions`) and with those that are stored."""

    async def aclose(self) -> None:
        """Stop all turns, kill processes, cancel questions, close the ledger."""
        self.asked.cancel_all()
        await asyncio.gather(*(session.aclose() for session in self._sessions.values()), return_exceptions=True)
        # In parallel: an MCP server that is slow to close must not delay the ledger.
        await self._attribution.aclose()
        await asyncio.gather(
            self.mcp.aclose(),
            self.close_language_servers(),
            self.close_models(),
            self.ledger.aclose(),
            asyncio.to_thread(flush_export),
        )

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def new(
        self, folder: str | None = None, title: str | None = None, model: str | None = None, mode: str | None = None
    ) -> Session:
        if folder is None and self.roots:
            folder = str(self.roots[0])
        now = self.clock()
        row = SessionRow(
            id=self.new_id("ses"),
            title=title or "",
            workspace=_real(folder),
            model=model or self.settings.model,
            mode=self._permitted(_mode(mode or self.settings.mode)),
            created_at=now,
            updated_at=now,
        )
        await self.catalog.create(row)
        await self._watched(row)
        return self._session(row)

    async def list(
        self, folder: str | None = None, query: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> ListedSessions:
        listed = await self.catalog.list(_real(folder), query, cursor, limit)
        await self.read_background([row.id for row in listed.sessions])
        unknown = [session_id for session_id in listed.open_turns if session_id not in self._sessions]
        elsewhere = {session_id for session_id in unknown if await self.ledger.in_use(session_id)}
        return ListedSessions(
            sessions=tuple(self._session(row, elsewhere=row.id in elsewhere) for row in listed.sessions),
            next_cursor=listed.next_cursor,
            snippets=listed.snippets,
        )

    async def load(self, session_id: str, before: str | None = None, limit: int = 200) -> LoadedSession:
        """The newest items of the transcript, or those before the item `before`."""
        session = await self._open(session_id)
        await self.read_background([session_id])
        if not self._is_in_background(session_id):
            await session.resume()
        await session.shared.look()
        while True:
            await session.wait_written()
            async with session.conversation.paused():
                running = session.running_turn
                if before is None:
                    items, has_more = await transcript_pages.newest(self.ledger, session_id, limit, running)
                else:
                    items, has_more = await transcript_pages.older(self.ledger, session_id, before, limit, running)
                # Another process may have written meanwhile: the items must not have more than the client was shown.
                if (await self.ledger.heads(session_id)).n <= session.conversation.n:
                    return LoadedSession(
                        session=self._session(session.row),
                        items=items,
                        has_more=has_more,
                        last_seq=session.conversation.last_seq,
                        questions=self.questions(session_id),
                    )
            await session.catch_up()

    async def session(self, session_id: str) -> Session:
        """The current state of a session."""
        await self.read_background([session_id])
        return self._session((await self._open(session_id)).row)

    async def look(self, session_id: str) -> Session:
        """The stored state of a session, which is not opened: a turn that its process left open stays open."""
        row = await self.catalog.get(session_id)
        await self.read_background([session_id])
        return self._session(row)

    async def rename(self, session_id: str, title: str) -> Session:
        session = await self._open(session_id)
        if not title.strip():
            raise BadRequest("title: must not be empty", field="title")
        session.row = await self.catalog.rename(session_id, title.strip())
        return await self._emit_row(session)

    async def configure(self, session_id: str, model: str | None = None, mode: str | None = None) -> Session:
        session = await self._open(session_id)
        session.row = await self.catalog.configure(session_id, model, self._permitted(_mode(mode)) if mode else None)
        return await self._emit_row(session)

    def _permitted(self, mode: Mode) -> Mode:
        """Raises BadRequest if the policy of the organisation does not permit a mode."""
        if self.permitted_mode(mode) != mode:
            raise BadRequest(f"mode: the policy of your organisation does not permit {mode}", field="mode")
        return mode

    async def delete(self, session_id: str) -> None:
        session = await self._open(session_id)
        job = await self.job_of(session_id)
        lease = await self.ledger.lease(session_id, patience=LOOK_SECONDS)  # before anything is stopped
        try:
            await session.aclose()
            await self.catalog.delete(session_id)
        finally:
            self._drop(session)
            lease.release()
        if job is not None:
            spec = JobSpec.model_validate_json(job.spec)
            await asyncio.to_thread(drop_results, spec, self.ledger.directory, session_id)
        shown = self.transcript_path(session_id)
        for path in (shown, *shown.parent.glob(f"{shown.stem}-*.md")):
            path.unlink(missing_ok=True)

    async def close(self, session_id: str) -> None:
        """Stop everything in a session and free it. It stays stored, and opens again when it is used."""
        session = self._sessions.get(session_id)
        if session is None:
            await self.catalog.get(session_id)
            return
        self._drop(session)
        await session.aclose()

    async def use_session_servers(self, session_id: str, servers: tuple[ServerDefinition, ...]) -> None:
        """Give a session MCP servers of its own. They start when its folder is trusted."""
        session = await self._open(session_id)
        session.mcp_servers = servers
        session.mcp.changed[:] = self.mcp.changed
        self.start_servers(session_id)

    def transcript_path(self, session_id: str) -> Path:
        """The file to which a frontend may write the transcript for an editor. It is deleted with the session, and
        so are those with a number behind its name."""
        return self.ledger.directory / "transcripts" / f"{session_id}.md"

    async def fork(self, session_id: str, item_id: str | None = None) -> Session:
        session = await self._open(session_id)
        await session.wait_written()
        upto = None if item_id is None else await transcript_pages.end_of(self.ledger, session_id, item_id)
        row = await self.catalog.fork(session_id, self.new_id("ses"), upto)
        await self._watched(row, forked=True)
        return self._session(row)

    async def export(self, session_id: str, form: Literal["markdown", "json"]) -> str:
        await (await self._open(session_id)).wait_written()
        if form == "markdown":
            return await self.catalog.export_markdown(session_id)
        return await self.catalog.export_json(session_id)

    async def import_session(self, text: str, folder: str | None = None) -> Session:
        """Import a session from a JSON export, or from the older `sessions/{id}.json`, into a folder (without one: the
        current folder). It starts in mode `ask`, and a turn that was open in the file is closed."""
        new_id = self.new_id("ses")
        folder = _real(folder or (str(self.roots[0]) if self.roots else None))
        try:
            row = await self.catalog.import_json(text, new_id, workspace=folder)
        except BadRequest as error:
            try:
                row = await self.catalog.import_legacy(text, new_id, workspace=folder, model=self.settings.model)
            except BadRequest:
                raise error from None
        await self._watched(row, forked=True)
        return self._session(row)

    # -- turns ------------------------------------------------------------------------------------------------------

    async def prompt(
        self,
        session_id: str,
        blocks: Sequence[Mapping[str, Any]],
        prompt_id: str | None = None,
        when_busy: WhenBusy = "reject",
        in_line: Callable[[], None] = lambda: None,
        context: Mapping[str, Any] = MappingProxyType({}),
    ) -> Outcome:
        """Run a prompt; returns when its turn has ended. Cancelling this cancels the turn, and still returns. `in_line`
        is called when the prompt is in the queue of the session, where later requests find it. `context` is what the
        user looks at (`ContextBlock` of the wire)."""
        session = await self._open_in_order(session_id)
        return await session.prompt(blocks, prompt_id, when_busy, in_line, context)

    async def cancel(self, session_id: str, call_id: str | None = None) -> Receipt:
        """Stop the turn, or one call of it."""
        background = self._background.get(session_id)
        if background is not None and background.state == "queued" and call_id is None:
            now = self.clock()
            if await self.change_job(
                session_id, lambda jobs: jobs.change(session_id, "cancelled", ("queued",), now=now)
            ):
                return Receipt()
        return await (await self._open_in_order(session_id)).control.cancel(call_id)

    async def idle(self, session_id: str) -> None:
        """Return when no turn runs in a session."""
        await (await self._open(session_id)).line.idle()

    async def retry(self, session_id: str) -> None:
        """If the turn waits before a retry, retry now."""
        await (await self._open(session_id)).control.retry()

    async def queue(self, session_id: str) -> Sequence[WaitingPrompt]:
        return await (await self._open(session_id)).control.queue()

    async def withdraw(self, session_id: str, prompt_id: str) -> None:
        await (await self._open(session_id)).control.withdraw(prompt_id)

    async def undo(self, session_id: str, turn_id: str | None = None, *, dry_run: bool = False) -> Reverted:
        return await self._revert(session_id, turn_id, "undo", dry_run=dry_run)

    async def redo(self, session_id: str, turn_id: str | None = None, *, dry_run: bool = False) -> Reverted:
        return await self._revert(session_id, turn_id, "redo", dry_run=dry_run)

    async def _revert(
        self, session_id: str, turn_id: str | None, direction: Literal["undo", "redo"], *, dry_run: bool
    ) -> Reverted:
        session = await self._open(session_id)
        async with session.between_turns():
            return await uninterrupted(revert(self.ledger, session, turn_id, direction, dry_run=dry_run))

    async def change_job(self, session_id: str, change: Callable[[Jobs], T]) -> T:
        """Change the background task of a session, and report it to the processes that list sessions."""

        def write(tables: Tables) -> T:
            tables.touch(session_id, listed=True)
            return change(tables.jobs)

        return await self.ledger.write(write)

    async def take_over(self, session_id: str, changes: Sequence[FileChange], left_out: Sequence[str] = ()) -> Reverted:
        """Make the changes of a background task in the user's files, as a turn of its own that can be reviewed and
        undone. A file that the user changed in the same lines is refused, and the others are changed. `left_out` are
        paths that are no files."""
        session = await self._open(session_id)
        await session.edits_recorded()
        async with session.between_turns():
            return await uninterrupted(take_over(self, session, changes, left_out))

    async def restore(self, session_id: str, turn_id: str) -> RestoredSession:
        """Undo the file changes of a turn and of all later ones, and copy the conversation as it was before. The old
        session keeps everything, so that its turns can be redone."""
        session = await self._open(session_id)
        async with session.between_turns():
            point = await restore_point(self.ledger, session_id, turn_id)
            reverted = await uninterrupted(revert_all(self.ledger, session, point.turns))
        row = await self.catalog.fork(session_id, self.new_id("ses"), point.before)
        await self._watched(row, forked=True)
        return RestoredSession(session=self._session(row), point=point, reverted=reverted)

    async def pending_changes(
        self, session_id: str | None = None, path: Path | None = None
    ) -> tuple[tuple[str, PendingFile], ...]:
        """The changes of a session, or of all open ones, that the user has neither kept nor undone, by session."""
        sessions = tuple(self._sessions.values()) if session_id is None else (await self._open(session_id),)
        return tuple([(one.row.id, file) for one in sessions for file in await one.review.pending(path)])

    async def decide_changes(
        self,
        session_id: str,
        decision: Literal["keep", "undo"],
        path: Path | None = None,
        hunk_ids: Sequence[str] | None = None,
    ) -> Reverted:
        """Keep or undo pending changes: hunks of a file, a file, or all of the session. A turn may run meanwhile."""
        session = await self._open(session_id)
        await session.edits_recorded()
        async with session.leased():
            return await uninterrupted(session.review.decide(decision, path, hunk_ids))

    def has_changed(self, path: Path) -> bool:
        """Whether a turn of an open session has changed a file."""
        uri = path.as_uri()
        records = (record for session in self._sessions.values() for record in session.conversation.file_records)
        return any(isinstance(record, FileChangeRecord) and record.uri == uri for record in records)

    async def blame(self, path: Path) -> tuple[WrittenLines, ...]:
        """The lines of a file that turns wrote, of the newest sessions of its folder."""
        folder = next((str(root) for root in self.roots if path.is_relative_to(root)), None)
        listed = await self.catalog.list(folder, None, None, BLAMED_SESSIONS)
        await self._persisted()
        try:
            current = await self.make_workspace(folder).look(path)
        except ToolError as error:  # it is missing, or is no text
            raise BadRequest(f"uri: {error}", field="uri") from None
        files = await WrittenFiles.read(self.ledger, [row.id for row in listed.sessions])
        return await files.blame(path, current.text)

    async def compact(self, session_id: str) -> bool | None:
        """Summarise the older messages. Returns False if there is nothing to summarise, None if it was stopped."""
        return await (await self._open(session_id)).compact()

    # -- rules, status ----------------------------------------------------------------------------------------------

    def rules(self, session_id: str | None = None) -> tuple[Rule, ...]:
        session = self._sessions.get(session_id) if session_id else None
        folder = session.row.workspace if session else (str(self.roots[0]) if self.roots else None)
        asked = self._sessions.values() if session_id is None else filter(None, (session,))
        own = tuple(rule for session in asked for rule in session.rules)
        return (*self.managed.rules, *own, *self.standing_rules(folder))

    async def add_session_rule(self, session_id: str, rule: Rule) -> None:
        """Add a rule for one session. It is not saved."""
        session = await self._open(session_id)
        if rule not in session.rules:
            session.rules.append(rule)

    async def allow_edits(self, session_id: str, path: Path) -> None:
        """Let a session edit one file without a question, if an answer could allow that too: not a sensitive file, and
        none outside the workspace."""
        session = await self._open(session_id)
        place = session.workspace.resolve(str(path))
        fact = PathFact(
            path=str(place.path),
            access="write",
            inside=place.inside,
            sensitive=place.sensitive,
            secret=place.secret,
            root=None if place.root is None else str(place.root),
        )
        rule = suggest_rule(CallFacts(tool="update_file", category=Category.WRITE, paths=(fact,)), "session")
        if rule is not None and rule not in session.rules:
            session.rules.append(rule)

    def remove_rule(self, rule: Rule, folder: str | None) -> bool:
        for session in self._sessions.values():
            if rule in session.rules:
                session.rules.remove(rule)
                return True
        return self.book.remove(rule, Path(folder) if folder else None)

    def status(self) -> EngineStatus:
        return EngineStatus(
            location=self.ledger.description,
            unsaved=self.ledger.unsaved,
            mcp_servers=tuple(
                server
                for servers in (self.mcp, *(session.mcp for session in self._sessions.values()))
                for server in servers.found.values()
            ),
            running_turns=self._running(),
        )

    # -- helpers ----------------------------------------------------------------------------------------------------

    async def memory(self, session_id: str) -> Sequence[MemoryFile]:
        """The files of notes that the model of a session is given."""
        session = await self._open(session_id)
        return tuple(session.briefing.memory.files(trusted=self.trusted(session.row.workspace)))


async def uninterrupted(reverting: Coroutine[Any, Any, Reverted]) -> Reverted:
    """Finish even if the caller is cancelled: files are reverted all or none, and recorded."""
    task = asyncio.ensure_future(reverting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


def _real(folder: str | None) -> str | None:
    """Resolve links, so that the sessions of a folder are found by every path to it."""
    return os.path.realpath(folder) if folder is not None else None


def _mode(mode: str) -> Mode:
    match mode:
        case "ask" | "plan" | "edit" | "auto":
            return mode
        case _:
            raise BadRequest(f"mode: {mode!r} is not one of ask, plan, edit, auto", field="mode")
