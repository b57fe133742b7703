"""The journal of a live session: a record is numbered, written to the ledger, and only then shown to the client.

Hides: how records are joined, batched and ordered. Promises:
- `n` and `seq` grow by exactly one (law 1), in the order of `emit`;
- nothing is shown before the ledger has written it;
- chunks of one item that have not been numbered yet are joined while the client is slow, and `backpressure` stops the
  producer when too much waits, so that a client that does not read costs little memory (law 5);
- a frontend that fails never stops the turn;
- `emit` never waits. There are two waits: `wait_written` before a request is sent, and `wait_durable` before a turn
  ends and before a tool that changes something runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from pilotfish.conversation.records import SILENT_TYPES, ChunkRecord, Entry, Record
from pilotfish.engine.frontend import Frontend, SessionUpdate
from pilotfish.errors import MovedOn, StorageError

log = logging.getLogger(__name__)

MAX_WAITING_CHARS = 4_000_000
"""limit of text that waits to be written and shown; above it, `backpressure` waits"""


class RecordStore(Protocol):
    """The interface of the ledger that the journal uses."""

    def append(self, session_id: str, entries: Sequence[Entry]) -> asyncio.Future[None]:
        """The future is done when the entries are written: they survive the end of the process."""
        ...

    def sync(self, session_id: str) -> asyncio.Future[None]:
        """The future is done when everything written is durable: it survives a power cut."""
        ...


class _ChunkRun:
    """Adjacent chunks of one item that will become one record."""

    __slots__ = ("first", "texts")

    def __init__(self, first: ChunkRecord) -> None:
        self.first = first
        self.texts = [first.text]

    def accepts(self, chunk: ChunkRecord) -> bool:
        return self.first.item_id == chunk.item_id and self.first.channel == chunk.channel

    def record(self) -> ChunkRecord:
        return self.first if len(self.texts) == 1 else replace(self.first, text="".join(self.texts))


class Journal:
    def __init__(
        self,
        session_id: str,
        ledger: RecordStore,
        frontend: Frontend,
        *,
        n: int,
        seq: int,
        on_unsaved: Callable[[StorageError], None],
    ) -> None:
        self.paused = asyncio.Lock()
        """nothing is numbered, written or shown while this is held"""
        self._session_id = session_id
        self._ledger = ledger
        self._frontend = frontend
        self._n = n
        self._seq = seq
        self._on_unsaved = on_unsaved
        self._waiting: list[_ChunkRun | Record] = []
        self._waiting_chars = 0
        self._emitted = 0
        self._shown = 0
        """how many of the emitted records have been written and shown"""
        self._more = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        """woken after every write"""

    @property
    def n(self) -> int:
        return self._n

    @property
    def last_seq(self) -> int:
        return self._seq

    def emit(self, record: Record) -> None:
        """Queue a record. It is written and shown later, in this order."""
        if isinstance(record, ChunkRecord):
            if not record.text:
                return
            self._waiting_chars += len(record.text)
        self._emitted += 1
        last = self._waiting[-1] if self._waiting else None
        if isinstance(record, ChunkRecord) and isinstance(last, _ChunkRun) and last.accepts(record):
            last.texts.append(record.text)
            return
        self._waiting.append(_ChunkRun(record) if isinstance(record, ChunkRecord) else record)
        self._start()

    def show(self, entries: Sequence[Entry]) -> None:
        """Show what another process has written. The caller holds `paused`, so that no number is used meanwhile."""
        for entry in entries:
            self._n = entry.n
            if entry.seq is not None:
                self._seq = entry.seq
                self._notify(entry, entry.seq)

    async def wait_written(self) -> None:
        """Everything emitted before this call has been written, and shown to the client."""
        emitted = self._emitted
        while self._shown < emitted:
            await self._next_write()

    async def wait_durable(self) -> None:
        """Everything emitted before this call has been written, shown, and survives a power cut."""
        await self.wait_written()
        try:
            await self._ledger.sync(self._session_id)
        except Exception as error:
            self._report(error)

    async def backpressure(self) -> None:
        """Called by the producer of chunks. Lets the journal work, and waits while too much text waits for the disk or
        for a client that does not read."""
        await asyncio.sleep(0)
        while self._waiting_chars > MAX_WAITING_CHARS:
            if self._frontend.keeps_up:
                await self._next_write()
            else:
                await self._frontend.room()

    async def _next_write(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._start()
        await waiter

    def _start(self) -> None:
        self._more.set()
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._run(), name="journal")

    async def _run(self) -> None:
        try:
            while self._waiting:
                # Records that belong together (a call's end, its return, the next state) are emitted within two turns
                # of the loop, and then cost one commit.
                for _ in range(2):
                    await asyncio.sleep(0)
                await self._hold_back_text()
                async with self.paused:
                    batch, self._waiting = self._waiting, []
                    emitted, self._waiting_chars = self._emitted, 0
                    try:
                        await self._write_and_show(batch)
                    finally:
                        self._shown = emitted
                self._wake()
        except BaseException as error:  # waiters must see the failure
            self._wake(error)
            raise
        finally:
            self._pump = None

    async def _hold_back_text(self) -> None:
        """Let chunks join unnumbered while the client does not keep up and nothing waits for a write."""
        while (
            len(self._waiting) == 1
            and isinstance(self._waiting[0], _ChunkRun)
            and not self._waiters
            and not self._frontend.keeps_up
        ):
            self._more.clear()
            room = asyncio.ensure_future(self._frontend.room())
            more = asyncio.ensure_future(self._more.wait())
            try:
                await asyncio.wait((room, more), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for waiter in (room, more):
                    waiter.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await waiter

    async def _write_and_show(self, batch: Sequence[_ChunkRun | Record]) -> None:
        entries = self._numbered([item.record() if isinstance(item, _ChunkRun) else item for item in batch])
        try:
            entries = await self._write(entries)
        except Exception as error:
            self._report(error)
        for entry in entries:
            if entry.seq is not None:
                self._notify(entry, entry.seq)

    def _notify(self, entry: Entry, seq: int) -> None:
        try:
            self._frontend.notify(SessionUpdate(self._session_id, entry.record.turn_id, seq, entry.record))
        except Exception:
            log.exception("a frontend failed on a %s record", entry.record.type)

    async def _write(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Write the entries and return them as they are in the ledger. On a disk without file locks (some network
        disks) another process may have written to the session: then they get numbers after its records."""
        while True:
            try:
                await self._ledger.append(self._session_id, entries)
            except MovedOn as moved:
                if moved.n < entries[0].n:
                    raise  # the ledger is behind: own records are missing
                log.warning("another process has written to this session")
                self._n, self._seq = moved.n, moved.seq
                entries = self._numbered([entry.record for entry in entries])
            else:
                return entries

    def _numbered(self, records: Sequence[Record]) -> Sequence[Entry]:
        entries: list[Entry] = []
        for record in records:
            self._n += 1
            shown = record.type not in SILENT_TYPES
            self._seq += shown
            entries.append(Entry(self._n, self._seq if shown else None, record))
        return entries

    def _report(self, error: Exception) -> None:
        if not isinstance(error, StorageError):
            log.error("a record was not written", exc_info=error)
            error = StorageError("The session could not be saved.", remedy="See the log.")
        self._on_unsaved(error)

    def _wake(self, error: BaseException | None = None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            match error:
                case None:
                    waiter.set_result(None)
                case Exception():
                    waiter.set_exception(error)
                case _:
                    waiter.cancel()
