from __future__ import annotations

import re
import sqlite3
import stat
import sys
from pathlib import Path

import pytest
from tests.store.makers import Pen, opened, session, sql, start

from pilotfish.errors import StorageError
from pilotfish.store.leases import FileLocks
from pilotfish.store.ledger import Ledger
from pilotfish.store.sqlite import schema
from pilotfish.store.sqlite.database import DatabaseFile, directory_of
from pilotfish.store.sqlite.schema import VERSION, statements


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps the user's profile private by other means")
async def test_everything_is_private_to_the_user(tmp_path: Path):
    directory = tmp_path / "state" / "pilotfish"
    locks = FileLocks(directory / "holds", "first")  # whoever comes first makes the directory
    locks.lock("s")
    locks.unlock("s")
    ledger = Ledger.open(directory)
    await ledger.lease("s")
    await ledger.ready()
    modes = {path.name: _mode(path) for path in directory.rglob("*")}
    assert {name: mode for name, mode in modes.items() if name != "holds" and mode != 0o600} == {}
    assert {"sessions.db", "sessions.db-wal", "sessions.db-shm"} <= modes.keys()
    assert modes["holds"] == 0o700
    assert (_mode(directory), _mode(directory.parent)) == (0o700, 0o700)
    await ledger.aclose()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX modes")
async def test_a_database_that_others_could_read_is_made_private(tmp_path: Path):
    async with opened(tmp_path):
        pass
    (tmp_path / "sessions.db").chmod(0o644)
    async with opened(tmp_path) as (ledger, _):
        await ledger.ready()
        assert _mode(tmp_path / "sessions.db") == 0o600


def test_the_default_place_is_the_users_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if sys.platform.startswith("linux"):
        assert directory_of(None) == tmp_path / "pilotfish"
    assert directory_of(None).name == "pilotfish"


def test_a_tilde_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert directory_of("~/sessions") == tmp_path / "sessions"


@pytest.mark.parametrize(
    ("url", "directory"),
    [
        ("sqlite:////var/pilot fish", "/var/pilot fish"),
        ("sqlite:////var/pilot%20fish/", "/var/pilot fish"),
        ("sqlite:////var/fish/sessions.db", "/var/fish"),
        ("sqlite:///near/here", "near/here"),
        ("SQLITE:///~/fish", "{home}/fish"),
        ("file:///var/fish", "/var/fish"),
        ("file:///var/fish/sessions.db", "/var/fish"),
    ],
)
def test_a_database_url_is_accepted_as_storage(
    url: str, directory: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert directory_of(url) == Path(directory.format(home=tmp_path))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://me@host/fish", "`mysql` databases are not supported"),
        ("sqlite://", "has no path"),
        ("sqlite:///", "has no path"),
        ("file://host/fish", "has no path"),
        ("sqlite:////var/mine.db", "must be named sessions.db, not mine.db"),
    ],
)
def test_an_unsupported_url_is_refused_with_a_remedy(url: str, words: str):
    with pytest.raises(StorageError, match=re.escape(words)) as caught:
        directory_of(url)
    assert "storage" in caught.value.remedy or "sqlite:////" in caught.value.remedy


async def test_the_journal_is_a_write_ahead_log_and_what_is_deleted_is_overwritten(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _):
        assert await sql(ledger, "PRAGMA journal_mode") == [("wal",)]
        assert await sql(ledger, "PRAGMA secure_delete") == [(1,)]


async def test_automatic_merging_of_the_index_is_turned_on_again(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _):
        await sql(ledger, "INSERT INTO texts (texts, rank) VALUES ('automerge', 0)")
        await sql(ledger, "INSERT INTO texts (texts, rank) VALUES ('crisismerge', 1000)")
    async with opened(tmp_path) as (ledger, _):
        config = dict(await sql(ledger, "SELECT k, v FROM texts_config"))
        assert (config["automerge"], config["crisismerge"]) == (4, 16)


# ---- versions


async def test_a_newer_database_is_refused_and_not_changed(tmp_path: Path):
    async with opened(tmp_path) as (_, catalog):
        await catalog.create(session())
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    before = path.read_bytes()
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session("new"))
        with pytest.raises(StorageError) as caught:
            await ledger.append("new", Pen()(start()))
        assert str(caught.value) == (
            f"The session database was written by a newer Pilotfish (format {VERSION + 1}; this one reads {VERSION})."
        )
        assert caught.value.remedy == (
            "Update Pilotfish, or set `storage` to another directory. The database was not changed."
        )
        assert ledger.unsaved is not None
        with pytest.raises(StorageError, match="newer"):
            await catalog.get("s")
    assert path.read_bytes() == before


def test_migrations_run_in_one_transaction_or_not_at_all(monkeypatch: pytest.MonkeyPatch):
    db = sqlite3.connect(":memory:", isolation_level=None)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE fine (x);\nCREATE TABLE fine (x);"))
    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(db)
    assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    assert schema.version_of(db) == 0
    db.close()


def test_a_migration_upgrades_an_older_database(monkeypatch: pytest.MonkeyPatch):
    db = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(db)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "ALTER TABLE sessions ADD COLUMN colour TEXT;"))
    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    schema.migrate(db)
    assert schema.version_of(db) == VERSION + 1
    assert "colour" in [column[1] for column in db.execute("PRAGMA table_info(sessions)")]
    db.close()


def test_statements_are_split_where_they_end():
    script = "-- a remark\nCREATE TABLE a (\n  x -- with; a semicolon\n);\n\nINSERT INTO a VALUES (';');\n"
    assert statements(script) == [
        "CREATE TABLE a (\n  x -- with; a semicolon\n);\n",
        "INSERT INTO a VALUES (';');\n",
    ]


def test_a_new_database_can_be_opened_several_times(tmp_path: Path):
    files = [DatabaseFile(tmp_path) for _ in range(3)]
    databases = [file.open()[0] for file in files]
    assert [schema.version_of(db) for db in databases] == [VERSION] * 3
    for file, db in zip(files, databases, strict=True):
        db.close()
        file.leave()
