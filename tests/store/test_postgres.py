"""What holds for PostgreSQL only: its schema, its credentials, and a server that goes away."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.store.makers import Pen, call, chunk, end, said, session, sql, start
from tests.support.postgres import PrivateServer, new_store
from tests.support.waiting import until

from pilotfish.cli import doctor
from pilotfish.errors import StorageError
from pilotfish.store import writer
from pilotfish.store.catalog import Catalog
from pilotfish.store.database_errors import DatabaseUnavailable
from pilotfish.store.ledger import Heads, Ledger
from pilotfish.store.postgres.connection import masked
from pilotfish.store.postgres.schema import VERSION
from pilotfish.store.postgres.tables import PgTables


@pytest.fixture(autouse=True)
def _local_files_and_quick_retries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.05)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[PrivateServer]:
    server = PrivateServer()
    yield server
    server.stop()


# ---- schema and credentials


async def test_an_older_program_refuses_a_newer_schema_and_changes_nothing():
    url = new_store()
    await Ledger.open(url).aclose()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("INSERT INTO pilotfish_schema VALUES (%s)", (VERSION + 1,))
    ledger = Ledger.open(url)
    await ledger.ready()
    assert ledger.unsaved is not None
    assert f"written by a newer Pilotfish (format {VERSION + 1}; this one reads {VERSION})" in ledger.unsaved
    await ledger.aclose()


async def test_programs_that_start_together_migrate_once():
    url = new_store()
    ledgers = [Ledger.open(url) for _ in range(4)]
    await asyncio.gather(*(ledger.ready() for ledger in ledgers))
    assert [ledger.unsaved for ledger in ledgers] == [None] * 4
    await asyncio.gather(*(ledger.aclose() for ledger in ledgers))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@db.example.org:5433/fish", "postgresql://me@db.example.org:5433/fish"),
        ("postgresql://db.example.org/fish?user=me&password=hunter2", "postgresql://db.example.org/fish"),
        ("postgres://me:hunter2@a:1,b:2/fish", "postgres://me@"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str):
    assert masked(url).startswith(shown)
    assert "hunter2" not in masked(url)


async def test_a_server_out_of_reach_is_reported_without_the_password(tmp_path: Path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"postgresql://me:hunter2@127.0.0.1:{unused.getsockname()[1]}/fish"
        ledger = Ledger.open(url)
        catalog = Catalog(ledger)
        await catalog.create(session())
        with pytest.raises(StorageError, match="cannot be used"):
            await ledger.append("s", Pen()(start()))
        assert ledger.unsaved is not None
        assert "127.0.0.1" in ledger.unsaved
        assert "on this machine only" in ledger.unsaved
        with pytest.raises(StorageError, match="cannot be used"):
            await catalog.get("another")
        with pytest.raises(StorageError, match="cannot be used"):
            await catalog.list()
        written = "".join(repr(vars(error)) for error in (ledger._writer._error,)) + ledger.unsaved
        assert "hunter2" not in written
        await ledger.aclose()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes()


@pytest.mark.parametrize("there", [True, False])
async def test_the_doctor_says_whether_the_server_can_be_reached(monkeypatch: pytest.MonkeyPatch, there: bool):
    url = new_store() if there else "postgresql://me:hunter2@127.0.0.1:1/fish"
    monkeypatch.setenv("PILOTFISH_STORAGE", url)
    finding = await doctor._store()
    assert finding.good is there
    assert finding.words.startswith("postgresql://" if there else "The session database postgresql://me@127.0.0.1:1")
    assert "hunter2" not in finding.words


def test_without_the_driver_the_message_names_the_extra():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from pilotfish.store.ledger import Ledger\n"
        "try: Ledger.open('postgresql://host/fish')\n"
        "except Exception as error: print(error.remedy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Install it with: pip install 'pilotfish[postgres]'"


def test_the_driver_is_not_loaded_for_sqlite():
    code = "import sys, pilotfish.store.ledger, pilotfish.store.catalog; print('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---- a server that goes away


async def test_a_turn_goes_on_while_the_server_is_away_and_everything_is_saved_once_when_it_is_back(
    server: PrivateServer,
):
    url = server.new_store()
    ledger = Ledger.open(url)
    catalog = Catalog(ledger)
    await catalog.create(session())
    lease = await ledger.lease("s")
    pen = Pen()
    blob = await ledger.put_blob(b"before")
    entries = pen(start(), said("one", message_id="1"))
    await ledger.append("s", entries)
    server.kill()
    failed = pen(call("c", output="y" * 9_000, blob=blob))
    with pytest.raises(StorageError, match="cannot be used"):
        await ledger.append("s", failed)
    later = await ledger.put_blob(b"later")
    more = pen(call("d", output="x", blob=later), said("two", message_id="2"), end())
    await ledger.append("s", more)
    await ledger.sync("s")
    assert await ledger.heads("s") == Heads(pen.n, pen.seq, "")
    assert ledger.unsaved is not None
    lease.release()
    assert ledger.has_lease("s")  # until its records are saved
    server.start()
    await until(lambda: ledger.unsaved is None)
    assert await ledger.history("s") == [*entries, *failed, *more]
    assert (await catalog.get("s")).turns == 1
    assert await ledger.get_blob(later) == b"later"
    assert ledger.notices == ()
    await ledger.aclose()
    other = Ledger.open(url)
    assert await other.heads("s") == Heads(pen.n, pen.seq, "")
    (await other.lease("s", patience=30)).release()
    await other.aclose()


async def test_what_a_process_left_behind_is_saved_by_the_next_one(server: PrivateServer):
    url = server.new_store()
    ledger = Ledger.open(url)
    await Catalog(ledger).create(session())
    pen = Pen()
    entries = pen(start(), said("one", message_id="1"))
    await ledger.append("s", entries)
    server.kill()
    more = pen(call("c", output="y" * 9_000), chunk("unfinished"))
    with pytest.raises(StorageError):
        await ledger.append("s", more)
    await Catalog(ledger).create(session("offline"))
    offline = Pen()(start("Made offline"), end())
    with pytest.raises(StorageError):
        await ledger.append("offline", offline)
    await ledger.aclose()  # the server is still away, as for a process that is killed
    server.start()
    for _ in range(2):  # the second one finds nothing left
        ledger = Ledger.open(url)
        assert await ledger.history("s") == [*entries, more[0]]
        assert await ledger.unfinished("s") == more[1:]
        assert await ledger.history("offline") == offline
        row = await Catalog(ledger).get("offline")
        assert (row.title, row.turns) == ("Made offline", 1)
        assert ledger.notices == ()
        await ledger.aclose()


async def test_a_commit_whose_answer_was_lost_is_not_repeated(monkeypatch: pytest.MonkeyPatch):
    url = new_store()
    ledger = Ledger.open(url)
    await Catalog(ledger).create(session())
    disk = ledger._writer._disk
    assert isinstance(disk, PgTables)
    wait = disk.db.end_pipeline

    def wait_and_lose_the_connection() -> None:
        wait()
        _end_connection(ledger, url)
        disk.db.execute("SELECT 1").fetchall()  # raises, as the commit would

    monkeypatch.setattr(disk.db, "end_pipeline", wait_and_lose_the_connection)
    pen = Pen()
    entries = pen(start(), said("words"))
    with pytest.raises(StorageError, match="terminating connection"):
        await ledger.append("s", entries)
    await until(lambda: ledger.unsaved is None)
    assert ledger.notices == ()
    await ledger.append("s", pen(end()))
    assert [entry.n for entry in await ledger.history("s")] == [1, 2, 3]
    assert (await Catalog(ledger).get("s")).turns == 1
    await ledger.aclose()


async def test_records_that_another_machine_has_overtaken_are_refused_and_reported(monkeypatch: pytest.MonkeyPatch):
    url = new_store()
    ours, theirs = Ledger.open(url), Ledger.open(url)
    await Catalog(ours).create(session())
    await ours.append("s", Pen()(start()))
    with monkeypatch.context() as away:
        away.setattr(ours._writer.database, "open", _refuse)
        _end_connection(ours, url)
        with pytest.raises(StorageError):
            await ours.append("s", Pen(1, 1)(said("ours")))
        await theirs.append("s", Pen(1, 1)(said("theirs"), end()))
    await until(lambda: ours.unsaved is None)
    assert [notice.remedy for notice in ours.notices] == ["Sessions: s."]
    records = [entry.record for entry in await ours.history("s")]
    assert records == [start(), said("theirs"), end()]
    await asyncio.gather(ours.aclose(), theirs.aclose())


def _end_connection(ledger: Ledger, url: str) -> None:
    disk = ledger._writer._disk
    assert isinstance(disk, PgTables)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(%s, 5000)", (disk.db.pid,))


def _refuse() -> None:
    raise DatabaseUnavailable("The server is away.", remedy="", connected=False)


async def test_two_programs_that_append_without_a_lease_leave_no_gap():
    url = new_store()
    ledgers = [Ledger.open(url) for _ in range(3)]
    await Catalog(ledgers[0]).create(session())

    async def append(ledger: Ledger) -> int:
        done = 0
        while done < 20:
            heads = await ledger.heads("s")
            try:
                await ledger.append("s", Pen(heads.n, heads.seq)(chunk("x"), said("y", message_id=str(heads.n))))
                done += 1
            except StorageError:
                continue
        return done

    assert await asyncio.gather(*map(append, ledgers)) == [20] * 3
    heads = await ledgers[0].heads("s")
    assert heads.n == 120
    assert await sql(ledgers[0], "SELECT count(*), count(DISTINCT n), max(n) FROM records") == [(60, 60, 120)]
    await asyncio.gather(*(ledger.aclose() for ledger in ledgers))
