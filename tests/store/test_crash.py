"""`kill -9` at random moments of a turn, repeatedly on the same database."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store import makers
from tests.store.makers import opened, store_at

from pilotfish.conversation.history.validation import find_faults
from pilotfish.conversation.model_history import get_messages_for_llm
from pilotfish.conversation.records import FileChangeRecord
from pilotfish.errors import UnknownSession

ROUNDS = 400 if os.environ.get("PILOTFISH_LONG") else 30
ROUNDS_A_DATABASE = 10
PASSING = {"chunk", "state"}
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


@pytest.fixture(name="fork_server")
def _fork_server() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.crash_child"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def _kill_one(
    fork_server: subprocess.Popen[str], directory: Path, seed: int, delay: float, *, at_work: bool
) -> list[str]:
    assert fork_server.stdin is not None
    assert fork_server.stdout is not None
    fork_server.stdin.write(json.dumps([store_at(directory), seed, delay, at_work]) + "\n")
    fork_server.stdin.flush()
    lines: list[str] = json.loads(fork_server.stdout.readline())
    return lines


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_nothing_acknowledged_is_lost_and_history_stays_sendable(
    fork_server: subprocess.Popen[str], tmp_path: Path
):
    chance = random.Random(7)
    killed = acknowledged_in_all = 0
    while killed < ROUNDS:
        directory = tmp_path / f"database-{killed}"
        types: dict[tuple[str, int], str] = {}
        acknowledged: dict[str, int] = {}
        for _ in range(min(ROUNDS_A_DATABASE, ROUNDS - killed)):
            # Some are killed while they open the database, most while they write.
            delay = chance.choice((0.02, 0.2, 0.4)) * chance.random() + 0.001
            for line in _kill_one(fork_server, directory, killed, delay, at_work=chance.random() < 0.7):
                match line.split(" ", 3):
                    case ["+", session_id, n, type_]:
                        types[session_id, int(n)] = type_
                    case ["!", session_id, n]:
                        acknowledged[session_id] = max(acknowledged.get(session_id, 0), int(n))
                    case _:
                        raise AssertionError(line)
            killed += 1
            await _check(directory, types, acknowledged)
        acknowledged_in_all += sum(acknowledged.values())
    assert acknowledged_in_all > ROUNDS  # otherwise the database was not under load


async def _check(directory: Path, types: dict[tuple[str, int], str], acknowledged: dict[str, int]) -> None:
    async with opened(directory) as (ledger, _):
        for session_id in ("a", "b", "c"):
            try:
                heads = await ledger.heads(session_id)
            except UnknownSession:
                assert session_id not in acknowledged
                continue
            kept = await ledger.history(session_id)
            passing = await ledger.unfinished(session_id)
            assert heads.n >= acknowledged.get(session_id, 0)

            # No gap: every number up to the head was written, and only chunks and states may have been dropped since.
            stored = {entry.n: entry for entry in (*kept, *passing)}
            assert max(stored, default=0) <= heads.n
            for n in range(1, heads.n + 1):
                assert n in stored or types[session_id, n] in PASSING
            # No torn record: every stored record equals the one that was appended.
            assert {n: entry.record.type for n, entry in stored.items()} == {n: types[session_id, n] for n in stored}
            numbers = [entry.seq for _, entry in sorted(stored.items()) if entry.seq is not None]
            assert numbers == sorted(set(numbers))
            assert max(numbers, default=0) <= heads.seq

            records = [entry.record for entry in kept]
            assert find_faults(get_messages_for_llm(records)) == ()
            for record in records:
                if isinstance(record, FileChangeRecord) and record.before:
                    await ledger.get_blob(record.before)
        assert ledger.notices == ()
        assert ledger.unsaved is None
    if makers.backend == "sqlite":
        with sqlite3.connect(directory / "sessions.db") as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
