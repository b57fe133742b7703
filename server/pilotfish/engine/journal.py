"""The journal of a live session: a record is numbered, written, and only then told.

Hides: how records are joined, batched and ordered. Promises:
- `n` and `seq` grow by exactly one (law 1), in the order of `emit`;
- nothing is told before the ledger has it;
- chunks of one item that have not been numbered yet are joined, and an answer waits while there are too many, so a
  client that does not read costs little memory (law 5);
- a face that fails never stops the turn;
- `emit` never waits. `saved` returns when everything emitted so far has been written, `settled` when it has been told,
  and what has to survive a power cut does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from pilotfish.core.records import SILENT_TYPES, ChunkRecord, Entry, Record, StateRecord
from pilotfish.engine.ports import Face, Told
from pilotfish.errors import MovedOn, StorageError

log = logging.getLogger(__name__)

SHOWN_SECONDS = 0.05
"""how long the reading of an answer waits for a piece of it to be told"""


MOST_UNSHOWN = 4_000_000
"""characters that may wait for a client that does not read; then the answer is not read on either"""


class Append(Protocol):
    """The ledger's door for records: done when they are on disk."""

    def append(
        self, session_id: str, entries: Sequence[Entry], written: Callable[[], None] = ...
    ) -> asyncio.Future[None]:
        """`written` may be called before: they survive whatever happens to the process."""
        ...

    def append_now(self, session_id: str, entries: Sequence[Entry]) -> bool:
        """False: nothing was written, and `append` is needed."""
        ...


class _Run:
    """Adjacent chunks of one item on their way to be one record."""

    __slots__ = ("first", "texts")

    def __init__(self, first: ChunkRecord) -> None:
        self.first = first
        self.texts = [first.text]

    def takes(self, chunk: ChunkRecord) -> bool:
        return self.first.item_id == chunk.item_id and self.first.channel == chunk.channel

    def record(self) -> ChunkRecord:
        return self.first if len(self.texts) == 1 else replace(self.first, text="".join(self.texts))


class Journal:
    def __init__(
        self,
        session_id: str,
        ledger: Append,
        face: Face,
        *,
        n: int,
        seq: int,
        on_unsaved: Callable[[StorageError], None],
    ) -> None:
        self._session_id = session_id
        self._ledger = ledger
        self._face = face
        self._n = n
        self._seq = seq
        self._on_unsaved = on_unsaved
        self._waiting: list[_Run | Record] = []
        self._unshown = 0
        """characters among them"""
        self.still = asyncio.Lock()
        """nothing is numbered, written or told while somebody has it"""
        self._more = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._writing = False
        self._savers: list[asyncio.Future[None]] = []
        """who waits for the next write, or the end of the pump"""
        self._settlers: list[asyncio.Future[None]] = []
        """who waits for the end of the pump"""
        self._complete = False
        """nothing is to come that belongs to what waits"""

    @property
    def n(self) -> int:
        return self._n

    @property
    def last_seq(self) -> int:
        return self._seq

    def emit(self, record: Record) -> None:
        """Take a record up. It is told later, in this order."""
        if isinstance(record, ChunkRecord):
            if not record.text:
                return
            self._unshown += len(record.text)
            tail = self._waiting[-1] if self._waiting else None
            if isinstance(tail, _Run) and tail.takes(record):
                tail.texts.append(record.text)
                return
            self._waiting.append(_Run(record))
        else:
            self._waiting.append(record)
        self._more.set()
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._run(), name="journal")

    async def begun(self) -> None:
        """What was emitted is complete, and on its way to the disk: whoever has something long to do begins it after
        this, so that both are done at once."""
        self._complete = True
        await asyncio.sleep(0)

    async def saved(self) -> None:
        """Everything emitted before this call has been written, but for states: they say what happens now, and nobody
        misses them after a crash."""
        while self._pump and (self._writing or not all(isinstance(item, StateRecord) for item in self._waiting)):
            await self._turn_among(self._savers)

    async def settled(self) -> None:
        """Everything emitted before this call has been written and told."""
        while self._pump is not None:
            await self._turn_among(self._settlers)

    async def _turn_among(self, waiters: list[asyncio.Future[None]]) -> None:
        """Wait for what they wait for. What was emitted by now is complete."""
        self._complete = True
        waiter = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        await waiter

    async def shown(self) -> None:
        """What was emitted has been told, or the disk is slow: nobody waits for long. Where the client does not keep up
        this waits only for one that has far too much before it.

        While somebody waits here the loop is free, so that this is the quickest way to the client.
        """
        if self._pump is None or self._is_shown_now():
            return
        if self._face.keeps_up:
            await asyncio.wait((self._pump,), timeout=SHOWN_SECONDS)
        elif self._unshown > MOST_UNSHOWN:
            await self._face.room()

    def _is_shown_now(self) -> bool:
        """Write and tell a piece of text that waits alone, if nobody has to be waited for: not even the loop's next
        turn. Whether that was possible."""
        match self._waiting:
            case [_Run() as run] if self._face.keeps_up and not self.still.locked():
                n, seq = self._n, self._seq
                entries = self._numbered([run.record()])
                if self._ledger.append_now(self._session_id, entries):
                    self._waiting.clear()
                    self._unshown = 0
                    self._tell(entries)
                    return True
                self._n, self._seq = n, seq
            case _:
                pass
        return False

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                await self._hold_back()
                async with self.still:
                    batch, self._waiting = self._waiting, []
                    self._unshown, self._complete = 0, False
                    if batch:  # or it was shown while this waited
                        records = [item.record() if isinstance(item, _Run) else item for item in batch]
                        await self._write_and_tell(records)
        except BaseException as error:  # who waits must not take it for done
            _wake(self._savers, error)
            _wake(self._settlers, error)
            raise
        finally:
            self._pump = None
            _wake(self._savers)
            _wake(self._settlers)

    async def _gather(self) -> None:
        """What belongs together comes within two turns of the loop (a call's end, what the model is told of it, the
        next state), and costs one commit then. Text does not wait, nor what is complete."""
        for _ in range(2):
            if not isinstance(self._waiting[0], _Run) and not self._complete:
                await asyncio.sleep(0)

    async def _hold_back(self) -> None:
        """While the client does not keep up, text gathers here unnumbered; anything else goes on at once."""
        while len(self._waiting) == 1 and isinstance(self._waiting[0], _Run) and not self._face.keeps_up:
            self._more.clear()
            room = asyncio.ensure_future(self._face.room())
            more = asyncio.ensure_future(self._more.wait())
            try:
                await asyncio.wait((room, more), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for waiter in (room, more):
                    waiter.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await waiter

    async def _write_and_tell(self, records: Sequence[Record]) -> None:
        entries = self._numbered(records)
        self._writing = True
        try:
            entries = await self._written(entries)
        except StorageError as error:
            self._on_unsaved(error)
        except Exception:
            log.exception("a record was not written")
            self._on_unsaved(StorageError("The session could not be saved.", remedy="Look into the log."))
        finally:
            self._writing = False
        if _wake(self._savers):  # who waited goes on first: to send a request takes less time than to tell
            await asyncio.sleep(0)
        self._tell(entries)

    def _tell(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.seq is not None:
                try:
                    self._face.tell(Told(self._session_id, entry.record.turn_id, entry.seq, entry.record))
                except Exception:
                    log.exception("a face could not be told of a %s record", entry.record.type)

    async def _written(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries as they are in the ledger. Where a lock on a file keeps nobody out (some network disks know
        none) another process may have written: then they come behind what it wrote, rather than nowhere."""
        while True:
            try:
                await self._ledger.append(self._session_id, entries, self._is_written)
            except MovedOn as moved:
                if moved.n < entries[0].n:
                    raise  # not ahead of us: something of ours is missing
                log.warning("another process has written to this session")
                self._n, self._seq = moved.n, moved.seq
                entries = self._numbered([entry.record for entry in entries])
            else:
                return entries

    def _is_written(self) -> None:
        """What is being written has only to be synced, which a request need not wait for."""
        self._writing = False
        _wake(self._savers)

    def _numbered(self, records: Sequence[Record]) -> Sequence[Entry]:
        entries: list[Entry] = []
        for record in records:
            self._n += 1
            told = record.type not in SILENT_TYPES
            self._seq += told
            entries.append(Entry(self._n, self._seq if told else None, record))
        return entries


def _wake(waiters: list[asyncio.Future[None]], error: BaseException | None = None) -> bool:
    """Whether anybody waited. With an error it is theirs too."""
    woken = tuple(waiters)
    waiters.clear()
    for waiter in woken:
        if waiter.done():
            continue
        match error:
            case None:
                waiter.set_result(None)
            case Exception():
                waiter.set_exception(error)
            case _:
                waiter.cancel()
    return bool(woken)
