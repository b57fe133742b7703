"""Searching a tree of 100,000 files: glob, grep and mentions beside bare ripgrep.

`python -m tests.bench.bench_search [--folder FOLDER]`; a folder that is named is kept and used again. The best of
interleaved runs counts, for other work only ever slows them.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.figures import Table
from tests.support.tools import Bench, bench

from pilotfish.tools.files import glob, grep
from pilotfish.tools.tool import Tool
from pilotfish.workspace.search.file_index import FileIndex
from pilotfish.workspace.search.ripgrep import find_rg

FILES = 100_000
ROUNDS = 5
WORDS = ["alpha", "beta", "gamma", "delta", "engine", "parser", "server", "client", "index", "model", "view", "store"]
ENDINGS = ["py", "ts", "md", "json", "rs"]

CASES: list[tuple[Tool[Any], dict[str, Any], list[str]]] = [
    (grep.TOOL, {"pattern": "needle"}, ["needle"]),
    (grep.TOOL, {"pattern": "needle", "glob": "*.md", "mode": "files"}, ["-l", "-g", "*.md", "needle"]),
    (grep.TOOL, {"pattern": "def "}, ["def "]),
    (glob.TOOL, {"pattern": "**/*_99*.rs"}, ["--files", "-g", "**/*_99*.rs"]),
    (glob.TOOL, {"pattern": "**/*"}, ["--files"]),
]
QUERIES = ["parser_4", "e", "se", "engine index", "modstor99", "zzzzqqq", "alpha/beta1/part7", "a_1", "view_99998.json"]


def make_tree(root: Path, count: int) -> None:
    """Folders of 50 files, three levels deep; one file in a thousand holds the needle."""
    (root / ".git").mkdir(parents=True)
    (root / ".gitignore").write_text("*.min.js\nnode_modules/\nbuild/\n")
    for number in range(count):
        batch, word = number // 50, WORDS[number % 12]
        folder = root / WORDS[batch % 12] / f"{WORDS[batch // 12 % 12]}{batch // 144}" / f"part{batch}"
        if number % 50 == 0:
            folder.mkdir(parents=True)
        needle = f"needle {number}\n" if number % 1000 == 7 else ""
        text = f"def {word}_{number}():\n    return {number}\n{needle}" + "# filler line of text\n" * 12
        (folder / f"{word}_{number}.{ENDINGS[number % 5]}").write_text(text)


@dataclass(frozen=True)
class Took:
    """Seconds on the clock, and of CPU: ours and ripgrep's together."""

    wall: float
    cpu: float


def cpu_now() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


async def took(work: Callable[[], Awaitable[object]]) -> Took:
    wall, cpu = time.perf_counter(), cpu_now()
    await work()
    return Took(time.perf_counter() - wall, cpu_now() - cpu)


async def bare(root: Path, arguments: list[str]) -> None:
    command = [find_rg(), "--hidden", "--glob=!.git", *arguments, "."]
    subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)


async def compare(made: Bench, root: Path, table: Table) -> None:
    """CPU of our tools, ripgrep's included, beside that of bare ripgrep."""
    for tool, args, arguments in CASES:
        theirs: list[Took] = []
        ours: list[Took] = []
        for _ in range(ROUNDS):
            theirs.append(await took(partial(bare, root, arguments)))
            ours.append(await took(partial(made.run, tool, **args)))
        name = f"{tool.name} {' '.join(str(value) for value in args.values())}"
        cpu, bare_cpu = min(run.cpu for run in ours), min(run.cpu for run in theirs)
        table.add(f"{name}, CPU", cpu * 1000, "ms", ratio_target=1.3, rg=bare_cpu * 1000)
        wall, bare_wall = min(run.wall for run in ours), min(run.wall for run in theirs)
        table.add(f"{name}, clock", wall * 1000, "ms", rg=bare_wall * 1000)


async def mention(root: Path, table: Table) -> None:
    index = FileIndex([root.resolve()])
    start = time.perf_counter()
    await index.search("x")
    table.add("the index of mentions is made, clock", (time.perf_counter() - start) * 1000, "ms")
    (root / "alpha" / "new.py").write_text("")
    for words in ("a file is new", "nothing is new"):
        start = time.perf_counter()
        await index.refresh()
        table.add(f"the index of mentions is refreshed, {words}, clock", (time.perf_counter() - start) * 1000, "ms")
    cpu: dict[str, float] = {}
    for query in QUERIES:
        index._refreshed = time.monotonic()  # the search alone, with no refresh behind it
        before = time.process_time()
        await index.search(query)
        cpu[query] = (time.process_time() - before) * 1000
    table.add(f"mentions: the slowest of {len(QUERIES)} searches, CPU", max(cpu.values()), "ms", target=100)
    table.add(f"mentions: the median of {len(QUERIES)} searches, CPU", statistics.median(cpu.values()), "ms")
    await index.aclose()


async def main(folder: Path) -> int:
    if not (folder / ".gitignore").exists():
        make_tree(folder, FILES)
    await bare(folder, ["--files"])
    table = Table("search")
    async with bench(folder) as made:
        await compare(made, folder, table)
        await mention(folder, table)
    table.add("peak memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")
    return table.finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path)
    options, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(asyncio.run(main((options.folder or Path(temporary)).resolve())))
