"""What is done to the database when nobody waits for it: deleted words are overwritten, and pieces of the search index
merged. A piece at a time, and later if others are at work.

Runs on the writer's thread.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pilotfish.store.jobs import Job, commit
from pilotfish.store.opening import BUSY_SECONDS, Site
from pilotfish.store.tables import Tables
from pilotfish.store.troubles import is_damage

PAUSE_SECONDS: Final = 0.005
"""between two pieces, for other processes to come in"""

SCATTERED: Final = 32
"""texts added to the search index, after which its pieces are merged when there is nothing else to do"""

TOO_SCATTERED: Final = 256
"""after which they are merged in any case"""

SHORT_BUSY_MS: Final = 100


class Tidying:
    """Of one site. What it is given is the database as it is open now; damage is raised."""

    def __init__(self, site: Site) -> None:
        self.scrubs = False
        """whether something was deleted and not overwritten yet"""
        self._site = site

    def begin(self, tables: Tables) -> None:
        """The database was opened."""
        self.scrubs = not self._site.is_scrubbed
        tables.index.left = SCATTERED

    def delete(self, tables: Tables, session_id: str) -> None:
        self._site.mark_scrubbed(False)
        self.scrubs = True
        tables.delete(session_id)

    def is_due(self, tables: Tables | None) -> bool:
        return self.scrubs or (tables is not None and tables.index.scattered > SCATTERED)

    def is_overdue(self, tables: Tables | None) -> bool:
        return tables is not None and tables.index.scattered > TOO_SCATTERED

    def step(self, tables: Tables) -> None:
        """Do a piece."""
        if self.scrubs:
            self._scrub(tables)
        elif self.is_due(tables):
            job = Job(lambda tables: tables.index.merge(), writes=True)
            try:
                commit(tables, [job])
            except Exception as error:
                job.error = error
            if job.error is not None:
                tables.index.scattered = 0  # later, with what is added then
                if is_damage(job.error):
                    raise job.error

    def _scrub(self, tables: Tables) -> None:
        """Overwrite a piece of what was deleted; at the end, empty the log of it too."""
        job = Job(lambda tables: tables.index.scrub(), writes=True)
        try:
            commit(tables, [job])
            if job.result is not True and not tables.give_back():
                with impatient(tables):
                    tables.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self.scrubs = False
                self._site.mark_scrubbed(True)
        except Exception as error:
            self.scrubs = False  # the mark stays: it is done after the next start
            if is_damage(error):
                raise


@contextmanager
def impatient(tables: Tables) -> Generator[None]:
    """Wait only a moment for other processes: turns wait behind this."""
    tables.db.execute(f"PRAGMA busy_timeout = {SHORT_BUSY_MS}")
    try:
        yield
    finally:
        tables.db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
