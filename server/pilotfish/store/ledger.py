"""The ledger: append-only records of all sessions, in one SQLite database.

What is promised:
- A record whose append is done is *written*: it survives the end of the process, however it ends.
- After `sync` everything that was written before is *durable*: it survives the end of the system and a power cut, as
  far as the disk's fsync keeps its promise. Of what was only written, a power cut may take the last part, as a whole
  from some point on. Neither leaves a torn record or a gap. Changes of the catalog and blobs are durable when done.
- `n` and `seq` of a session grow by exactly one, over restarts and over the pruning of chunks; an append with other
  numbers is refused.
- Chunks and states are kept until the message, the end of the call or the end of the turn that holds them is
  appended; then they are dropped.
- The event loop never waits for a lock, a write or a sync: one thread writes, another one reads.
- One append costs the same however long the session is.
- When the disk refuses, sessions go on in memory and are saved later if possible; `unsaved` says so. Their leases are
  kept until then, so that no other process writes in their place.
- Several processes may use one database. A session that one process has leased cannot be leased by another; within the
  process several may lease it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pilotfish.conversation.records import Entry
from pilotfish.errors import SessionBusy
from pilotfish.store.db.blobs import hash_of
from pilotfish.store.db.database import directory_of
from pilotfish.store.db.reader import Reader
from pilotfish.store.db.sqlite_errors import DamagedDatabase
from pilotfish.store.db.tables import Tables
from pilotfish.store.db.writer import DatabaseWriter
from pilotfish.store.leases import Lease, SessionLeases
from pilotfish.store.rows import Heads, RecordPage, StoreNotice

__all__ = ["Heads", "Lease", "Ledger", "RecordPage", "StoreNotice"]

T = TypeVar("T")

LEASE_RETRY_SECONDS: Final = 0.01
"""how often a lease that another process has is tried again"""


class Ledger:
    """Records of sessions. Its methods are called on the event loop."""

    def __init__(self, directory: Path, label: str) -> None:
        self.directory = directory
        self._writer = DatabaseWriter(directory)
        self._reader = Reader(self._writer)
        # The directory's name is older than the class's: programs of all versions must exclude each other.
        self._leases = SessionLeases(directory / "holds", label, self._writer.has_unsaved)
        self._writer.on_saved = self._leases.release_unwanted

    @classmethod
    def open(cls, location: Path | str | None = None, *, label: str = "Pilotfish") -> Ledger:
        """The ledger at a `storage` setting; None is the user's state directory. `label` tells other processes who
        has the lease of a session.

        Returns at once: the database is opened on the thread, and if that fails the ledger works in memory (`unsaved`).
        """
        return cls(directory_of(location), label)

    @property
    def unsaved(self) -> str | None:
        """What is not saved, and why, in words for the user; None when everything is."""
        return self._writer.unsaved

    @property
    def notices(self) -> tuple[StoreNotice, ...]:
        """What the user should know about the store: a damaged database set aside, records refused later."""
        return self._writer.notices

    async def ready(self) -> None:
        """The database is open, or it is known why not (`unsaved`)."""
        await self._writer.read(_nothing)

    def append(self, session_id: str, entries: Sequence[Entry]) -> asyncio.Future[None]:
        """Add records to a session. Done when they are written; many appends share one commit.

        `n` and `seq` must follow the session's heads, or the future fails with `StorageError` and nothing is added.
        When the disk refuses, the records are kept in memory: the first append of the session that meets the error
        fails with `StorageError`, later ones succeed, and `unsaved` is set until all of it is saved.
        """
        return self._writer.append(session_id, lambda tables: tables.append(session_id, entries))

    def sync(self, session_id: str) -> asyncio.Future[None]:
        """Make everything that was written before this call durable. Fails like `append` when the disk refuses."""
        return self._writer.sync(session_id)

    async def heads(self, session_id: str) -> Heads:
        """The last numbers of the session."""
        return await self._writer.read(lambda tables: tables.heads(session_id))

    async def history(self, session_id: str) -> list[Entry]:
        """Everything that is kept of a session, in order: no chunks, no states."""
        return await self.read(lambda tables: tables.history(session_id))

    async def unfinished(self, session_id: str) -> list[Entry]:
        """Chunks and states whose message, call or turn has not been stored: what a crash left of a running turn."""
        return await self.read(lambda tables: tables.unfinished(session_id))

    async def page(self, session_id: str, before_n: int | None = None, limit: int = 100) -> RecordPage:
        """The last `limit` kept records, or the last before `before_n`, with the unfinished chunks among them."""
        return await self.read(lambda tables: tables.page(session_id, before_n, max(1, limit)))

    async def put_blob(self, data: bytes) -> str:
        """Store bytes once, and give their hash. They live as long as a record names them (`Attachment.blob`,
        `CallResult.blob`, `FileChangeRecord.before` and `after`)."""
        hash_ = hash_of(data) if len(data) < 65_536 else await asyncio.to_thread(hash_of, data)
        await self.write(lambda tables: tables.blobs.put(hash_, data))
        return hash_

    async def get_blob(self, hash_: str) -> bytes:
        return await self.read(lambda tables: tables.get_blob(hash_))

    async def lease(self, session_id: str, *, patience: float = 0.0) -> Lease:
        """Lease the session for this process: only a process with the lease may write to it. `SessionBusy` names the
        process that has it, after `patience` seconds. The lease ends when all who took it release it, with `aclose`,
        or with the process."""
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

    async def check(self) -> None:
        """Check the whole database. Damage is repaired as far as possible, and reported in `notices`."""
        await self._writer.read(_check)

    async def aclose(self) -> None:
        """Write what is queued, release the leases, close the database."""
        await self._reader.aclose()
        await self._writer.aclose()
        self._leases.release_all()

    # For the catalog

    def write(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Do something in a transaction, after all that was queued before. Done when it is durable."""
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
        return await self._writer.read(work)


def _release(taken: asyncio.Future[Lease]) -> None:
    """The caller was cancelled meanwhile."""
    if not taken.cancelled() and taken.exception() is None:
        taken.result().release()


def _nothing(_: Tables) -> None: ...


def _check(tables: Tables) -> None:
    tables.check()
