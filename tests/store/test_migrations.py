"""Databases of every earlier schema version can be opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.store.make_fixture import BEFORE, PICTURE, records
from tests.store.makers import Pen, end, opened

from pilotfish.conversation.records import TurnStartRecord
from pilotfish.store.ledger import Heads
from pilotfish.store.sqlite.schema import VERSION, migrate, statements

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("v*.sql"))


def _restore(fixture: Path, path: Path) -> None:
    with sqlite3.connect(path, isolation_level=None) as db:
        for statement in statements(fixture.read_text("utf-8")):
            db.execute(statement)
    db.close()


def _schema(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()


def test_there_is_a_database_of_every_version():
    assert [fixture.stem for fixture in FIXTURES] == [f"v{version}" for version in range(1, VERSION + 1)]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.stem)
def test_an_old_database_ends_with_the_schema_of_a_new_one(fixture: Path, tmp_path: Path):
    _restore(fixture, tmp_path / "old.db")
    old = sqlite3.connect(tmp_path / "old.db", isolation_level=None)
    new = sqlite3.connect(":memory:", isolation_level=None)
    migrate(old)
    migrate(new)
    assert _schema(old) == _schema(new)
    old.close()
    new.close()


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.stem)
async def test_an_old_database_keeps_all_its_data(fixture: Path, tmp_path: Path):
    _restore(fixture, tmp_path / "sessions.db")
    async with opened(tmp_path) as (ledger, catalog):
        history = await ledger.history("first")
        picture = "1ea13d38856bba8da6de35edc11b7218abf95fc7"
        before = "1db87882391ea1357dbc87e6caa4e73f0d0e8246"
        written = Pen()(*records(picture, before))
        assert history == [entry for entry in written if entry.record.type not in ("chunk", "state")]
        assert await ledger.unfinished("first") == written[-2:]
        assert await ledger.heads("first") == Heads(21, 16, "h1")
        assert await ledger.get_blob(picture) == PICTURE
        assert await ledger.get_blob(before) == BEFORE

        listed = await catalog.list()
        assert [(row.id, row.title, row.turns, row.usage.cost) for row in listed.sessions] == [
            ("third", "Net mending (fork)", 1, None),
            ("first", "Net mending", 2, 0.25),
            ("second", "Boats", 0, None),
        ]
        assert [row.id for row in (await catalog.list(query="渔网")).sessions] == ["first"]
        third = [entry.record for entry in await ledger.history("third")]
        assert len(third) == 3
        assert isinstance(third[0], TurnStartRecord)

        await ledger.append("first", Pen(21, 16)(end(turn_id="turn-2")))
        assert await ledger.unfinished("first") == []
        await catalog.delete("second")
        await ledger.check()
        assert ledger.notices == ()
        assert ledger.unsaved is None
