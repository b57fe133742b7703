"""Overwrites the text of deleted sessions in the search index, in small steps while the writer is idle.

A marker file beside the database exists until everything is overwritten, so that a later start can finish the work.
Runs on the writer's thread.
"""

from __future__ import annotations

from typing import Final

from pilotfish.store.database_errors import is_damage
from pilotfish.store.sqlite.database import BUSY_SECONDS, DatabaseFile
from pilotfish.store.sqlite.tables import SqliteTables
from pilotfish.store.worker import StoreJob, commit

PAUSE_SECONDS: Final = 0.005
"""pause between two steps, in which other processes can write"""

SHORT_BUSY_MS: Final = 100
"""how long emptying the log waits for readers; turns are delayed by this"""


class Scrubber:
    def __init__(self, file: DatabaseFile) -> None:
        self.is_due = False
        """whether deleted text has not been overwritten yet"""
        self._file = file

    def begin(self) -> None:
        """Read the marker file. Called when the database was opened."""
        self.is_due = not self._file.is_scrubbed

    def mark_due(self) -> None:
        """Create the marker file. Called before a session is deleted."""
        self._file.mark_scrubbed(False)
        self.is_due = True

    def step(self, tables: SqliteTables) -> None:
        """Do one step if it is due. The last step also empties the log of deleted text. Only damage is raised."""
        if not self.is_due:
            return
        job = StoreJob(lambda _: tables.index.scrub(), writes=True)
        try:
            commit(tables, [job])
            if job.result is not True and not tables.shrink_file():
                tables.db.execute(f"PRAGMA busy_timeout = {SHORT_BUSY_MS}")
                try:
                    tables.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                finally:
                    tables.db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
                self.is_due = False
                self._file.mark_scrubbed(True)
        except Exception as error:
            self.is_due = False  # the marker file stays, so the next start continues
            if is_damage(error):
                raise
