from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.store.makers import Pen, end, opened, session, start, store_at

from pilotfish.conversation.records import SessionRecord, Usage, UsageRecord
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger
from pilotfish.store.usage import UsageKey, spent_today, usage_by

NOON = time.mktime((2026, 11, 17, 12, 0, 0, 0, 0, -1))
DAY = 86_400.0


def _changed(model: str) -> SessionRecord:
    return SessionRecord(turn_id="", title="", model=model, mode="ask")


async def _spend(ledger: Ledger, catalog: Catalog) -> None:
    pen = Pen()
    await catalog.create(session(model="a", created_at=NOON - 2 * DAY))
    first = Usage(input_tokens=10, requests=2, cost=0.5)
    await ledger.append("s", pen(start(at=NOON - 2 * DAY), end(usage=first, at=NOON - 2 * DAY)))
    await ledger.append("s", pen(UsageRecord(turn_id="", usage=Usage(input_tokens=1, requests=1), context_used=0)))
    await ledger.append("s", pen(UsageRecord(turn_id="t", usage=Usage(input_tokens=7), context_used=0)))
    await ledger.append("s", pen(_changed("b"), start(at=NOON), end(usage=Usage(input_tokens=100), at=NOON)))


async def test_each_request_is_counted_once_for_its_model_and_day():
    async with opened() as (ledger, _):
        catalog = Catalog(ledger, clock=lambda: NOON + 60)
        await _spend(ledger, catalog)
        await catalog.fork("s", "f")
        await ledger.append("f", Pen(7, 7)(start(at=NOON + 90), end(usage=Usage(input_tokens=1_000), at=NOON + 90)))
        await catalog.import_json(await catalog.export_json("s"), "imported")
        found = await usage_by(ledger, frozenset(("model", "day")), 0.0)
        assert {key: (sum_.turns, sum_.usage.input_tokens, sum_.usage.cost) for key, sum_ in found.items()} == {
            UsageKey(day="2026-11-15", model="a"): (1, 11, 0.5),
            UsageKey(day="2026-11-17", model="b"): (2, 1_100, None),
        }
        assert len(found[UsageKey(day="2026-11-17", model="b")].sessions) == 2
        recent = await usage_by(ledger, frozenset(("model",)), NOON - DAY)
        assert {key: sum_.usage.input_tokens for key, sum_ in recent.items()} == {UsageKey(model="b"): 1_100}
        everything = await usage_by(ledger, frozenset(), 0.0)
        assert [sum_.turns for sum_ in everything.values()] == [3]
        assert (await spent_today(ledger, NOON + 3_600)).input_tokens == 1_100
        assert (await spent_today(ledger, NOON + DAY)).input_tokens == 0


async def test_the_command_prints_a_table_csv_and_json(tmp_path: Path):
    async with opened(tmp_path / "store") as (ledger, catalog):
        await catalog.create(session(model="demo:fish", created_at=time.time()))
        usage = Usage(input_tokens=1_234, output_tokens=5, requests=2, cost=0.25)
        await ledger.append("s", Pen()(start(at=time.time()), end(usage=usage, at=time.time())))
    env = {**os.environ, "PILOTFISH_STORAGE": store_at(tmp_path / "store"), "HOME": str(tmp_path)}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "pilotfish", "usage", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    [row] = json.loads(run("--format", "json"))
    assert (row["model"], row["inputTokens"], row["requests"], row["cost"]) == ("demo:fish", 1_234, 2, 0.25)
    assert row["user"] != ""
    [read] = csv.DictReader(io.StringIO(run("--format", "csv", "--by", "model")))
    assert (read["model"], read["turns"], "user" in read) == ("demo:fish", "1", False)
    assert "1,234" in run("--by", "day")
