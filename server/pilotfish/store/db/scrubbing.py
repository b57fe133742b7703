"""Overwrites in steps what the search index keeps of deleted sessions, while the writer has nothing else to do.

A mark beside the database stays until all is overwritten, so that a later start finishes the work. Runs on the writer's
thread.
"""

from __future__ import annotations

from typing import Final

from pilotfish.store.db.database import BUSY_SECONDS, DatabaseFile
from pilotfish.store.db.sqlite_errors import is_damage
from pilotfish.store.db.tables import Tables
from pilotfish.store.db.worker import StoreJob, commit

PAUSE_SECONDS: Final = 0.005
"""between two steps, for other processes to write"""

SHORT_BUSY_MS: Final = 100
"""how long the log waits for readers before it is emptied: turns wait behind this"""


class Scrubber:
    def __init__(self, file: DatabaseFile) -> None:
        self.is_due = False
        """whether something was deleted and not overwritten yet"""
        self._file = file

    def begin(self) -> None:
        """The database was opened."""
        self.is_due = not self._file.is_scrubbed

    def mark_due(self) -> None:
        """A session is about to be deleted."""
        self._file.mark_scrubbed(False)
        self.is_due = True

    def step(self, tables: Tables) -> None:
        """Do a step, if one is due; after the last one, empty the log of deleted text too. Damage is raised."""
        if not self.is_due:
            return
        job = StoreJob(lambda tables: tables.index.scrub(), writes=True)
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
            self.is_due = False  # the mark stays: it is done after the next start
            if is_damage(error):
                raise
