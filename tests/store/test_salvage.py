"""A damaged database is moved aside, and its readable part is recovered."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from pathlib import Path

import pytest
from tests.store.makers import Pen, call, chunk, end, opened, said, session, start

from pilotfish.conversation.records import Entry
from pilotfish.errors import StorageError
from pilotfish.store import writer
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.bodies import LOST

PAGE = 4096


async def _populated(directory: Path, sessions: int = 20) -> dict[str, list[Entry]]:
    written: dict[str, list[Entry]] = {}
    async with opened(directory) as (ledger, catalog):
        for i in range(sessions):
            id_ = f"s{i}"
            await catalog.create(session(id_, updated_at=float(i)))
            pen = Pen()
            entries = pen(
                start(f"Prompt {i}"),
                *(said(f"answer {i} {j} " * 30, message_id=f"m{j}") for j in range(20)),
                call("c", output=f"output {i} " * 1200),
                end(),
            )
            await ledger.append(id_, entries)
            written[id_] = entries
    return written


def _asides(directory: Path) -> list[Path]:
    return sorted(directory.glob("damaged-*"))


def _spoil(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xde\xad" * (PAGE // 2))


async def test_a_file_that_is_not_a_database_is_moved_aside_and_replaced(tmp_path: Path):
    (tmp_path / "sessions.db").write_bytes(b"this is not a database" * 500)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        assert ledger.unsaved is None
        (aside,) = _asides(tmp_path)
        (notice,) = ledger.notices
        assert notice.message == (
            f"The session database was damaged. No session could be recovered. The damaged file is kept in {aside}."
        )
        assert (aside / "sessions.db").read_bytes() == b"this is not a database" * 500
    async with opened(tmp_path) as (ledger, catalog):
        assert (await catalog.get("s")).id == "s"
        assert ledger.notices == ()


async def test_damage_found_while_reading_is_repaired_and_the_rest_is_read(tmp_path: Path):
    written = await _populated(tmp_path)
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as db:
        # The leaf of the records' table that holds record 100.
        pages = [
            page for (page,) in db.execute("SELECT pageno FROM dbstat WHERE name = 'records' AND pagetype = 'leaf'")
        ]
    db.close()
    damaged = path.read_bytes()
    _spoil(path, pages[len(pages) // 2] - 1)
    async with opened(tmp_path) as (ledger, catalog):
        read = {id_: await ledger.history(id_) for id_ in written}
        assert ledger.unsaved is None
        (notice,) = ledger.notices
        assert "20 sessions with" in notice.message
        lost = sum(len(written[id_]) - len(read[id_]) for id_ in written)
        assert 0 < lost < 40
        assert all(entry in written[id_] for id_ in written for entry in read[id_])
        for id_, entries in written.items():
            assert (await ledger.heads(id_)).n == len(entries)
        assert len((await catalog.list(query="answer")).sessions) >= 19
        await ledger.append("s0", Pen(len(written["s0"]), (await ledger.heads("s0")).seq)(start("On we go")))
    (aside,) = _asides(tmp_path)
    kept = (aside / "sessions.db").read_bytes()
    assert len(kept) == len(damaged)
    assert b"\xde\xad" * 100 in kept


async def test_the_rest_of_a_truncated_database_is_recovered(tmp_path: Path):
    written = await _populated(tmp_path)
    path = tmp_path / "sessions.db"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 // PAGE * PAGE)
    async with opened(tmp_path) as (ledger, catalog):
        await ledger.check()
        (notice,) = ledger.notices
        assert "records were recovered" in notice.message
        listed = await catalog.list(limit=100)
        assert 0 < len(listed.sessions) <= 20
        for row in listed.sessions:
            for entry in await ledger.history(row.id):
                assert entry in written[row.id] or LOST in str(entry.record) or entry.record.type == "notice"


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_page_is_damaged_the_ledger_opens_and_works(tmp_path: Path, seed: int):
    written = await _populated(tmp_path, sessions=6)
    path = tmp_path / "sessions.db"
    chance = random.Random(seed)
    for _ in range(3):
        _spoil(path, chance.randrange(0 if seed % 2 else 1, path.stat().st_size // PAGE))
    async with opened(tmp_path) as (ledger, catalog):
        await ledger.check()
        listed = await catalog.list(limit=100)
        for row in listed.sessions:
            for entry in await ledger.history(row.id):
                known = written.get(row.id, [])
                assert entry in known or row.id.startswith("recovered-") or LOST in str(entry.record)
        await catalog.create(session("after"))
        await ledger.append("after", Pen()(start(), said("words"), end()))
        assert ledger.unsaved is None
        assert (await ledger.heads("after")).n == 3
    assert len(_asides(tmp_path)) <= 1


async def test_a_damaged_search_index_is_rebuilt(tmp_path: Path):
    written = await _populated(tmp_path, sessions=3)
    with sqlite3.connect(tmp_path / "sessions.db") as db:
        db.execute("DELETE FROM texts_data WHERE id > 1")
    db.close()
    async with opened(tmp_path) as (ledger, catalog):
        await ledger.check()
        assert len((await catalog.list(query="answer")).sessions) == 3
        assert {id_: await ledger.history(id_) for id_ in written} == written
        await ledger.append("s0", Pen(23, 3)(said("later words", message_id="l")))
        assert [row.id for row in (await catalog.list(query="later")).sessions] == ["s0"]
        assert ledger.unsaved is None


async def test_unfinished_chunks_and_open_numbers_are_salvaged_too(tmp_path: Path):
    pen = Pen()
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        entries = pen(start(), chunk("half an "), chunk("answer"))
        await ledger.append("s", entries)
        # Enough other records for the damage to lie elsewhere.
        await catalog.create(session("t"))
        await ledger.append("t", Pen()(*(said("x" * 3000, message_id=f"m{i}") for i in range(50))))
    path = tmp_path / "sessions.db"
    _spoil(path, path.stat().st_size // PAGE - 1)
    _spoil(path, path.stat().st_size // PAGE - 2)
    async with opened(tmp_path) as (ledger, _):
        await ledger.check()
        assert len(ledger.notices) == 1
        assert await ledger.unfinished("s") == entries[1:]
        assert (await ledger.heads("s")).n == 3


async def test_a_database_that_another_ledger_has_open_is_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.02)
    await _populated(tmp_path, sessions=2)
    other = Ledger.open(tmp_path)
    await other.ready()
    _spoil(tmp_path / "sessions.db", 0)
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session("new"))
        assert ledger.unsaved == (
            "The session database is damaged, and another Pilotfish process has it open. "
            "New sessions are kept in memory only."
        )
        with pytest.raises(StorageError, match="another Pilotfish process has it open"):
            await ledger.append("new", Pen()(start()))
        assert _asides(tmp_path) == []
        await other.aclose()
        while not _asides(tmp_path):
            await ledger.ready()
        assert len(_asides(tmp_path)) == 1
    async with opened(tmp_path) as (ledger, _):
        assert (await ledger.heads("new")).n == 1


async def test_two_ledgers_that_find_the_damage_at_once_do_not_deadlock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.02)
    written = await _populated(tmp_path, sessions=2)
    path = tmp_path / "sessions.db"
    async with opened(tmp_path) as (one, _), opened(tmp_path) as (two, _):
        await one.ready()
        await two.ready()
        for page in range(1, path.stat().st_size // PAGE):
            if page % 3:
                _spoil(path, page)
        for ledger in (one, two):
            await ledger._writer.read(lambda tables: tables.db.execute("PRAGMA cache_size = 0").fetchall())
            with contextlib.suppress(StorageError):
                await ledger.check()
        for ledger in (one, two):
            while ledger.unsaved is not None:
                await ledger.ready()
                await asyncio.sleep(0.01)
        assert len(_asides(tmp_path)) == 1
        assert written


@pytest.mark.parametrize("left", [("", "-wal", "-shm"), ("-wal", "-shm"), ("-shm",), ()], ids=len)
async def test_an_interrupted_replacement_is_finished_at_the_next_start(tmp_path: Path, left: tuple[str, ...]):
    written = await _populated(tmp_path, sessions=2)
    (tmp_path / "sessions.db").rename(tmp_path / "sessions.db.salvaged")
    for ending in left:
        (tmp_path / f"sessions.db{ending}").write_bytes(b"the damaged one")
    async with opened(tmp_path) as (ledger, _):
        assert {id_: await ledger.history(id_) for id_ in written} == written
        (aside,) = _asides(tmp_path)
        (notice,) = ledger.notices
        assert notice.message == f"The session database was damaged. The damaged file is kept in {aside}."
    assert sorted(path.name for path in aside.iterdir()) == sorted(f"sessions.db{ending}" for ending in left)
    assert not (tmp_path / "sessions.db.salvaged").exists()


async def test_two_damaged_databases_in_one_second_get_separate_directories(tmp_path: Path):
    for text in (b"first", b"second"):
        for leftover in tmp_path.glob("sessions.db*"):
            leftover.unlink()
        (tmp_path / "sessions.db").write_bytes(text * 1000)
        async with opened(tmp_path) as (ledger, _):
            await ledger.ready()
    assert sorted((aside / "sessions.db").read_bytes() for aside in _asides(tmp_path)) == [
        b"first" * 1000,
        b"second" * 1000,
    ]
