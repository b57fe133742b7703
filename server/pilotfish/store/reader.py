"""The reader: a second thread and connection, so that a search or an export does not hold up a turn's records."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from pilotfish.store.jobs import Job, look
from pilotfish.store.lane import Lane
from pilotfish.store.tables import Tables
from pilotfish.store.troubles import DamagedDatabase, is_damage, trouble_of
from pilotfish.store.writer import Writer

T = TypeVar("T")


class Reader:
    """Reads what is committed."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._tables: Tables | None = None
        self._generation = 0
        self._lane = Lane("pilotfish-store-reader", self)

    def read(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Raises `DamagedDatabase` when the writer has to look after it."""
        return self._lane.put(Job(work))

    async def aclose(self) -> None:
        await self._lane.aclose()

    # What follows runs on the thread.

    def start(self) -> None: ...

    def stop(self) -> None:
        if self._tables is not None:
            self._tables.db.close()
            self._tables = None

    def pause(self) -> float | None:
        return None

    def serve(self, batch: Sequence[Job]) -> None:
        for job in batch:
            try:
                look(job, self._current())
            except (sqlite3.Error, OSError) as error:
                self.stop()
                job.error = DamagedDatabase() if is_damage(error) else trouble_of(error) or error

    def _current(self) -> Tables:
        if self._tables is None or self._generation != self._writer.generation:
            self.stop()
            self._generation = self._writer.generation
            self._tables = Tables(self._writer.site.open_reader())
        return self._tables
