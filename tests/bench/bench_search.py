"""Searching a tree of 100,000 files: glob, grep and mentions beside bare ripgrep.

Run it with `python -m tests.bench.bench_search [files] [folder]`; a folder that is named is kept and used again.
The best of interleaved runs counts, for other work only ever slows them. Bounds: within 1.3 times of bare ripgrep, by
the clock or, on a busy machine, by CPU; and a mention search under 100 ms of CPU.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.tools import Bench, bench

from pilotfish.tools import glob, grep
from pilotfish.tools.tool import Tool
from pilotfish.workspace.index import Index
from pilotfish.workspace.ripgrep import find_rg

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


async def compare(made: Bench, root: Path) -> float:
    """The worst ratio to bare ripgrep, by the clock or by CPU, whichever was disturbed less."""
    worst = 0.0
    for tool, args, arguments in CASES:
        theirs: list[Took] = []
        ours: list[Took] = []
        for _ in range(ROUNDS):
            theirs.append(await took(partial(bare, root, arguments)))
            ours.append(await took(partial(made.run, tool, **args)))
        wall, bare_wall = min(run.wall for run in ours), min(run.wall for run in theirs)
        cpu, bare_cpu = min(run.cpu for run in ours), min(run.cpu for run in theirs)
        worst = max(worst, min(wall / bare_wall, cpu / bare_cpu))
        name = f"{tool.name} {' '.join(str(value) for value in args.values())}"
        print(
            f"{name:<30} {wall * 1000:7.0f} ms, rg {bare_wall * 1000:6.0f}: {wall / bare_wall:4.2f}×"
            f"    CPU {cpu * 1000:7.0f} ms, rg {bare_cpu * 1000:6.0f}: {cpu / bare_cpu:4.2f}×"
        )
    return worst


async def mention(root: Path) -> float:
    """The most CPU a mention search took, in seconds."""
    index = Index([root.resolve()])
    start = time.perf_counter()
    await index.search("x")
    print(f"{'the index is made':<30} {(time.perf_counter() - start) * 1000:8.1f} ms")
    (root / "alpha" / "new.py").write_text("")
    for words in ("a file is new", "nothing is new"):
        start = time.perf_counter()
        await index.refresh()
        print(f"{'refreshed, ' + words:<30} {(time.perf_counter() - start) * 1000:8.1f} ms")
    worst = 0.0
    for query in QUERIES:
        index._refreshed = time.monotonic()  # the search alone, with no refresh behind it
        before = time.process_time()
        found = await index.search(query)
        cpu = time.process_time() - before
        worst = max(worst, cpu)
        print(f"{'mention ' + query:<30} {cpu * 1000:8.1f} ms CPU   {found[0].name if found else '-'}")
    await index.aclose()
    return worst


async def main(count: int, folder: Path) -> int:
    if not (folder / ".gitignore").exists():
        make_tree(folder, count)
    await bare(folder, ["--files"])
    async with bench(folder) as made:
        print(f"{count:,} files, {os.cpu_count()} cores, best of {ROUNDS}")
        ratio = await compare(made, folder)
        cpu = await mention(folder)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    good = ratio <= 1.3 and cpu < 0.1
    print("within its bounds" if good else f"OUT OF BOUNDS: {ratio:.2f}×, {cpu * 1000:.0f} ms")
    return 0 if good else 1


if __name__ == "__main__":
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(asyncio.run(main(files, Path(sys.argv[2] if len(sys.argv) > 2 else temporary).resolve())))
