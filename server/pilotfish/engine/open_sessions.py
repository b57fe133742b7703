"""The sessions that are open in this process: how they are opened, kept up with other processes, and shown.

Promises: a session that is open here shows what other processes do in it; a session that another process has deleted is
closed here by its next request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pilotfish.config.settings import Settings
from pilotfish.engine.context import EngineContext
from pilotfish.engine.frontend import Answer, Background, Frontend, Question, Session
from pilotfish.engine.git_attribution import GitAttribution
from pilotfish.engine.session.session import LiveSession
from pilotfish.errors import UnknownSession
from pilotfish.store.catalog import SessionRow
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.changes import LISTS

if TYPE_CHECKING:
    from pilotfish.engine.mcp.connection import Connection

LISTS_SECONDS: Final = 30.0
"""how often lists are reported as changed, in case a report was lost"""


class OpenSessions(EngineContext):
    """The open sessions of one process, and what they share (`EngineContext`)."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        frontend: Frontend,
        *,
        roots: Sequence[Path] = (),
        trusted: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(settings, ledger, frontend, roots=roots, trusted=trusted, clock=clock)
        self._sessions: dict[str, LiveSession] = {}
        self._background: dict[str, Background] = {}
        """the background tasks of sessions, as they were last read"""
        self.mcp.changed.append(self._report_servers)
        self.lists_changed: Callable[[], None] = lambda: None
        """called when another process has changed what lists of sessions show"""
        self._lists_reported = 0.0
        ledger.changes.on_change = self._changed_elsewhere
        self.may_continue = lambda row: not self._is_in_background(row.id)
        self._attribution = GitAttribution(self, self._persisted)
        self.files_changed = self._attribution.files_changed
        self.attribution_problems = self._attribution.problems

    def answer(self, approval_id: str, answer: Answer | None) -> bool:
        """Answer a question; None if no client can answer. Returns False if it was answered already. For a question of
        another process `answered` says whether this answer was the first."""
        if self.asked.answer(approval_id, answer):
            return True
        return any(session.shared.answer(approval_id, answer) for session in tuple(self._sessions.values()))

    async def answered(self, approval_id: str, *, accepted: bool) -> bool:
        """Whether an answer that `answer` has `accepted` was the first."""
        sent = [await session.shared.answered(approval_id) for session in tuple(self._sessions.values())]
        return next((first for first in sent if first is not None), accepted)

    def questions(self, session_id: str | None = None) -> tuple[Question, ...]:
        shown = self._sessions.values() if session_id is None else filter(None, (self._sessions.get(session_id),))
        return (*self.asked.open(session_id), *(one for session in shown for one in session.shared.questions()))

    def servers_of(self, session_id: str) -> Mapping[str, Connection]:
        """The MCP servers that are connected for a session: the user's, and those of the session itself."""
        session = self._sessions.get(session_id)
        return self.mcp.connections if session is None else session.servers

    def start_servers(self, session_id: str) -> None:
        """Connect to the MCP servers of a session in the background, if its folder is trusted."""
        session = self._sessions.get(session_id)
        if session is not None and self.trusted(session.row.workspace):
            self.use_mcp()
            session.mcp.use(session.mcp_servers)

    def mcp_roots(self) -> Sequence[Path]:
        sessions = [Path(session.row.workspace) for session in self._sessions.values() if session.row.workspace]
        trusted = [folder for folder in sessions if self.trusted(str(folder))]
        return tuple(dict.fromkeys((*self.roots, *trusted)))

    def _report_servers(self) -> None:
        for session in self._sessions.values():
            session.report_servers()

    def session_of(self, session_id: str) -> Session | None:
        """The current state of a session that is open in this process."""
        session = self._sessions.get(session_id)
        return self._session(session.row) if session else None

    def set_settings(self, settings: Settings) -> None:
        super().set_settings(settings)
        self._attribution.start()

    async def leave_turns_open(self) -> None:
        """Before `aclose`: the turns that run are left for the next process to resume or close, as after a crash."""
        await asyncio.gather(*(session.leave_open() for session in self._sessions.values()), return_exceptions=True)

    async def watch_lists(self, changed: Callable[[], None]) -> None:
        """Call `changed` when another process may have changed what lists of sessions show."""
        self.lists_changed, self._lists_reported = changed, time.monotonic()
        await self.ledger.changes.watch(LISTS)

    def _changed_elsewhere(self, topics: frozenset[str] | None) -> None:
        for session_id, session in self._sessions.items():
            if topics is None or session_id in topics:
                session.shared.changed()
        now = time.monotonic()
        if LISTS in topics if topics is not None else now >= self._lists_reported + LISTS_SECONDS:
            self._lists_reported = now
            self.lists_changed()

    async def read_background(self, session_ids: Sequence[str]) -> None:
        """Read the states of the background tasks of these sessions again."""
        jobs = await self.ledger.read(lambda tables: tables.jobs.of(session_ids))
        for session_id in session_ids:
            self._background.pop(session_id, None)
        for job in jobs.values():
            gone = job.state == "running" and self.copy is None and not await self.ledger.in_use(job.session)
            self._background[job.session] = Background(
                state="interrupted" if gone else job.state,
                place=job.place,
                note=job.note,
                has_changes=job.result is not None and job.state not in ("applied", "discarded"),
            )

    def _is_in_background(self, session_id: str) -> bool:
        background = self._background.get(session_id)
        return self.copy is None and background is not None and background.state in ("queued", "running", "interrupted")

    async def _persisted(self) -> None:
        """Wait until what the open sessions did is in the ledger."""
        for session in tuple(self._sessions.values()):
            await session.wait_written()

    async def _open(self, session_id: str) -> LiveSession:
        session = self._sessions.get(session_id)
        if session is None:
            row = await self.catalog.get(session_id)
            session = self._sessions.get(session_id) or self._add(row)
        try:
            await self.ledger.changes.watch(session_id)  # before it is read, so that no change is missed
            await session.open()
        except UnknownSession:  # another process has deleted it
            self._drop(session)
            await session.aclose()
            raise
        return session

    async def _open_in_order(self, session_id: str) -> LiveSession:
        """Return an open session without a look at the ledger, so that prompts and stops keep the order of their
        arrival."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.conversation.is_open else await self._open(session_id)

    async def _watched(self, row: SessionRow, *, forked: bool = False) -> None:
        """Open a new session."""
        await self.ledger.changes.watch(row.id)
        await self._add(row).open(forked=forked)

    def _add(self, row: SessionRow) -> LiveSession:
        self._sessions[row.id] = session = LiveSession(self, row)
        self._attribution.start()
        return session

    def _drop(self, session: LiveSession) -> None:
        if self._sessions.get(session.row.id) is session:
            del self._sessions[session.row.id]
            self.ledger.changes.unwatch(session.row.id)

    def _running(self) -> int:
        return sum(session.turn is not None for session in self._sessions.values())

    def _session(self, row: SessionRow, *, elsewhere: bool = False) -> Session:
        """A session as clients show it. `elsewhere`: another process runs a turn in it, and it is not open here."""
        session = self._sessions.get(row.id)
        return Session(
            id=row.id,
            title=row.title,
            workspace_folder=row.workspace,
            model=row.model,
            mode=self.permitted_mode(row.mode),
            created_at=row.created_at,
            updated_at=row.updated_at,
            turns=session.conversation.turns if session else row.turns,
            busy=(session.line.busy or session.conversation.elsewhere is not None) if session else elsewhere,
            usage=session.conversation.usage if session else row.usage,
            elsewhere=elsewhere if session is None else session.conversation.elsewhere is not None,
            background=self._background.get(row.id),
            imported=row.imported > 0,
        )

    async def _emit_row(self, session: LiveSession) -> Session:
        await session.emit_row()
        return self._session(session.row)
