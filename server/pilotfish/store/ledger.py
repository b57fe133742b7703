"""The ledger: append-only records of all sessions, in one SQLite database.

What is promised:
- A record whose append is done is there after the end of the process, however it ends; see `opening.py` for what a
  power cut may take.
- `n` and `seq` of a session grow by exactly one, over restarts and over the pruning of chunks; an append with other
  numbers is refused.
- Chunks and states are kept until the message, the end of the call or the end of the turn that holds them is
  appended; then they are dropped. They slow nothing down meanwhile.
- The event loop never waits for a lock, and for a sync only when SQLite begins its log anew: those are a thread's. What
  is small is written where it is said, while the disk is quick (`writer.py`).
- One append costs the same however long the session is.
- When the disk refuses, sessions go on in memory and are saved later where that is possible; `unsaved` says so. Until
  then they are held: no other process writes in their place.
- Several processes may use one database. A session that one process holds cannot be held by another; within the
  process several may hold it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pilotfish.core.messages import Category
from pilotfish.core.records import Entry, Record, ToolCallRecord
from pilotfish.errors import SessionBusy
from pilotfish.store.blobs import hash_of
from pilotfish.store.bodies import is_small
from pilotfish.store.holds import Hold, Holds
from pilotfish.store.opening import directory_of
from pilotfish.store.reader import Reader
from pilotfish.store.rows import Heads, Page, StoreNotice
from pilotfish.store.tables import Tables
from pilotfish.store.troubles import DamagedDatabase
from pilotfish.store.writer import Writer

__all__ = ["Heads", "Hold", "Ledger", "Page", "StoreNotice"]

T = TypeVar("T")

SYNCED_TYPES: Final = frozenset(
    {"turn_start", "steer", "turn_end", "approval", "file_change", "undo", "compaction", "session"}
)
"""what a person said or decided, what was changed, and how a turn ended: see `opening.py`"""

CHANGING: Final = frozenset({Category.WRITE, Category.EXECUTE})

MOST_SMALL: Final = 16
"""records that are written at once"""

HELD_AGAIN_SECONDS: Final = 0.01
"""how often a hold that is waited for is tried"""


class Ledger:
    """Records of sessions. Its methods are called on the event loop."""

    def __init__(self, directory: Path, label: str) -> None:
        self.directory = directory
        self._writer = Writer(directory)
        self._reader = Reader(self._writer)
        self._holds = Holds(directory / "holds", label, self._writer.has_unsaved)
        self._writer.saved = self._holds.saved

    @classmethod
    def open(cls, location: Path | str | None = None, *, label: str = "Pilotfish") -> Ledger:
        """The ledger at a `storage` setting; None is the user's state directory. `label` tells other processes who
        holds a session.

        Returns at once: the database is opened behind it, and if that fails the ledger works in memory (`unsaved`).
        """
        return cls(directory_of(location), label)

    @property
    def unsaved(self) -> str | None:
        """What is not saved, and why, in words for the user; None when everything is."""
        return self._writer.unsaved

    @property
    def notices(self) -> tuple[StoreNotice, ...]:
        """What the user should know of the store so far: a damaged database set aside, records refused later."""
        return self._writer.notices

    async def ready(self) -> None:
        """The database is open, or it is known why not (`unsaved`)."""
        await self._writer.read(_nothing)

    def append(
        self, session_id: str, entries: Sequence[Entry], written: Callable[[], None] = lambda: None
    ) -> asyncio.Future[None]:
        """Add records to a session. Done when they are committed; many appends share one commit. `written` is called
        before that, when they survive the end of the process and a power cut may still take them.

        `n` and `seq` must follow the session's heads, or the future fails with `StorageError` and nothing is added.
        When the disk refuses, the records are kept in memory: the first append of the session that meets the trouble
        fails with `StorageError`, later ones succeed, and `unsaved` is set until all of it is saved.
        """
        return self._writer.append(
            session_id,
            lambda tables: tables.append(session_id, entries),
            durable=any(_is_synced(entry.record) for entry in entries),
            small=_are_small(entries),
            written=written,
        )

    def append_now(self, session_id: str, entries: Sequence[Entry]) -> bool:
        """Likewise, if that can be done without waiting for anybody. False: nothing was added."""
        return (
            _are_small(entries)
            and not any(_is_synced(entry.record) for entry in entries)
            and self._writer.append_now(session_id, lambda tables: tables.append(session_id, entries))
        )

    async def heads(self, session_id: str) -> Heads:
        """Where the session's numbering stands."""
        return await self._writer.read_now(lambda tables: tables.heads(session_id))

    async def history(self, session_id: str) -> list[Entry]:
        """Everything that is kept of a session, in order: no chunks, no states."""
        return await self.read(lambda tables: tables.history(session_id))

    async def unfinished(self, session_id: str) -> list[Entry]:
        """Chunks and states whose message, call or turn has not been stored: what a crash left of a running turn."""
        return await self.read(lambda tables: tables.unfinished(session_id))

    async def page(self, session_id: str, before_n: int | None = None, limit: int = 100) -> Page:
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

    async def hold(self, session_id: str, *, patience: float = 0.0) -> Hold:
        """Take the session for this process: only its holder may write to it. `SessionBusy` names which other process
        has it, after so many seconds of `patience`. Ends when all who took it release it, with `aclose`, or with the
        process."""
        until = time.monotonic() + patience
        while True:
            try:
                return await self._take(session_id)
            except SessionBusy:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(HELD_AGAIN_SECONDS)

    async def _take(self, session_id: str) -> Hold:
        if not self._writer.quick:
            taking = asyncio.ensure_future(asyncio.to_thread(self._holds.take, session_id))
            try:
                return await asyncio.shield(taking)
            except asyncio.CancelledError:
                taking.add_done_callback(_let_go)
                raise
        with self._writer.quick.measured():
            return self._holds.take(session_id)

    def holds(self, session_id: str) -> bool:
        """Whether this ledger holds the session."""
        return self._holds.has(session_id)

    async def check(self) -> None:
        """Look through the whole database. What is damaged is mended as far as it can be, and `notices` says so."""
        await self._writer.read(_check)

    async def aclose(self) -> None:
        """Write what is queued, release the holds, close the database."""
        await self._reader.aclose()
        await self._writer.aclose()
        self._holds.release_all()

    # For the catalog

    def write(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Do something in a transaction, after all that was given before."""
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


def _are_small(entries: Sequence[Entry]) -> bool:
    return len(entries) <= MOST_SMALL and all(is_small(entry.record) for entry in entries)


def _is_synced(record: Record) -> bool:
    if isinstance(record, ToolCallRecord):
        return record.call.category in CHANGING
    return record.type in SYNCED_TYPES


def _let_go(taken: asyncio.Future[Hold]) -> None:
    """Nobody wants it any more."""
    if not taken.cancelled() and taken.exception() is None:
        taken.result().release()


def _nothing(_: Tables) -> None: ...


def _check(tables: Tables) -> None:
    tables.check()
