"""The ledger: append-only records of all sessions, in one database: SQLite (the default) or PostgreSQL.

Guarantees:
- A record is *written* when its append is done: it survives the end of the process, including `kill -9`.
- `sync` makes everything that was written before it *durable*: it survives a system crash or a power cut, as far as
  the disk's fsync is reliable. A power cut may lose written records that are not durable, always a suffix of the log.
  Neither a kill nor a power cut leaves a torn record or a gap. Catalog changes and blobs are durable when done.
- `n` and `seq` of a session grow by exactly one, across restarts and pruned chunks. An append with other numbers is
  refused.
- Chunks and states are kept until the message, the final state of the call or the end of the turn that contains them
  is appended. Then they are deleted.
- The event loop never waits for a lock, a write or a sync: one thread writes, another one reads.
- The cost of an append does not depend on the length of the session.
- When the disk refuses writes, sessions continue in memory and are saved later if possible. `unsaved` describes that.
  Their leases are kept until then, so that no other process writes records with the same numbers.
- Several processes may use one database. Only one process at a time can lease a session; several callers in that
  process may share the lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pilotfish.conversation.records import Entry
from pilotfish.errors import SessionBusy, StorageError
from pilotfish.store.backend import Database
from pilotfish.store.changes import ChangeListener
from pilotfish.store.database_errors import DamagedDatabase, DatabaseUnavailable
from pilotfish.store.leases import FileLocks, Lease, SessionLeases, SessionLocks
from pilotfish.store.reader import Reader
from pilotfish.store.rows import Heads, RecordPage, StoreNotice
from pilotfish.store.sqlite.backend import SqliteDatabase
from pilotfish.store.sqlite.database import directory_of
from pilotfish.store.tables.blobs import hash_of
from pilotfish.store.tables.controls import StoredQuestion
from pilotfish.store.tables.tables import Tables
from pilotfish.store.writer import DatabaseWriter

__all__ = ["Heads", "Lease", "Ledger", "RecordPage", "StoreNotice"]

T = TypeVar("T")

LEASE_RETRY_SECONDS: Final = 0.01
"""interval between attempts to take a lease that another process has"""


class Ledger:
    """The records of all sessions. Its methods are called on the event loop."""

    def __init__(self, directory: Path, database: Database, locks: SessionLocks) -> None:
        self.directory = directory
        """for files on this machine"""
        self._writer = DatabaseWriter(database)
        self._reader = Reader(self._writer)
        self._leases = SessionLeases(locks, self._writer.has_unsaved)
        self._writer.on_saved = self._leases.release_unwanted
        self.changes = ChangeListener(database.changes())
        """reports what other processes commit"""

    @classmethod
    def open(cls, location: Path | str | None = None, *, label: str = "Pilotfish") -> Ledger:
        """The ledger at a `storage` setting: a directory, or the URL of a PostgreSQL database. None means the user's
        state directory. `label` names this program to other processes that want to lease the same session.

        Returns at once: the database is opened on a thread. If that fails, the ledger works in memory (`unsaved`).
        """
        directory = directory_of(location)
        if isinstance(location, str) and location.lower().startswith(("postgresql://", "postgres://")):
            return cls._open_postgres(directory, location, label)
        # The name of the directory must not change: programs of all versions must exclude each other.
        return cls(directory, SqliteDatabase(directory), FileLocks(directory / "holds", label))

    @classmethod
    def _open_postgres(cls, directory: Path, url: str, label: str) -> Ledger:
        try:
            from pilotfish.store.postgres.backend import PostgresDatabase
        except ImportError as error:
            raise StorageError(
                "`storage` names a PostgreSQL database, and the driver for it is not installed.",
                remedy="Install it with: pip install 'pilotfish[postgres]'",
            ) from error
        database = PostgresDatabase(url, label, directory)
        ledger = cls(directory, database, database.locks)
        database.locks.run = ledger._writer.run
        return ledger

    @property
    def description(self) -> str:
        """Where the sessions are, for the user: a directory or a URL without a password."""
        return self._writer.database.description

    @property
    def unsaved(self) -> str | None:
        """A message for the user about what is not saved, and why. None if everything is saved."""
        return self._writer.unsaved

    @property
    def notices(self) -> tuple[StoreNotice, ...]:
        """Messages for the user about the store: a damaged database that was set aside, records that were refused."""
        return self._writer.notices

    async def ready(self) -> None:
        """Wait until the database is open, or has failed to open (`unsaved`)."""
        await self._writer.read(_nothing)

    def append(self, session_id: str, entries: Sequence[Entry]) -> asyncio.Future[None]:
        """Append records to a session. The future is done when they are written; many appends share one commit.

        `n` and `seq` must follow the session's heads, or the future fails with `StorageError` and nothing is added.
        When the disk refuses the write, the records are kept in memory. The session's first append that meets the error
        fails with `StorageError`, later ones succeed, and `unsaved` is set until everything is saved.
        """
        return self._writer.append(session_id, lambda tables: tables.append(session_id, entries))

    def sync(self, session_id: str) -> asyncio.Future[None]:
        """Make everything that was written before this call durable. Fails like `append` when the disk refuses."""
        return self._writer.sync(session_id)

    async def heads(self, session_id: str) -> Heads:
        """The last numbers of the session, and its last audit hash."""
        return await self._writer.read(lambda tables: tables.heads(session_id))

    async def history(self, session_id: str) -> list[Entry]:
        """All kept records of a session, in order, without chunks and states."""
        return await self.read(lambda tables: tables.history(session_id))

    async def unfinished(self, session_id: str) -> list[Entry]:
        """Chunks and states whose message, call or turn was not stored: what a crash left of a running turn."""
        return await self.read(lambda tables: tables.unfinished(session_id))

    async def page(self, session_id: str, before_n: int | None = None, limit: int = 100) -> RecordPage:
        """The last `limit` kept records, or the last before `before_n`, with the unfinished chunks among them."""
        return await self.read(lambda tables: tables.page(session_id, before_n, max(1, limit)))

    async def tail(self, session_id: str, after_n: int) -> tuple[list[Entry], Heads, list[StoredQuestion]]:
        """What is stored after record `after_n`, the last numbers, and the questions of the running turn, as of one
        moment. The chunks of an item that was stored whole are missing."""
        return await self.read(
            lambda tables: (
                tables.tail(session_id, after_n),
                tables.heads(session_id),
                tables.controls.questions(session_id),
            )
        )

    async def put_blob(self, data: bytes) -> str:
        """Store bytes once, and return their hash. They are kept while a record references them (`Attachment.blob`,
        `CallResult.blob`, the contents of a `FileChangeRecord` or `ReviewRecord`)."""
        hash_ = hash_of(data) if len(data) < 65_536 else await asyncio.to_thread(hash_of, data)
        await self.write(lambda tables: tables.blobs.put(hash_, data))
        return hash_

    async def get_blob(self, hash_: str) -> bytes:
        return await self.read(lambda tables: tables.get_blob(hash_))

    async def lease(self, session_id: str, *, patience: float = 0.0) -> Lease:
        """Lease the session for this process: only a process with the lease may write to it.

        Retries for `patience` seconds, then raises `SessionBusy` that names the process that has the lease. The lease
        ends when every caller has released it, with `aclose`, or with the process.
        """
        until = time.monotonic() + patience
        while True:
            taking = asyncio.ensure_future(asyncio.to_thread(self._leases.take, session_id))
            try:
                return await asyncio.shield(taking)
            except SessionBusy:
                if time.monotonic() >= until:
                    raise
            except asyncio.CancelledError:
                taking.add_done_callback(_release)
                raise
            await asyncio.sleep(LEASE_RETRY_SECONDS)

    def has_lease(self, session_id: str) -> bool:
        """Whether this ledger has the lease of the session."""
        return self._leases.has(session_id)

    async def in_use(self, session_id: str) -> bool:
        """Whether another process has the lease."""
        if self.has_lease(session_id):
            return False
        try:
            (await self.lease(session_id)).release()
        except SessionBusy:
            return True
        return False

    async def check(self) -> None:
        """Check the whole database. Damage is repaired as far as possible and reported in `notices`."""
        await self._writer.read(_check)

    async def aclose(self) -> None:
        """Write what is queued, release the leases, close the database."""
        await self.changes.aclose()
        await self._reader.aclose()
        await self._writer.aclose()
        self._leases.release_all()

    # For the catalog

    def write(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Run `work` in a transaction, after everything queued before. The future is done when it is durable."""
        return self._writer.write(work)

    async def delete(self, session_id: str) -> None:
        await self._writer.delete(session_id)

    async def read(self, work: Callable[[Tables], T]) -> T:
        """Read what was written before this call."""
        if self._writer.busy or not self._writer.generation:
            await self._writer.read(_nothing)
        if self._writer.unsaved is None:
            try:
                return await self._reader.read(work)
            except DamagedDatabase:
                await self.check()
            except DatabaseUnavailable:
                pass  # the reader's connection has ended; the writer connects again, or says why not
        return await self._writer.read(work)


def _release(taken: asyncio.Future[Lease]) -> None:
    """Release a lease whose caller was cancelled while it was taken."""
    if not taken.cancelled() and taken.exception() is None:
        taken.result().release()


def _nothing(_: Tables) -> None: ...


def _check(tables: Tables) -> None:
    tables.check()
