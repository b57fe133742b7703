"""Reads on a second thread and connection, so that a search or an export does not delay a turn's records."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from pilotfish.store.database_errors import DamagedDatabase, disk_error_of, is_damage
from pilotfish.store.tables.tables import Tables
from pilotfish.store.worker import StoreJob, WorkerThread, read
from pilotfish.store.writer import DatabaseWriter

T = TypeVar("T")


class Reader:
    """Reads committed data."""

    def __init__(self, writer: DatabaseWriter) -> None:
        self._writer = writer
        self._tables: Tables | None = None
        self._generation = 0
        self._thread = WorkerThread("pilotfish-store-reader", self)

    def read(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Run `work` on the reader thread. Raises `DamagedDatabase` if the writer has to repair the database."""
        return self._thread.put(StoreJob(work))

    async def aclose(self) -> None:
        await self._thread.aclose()

    # Everything below runs on the thread.

    def start(self) -> None: ...

    def stop(self) -> None:
        if self._tables is not None:
            self._tables.close()
            self._tables = None

    def idle_timeout(self) -> float | None:
        return None

    def handle(self, batch: Sequence[StoreJob]) -> None:
        for job in batch:
            try:
                read(job, self._current())
            except (sqlite3.Error, OSError) as error:
                self.stop()
                job.error = DamagedDatabase() if is_damage(error) else disk_error_of(error) or error

    def _current(self) -> Tables:
        if self._tables is None or self._generation != self._writer.generation:
            self.stop()
            self._generation = self._writer.generation
            self._tables = self._writer.database.open_reader()
        return self._tables
