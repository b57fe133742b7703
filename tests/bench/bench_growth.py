"""How costs grow with turns, sessions, files of the workspace and the size of a file.

`python -m tests.bench growth`; not part of `make bench`, because it makes a million files. Every row of a larger size
has the smallest size as its floor, measured in the same run, so its ratio is the growth. CPU time of the process
(and of ripgrep where it runs), the best of some rounds.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.bench.bench_search import make_tree, took
from tests.bench.bench_store import cpu_ms, row
from tests.bench.figures import Table
from tests.support.engine import rig
from tests.support.provider import say
from tests.support.tools import bench

from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.tables import Tables
from pilotfish.tools.files import glob, grep, read_file, update_file
from pilotfish.workspace.search.file_index import FileIndex

TURNS = (10, 500, 2_000)
SESSIONS = (1_000, 10_000, 100_000)
FILES = (10_000, 100_000, 1_000_000)
LINES = (500, 50_000)
MEGABYTES = (1, 100)
WINDOW = 10  # turns that are measured at each size


def memory_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def turns(folder: Path, table: Table) -> None:
    """The cost of one more turn in a session that has many, the scripted provider's share included."""
    made, first = 0, 0.0
    async with rig(folder, otherwise=say("Done as you said."), mode="auto") as turn:

        async def step() -> float:
            before = time.process_time()
            await turn.prompt("Do one more step.")
            turn.provider.requests.clear()  # else the figure of memory would be that of the test
            turn.updates.clear()
            return (time.process_time() - before) * 1000

        for count in TURNS:
            for _ in range(count - made):
                await step()
            cost = statistics.median([await step() for _ in range(WINDOW)])
            made, first = count + WINDOW, first or cost
            table.add(f"a turn after {count:,} others, CPU", cost, "ms", after_10=first)
            table.add(f"memory after {count:,} turns", memory_mb(), "MB")
            page = await cpu_ms(lambda: turn.engine.ledger.page(turn.session_id, None, 200))
            table.add(f"the last page of {count:,} turns, CPU", page, "ms")


async def sessions(folder: Path, table: Table) -> None:
    ledger = Ledger.open(folder)
    catalog = Catalog(ledger)
    made = 0
    floors: dict[str, float] = {}
    for count in SESSIONS:

        def more(tables: Tables, low: int = made, high: int = count) -> None:
            for number in range(low, high):
                tables.create(row(f"s{number:06}", float(number)))

        await ledger.write(more)
        made = count
        cases: dict[str, Callable[[], Awaitable[object]]] = {
            "first page (50) of": lambda: catalog.list("/project", None, None, 50),
            "a search that finds one of": lambda: catalog.list(query="s000500", limit=50),
            "a search that finds all of": lambda: catalog.list(query="about nets", limit=50),
        }
        for name, work in cases.items():
            cost = await cpu_ms(work, rounds=5)
            floor = floors.setdefault(name, cost)
            table.add(f"{name} {count:,} sessions, CPU", cost, "ms", of_1000=floor)
    await ledger.aclose()


async def files(folder: Path, table: Table) -> None:
    floors: dict[str, float] = {}
    for count in FILES:
        root = folder / str(count)
        make_tree(root, count)
        async with bench(root) as made:
            for name, tool, args in (
                ("grep of a rare word", grep.TOOL, {"pattern": "needle"}),
                ("glob of a few names", glob.TOOL, {"pattern": "**/*_99*.rs"}),
            ):
                runs = [await took(lambda tool=tool, args=args: made.run(tool, **args)) for _ in range(2)]
                cost = min(run.cpu for run in runs) * 1000
                floor = floors.setdefault(name, cost)
                table.add(f"{name} in {count:,} files, CPU", cost, "ms", of_10000=floor)
        before = memory_mb()
        index = FileIndex([root.resolve()])
        start = time.perf_counter()
        await index.search("x")
        table.add(f"the index of {count:,} files for mentions, clock", (time.perf_counter() - start) * 1000, "ms")
        table.add(f"memory of the index of {count:,} files", memory_mb() - before, "MB")
        index._refreshed = time.monotonic() + 1e6  # the search alone, with no refresh behind it
        cost = await cpu_ms(lambda index=index: index.search("engine_99"), rounds=3)
        floor = floors.setdefault("mention", cost)
        table.add(f"a mention among {count:,} files, CPU", cost, "ms", of_10000=floor)
        await index.aclose()


async def sizes(folder: Path, table: Table) -> None:
    floors: dict[str, float] = {}
    async with bench(folder) as made:
        for lines in LINES:
            name = f"lines{lines}.py"
            (folder / name).write_text("".join(f"value_{number} = {number}\n" for number in range(lines)))
            cost = await cpu_ms(
                lambda name=name, lines=lines: made.run(read_file.TOOL, path=name, offset=lines // 2, limit=50)
            )
            table.add(f"50 of {lines:,} lines are read, CPU", cost, "ms", of_500=floors.setdefault("read", cost))
            state = [0]

            async def edit(name: str = name, lines: int = lines, state: list[int] = state) -> None:
                old, new = (f"value_{lines // 2} = {lines // 2 + state[0] + step}\n" for step in (0, 1))
                state[0] += 1
                await made.run(update_file.TOOL, path=name, edits=[{"old_string": old, "new_string": new}])

            cost = await cpu_ms(edit, rounds=5)
            table.add(f"one of {lines:,} lines is edited, CPU", cost, "ms", of_500=floors.setdefault("edit", cost))
        for megabytes in MEGABYTES:
            name = f"log{megabytes}.txt"
            with (folder / name).open("w") as file:
                for _ in range(megabytes):
                    file.write("a line of a log file, of some length\n" * (1_000_000 // 37))
            before = memory_mb()
            cost = await cpu_ms(lambda name=name: made.run(read_file.TOOL, path=name, limit=50), rounds=3)
            floor = floors.setdefault("log", cost)
            table.add(f"the head of a file of {megabytes} MB is read, CPU", cost, "ms", of_1_mb=floor)
            table.add(f"memory that this takes, {megabytes} MB", memory_mb() - before, "MB")


async def main() -> int:
    table = Table("growth")
    for part in (turns, sessions, sizes, files):
        with tempfile.TemporaryDirectory() as folder:
            await part(Path(folder), table)
    return table.finish()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
