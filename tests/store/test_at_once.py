"""Small records are written where they are said: in their order, without waiting for anybody."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.makers import Pen, call, chunk, end, opened, said, session, start

from pilotfish.core.messages import CallResult
from pilotfish.core.records import ChunkRecord, Entry, MessageRecord, Record, ToolCallRecord
from pilotfish.errors import SessionBusy, StorageError
from pilotfish.store import opening, quick, tidying, writer
from pilotfish.store.bodies import MOST_AT_ONCE, encode, is_small
from pilotfish.store.jobs import Job, commit
from pilotfish.store.lane import Lane
from pilotfish.store.ledger import Hold, Ledger


async def test_a_small_record_is_written_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start()))
        assert ledger.append("s", pen(chunk("x"), call())).done()
        with sqlite3.connect(tmp_path / "sessions.db") as other:
            assert other.execute("SELECT count(*) FROM chunks").fetchall() == [(1,)]
        assert ledger.append("s", pen(said("words that are searched for"))).done()
        assert not ledger.append("s", pen(said("more words " * 1000))).done()
        assert not ledger.append("s", pen(chunk("behind it"))).done()


async def test_what_a_person_said_is_written_at_once_and_acknowledged_when_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen, goes_on, synced, told = Pen(), threading.Event(), list[int](), list[str]()
        fsync = os.fsync

        def slow(descriptor: int) -> None:
            goes_on.wait(10)
            synced.append(os.fstat(descriptor).st_ino)
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", slow)
        append = ledger.append("s", pen(start()), lambda: told.append("written"))
        assert told == ["written"]
        with sqlite3.connect(tmp_path / "sessions.db") as other:
            assert other.execute("SELECT type FROM records").fetchall() == [("turn_start",)]
        await asyncio.sleep(0.05)
        assert not append.done()
        goes_on.set()
        await append
        assert synced[-1] == (tmp_path / "sessions.db-wal").stat().st_ino
        await ledger.append("s", pen(said("words " * 1000)), lambda: told.append("long"))  # the thread's, as one step
        assert told == ["written"]
        assert await _syncs(ledger, pen(chunk("x")), synced) == 0
        assert await _syncs(ledger, pen(start()), synced) == 1


async def _syncs(ledger: Ledger, entries: Sequence[Entry], synced: list[int]) -> int:
    before = len(synced)
    await ledger.append("s", entries)
    return len(synced) - before


def _fails(_: int) -> None:
    raise OSError(errno.EIO, "broken")


async def test_a_log_that_cannot_be_synced_is_brought_into_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        monkeypatch.setattr(os, "fsync", _fails)
        await ledger.append("s", pen(start()))
        assert ledger.unsaved is None
        assert (tmp_path / "sessions.db-wal").stat().st_size == 0
        monkeypatch.undo()
        await ledger.append("s", pen(start()))


async def test_what_cannot_be_synced_at_all_is_said_and_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        monkeypatch.setattr(os, "fsync", _fails)
        reading = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM records").fetchall()  # so that the log cannot be emptied
        first, then = pen(start()), pen(start())
        with pytest.raises(StorageError):
            await ledger.append("s", first)
        assert ledger.unsaved is not None
        with contextlib.suppress(StorageError):
            await ledger.append("s", then)
        await asyncio.sleep(0.1)  # it is tried again meanwhile
        assert ledger.unsaved is not None
        reading.close()
        monkeypatch.undo()
        await _saved(ledger)
        assert await ledger.history("s") == [*first, *then]


async def test_a_log_that_could_not_be_synced_is_saved_when_it_is_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        monkeypatch.setattr(os, "fsync", _fails)
        reading = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM records").fetchall()  # so that the log cannot be emptied
        with pytest.raises(StorageError):
            await ledger.append("s", Pen()(start()))
        await asyncio.sleep(0.1)  # nothing is in memory that could be written
        assert ledger.unsaved is not None
        reading.close()
        await _saved(ledger)
        assert (tmp_path / "sessions.db-wal").stat().st_size == 0


async def _saved(ledger: Ledger) -> None:
    async with asyncio.timeout(10):
        while ledger.unsaved is not None:
            await asyncio.sleep(0.01)


async def test_a_database_behind_a_link_is_synced_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    (tmp_path / "real").mkdir()
    async with opened(tmp_path / "real"):
        pass
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "sessions.db").symlink_to(tmp_path / "real" / "sessions.db")
    async with opened(tmp_path / "link") as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start()))
        assert ledger.unsaved is None


async def test_without_a_log_what_was_said_is_synced_with_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)

    def none(_: sqlite3.Connection) -> bool:
        return False

    monkeypatch.setattr(opening, "_use_write_ahead_log", none)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        append = ledger.append("s", Pen()(start()))
        assert not append.done()
        await append
        [(level,)] = await ledger._writer.read(lambda tables: tables.db.execute("PRAGMA synchronous").fetchall())
        assert level == 2


async def test_what_short_lived_programs_left_to_merge_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    pen = Pen()
    for run in range(8):
        async with opened(tmp_path) as (ledger, catalog):
            if run == 0:
                await catalog.create(session())
            async with asyncio.timeout(10):
                while not ledger._writer._lane._asleep:
                    await asyncio.sleep(0.01)
            for number in range(tidying.SCATTERED // 2):
                await ledger.append("s", pen(said(f"word{number}", message_id=f"m{run}.{number}")))
            await _merged(tmp_path, 2 * tidying.SCATTERED)


async def test_the_pieces_of_the_search_index_are_merged_behind_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        disk = ledger._writer._disk
        assert disk is not None
        disk.index.left = 0
        with monkeypatch.context() as patch:
            patch.setattr(writer, "PAUSE_SECONDS", 60.0)
            for number in range(3 * tidying.SCATTERED):
                await ledger.append("s", pen(said(f"word{number}", message_id=f"m{number}")))
            assert _pieces(tmp_path) > tidying.SCATTERED
        await ledger.append("s", pen(start()))
        await _merged(tmp_path, tidying.SCATTERED // 2)
        assert [row.id for row in (await catalog.list(query="word7")).sessions] == ["s"]


async def _merged(directory: Path, most: int) -> None:
    async with asyncio.timeout(10):
        while _pieces(directory) >= most:
            await asyncio.sleep(0.01)


def _pieces(directory: Path) -> int:
    """Segments of the index of texts: each has rows of its own in FTS5's table of pages."""
    with sqlite3.connect(directory / "sessions.db") as other:
        return len(other.execute("SELECT DISTINCT segid FROM texts_idx").fetchall())


_texts = st.integers(0, 12_000).map(lambda length: "x" * length)
_values = st.recursive(
    _texts | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(_texts, inner)
)
_calls = st.builds(
    replace,
    st.just(call().call),
    args=st.dictionaries(st.sampled_from(["path", "text"]), _values),
    error=st.none() | _texts,
    diff=st.none() | _texts,
    raw_args=st.none() | _texts,
    result=st.none() | st.builds(CallResult, text=_texts),
)
_records: st.SearchStrategy[Any] = (
    st.builds(ToolCallRecord, turn_id=st.just("t"), call=_calls, timestamp=st.just(1.0))
    | st.builds(ChunkRecord, turn_id=st.just("t"), item_id=st.just("m"), channel=st.just("message"), text=_texts)
    | st.builds(
        replace, st.just(said("")), content=_texts, message=st.dictionaries(st.sampled_from(["parts"]), _values)
    )
)


@given(_records)
@settings(max_examples=300)
def test_what_is_small_is_one_short_row(record: Record):
    if is_small(record):
        assert encode(record).taken_out == {}
        assert not isinstance(record, MessageRecord) or len(record.content) < MOST_AT_ONCE


@pytest.mark.parametrize(
    ("record", "small"),
    [
        (chunk("x"), True),
        (chunk("x" * 9000), False),
        (call(), True),
        (said(""), True),
        (said("words"), True),
        (said("words " * 400), False),
        (start(), True),
        (replace(start(), prompt=({"type": "text", "text": "x" * 3000},)), False),
        (end(), True),
    ],
)
def test_what_is_small(record: Record, small: bool):
    assert is_small(record) is small


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["small", "large", "synced", "pause"]), max_size=40))
async def test_small_and_large_records_keep_their_order(tmp_path_factory: pytest.TempPathFactory, kinds: list[str]):
    async with opened(tmp_path_factory.mktemp("store")) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        given_: list[Any] = []
        waiting: list[asyncio.Future[None]] = []
        for number, kind in enumerate(kinds):
            if kind == "pause":
                await asyncio.gather(*waiting)
                continue
            record = {"small": call(), "large": said("x" * 9000, message_id=f"m{number}"), "synced": start()}[kind]
            entries = pen(record)
            given_ += entries
            waiting.append(ledger.append("s", entries))
        await asyncio.gather(*waiting)
        assert await ledger.history("s") == given_


async def test_another_process_that_writes_is_waited_for_on_the_thread(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start()))
        other = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        append = ledger.append("s", pen(chunk("x")))
        assert time.monotonic() - began < writer.BUSY_SECONDS / 2
        await asyncio.sleep(0.05)
        assert not append.done()
        other.execute("ROLLBACK")
        other.close()
        await append
        assert [entry.record for entry in await ledger.unfinished("s")] == [chunk("x")]
        assert ledger.unsaved is None


async def test_a_disk_that_was_slow_is_left_to_the_thread_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start()))

        def slow(tables: Any, jobs: Sequence[Job]) -> None:
            time.sleep(quick.CHANCE_SECONDS * 2)
            commit(tables, jobs)

        monkeypatch.setattr(writer, "commit", slow)
        ledger._writer.quick = quick.Quick()
        assert ledger.append("s", pen(chunk("slow"))).done()
        monkeypatch.setattr(writer, "commit", commit)
        for text in ("then", "and then"):
            append = ledger.append("s", pen(chunk(text)))
            assert not append.done()
            await append
        ledger._writer.quick = quick.Quick()
        assert ledger.append("s", pen(chunk("later"))).done()


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2))))
def test_slow_things_cost_the_loop_a_hundredth_of_its_time_and_a_moment(things: list[tuple[float, float]]):
    now, spent, longest, watched = 1000.0, 0.0, 0.0, quick.Quick()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick, "time", SimpleNamespace(monotonic=lambda: now))
        for gap, takes in things:
            now += gap
            if watched:
                with watched.measured():
                    now += takes
                if takes > quick.QUICK_SECONDS:
                    spent, longest = spent + takes, max(longest, takes)
            assert spent <= quick.CHANCE_SECONDS + longest + (now - 1000) / quick.SLOW_SHARE + 1e-6


async def test_where_a_session_stands_is_read_at_once_and_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start()))
        await ledger.heads("s")
        threads = _Watched(monkeypatch)
        assert (await ledger.heads("s")).n == 1
        (await ledger.hold("s")).release()
        assert threads.used == []
        ledger._writer.quick._paid_until = time.monotonic() + 60
        assert (await ledger.heads("s")).n == 1
        (await ledger.hold("s")).release()
        assert threads.used == ["lane", "to_thread"]


class _Watched:
    """Whose thread is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used: list[str] = []
        put, to_thread = Lane.put, asyncio.to_thread

        def watched_put(lane: Lane, job: Job) -> asyncio.Future[Any]:
            self.used.append("lane")
            return put(lane, job)

        async def watched_to_thread(work: Any, *args: Any) -> Any:
            self.used.append("to_thread")
            return await to_thread(work, *args)

        monkeypatch.setattr(Lane, "put", watched_put)
        monkeypatch.setattr(asyncio, "to_thread", watched_to_thread)


async def test_small_things_in_a_row_give_way_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen, ticks = Pen(), itertools.count()
        await ledger.append("s", pen(start()))
        takes = quick.QUICK_SECONDS * 0.3  # each of them
        monkeypatch.setattr(quick, "time", SimpleNamespace(monotonic=lambda: next(ticks) * takes))
        ledger._writer.quick = quick.Quick()
        at_once: list[bool] = []
        for _ in range(50):
            append = ledger.append("s", pen(chunk("some words")))
            at_once.append(append.done())
            await append
        assert at_once == [True, True, True, True, False] * 10


async def test_the_log_does_not_grow_without_end(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start()))
        for _ in range(4000):
            await ledger.append("s", pen(chunk("some words of an answer " * 20)))
        pages = (tmp_path / "sessions.db-wal").stat().st_size // 4096
        assert pages < 4 * writer.LOG_PAGES


async def test_an_error_right_after_the_beginning_leaves_no_transaction_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start()))
        disk = ledger._writer._disk
        assert disk is not None
        refresh, failed = disk._standings.refresh, list[None]()

        def fails_once() -> None:
            if not failed:
                failed.append(None)
                raise MemoryError
            refresh()

        monkeypatch.setattr(disk._standings, "refresh", fails_once)
        await ledger.append("s", pen(chunk("x")))
        assert failed == [None]
        assert not disk.db.in_transaction
        assert [entry.record for entry in await ledger.unfinished("s")] == [chunk("x")]
        assert ledger.unsaved is None


async def test_a_hold_that_nobody_waits_for_any_more_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(tmp_path) as (ledger, _):
        ledger._writer.quick._paid_until = time.monotonic() + 60
        take, goes_on, taken = ledger._holds.take, threading.Event(), threading.Event()

        def slow(session_id: str) -> Hold:
            goes_on.wait(10)
            try:
                return take(session_id)
            finally:
                taken.set()

        monkeypatch.setattr(ledger._holds, "take", slow)
        taking = asyncio.ensure_future(ledger.hold("s"))
        await asyncio.sleep(0.01)
        taking.cancel()
        await asyncio.wait((taking,))
        goes_on.set()
        assert await asyncio.to_thread(taken.wait, 10)
        for _ in range(300):
            if not ledger.holds("s"):
                break
            await asyncio.sleep(0.01)
        monkeypatch.setattr(ledger._holds, "take", take)
        (await ledger.hold("s")).release()


async def test_a_hold_that_another_process_takes_for_a_look_is_waited_for(tmp_path: Path):
    async with opened(tmp_path) as (ours, _), opened(tmp_path) as (other, _):
        looking = await other.hold("s")
        asyncio.get_running_loop().call_later(0.05, looking.release)
        (await ours.hold("s", patience=30)).release()
        working = await other.hold("s")
        with pytest.raises(SessionBusy):
            await ours.hold("s", patience=0.05)
        working.release()
