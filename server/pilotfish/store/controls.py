"""Work on one session from several processes: what the one that runs a turn shows, and what the others ask of it.

See `tables/controls.py` for the tables. Nothing here is kept while the database cannot be written: a request that is
delivered late could meet another turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pilotfish.errors import StorageError
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.controls import ControlRequest, ControlState, StoredQuestion
from pilotfish.store.tables.tables import Tables

__all__ = ["ControlRequest", "ControlState", "Controls", "StoredQuestion"]

log = logging.getLogger(__name__)


class Controls:
    """The questions and requests of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._user: str | None = None
        self._asked: set[str] = set()
        """sessions whose running turn has asked something"""

    # For the process that runs the turn

    def show_question(self, session_id: str, question_id: str, body: Mapping[str, Any]) -> None:
        """Show a question to the other processes. Does not wait."""
        self._asked.add(session_id)
        self._begin(lambda tables: tables.controls.put_question(session_id, question_id, body))

    def resolve_question(self, session_id: str, question_id: str, resolution: Mapping[str, Any]) -> None:
        """Say how a question was answered. Does not wait."""
        self._begin(lambda tables: tables.controls.resolve_question(session_id, question_id, resolution))

    def clear_questions(self, session_id: str) -> None:
        """Delete the questions of a turn that has ended. Does not wait."""
        if session_id in self._asked:
            self._asked.discard(session_id)
            self._begin(lambda tables: tables.controls.clear_questions(session_id))

    async def clear_questions_of_others(self, session_id: str) -> None:
        """Delete the questions that a process has left which ended in the middle of its turn."""
        if await self._ledger.read(lambda tables: tables.controls.questions(session_id)):
            await self._ledger.write(lambda tables: tables.controls.clear_questions(session_id))

    async def take(self, session_id: str) -> Sequence[ControlRequest]:
        """The requests that have arrived since the last call. Only the holder of the lease may take them."""
        if not await self._ledger.read(lambda tables: tables.controls.has_requests(session_id)):
            return ()
        return await self._ledger.write(lambda tables: tables.controls.take(session_id))

    async def reply(self, session_id: str, request_id: str, reply: Mapping[str, Any]) -> None:
        await self._ledger.write(lambda tables: tables.controls.reply(session_id, request_id, reply))

    async def user(self) -> str:
        """The user of the database as whom this process works; empty where a database has one user."""
        if self._user is None:
            self._user = await self._ledger.read(lambda tables: tables.current_user())
        return self._user

    # For the other processes

    async def send(self, session_id: str, request: ControlRequest) -> None:
        """Ask something of the process that has the lease. Raises StorageError if the database cannot be written, or
        its user may only read the session."""
        if self._ledger.unsaved is not None:
            raise StorageError(self._ledger.unsaved, remedy="Try again when the sessions can be saved.")
        await self._ledger.write(lambda tables: tables.controls.send(session_id, request))

    async def state(self, request_id: str) -> ControlState | None:
        return await self._ledger.read(lambda tables: tables.controls.state(request_id))

    async def withdraw(self, request_id: str) -> ControlState | None:
        """Delete a request, and return how far it had come. None if it is not there any more."""
        return await self._ledger.write(lambda tables: tables.controls.withdraw(request_id))

    def _begin(self, work: Callable[[Tables], None]) -> None:
        if self._ledger.unsaved is None:
            self._ledger.write(work).add_done_callback(_log_failure)


def _log_failure(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.info("the other processes do not see a question: %s", error)
