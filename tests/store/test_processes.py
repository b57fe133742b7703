"""Several processes use one database: nothing is lost, and no process is blocked forever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.store.makers import opened, session, store_at

ROOT = Path(__file__).parents[2]

OWN_SESSION = """
import asyncio, sys
from pilotfish.store.ledger import Ledger
from pilotfish.store.catalog import Catalog
from tests.store.makers import Pen, session, said, chunk
async def main(directory, name, count):
    ledger = Ledger.open(directory)
    catalog = Catalog(ledger)
    await catalog.create(session(name))
    sys.stdin.readline()
    pen = Pen()
    for i in range(count // 4):
        records = [said(f"{name} {i} {j}", message_id=f"{i}.{j}") for j in range(2)] + [chunk("x"), chunk("y")]
        await asyncio.gather(*(ledger.append(name, pen(record)) for record in records))
    assert ledger.unsaved is None, ledger.unsaved
    await ledger.aclose()
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

SHARED_SESSION = """
import asyncio, sys
from pilotfish.errors import SessionBusy
from pilotfish.store.ledger import Ledger
from tests.store.makers import Pen, said
async def main(directory, name, rounds):
    ledger = Ledger.open(directory)
    await ledger.ready()
    sys.stdin.readline()
    done = 0
    while done < rounds:
        try:
            lease = await ledger.lease("shared")
        except SessionBusy:
            await asyncio.sleep(0.001)
            continue
        heads = await ledger.heads("shared")
        pen = Pen(heads.n, heads.seq)
        for i in range(5):
            await ledger.append("shared", pen(said(f"{name} {done} {i}", message_id=f"{name}{done}.{i}")))
        lease.release()
        done += 1
        await asyncio.sleep(0.001)
    assert ledger.unsaved is None, ledger.unsaved
    await ledger.aclose()
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def _run_together(code: str, directory: Path, names: list[str], count: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, store_at(directory), name, str(count)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name in names
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=200)[1].decode() for process in processes]
    assert errors == [""] * len(names)
    assert [process.returncode for process in processes] == [0] * len(names)


async def test_thousands_of_interleaved_writes_of_two_processes_are_all_there(tmp_path: Path):
    _run_together(OWN_SESSION, tmp_path, ["one", "two"], 1200)
    async with opened(tmp_path) as (ledger, catalog):
        for name in ("one", "two"):
            assert (await ledger.heads(name)).n == 1200
            entries = [*await ledger.history(name), *await ledger.unfinished(name)]
            assert sorted(entry.n for entry in entries) == list(range(1, 1201))
        assert len((await catalog.list(query="one")).sessions) == 1
        await ledger.check()
        assert ledger.notices == ()


async def test_processes_that_take_turns_in_one_session_keep_its_numbers(tmp_path: Path):
    async with opened(tmp_path) as (_, catalog):
        await catalog.create(session("shared"))
    _run_together(SHARED_SESSION, tmp_path, ["one", "two", "three"], 12)
    async with opened(tmp_path) as (ledger, _):
        history = await ledger.history("shared")
        assert [entry.n for entry in history] == list(range(1, 181))
        texts = {entry.record.content for entry in history if entry.record.type == "message"}
        assert texts == {f"{name} {i} {j}" for name in ("one", "two", "three") for i in range(12) for j in range(5)}
