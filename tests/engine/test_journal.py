from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.faces import SilentFace

from pilotfish.core.records import ChunkRecord, Entry, NoticeRecord, Record, StateRecord, UndoRecord
from pilotfish.engine import journal as module
from pilotfish.engine.journal import Journal
from pilotfish.engine.ports import Told
from pilotfish.errors import MovedOn, StorageError
from pilotfish.workspace.port import NoEditor


class SlowFace(SilentFace):
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
        self.told_before_written: list[int] = []
        self.error = error
        self.moved: MovedOn | None = None
        """is said once"""
        self.at_once = False
        self.syncing: asyncio.Future[None] | None = None
        """what is written then is synced when this is done"""

    def append(
        self, session_id: str, entries: Sequence[Entry], written: Callable[[], None] = lambda: None
    ) -> asyncio.Future[None]:
        if self.syncing is not None:
            self.entries.extend(entries)
            written()
            return self.syncing
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def write() -> None:
            error, self.moved = self.moved or self.error, None
            if error:
                future.set_exception(error)
                return
            self.entries.extend(entries)
            future.set_result(None)

        asyncio.get_running_loop().call_later(0.001, write)
        return future

    def append_now(self, session_id: str, entries: Sequence[Entry]) -> bool:
        if self.at_once:
            self.entries.extend(entries)
        return self.at_once


def chunk(item: str, text: str) -> ChunkRecord:
    return ChunkRecord(turn_id="t", item_id=item, channel="message", text=text)


def notice(message: str) -> NoticeRecord:
    return NoticeRecord(turn_id="t", level="info", message=message, timestamp=0)


def journal(disk: Disk, face: SilentFace, unsaved: list[StorageError] | None = None) -> Journal:
    return Journal("s", disk, face, n=0, seq=0, on_unsaved=(unsaved if unsaved is not None else []).append)


async def test_records_are_written_before_they_are_told_and_counted_without_a_gap() -> None:
    disk, face = Disk(), SilentFace(NoEditor())
    told_with: list[int] = []
    face.on_tell = lambda told: told_with.append(len(disk.entries))
    book = journal(disk, face)
    for index in range(5):
        book.emit(notice(str(index)))
        await asyncio.sleep(0)
    await book.settled()
    assert [told.seq for told in face.told] == [1, 2, 3, 4, 5]
    assert [entry.n for entry in disk.entries] == [1, 2, 3, 4, 5]
    assert all(written >= seq for written, seq in zip(told_with, (1, 2, 3, 4, 5), strict=True))


async def test_silent_records_take_no_seq() -> None:
    disk, face = Disk(), SilentFace(NoEditor())
    book = journal(disk, face)
    book.emit(notice("a"))
    book.emit(UndoRecord(turn_id="t", direction="undo", uris=(), timestamp=0))
    book.emit(notice("b"))
    await book.settled()
    assert [(entry.n, entry.seq) for entry in disk.entries] == [(1, 1), (2, None), (3, 2)]
    assert [told.seq for told in face.told] == [1, 2]


async def test_what_was_emitted_can_be_waited_for_until_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_SECONDS", 60.0)
    face = SilentFace(NoEditor())
    log = journal(Disk(), face)
    await log.shown()
    log.emit(chunk("a", "one"))
    await log.shown()
    assert [told.record for told in face.told] == [chunk("a", "one")]


async def test_nobody_waits_for_a_client_that_does_not_keep_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_SECONDS", 3600.0)
    face = SlowFace()
    log = journal(Disk(), face)
    log.emit(chunk("a", "one"))
    await log.shown()
    assert face.told == []
    face.open.set()
    await log.settled()


async def test_an_answer_waits_for_a_client_that_has_far_too_much_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNSHOWN", 10)
    face = SlowFace()
    log = journal(Disk(), face)
    log.emit(chunk("a", "0123456789"))
    await log.shown()
    log.emit(chunk("a", "!"))
    waiting = asyncio.ensure_future(log.shown())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    face.open.set()
    await waiting
    await log.settled()
    log.emit(chunk("a", "more"))
    await log.shown()
    assert [told.record for told in face.told] == [chunk("a", "0123456789!"), chunk("a", "more")]


async def test_nobody_waits_long_for_a_disk_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_SECONDS", 0.01)
    hangs: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Hanging(Disk):
        def append(
            self, session_id: str, entries: Sequence[Entry], written: Callable[[], None] = lambda: None
        ) -> asyncio.Future[None]:
            return hangs

    face = SilentFace(NoEditor())
    log = journal(Hanging(), face)
    log.emit(chunk("a", "one"))
    await log.shown()
    assert face.told == []
    hangs.set_result(None)
    await log.settled()
    assert [told.record for told in face.told] == [chunk("a", "one")]


async def test_what_is_written_is_saved_and_told_when_it_is_synced() -> None:
    disk, face, unsaved = Disk(), SilentFace(NoEditor()), list[StorageError]()
    disk.syncing = asyncio.get_running_loop().create_future()
    log = journal(disk, face, unsaved)
    log.emit(notice("one"))
    await asyncio.wait_for(log.saved(), 10)
    assert [entry.record for entry in disk.entries] == [notice("one")]
    settling = asyncio.ensure_future(log.settled())
    await asyncio.sleep(0.01)
    assert (face.told, settling.done()) == ([], False)
    log.emit(notice("two"))
    saving = asyncio.ensure_future(log.saved())
    await asyncio.sleep(0.01)
    assert not saving.done()
    error = StorageError("broken", remedy="mend it")
    disk.syncing.set_exception(error)
    disk.syncing = None
    await saving
    await settling
    assert unsaved == [error]
    assert [told.record for told in face.told] == [notice("one"), notice("two")]


async def test_while_the_client_is_slow_chunks_join_and_nothing_else_waits() -> None:
    disk, face = Disk(), SlowFace()
    book = journal(disk, face)
    for _ in range(1000):
        book.emit(chunk("m.0", "x"))
        await asyncio.sleep(0)
    assert face.told == []
    book.emit(StateRecord(turn_id="t", state="response", iteration=1))
    await book.settled()
    assert [(told.seq, told.record) for told in face.told] == [
        (1, chunk("m.0", "x" * 1000)),
        (2, StateRecord(turn_id="t", state="response", iteration=1)),
    ]


async def test_a_client_that_reads_again_gets_what_gathered() -> None:
    disk, face = Disk(), SlowFace()
    book = journal(disk, face)
    book.emit(chunk("m.0", "a"))
    await asyncio.sleep(0)
    book.emit(chunk("m.0", "b"))
    await asyncio.sleep(0.005)
    face.open.set()
    await book.settled()
    assert [told.record for told in face.told] == [chunk("m.0", "ab")]


async def test_a_disk_that_fails_is_reported_and_the_client_still_told() -> None:
    face, unsaved = SilentFace(NoEditor()), list[StorageError]()
    error = StorageError("full", remedy="free some space")
    book = journal(Disk(error), face, unsaved)
    book.emit(notice("a"))
    await book.settled()
    assert (unsaved, [told.seq for told in face.told]) == ([error], [1])


PIECES = st.lists(st.tuples(st.sampled_from(["a", "b", "!"]), st.text(min_size=1, max_size=3)), max_size=30)


@given(PIECES, st.lists(st.booleans(), min_size=30, max_size=30))
@settings(max_examples=100, deadline=None)
def test_no_text_is_lost_or_reordered_however_it_is_joined(pieces: list[tuple[str, str]], pauses: list[bool]) -> None:
    async def play() -> list[Told]:
        disk, face = Disk(), SilentFace(NoEditor())
        book = journal(disk, face)
        for (item, text), pause in zip(pieces, pauses, strict=False):
            record: Record = notice(text) if item == "!" else chunk(item, text)
            book.emit(record)
            if pause:
                await asyncio.sleep(0.002)
        await book.settled()
        return face.told

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


async def test_a_face_that_fails_does_not_stop_the_journal() -> None:
    disk, face = Disk(), SilentFace(NoEditor())

    def stumble(told: Told) -> None:
        if told.seq == 1:
            raise AttributeError("a bug in a face")

    face.on_tell = stumble
    book = journal(disk, face)
    book.emit(notice("a"))
    book.emit(notice("b"))
    await book.settled()
    assert [entry.seq for entry in disk.entries] == [1, 2]
    assert [told.seq for told in face.told] == [1, 2]


async def test_what_another_process_wrote_meanwhile_costs_no_record() -> None:
    """No lock kept it out. Its records stand, and ours come behind them."""
    disk, face, unsaved = Disk(), SilentFace(NoEditor()), list[StorageError]()
    ours = journal(disk, face, unsaved)
    ours.emit(notice("first"))
    await ours.settled()
    disk.moved = MovedOn(7, 5)
    ours.emit(notice("second"))
    ours.emit(UndoRecord(turn_id="t", direction="undo", uris=(), timestamp=0))
    await ours.settled()
    assert [(entry.n, entry.seq) for entry in disk.entries] == [(1, 1), (8, 6), (9, None)]
    assert [told.seq for told in face.told] == [1, 6]
    assert unsaved == []


async def test_what_is_complete_is_on_its_way_at_once_and_saved_before_it_is_told() -> None:
    disk, face = Disk(), SilentFace(NoEditor())
    book = journal(disk, face)
    await book.saved()  # nothing to wait for
    book.emit(notice("a"))
    book.emit(notice("b"))
    await book.begun()
    assert book.n == 2
    book.emit(StateRecord(turn_id="t", state="assistant", iteration=1))
    await book.saved()
    assert (len(disk.entries), len(face.told)) == (2, 0)
    await book.settled()
    assert [told.seq for told in face.told] == [1, 2, 3]


async def test_whoever_waits_goes_on_though_nothing_can_be_written() -> None:
    unsaved: list[StorageError] = []
    book = journal(Disk(StorageError("full", remedy="make room")), SilentFace(NoEditor()), unsaved)
    book.emit(notice("a"))
    async with asyncio.timeout(10):
        await asyncio.gather(book.saved(), book.saved(), book.settled())
    assert len(unsaved) == 1


async def test_one_who_waits_no_longer_holds_up_nobody() -> None:
    face = SilentFace(NoEditor())
    book = journal(Disk(), face)
    book.emit(notice("a"))
    waiting = asyncio.ensure_future(book.settled())
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(10):
        await book.settled()
    assert len(face.told) == 1


async def test_text_that_can_be_written_at_once_is_shown_before_anybody_else_has_a_turn() -> None:
    disk, face = Disk(), SilentFace(NoEditor())
    book = journal(disk, face)
    disk.at_once = True
    book.emit(chunk("a", "one"))
    book.emit(chunk("a", " two"))
    shown = book.shown()
    with pytest.raises(StopIteration):
        shown.send(None)
    assert [told.record for told in face.told] == [chunk("a", "one two")]
    book.emit(chunk("a", " three"))
    disk.at_once = False
    await book.shown()
    await book.settled()
    assert [(told.seq, told.record) for told in face.told] == [(1, chunk("a", "one two")), (2, chunk("a", " three"))]
    assert [entry.n for entry in disk.entries] == [1, 2]


async def test_nothing_is_shown_while_somebody_wants_it_still() -> None:
    disk, face = Disk(), SilentFace(NoEditor())
    book = journal(disk, face)
    disk.at_once = True
    async with book.still:
        book.emit(chunk("a", "one"))
        showing = asyncio.ensure_future(book.shown())
        await asyncio.sleep(0.02)
        assert (face.told, disk.entries, book.n) == ([], [], 0)
    await showing
    await book.settled()
    assert len(face.told) == 1


async def test_whoever_waits_for_what_breaks_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    book = journal(Disk(), SilentFace(NoEditor()))

    def breaks(_: object) -> Sequence[Entry]:
        raise MemoryError

    monkeypatch.setattr(book, "_numbered", breaks)
    book.emit(notice("a"))
    pump = book._pump
    assert pump is not None
    saved, settled = asyncio.ensure_future(book.saved()), asyncio.ensure_future(book.settled())
    await asyncio.wait((saved, settled, pump), timeout=10)
    assert [type(task.exception()) for task in (saved, settled, pump)] == [MemoryError] * 3
