"""Locks on sessions: advisory locks of the writer's connection. When the process or its machine ends, so does the
connection, and with it the locks.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, cast

from pilotfish.errors import SessionBusy, StorageError
from pilotfish.store.postgres.connection import PgConnection
from pilotfish.store.postgres.tables import PgTables
from pilotfish.store.tables.tables import Tables

Run = Callable[[Callable[[Tables], None]], concurrent.futures.Future[None]]

_OWNER: Final = """
    SELECT application_name, backend_start FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
      AND (CAST(classid AS bigint) << 32 | CAST(objid AS bigint)) = ?
      AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class AdvisoryLocks:
    """The locks of one ledger. They are taken on the thread of its writer (`run`)."""

    def __init__(self) -> None:
        self.run: Run = _not_started
        self._held: set[str] = set()
        """sessions that are locked, or will be when the server can be reached"""

    def lock(self, session_id: str) -> None:
        try:
            self.run(lambda tables: self._lock(tables, session_id)).result()
        except SessionBusy:
            raise
        except StorageError:
            # Out of reach: the turn goes on here. Should another process continue the session meanwhile, the numbers of
            # its records show it when ours are saved.
            self._held.add(session_id)

    def unlock(self, session_id: str) -> None:
        self._held.discard(session_id)
        self.run(lambda tables: self._unlock(tables, session_id))

    def close(self) -> None:
        """The locks have ended with the connection."""

    def restore(self, db: PgConnection) -> None:
        """Take the locks again on a new connection. Called on the writer's thread."""
        schema = _schema(db)
        for session_id in self._held:
            db.execute("SELECT pg_try_advisory_lock(?)", (_key(schema, session_id),)).fetchall()

    def _lock(self, tables: Tables, session_id: str) -> None:
        if not isinstance(tables, PgTables):
            self._held.add(session_id)
            return
        db = tables.db
        key = _key(_schema(db), session_id)
        if db.execute("SELECT pg_try_advisory_lock(?)", (key,)).fetchone() != (True,):
            raise _busy(db, key)
        self._held.add(session_id)
        tables.remember(session_id)

    def _unlock(self, tables: Tables, session_id: str) -> None:
        with contextlib.suppress(StorageError):
            db = cast(PgConnection, tables.db)
            if isinstance(tables, PgTables) and session_id not in self._held:
                db.execute("SELECT pg_advisory_unlock(?)", (_key(_schema(db), session_id),)).fetchall()


def _busy(db: PgConnection, key: int) -> SessionBusy:
    row = db.execute(_OWNER, (key,)).fetchone()
    # The server shows the connections of other users without a name and a time: a worker runs a task of ours.
    if row is None or row[1] is None:
        return SessionBusy("The session is in use by another Pilotfish process.")
    name, since = row
    return SessionBusy(f"The session is in use elsewhere: {name[:-1]}, connected since {since.astimezone():%H:%M}).")


def _schema(db: PgConnection) -> str:
    return db.execute("SELECT current_schema()").fetchone()[0]


def _key(schema: str, session_id: str) -> int:
    """The key of a session's lock. Locks belong to a database, sessions to a schema in it."""
    digest = blake2b(f"{schema}\0{session_id}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _not_started(_: Callable[[Tables], None]) -> concurrent.futures.Future[None]:
    raise RuntimeError("the writer has not started")
