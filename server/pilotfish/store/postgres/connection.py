"""A connection to PostgreSQL, and what its errors mean.

Statements have `?` for parameters, like those for SQLite. Credentials are libpq's business: the URL, a password file, a
service file or the environment (`PGPASSFILE`, `PGSERVICE`, `PGPASSWORD` ...). They are never in a message: `masked`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, LiteralString, cast
from urllib.parse import urlsplit

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from pilotfish.errors import StorageError
from pilotfish.store.database_errors import DatabaseUnavailable

MIN_SERVER_VERSION: Final = 140_000

CONNECT_SECONDS: Final = 3
LOCK_TIMEOUT: Final = "5s"
"""how long a statement waits for a row that another process writes"""
IDLE_TIMEOUT: Final = "60s"
"""after which the server ends the transaction of a process that hangs, so that others can go on"""

_REMEDY: Final = (
    "Check the server and the network. Until then sessions are kept on this machine; they are saved afterwards."
)


def masked(url: str) -> str:
    """The URL for messages: without a password and without options, which may contain one."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{_port(url)}" if _port(url) else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:  # several hosts
        return None


class PgConnection:
    """One connection, without implicit transactions. `label` names this program to the others on the server."""

    def __init__(self, url: str, label: str) -> None:
        host = socket.gethostname()[:18]
        self.application_name = f"{label.encode()[:20].decode('utf-8', 'ignore')} (process {os.getpid()} on {host})"
        """names this program; the server keeps 63 bytes"""
        with _translated(None, url):
            self._pg = psycopg.connect(
                url,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                application_name=self.application_name,
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,
            )
        self.pid = self._pg.info.backend_pid
        """the process on the server"""
        self._url = url
        self._pipeline: Any = None
        try:
            self._configure()
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        found = self._pg.info.server_version
        if found < MIN_SERVER_VERSION:
            raise StorageError(
                f"The PostgreSQL server is too old: version {found // 10_000}; Pilotfish needs 14 or later.",
                remedy="Update the server, or set `storage` to a directory.",
            )
        # A commit must be durable when it is acknowledged: numbers are not used twice. Stricter settings are kept.
        self.execute(
            "SELECT set_config('lock_timeout', ?, false), set_config('idle_in_transaction_session_timeout', ?, false),"
            " set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'"
            " ELSE current_setting('synchronous_commit') END, false)",
            (LOCK_TIMEOUT, IDLE_TIMEOUT),
        ).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> PgCursor:
        with _translated(self._pg, self._url):
            found = self._pg.execute(_placeholders(sql), [_storable(value) for value in parameters])
        return PgCursor(self._pg, self._url, found)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> None:
        for values in parameters:
            self.execute(sql, values)

    def script(self, sql: str) -> None:
        """Run statements of our own that have no parameters."""
        with _translated(self._pg, self._url):
            self._pg.execute(cast(LiteralString, sql))

    def on_notify(self, handler: Callable[[str, int], None]) -> None:
        """Call `handler` with the channel and the sending process of each notification, during later statements."""
        self._pg.add_notify_handler(lambda notify: handler(notify.channel, notify.pid))

    def fileno(self) -> int:
        """The socket, which can be read when the server has sent something."""
        with _translated(self._pg, self._url):
            return self._pg.fileno()

    def start_pipeline(self) -> None:
        """Send the statements that follow without waiting for each: only a fetch and `end_pipeline` wait."""
        with _translated(self._pg, self._url):
            self._pipeline = self._pg.pipeline()
            self._pipeline.__enter__()

    def end_pipeline(self) -> None:
        """Wait for all statements. Raises the first error."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            with _translated(self._pg, self._url):
                pipeline.__exit__(None, None, None)

    def rollback(self) -> None:
        """End a transaction without a commit, if one is open. Does nothing on a connection that has ended."""
        pipeline, self._pipeline = self._pipeline, None
        try:
            if pipeline is not None:
                pipeline.__exit__(None, None, None)
        except psycopg.Error:  # the error that is the reason for the rollback
            pass
        if not self._pg.closed and self._pg.info.transaction_status != TransactionStatus.IDLE:
            with _translated(self._pg, self._url):
                self._pg.execute("ROLLBACK")

    def close(self) -> None:
        self._pg.close()


class PgCursor:
    """The rows of one statement."""

    def __init__(self, pg: psycopg.Connection[Any], url: str, found: psycopg.Cursor[Any]) -> None:
        self._pg = pg
        self._url = url
        self._found = found

    def fetchone(self) -> Any:
        with _translated(self._pg, self._url):
            return self._found.fetchone()

    def fetchall(self) -> list[Any]:
        with _translated(self._pg, self._url):
            return self._found.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


@contextmanager
def _translated(pg: psycopg.Connection[Any] | None, url: str) -> Generator[None]:
    """Raise psycopg's errors as ours. Those that are mistakes of this program stay what they are."""
    try:
        yield
    except (errors.DeadlockDetected, errors.SerializationFailure) as error:
        raise DatabaseUnavailable(
            "Other programs write to the same sessions.", remedy=_REMEDY, connected=True, again=True
        ) from error
    except errors.InsufficientPrivilege as error:
        said = error.diag.message_primary or ""
        if "row-level security" in said:
            said = "the session belongs to another user, who has not shared it for this"
        raise StorageError(
            f"The database refuses this: {said}.",
            remedy="Ask the administrator of the database to grant it, or the owner of the session to share it.",
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
        # Without a state the error is the driver's; 57P is the end of the server, 08 of the connection.
        ended = error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))
        connected = pg is not None and not pg.closed and not ended
        raise DatabaseUnavailable(_reason(error, url), remedy=_REMEDY, connected=connected) from None


def _reason(error: psycopg.Error, url: str) -> str:
    said = error.diag.message_primary or " ".join(str(error).split())
    parts = urlsplit(url)
    for secret in (parts.password, parts.query):
        said = said.replace(secret, "***") if secret else said
    return f"The session database {masked(url)} cannot be used: {said[:300]}"


@lru_cache(maxsize=256)
def _placeholders(sql: str) -> LiteralString:
    return cast(LiteralString, sql.replace("%", "%%").replace("?", "%s"))


def _storable(value: Any) -> Any:
    """PostgreSQL stores no NUL in a text. In the JSON of a record it is escaped."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value
