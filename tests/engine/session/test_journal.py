from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.engine import rig
from tests.support.frontends import SilentFrontend
from tests.support.provider import call, say
from tests.support.tries import tries

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.records import (
    ChunkRecord,
    Entry,
    NoticeRecord,
    Record,
    StateRecord,
    ToolCallRecord,
    UndoRecord,
)
from pilotfish.engine.frontend import SessionUpdate
from pilotfish.engine.session import journal as module
from pilotfish.engine.session.journal import Journal
from pilotfish.errors import MovedOn, StorageError
from pilotfish.workspace.editor import NoEditor


class SlowFace(SilentFrontend):
    """A client that keeps up only when it is let."""

    def __init__(self) -> None:
        super().__init__(NoEditor())
        self.open = asyncio.Event()

    @property
    def keeps_up(self) -> bool:
        return self.open.is_set()

    async def room(self) -> None:
        await self.open.wait()


class Disk:
    def __init__(self, error: StorageError | None = None) -> None:
        self.entries: list[Entry] = []
        self.error = error
        self.moved: MovedOn | None = None
        """raised once"""
        self.blocked: asyncio.Event = asyncio.Event()
        self.blocked.set()
        self.durable = 0
        """entries that survive a power cut"""

    def append(self, session_id: str, entries: Sequence[Entry]) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._append(entries))

    def sync(self, session_id: str) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._sync())

    async def _append(self, entries: Sequence[Entry]) -> None:
        await asyncio.sleep(0.001)
        await self.blocked.wait()
        error, self.moved = self.moved or self.error, None
        if error:
            raise error
        self.entries.extend(entries)

    async def _sync(self) -> None:
        await asyncio.sleep(0.001)
        if self.error:
            raise self.error
        self.durable = len(self.entries)


def chunk(item: str, text: str) -> ChunkRecord:
    return ChunkRecord(turn_id="t", item_id=item, channel="message", text=text)


def notice(message: str) -> NoticeRecord:
    return NoticeRecord(turn_id="t", level="info", message=message, timestamp=0)


def journal(disk: Disk, frontend: SilentFrontend, unsaved: list[StorageError] | None = None) -> Journal:
    return Journal("s", disk, frontend, n=0, seq=0, on_unsaved=(unsaved if unsaved is not None else []).append)


async def test_records_are_written_before_they_are_shown_and_numbered_without_a_gap() -> None:
    disk, frontend = Disk(), SilentFrontend(NoEditor())
    entries_at_update: list[int] = []
    frontend.on_update = lambda told: entries_at_update.append(len(disk.entries))
    book = journal(disk, frontend)
    for index in range(5):
        book.emit(notice(str(index)))
        await asyncio.sleep(0)
    await book.wait_written()
    assert [told.seq for told in frontend.updates] == [1, 2, 3, 4, 5]
    assert [entry.n for entry in disk.entries] == [1, 2, 3, 4, 5]
    assert all(written >= seq for written, seq in zip(entries_at_update, (1, 2, 3, 4, 5), strict=True))


async def test_silent_records_take_no_seq() -> None:
    disk, frontend = Disk(), SilentFrontend(NoEditor())
    book = journal(disk, frontend)
    book.emit(notice("a"))
    book.emit(UndoRecord(turn_id="t", direction="undo", uris=(), timestamp=0))
    book.emit(notice("b"))
    await book.wait_written()
    assert [(entry.n, entry.seq) for entry in disk.entries] == [(1, 1), (2, None), (3, 2)]
    assert [told.seq for told in frontend.updates] == [1, 2]


async def test_the_producer_does_not_wait_for_a_slow_client() -> None:
    frontend = SlowFace()
    book = journal(Disk(), frontend)
    book.emit(chunk("a", "one"))
    await book.backpressure()
    assert frontend.updates == []
    frontend.open.set()
    await book.wait_written()


async def test_the_producer_waits_for_a_client_with_far_too_much_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_CHARS", 10)
    frontend = SlowFace()
    book = journal(Disk(), frontend)
    book.emit(chunk("a", "0123456789"))
    await book.backpressure()
    book.emit(chunk("a", "!"))
    waiting = asyncio.ensure_future(book.backpressure())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    frontend.open.set()
    await waiting
    await book.wait_written()
    assert [told.record for told in frontend.updates] == [chunk("a", "0123456789!")]


async def test_the_producer_waits_for_a_disk_with_far_too_much_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_CHARS", 10)
    disk = Disk()
    disk.blocked.clear()
    book = journal(disk, SilentFrontend(NoEditor()))
    book.emit(notice("being written"))
    await asyncio.sleep(0.01)
    book.emit(chunk("a", "0123456789!"))
    waiting = asyncio.ensure_future(book.backpressure())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    disk.blocked.set()
    await waiting


async def test_a_written_record_is_shown_before_it_is_durable() -> None:
    disk, frontend = Disk(), SilentFrontend(NoEditor())
    book = journal(disk, frontend)
    book.emit(notice("one"))
    await book.wait_written()
    assert ([told.record for told in frontend.updates], disk.durable) == ([notice("one")], 0)
    book.emit(notice("two"))
    await book.wait_durable()
    assert ([told.record for told in frontend.updates], disk.durable) == ([notice("one"), notice("two")], 2)


async def test_a_wait_ends_though_more_is_emitted_all_the_time() -> None:
    book = journal(Disk(), SilentFrontend(NoEditor()))

    async def chatter() -> None:
        while True:
            book.emit(notice("more"))
            await asyncio.sleep(0)

    talking = asyncio.ensure_future(chatter())
    async with asyncio.timeout(10):
        await book.wait_written()
        book.emit(notice("mine"))
        await book.wait_written()
    talking.cancel()


async def test_text_that_is_waited_for_is_not_held_back() -> None:
    frontend = SlowFace()
    book = journal(Disk(), frontend)
    book.emit(chunk("a", "one"))
    await asyncio.sleep(0.01)
    assert frontend.updates == []
    async with asyncio.timeout(10):
        await book.wait_written()
    assert [told.record for told in frontend.updates] == [chunk("a", "one")]


async def test_while_the_client_is_slow_chunks_join_and_nothing_else_waits() -> None:
    disk, frontend = Disk(), SlowFace()
    book = journal(disk, frontend)
    for _ in range(1000):
        book.emit(chunk("m.0", "x"))
        await asyncio.sleep(0)
    assert frontend.updates == []
    book.emit(StateRecord(turn_id="t", state="response", iteration=1))
    await book.wait_written()
    assert [(told.seq, told.record) for told in frontend.updates] == [
        (1, chunk("m.0", "x" * 1000)),
        (2, StateRecord(turn_id="t", state="response", iteration=1)),
    ]


async def test_a_client_that_reads_again_gets_what_gathered() -> None:
    disk, frontend = Disk(), SlowFace()
    book = journal(disk, frontend)
    book.emit(chunk("m.0", "a"))
    await asyncio.sleep(0)
    book.emit(chunk("m.0", "b"))
    await asyncio.sleep(0.005)
    frontend.open.set()
    await book.wait_written()
    assert [told.record for told in frontend.updates] == [chunk("m.0", "ab")]


async def test_a_disk_failure_is_reported_and_updates_are_still_sent() -> None:
    frontend, unsaved = SilentFrontend(NoEditor()), list[StorageError]()
    error = StorageError("full", remedy="free some space")
    book = journal(Disk(error), frontend, unsaved)
    book.emit(notice("a"))
    await book.wait_written()
    assert (unsaved, [told.seq for told in frontend.updates]) == ([error], [1])


PIECES = st.lists(st.tuples(st.sampled_from(["a", "b", "!"]), st.text(min_size=1, max_size=3)), max_size=30)


@given(PIECES, st.lists(st.booleans(), min_size=30, max_size=30))
@settings(max_examples=tries(60), deadline=None)
def test_no_text_is_lost_or_reordered_however_it_is_joined(pieces: list[tuple[str, str]], pauses: list[bool]) -> None:
    async def play() -> list[SessionUpdate]:
        disk, frontend = Disk(), SilentFrontend(NoEditor())
        book = journal(disk, frontend)
        for (item, text), pause in zip(pieces, pauses, strict=False):
            record: Record = notice(text) if item == "!" else chunk(item, text)
            book.emit(record)
            if pause:
                await asyncio.sleep(0.002)
        await book.wait_written()
        return frontend.updates

    told = asyncio.run(play())
    assert [one.seq for one in told] == list(range(1, len(told) + 1))

    def flat(records: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        joined: list[tuple[str, str]] = []
        for item, text in records:
            if joined and item != "!" and joined[-1][0] == item:
                joined[-1] = (item, joined[-1][1] + text)
            else:
                joined.append((item, text))
        return joined

    seen = [
        (one.record.item_id, one.record.text) if isinstance(one.record, ChunkRecord) else ("!", one.record.message)
        for one in told
        if isinstance(one.record, ChunkRecord | NoticeRecord)
    ]
    assert flat(seen) == flat(pieces[: len(pauses)])


async def test_a_frontend_that_fails_does_not_stop_the_journal() -> None:
    disk, frontend = Disk(), SilentFrontend(NoEditor())

    def stumble(told: SessionUpdate) -> None:
        if told.seq == 1:
            raise AttributeError("a bug in a face")

    frontend.on_update = stumble
    book = journal(disk, frontend)
    book.emit(notice("a"))
    book.emit(notice("b"))
    await book.wait_written()
    assert [entry.seq for entry in disk.entries] == [1, 2]
    assert [told.seq for told in frontend.updates] == [1, 2]


async def test_what_another_process_wrote_meanwhile_costs_no_record() -> None:
    """No lock kept it out. Its records stand, and ours come behind them."""
    disk, frontend, unsaved = Disk(), SilentFrontend(NoEditor()), list[StorageError]()
    ours = journal(disk, frontend, unsaved)
    ours.emit(notice("first"))
    await ours.wait_written()
    disk.moved = MovedOn(7, 5)
    ours.emit(notice("second"))
    ours.emit(UndoRecord(turn_id="t", direction="undo", uris=(), timestamp=0))
    await ours.wait_written()
    assert [(entry.n, entry.seq) for entry in disk.entries] == [(1, 1), (8, 6), (9, None)]
    assert [told.seq for told in frontend.updates] == [1, 6]
    assert unsaved == []


async def test_a_wait_ends_though_nothing_can_be_written() -> None:
    unsaved: list[StorageError] = []
    book = journal(Disk(StorageError("full", remedy="make room")), SilentFrontend(NoEditor()), unsaved)
    book.emit(notice("a"))
    async with asyncio.timeout(10):
        await asyncio.gather(book.wait_written(), book.wait_written())
    assert len(unsaved) == 1


async def test_a_cancelled_wait_delays_nobody() -> None:
    frontend = SilentFrontend(NoEditor())
    book = journal(Disk(), frontend)
    book.emit(notice("a"))
    waiting = asyncio.ensure_future(book.wait_written())
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(10):
        await book.wait_written()
    assert len(frontend.updates) == 1


async def test_nothing_is_numbered_or_shown_while_the_journal_is_paused() -> None:
    disk, frontend = Disk(), SilentFrontend(NoEditor())
    book = journal(disk, frontend)
    async with book.paused:
        book.emit(chunk("a", "one"))
        await asyncio.sleep(0.02)
        assert (frontend.updates, disk.entries, book.n) == ([], [], 0)
    await book.wait_written()
    assert len(frontend.updates) == 1


async def test_an_unexpected_error_reaches_the_waiters_and_the_next_record_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk()
    book = journal(disk, SilentFrontend(NoEditor()))

    def breaks(_: object) -> Sequence[Entry]:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(book, "_numbered", breaks)
        book.emit(notice("a"))
        pump = book._pump
        assert pump is not None
        waits = [asyncio.ensure_future(wait()) for wait in (book.wait_written, book.wait_durable)]
        await asyncio.wait((*waits, pump), timeout=10)
        assert [type(task.exception()) for task in (*waits, pump)] == [MemoryError] * 3
    book.emit(notice("b"))
    async with asyncio.timeout(10):
        await book.wait_durable()
    assert [entry.record for entry in disk.entries] == [notice("b")]


async def test_a_call_that_changes_something_is_durable_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = (call("read_file", path="a.txt"), call("bash", command="touch made"), say("done"))
    async with rig(tmp_path, *replies, files={"a.txt": "a"}) as turn:
        ledger, seen = turn.engine.ledger, list[tuple[list[str], bool]]()
        sync = ledger.sync

        async def watched(session_id: str) -> None:
            history = [entry.record for entry in await ledger.history(session_id)]
            running = [
                record.call.name
                for record in history
                if isinstance(record, ToolCallRecord) and record.call.status is CallStatus.IN_PROGRESS
            ]
            seen.append(([*running, history[-1].type], (turn.root / "made").exists()))
            await sync(session_id)

        monkeypatch.setattr(ledger, "sync", watched)
        await turn.prompt("go")
    assert seen == [(["read_file", "bash", "tool_call"], False), (["read_file", "bash", "turn_end"], True)]
