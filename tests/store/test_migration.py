"""All sessions move from one store to another, in either direction."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.makers import Pen, call, chunk, end, said, session, start
from tests.support.postgres import new_store

from pilotfish.conversation.records import Usage
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger
from pilotfish.store.migration import digest, migrate


async def _fill(ledger: Ledger) -> None:
    catalog = Catalog(ledger)
    for number in range(5):
        session_id = f"s{number}"
        await catalog.create(session(session_id, updated_at=1000.0 + number))
        pen = Pen()
        blob = await ledger.put_blob(b"%d" % number * 2_000)
        usage = Usage(input_tokens=number, requests=1, cost=0.25)
        await ledger.append(session_id, pen(start(f"Net {number}"), call("c", output="x" * 9_000, blob=blob)))
        await ledger.append(session_id, pen(said("Done \0 ✓"), end(usage=usage), chunk("half a")))
    await catalog.rename("s1", "Chosen")


@pytest.mark.parametrize("direction", ["to the server", "to this machine"])
async def test_every_session_is_the_same_in_the_other_store_and_a_second_run_changes_nothing(
    tmp_path: Path, direction: str
):
    places = [str(tmp_path / "store"), new_store()]
    source, target = map(Ledger.open, places if direction == "to the server" else reversed(places))
    await _fill(source)
    first = await migrate(source, target)
    assert (first.copied, first.present, first.records, first.failed) == (5, 0, 25, {})
    second = await migrate(source, target)
    assert (second.copied, second.present, second.records, second.failed) == (0, 5, 25, {})
    for number in range(5):
        ours, theirs = [
            await ledger.read(lambda tables, id_=f"s{number}": tables.whole(id_)) for ledger in (source, target)
        ]
        assert ours == theirs
        assert digest(ours) == digest(theirs)
    assert (await Catalog(target).improve_title("s1", "Generated")).title == "Chosen"
    assert (await Catalog(target).improve_title("s2", "Generated")).title == "Generated"
    assert [row.id for row in (await Catalog(target).list(query="net 3")).sessions] == ["s3"]
    await target.append("s3", Pen(5, 4)(end()))
    third = await migrate(source, target)
    assert sorted(third.failed) == ["s2", "s3"]
    assert third.failed["s3"] == "It is in the target already, and is different there."
    await source.aclose()
    await target.aclose()


async def test_a_session_that_is_in_use_is_left_out_and_named(tmp_path: Path):
    source, target, window = (Ledger.open(tmp_path / name) for name in ("a", "b", "a"))
    await _fill(source)
    await window.lease("s2")
    done = await migrate(source, target)
    assert done.copied == 4
    assert "Run this again when it is free." in done.failed["s2"]
    for ledger in (source, target, window):
        await ledger.aclose()


async def test_the_command_line_migrates_and_then_reads_the_server(tmp_path: Path):
    ledger = Ledger.open(tmp_path / "store")
    await _fill(ledger)
    await ledger.aclose()
    url = new_store()

    def run(storage: str, *arguments: str) -> str:
        env = {**os.environ, "PILOTFISH_STORAGE": storage, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
        command = [sys.executable, "-m", "pilotfish", "sessions", *arguments]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    said = run(str(tmp_path / "store"), "migrate", "--to", url)
    assert said.startswith("Copied 5 sessions to postgresql://")
    assert "All 25 records are the same in both." in said
    assert "Chosen" in run(url, "list", "--all")
    assert "Net 4" in run(url, "search", "net 4")
