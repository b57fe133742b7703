"""Durability of commits. When the disk refuses writes, turns continue, the user is informed, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from tests.store.makers import Pen, call, chunk, end, opened, said, session, sql, start

from pilotfish.conversation.records import Usage
from pilotfish.errors import SessionBusy, StorageError, UnknownSession
from pilotfish.store import writer
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Heads, Ledger


@pytest.fixture(autouse=True)
def _retry_at_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.02)


async def _fill_disk(ledger: Ledger) -> None:
    """Make SQLite fail with SQLITE_FULL from now on, as it does on a full disk."""
    await ledger._writer.read(lambda tables: tables.db.execute("PRAGMA max_page_count = 1").fetchall())


async def _free_disk(ledger: Ledger) -> None:
    disk = ledger._writer._disk
    assert disk is not None
    await ledger._writer.read(lambda _: disk.db.execute("PRAGMA max_page_count = 1000000").fetchall())


async def _saved(ledger: Ledger) -> None:
    for _ in range(500):
        if ledger.unsaved is None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"still unsaved: {ledger.unsaved}")


async def test_an_append_is_not_synced_and_a_sync_makes_all_before_it_durable(tmp_path: Path):
    """SQLite syncs its log in a commit under `synchronous = FULL` that has written something, and only there."""
    async with opened(tmp_path) as (ledger, catalog):
        pen, log = Pen(), tmp_path / "sessions.db-wal"
        trace = list[str]()
        await ledger._writer.read(lambda tables: cast(sqlite3.Connection, tables.db).set_trace_callback(trace.append))

        async def commits(start_work: Callable[[], Awaitable[object]]) -> tuple[list[str], bool]:
            """The levels that were set, and whether the log changed. (It need not grow: a reset log is overwritten.)"""
            trace.clear()
            before = log.read_bytes()
            await start_work()  # not earlier: the thread would write before the log is read
            return [line for line in trace if "synchronous" in line], log.read_bytes() != before

        full, normal = "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"
        assert await commits(lambda: catalog.create(session())) == ([full], True)
        assert await commits(lambda: ledger.append("s", pen(start()))) == ([normal], True)
        assert await commits(lambda: ledger.append("s", pen(said("words")))) == ([], True)
        assert await commits(lambda: ledger.sync("s")) == ([full], True)
        assert await commits(lambda: ledger.sync("s")) == ([], False)
        assert await commits(lambda: asyncio.gather(ledger.append("s", pen(end())), ledger.sync("s"))) in (
            ([], True),  # one commit
            ([normal, full], True),  # two, if the thread was faster
        )


async def test_an_error_right_after_begin_leaves_no_transaction_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        disk = ledger._writer._disk
        assert disk is not None
        refresh, failed = disk._heads.refresh, list[None]()

        def fails_once() -> None:
            if not failed:
                failed.append(None)
                raise MemoryError
            refresh()

        monkeypatch.setattr(disk._heads, "refresh", fails_once)
        entries = Pen()(start())
        with pytest.raises(StorageError):
            await ledger.append("s", entries)
        await _saved(ledger)
        assert await ledger.history("s") == entries


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no open file")
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_database_deleted_under_us_is_reported_and_open_sessions_are_saved_anew(tmp_path: Path, replaced: bool):
    directory = tmp_path / "store"
    async with opened(directory) as (ledger, catalog):
        await catalog.create(session(title="Open"))
        await catalog.create(session("other"))
        pen = Pen()
        blob = await ledger.put_blob(b"payload")
        entries = pen(start(), call(output="x" * 9000, blob=blob))
        await ledger.append("s", [*entries, *pen(chunk("words that "))])
        directory.rename(tmp_path / "away")
        if replaced:
            async with opened(directory) as (_, another):
                await another.create(session("another"))
        more = pen(chunk("go on"))
        with pytest.raises(StorageError, match="deleted or replaced") as caught:
            await ledger.append("s", more)
        assert "backup" in caught.value.remedy
        assert ledger.unsaved is not None
        assert "deleted or replaced" in ledger.unsaved
        assert await ledger.history("s") == entries
        await _saved(ledger)
        last = pen(said("words that go on", message_id="n"), end())
        await ledger.append("s", last)
        assert ledger.notices == ()
    async with opened(directory) as (ledger, catalog):
        assert {row.id for row in (await catalog.list()).sessions} == ({"s", "another"} if replaced else {"s"})
        assert await ledger.history("s") == [*entries, *last]
        assert await ledger.get_blob(blob) == b"payload"
        assert await ledger.heads("s") == Heads(pen.n, pen.seq, "")
    async with opened(tmp_path / "away") as (ledger, _):
        assert await ledger.history("s") == entries  # the deleted database is unchanged


async def test_a_full_disk_is_reported_once_and_the_session_continues_in_memory(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session(title="Nets"))
        pen = Pen()
        entries = pen(start(), said("before", message_id="1"))
        await ledger.append("s", entries)
        assert ledger.unsaved is None
        await _fill_disk(ledger)

        more = pen(*(said(f"during {i} " * 500, message_id=f"d{i}") for i in range(20)))
        with pytest.raises(StorageError) as caught:
            await ledger.append("s", more)
        assert str(caught.value) == "The disk with the session database is full."
        assert caught.value.remedy.startswith("Free some space.")
        last = pen(chunk("x"), end(usage=Usage(input_tokens=3)))
        await ledger.append("s", last)

        assert ledger.unsaved is not None
        assert re.fullmatch(
            r"The disk with the session database is full\. "
            r"What happened since \d\d:\d\d in 1 session is kept in memory only\.",
            ledger.unsaved,
        )
        kept = [*entries, *more, last[1]]
        assert await ledger.history("s") == kept
        assert await ledger.heads("s") == Heads(pen.n, pen.seq, "")
        assert (await ledger.page("s", None, 5)).entries == tuple(kept[-5:])
        assert (await ledger.page("s", None, 22)).entries == tuple(kept[-22:])
        assert (await ledger.page("s", 2, 5)).entries == tuple(kept[:1])
        assert (await catalog.get("s")).usage == Usage(input_tokens=3)

        await _free_disk(ledger)
        await _saved(ledger)
        assert await ledger.history("s") == kept
    async with opened(tmp_path) as (ledger, catalog):
        assert await ledger.history("s") == kept
        assert await ledger.heads("s") == Heads(pen.n, pen.seq, "")
        assert (await catalog.get("s")).turns == 1
        assert [row.id for row in (await catalog.list(query="during")).sessions] == ["s"]


async def test_a_session_stays_leased_until_its_records_are_saved(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog), opened(tmp_path) as (other, _):
        await catalog.create(session())
        pen = Pen()
        lease = await ledger.lease("s")
        await ledger.append("s", pen(start()))
        await _fill_disk(ledger)
        with pytest.raises(StorageError):
            await ledger.append("s", pen(said("kept in memory " * 50_000), end()))
        lease.release()
        with pytest.raises(SessionBusy):
            await other.lease("s")
        (await ledger.lease("s")).release()
        await _free_disk(ledger)
        await _saved(ledger)
        (await other.lease("s", patience=30)).release()
        assert [entry.record.type for entry in await other.history("s")] == ["turn_start", "message", "turn_end"]
        assert ledger.notices == ()


async def test_while_the_disk_is_full_everything_else_works_in_memory_too(tmp_path: Path):
    picture = random.Random(0).randbytes(50_000)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session("old", title="Old nets"))
        await ledger.append("old", Pen()(said("old words")))
        await _fill_disk(ledger)

        blob = await ledger.put_blob(picture)
        assert ledger.unsaved is not None
        await catalog.create(session("new", title="New nets", updated_at=1500.0))
        entries = Pen()(start(at=1600.0), call(output="x", blob=blob), said("new words", at=1601.0))
        with pytest.raises(StorageError):
            await ledger.append("new", entries)
        with pytest.raises(StorageError):
            await ledger.append("old", Pen(1)(said("more old words", message_id="2", at=1700.0)))
        assert await ledger.history("new") == entries
        assert await ledger.get_blob(blob) == picture
        assert [row.id for row in (await catalog.list()).sessions] == ["old", "new"]
        assert [row.id for row in (await catalog.list(query="words")).sessions] == ["old", "new"]
        assert [row.id for row in (await catalog.list(query="new words")).sessions] == ["new"]
        assert (await catalog.list(query="words")).snippets["old"].text == "more old words"
        assert (await catalog.rename("old", "Renamed")).title == "Renamed"
        assert (await catalog.fork("new", "fork")).title == "New nets (fork)"
        first = await catalog.list(limit=1)
        assert first.next_cursor is not None
        with pytest.raises(StorageError, match="cannot be deleted while"):
            await catalog.delete("old")
        with pytest.raises(UnknownSession):
            await ledger.heads("nobody")
        await catalog.delete("fork")
        assert "new words" in await catalog.export_markdown("new")

        await _free_disk(ledger)
        await _saved(ledger)
        assert ledger.notices == ()
    async with opened(tmp_path) as (ledger, catalog):
        assert [row.title for row in (await catalog.list()).sessions] == ["Renamed", "New nets"]
        assert await ledger.history("new") == entries
        assert await ledger.get_blob(blob) == picture
        assert (await ledger.heads("old")).n == 2


async def test_closing_tries_the_disk_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writer, "RETRY_SECONDS", 3600.0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        await _fill_disk(ledger)
        with pytest.raises(StorageError):
            await ledger.append("s", Pen()(*(said("x" * 5000, message_id=str(i)) for i in range(9))))
        await _free_disk(ledger)
        assert ledger.unsaved is not None
    assert ledger.unsaved is None
    async with opened(tmp_path) as (ledger, _):
        assert (await ledger.heads("s")).n == 9


async def test_a_locked_database_is_retried_and_then_replaced_by_memory(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        await ledger._writer.read(lambda tables: tables.db.execute("PRAGMA busy_timeout = 20").fetchall())
        intruder = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        intruder.execute("BEGIN IMMEDIATE")
        pen = Pen()
        with pytest.raises(StorageError, match="locked") as caught:
            await ledger.append("s", pen(start()))
        assert caught.value.remedy.startswith("Close programs")
        await ledger.append("s", pen(end()))
        assert (await ledger.heads("s")).n == 2
        intruder.execute("ROLLBACK")
        intruder.close()
        await _saved(ledger)
        assert [n for (n,) in await sql(ledger, "SELECT n FROM records ORDER BY n")] == [1, 2]


async def test_a_directory_that_cannot_be_created_means_memory(tmp_path: Path):
    (tmp_path / "file").write_text("not a directory")
    async with opened(tmp_path / "file" / "deeper") as (ledger, catalog):
        await ledger.ready()
        assert ledger.unsaved == (
            "The session database cannot be written: its directory is read-only for this user, or not accessible. "
            "New sessions are kept in memory only."
        )
        await catalog.create(session(title="Nets"))
        entries = Pen()(start(), end())
        with pytest.raises(StorageError) as caught:
            await ledger.append("s", entries)
        assert "set `storage` to another" in caught.value.remedy
        assert await ledger.history("s") == entries
        assert [row.id for row in (await catalog.list(query="nets")).sessions] == ["s"]
        with pytest.raises(StorageError):
            await ledger.heads("from before")


async def test_a_directory_that_becomes_writable_is_used(tmp_path: Path):
    obstacle = tmp_path / "state"
    obstacle.write_text("in the way")
    async with opened(obstacle) as (ledger, catalog):
        await catalog.create(session())
        obstacle.unlink()
        await _saved(ledger)
    async with opened(obstacle) as (_, catalog):
        assert (await catalog.get("s")).id == "s"


async def test_sessions_of_a_read_only_database_can_be_read_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pen = Pen()
    entries = pen(start("Mend the net"), said("words"))
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", entries)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pilotfish.store.sqlite.database.open_lock_file", refuse)
    async with opened(tmp_path) as (ledger, catalog):
        assert await ledger.history("s") == entries
        assert [row.title for row in (await catalog.list(query="words")).sessions] == ["Mend the net"]
        more = pen(end())
        with pytest.raises(StorageError, match="cannot be written"):
            await ledger.append("s", more)
        assert await ledger.history("s") == [*entries, *more]
        monkeypatch.undo()
        monkeypatch.setattr(writer, "RETRY_SECONDS", 0.02)
        await ledger.ready()
        await asyncio.sleep(0.05)
        await _saved(ledger)
    async with opened(tmp_path) as (ledger, _):
        assert await ledger.history("s") == [*entries, *more]


async def test_changes_that_cannot_be_saved_later_are_reported(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog), opened(tmp_path) as (other, _):
        await catalog.create(session())
        await _fill_disk(ledger)
        with pytest.raises(StorageError):
            await ledger.append("s", Pen()(*(said("x" * 5000, message_id=str(i)) for i in range(9))))
        # Nobody should write to a session that is held; this one was not.
        await other.append("s", Pen()(start()))
        await _free_disk(ledger)
        await _saved(ledger)
        (notice,) = ledger.notices
        assert notice.message.startswith("1 changes that were kept in memory could not be saved: Another process")
        assert notice.remedy == "Sessions: s."
        assert (await ledger.heads("s")).n == 1


async def test_a_database_on_a_failing_disk_is_reopened(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())

        def fail_once(tables: object) -> None:
            if not failed:
                failed.append(True)
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error

        failed: list[bool] = []
        generation = ledger._writer.generation
        await ledger.write(fail_once)
        await _saved(ledger)
        assert ledger._writer.generation == generation + 1
        assert (tmp_path / "sessions.db-wal").stat().st_size < 30_000  # the log before it is in the database
        assert (await catalog.get("s")).id == "s"


async def test_a_job_with_a_bug_fails_alone_and_leaves_no_trace(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())

        def broken(tables: writer.Tables) -> None:
            tables.rename("s", "half done")
            raise ZeroDivisionError

        results = await asyncio.gather(
            ledger.append("s", Pen()(start("Named by the prompt"))), ledger.write(broken), return_exceptions=True
        )
        assert [type(result) for result in results] == [type(None), ZeroDivisionError]
        assert (await catalog.get("s")).title == "Named by the prompt"
        assert ledger.unsaved is None


async def test_several_ledgers_in_one_loop_do_not_mix(tmp_path: Path):
    async with opened(tmp_path / "a") as (_, first), opened(tmp_path / "b") as (ledger, second):
        await first.create(session("a"))
        await second.create(session("b"))
        assert [row.id for row in (await Catalog(ledger).list()).sessions] == ["b"]
