"""PostgreSQL as a database of the store.

Every commit is durable: the server syncs its log before it acknowledges one, and the jobs of a burst share a commit.

When the connection ends, the writer keeps the records of its sessions on this machine and connects again. A commit
whose answer was lost is not repeated if it took place: each transaction writes its number into the row of its writer
(`writers`), and `replay` leaves out what has been committed.
"""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar, Final, cast

from pilotfish.errors import StorageError
from pilotfish.store.backend import Database
from pilotfish.store.changes import ChangeSource
from pilotfish.store.database_errors import DatabaseUnavailable
from pilotfish.store.postgres.connection import PgConnection, masked
from pilotfish.store.postgres.known_sessions import KnownSessions
from pilotfish.store.postgres.locks import AdvisoryLocks
from pilotfish.store.postgres.notifications import PgNotifications
from pilotfish.store.postgres.schema import migrate
from pilotfish.store.postgres.spool import Spool
from pilotfish.store.postgres.tables import PgTables
from pilotfish.store.rows import Heads, SessionRow, StoreNotice
from pilotfish.store.tables.tables import Tables
from pilotfish.store.worker import StoreJob, commit

ATTEMPTS: Final = 5
"""how often a transaction is tried that excludes itself with those of other programs"""


class PostgresDatabase(Database):
    """The database at a URL. `label` names this program to the others on the server."""

    fallback: ClassVar[str] = "on this machine"

    def __init__(self, url: str, label: str, directory: Path) -> None:
        self._url = url
        self._label = label
        self._writer_id = uuid.uuid4().hex
        self._batch = 0
        self._known: dict[str, tuple[SessionRow, Heads]] = {}
        self._connection: PgConnection | None = None
        self._error = StorageError("", remedy="")
        self._spool = Spool(directory / "spool" / _name_of(url), self._writer_id)
        self.locks = AdvisoryLocks()

    @property
    def description(self) -> str:
        return masked(self._url)

    def open(self) -> tuple[Tables, list[StoreNotice]]:
        try:
            db = PgConnection(self._url, self._label)
        except StorageError as error:
            self._error = error
            raise
        try:
            if self._connection is not None:
                self._end(db, self._connection)
            migrate(db)
            db.execute("DELETE FROM writers WHERE seen < now() - interval '30 days'")
            db.execute("INSERT INTO writers (id, batch) VALUES (?, 0) ON CONFLICT DO NOTHING", (self._writer_id,))
            self.locks.restore(db)
        except BaseException:
            db.close()
            raise
        self._connection = db
        tables = PgTables(db, self._writer_id)
        tables.known = self._known
        try:
            return tables, self._spool.adopt(tables)
        except BaseException:
            db.close()
            raise

    def _end(self, db: PgConnection, previous: PgConnection) -> None:
        """End the process of the previous connection, if the server has not noticed that it is gone: it would keep our
        locks, and a transaction that may still commit."""
        with contextlib.suppress(StorageError):
            db.execute(
                "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
                " WHERE pid = ? AND pid <> pg_backend_pid() AND usename = current_user AND application_name = ?",
                (previous.pid, previous.application_name),
            ).fetchall()

    def open_reader(self) -> Tables:
        return PgTables(PgConnection(self._url, self._label))

    def open_read_only(self) -> Tables | None:
        return KnownSessions(self._known, self._error)

    def open_overlay(self) -> sqlite3.Connection:
        return self._spool.open()

    def discard_overlay(self) -> None:
        self._spool.discard()

    def commit(self, tables: Tables, jobs: Sequence[StoreJob], *, durable: bool) -> None:  # noqa: ARG002 -- every commit is durable
        self._batch += 1
        cast(PgTables, tables).batch = self._batch
        for job in jobs:
            job.batch = self._batch
        for attempt in range(ATTEMPTS):
            try:
                commit(tables, jobs)
            except DatabaseUnavailable as error:
                self._error = error
                if not error.again or attempt == ATTEMPTS - 1:
                    raise
            else:
                return

    def replay(self, tables: Tables, jobs: Sequence[StoreJob]) -> None:
        done = cast(PgTables, tables).last_batch()
        self.commit(tables, [job for job in jobs if not job.batch or job.batch > done], durable=True)

    def make_durable(self, tables: Tables) -> None:
        """Nothing: every commit is durable."""

    def carry_over(self, previous: Tables, tables: Tables, sessions: Iterable[str]) -> None:  # noqa: ARG002 -- nothing is copied
        # What is unsaved is replayed, and its numbers must follow those on the server.
        previous.close()

    def changes(self) -> ChangeSource:
        return PgNotifications(self._url, lambda: self._connection.pid if self._connection else None)

    def leave(self) -> None:
        self._spool.leave()


def _name_of(url: str) -> str:
    """The name of a database for a directory: not readable, since it is made from the URL."""
    return blake2b(url.encode("utf-8", "replace"), digest_size=12).hexdigest()
