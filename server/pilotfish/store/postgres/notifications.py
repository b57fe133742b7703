"""Reports commits to a PostgreSQL database: LISTEN on a connection of its own.

LISTEN is a statement outside of a transaction, so it holds when it returns. Notifications are collected by a handler
that psycopg calls during any statement, and every wake-up runs one: nothing is lost between two statements.
"""

from __future__ import annotations

import contextlib
import os
import selectors
from collections.abc import Callable
from typing import Final

from pilotfish.errors import StorageError
from pilotfish.store.postgres.connection import PgConnection
from pilotfish.store.postgres.tables import EVERYBODY, channel
from pilotfish.store.tables.changes import LISTS

LABEL: Final = "Pilotfish listener"


class PgNotifications:
    """The connection that listens. `own_pid` returns the server's process of the connection that writes: what this
    program has changed itself is not reported."""

    def __init__(self, url: str, own_pid: Callable[[], int | None]) -> None:
        self._url = url
        self._own_pid = own_pid
        self._db: PgConnection | None = None
        self._channels: dict[str, str] = {}
        """channel → topic"""
        self._changed: set[str] = set()
        self._wake = os.pipe()
        os.set_blocking(self._wake[1], False)

    def open(self) -> None:
        self._changed.clear()
        self._channels.clear()
        self._db = PgConnection(self._url, LABEL)
        self._db.on_notify(self._notified)

    def select(self, topics: frozenset[str]) -> None:
        db = self._connection()
        wanted = {name: topic for topic in topics for name in self._names(db, topic)}
        for name in self._channels.keys() - wanted.keys():
            db.script(f"UNLISTEN {name}")
        for name in wanted.keys() - self._channels.keys():
            db.script(f"LISTEN {name}")
        self._channels = wanted

    def wait(self, seconds: float) -> frozenset[str] | None:
        db = self._connection()
        if not self._changed:
            with selectors.DefaultSelector() as selector:
                selector.register(db.fileno(), selectors.EVENT_READ)
                selector.register(self._wake[0], selectors.EVENT_READ)
                ready = {key.fd for key, _ in selector.select(seconds)}
            if self._wake[0] in ready:
                os.read(self._wake[0], 4096)
            db.execute("SELECT 1").fetchall()  # reads what has arrived, and raises if the connection has ended
            if not ready:
                return None
        changed = frozenset(self._changed)
        self._changed.clear()
        return changed

    def interrupt(self) -> None:
        with contextlib.suppress(OSError):  # full: it is interrupted already
            os.write(self._wake[1], b".")

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def dispose(self) -> None:
        for fd in self._wake:
            os.close(fd)

    def _notified(self, name: str, pid: int) -> None:
        topic = self._channels.get(name)
        if topic is not None and pid != self._own_pid():
            self._changed.add(topic)

    def _connection(self) -> PgConnection:
        if self._db is None:
            raise StorageError("The session database is not connected.", remedy="")
        return self._db

    def _names(self, db: PgConnection, topic: str) -> list[str]:
        names = [channel("lists", "current_user"), channel("lists", EVERYBODY)] if topic == LISTS else []
        parameters = () if names else (topic,)
        row = db.execute(f"SELECT {', '.join(names or [channel('session', '?')])}", parameters).fetchone()
        return list(row)
