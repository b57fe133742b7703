"""SQLite as a database of the store.

The database is in WAL mode, and provides two levels of safety:

- *written*: a commit with `synchronous = NORMAL` appends to the log and is in the system's page cache when it is done,
  so it survives the end of the process, including `kill -9`. Nothing is synced.
- *durable*: with `synchronous = FULL`, SQLite syncs the log file before the commit is done. A sync covers the whole
  file, and thus every earlier commit. (A checkpoint would sync as well, but it also writes the pages to the database
  file, and does nothing while an older reader is active.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, cast

from pilotfish.store.backend import Database
from pilotfish.store.changes import ChangeSource
from pilotfish.store.rows import StoreNotice
from pilotfish.store.sqlite.change_pipe import ChangePipe
from pilotfish.store.sqlite.database import BUSY_SECONDS, DatabaseFile
from pilotfish.store.sqlite.scrubbing import PAUSE_SECONDS, Scrubber
from pilotfish.store.sqlite.tables import SqliteTables
from pilotfish.store.tables.tables import Tables
from pilotfish.store.worker import StoreJob, commit

SHORT_BUSY_MS: Final = 100
"""how long a retry waits for another process; turns are delayed by this"""


class SqliteDatabase(Database):
    def __init__(self, directory: Path) -> None:
        self._file = DatabaseFile(directory)
        self._scrubber = Scrubber(self._file)
        self._pipe = ChangePipe(directory / "holds" / "watching")
        self._synchronous = ""
        self._unsynced = False
        """whether something was committed since the last sync"""

    @property
    def description(self) -> str:
        return str(self._file.directory)

    def open(self) -> tuple[Tables, list[StoreNotice]]:
        db, notices = self._file.open()
        self._synchronous = ""
        self._scrubber.begin()
        tables = SqliteTables(db)
        tables.wake = self._pipe.send
        return tables, notices

    def open_reader(self) -> Tables:
        return SqliteTables(self._file.open_reader())

    def open_read_only(self) -> Tables | None:
        db = self._file.open_read_only()
        return SqliteTables(db) if db is not None else None

    def commit(self, tables: Tables, jobs: Sequence[StoreJob], *, durable: bool) -> None:
        # SQLite would continue to write to a deleted file, and everything would be lost at the end.
        self._file.check_in_place()
        wanted = "FULL" if durable else "NORMAL"
        if wanted != self._synchronous:
            tables.db.execute(f"PRAGMA synchronous = {wanted}")
            self._synchronous = wanted
        commit(tables, jobs)
        self._unsynced = not durable

    def replay(self, tables: Tables, jobs: Sequence[StoreJob]) -> None:
        tables.db.execute(f"PRAGMA busy_timeout = {SHORT_BUSY_MS}")
        try:
            self.commit(tables, jobs, durable=True)
        finally:
            tables.db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")

    def make_durable(self, tables: Tables) -> None:
        # SQLite syncs only a commit that has written something.
        if self._unsynced:
            cast(SqliteTables, tables).write_header()

    def carry_over(self, previous: Tables, tables: Tables, sessions: Iterable[str]) -> None:
        # From a deleted file. In a file that was only reopened they exist already.
        commit(tables, [StoreJob(_copy(previous, session_id)) for session_id in sessions])
        previous.close()
        # After an I/O error the log may have a hole that a later sync does not report: checkpoint it.
        tables.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def before_delete(self) -> None:
        self._scrubber.mark_due()

    def idle_seconds(self) -> float | None:
        return PAUSE_SECONDS if self._scrubber.is_due else None

    def work_while_idle(self, tables: Tables) -> None:
        self._scrubber.step(cast(SqliteTables, tables))

    def mark_damaged(self) -> None:
        self._file.mark_suspect()

    def changes(self) -> ChangeSource:
        return self._pipe

    def leave(self) -> None:
        self._file.leave()


def _copy(source: Tables, session_id: str) -> Callable[[Tables], None]:
    return lambda tables: tables.copy_session(source, session_id)
