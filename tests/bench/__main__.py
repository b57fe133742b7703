"""`make bench`: every part of the benchmark, one after the other. `python -m tests.bench server store` runs some.

Medians of runs in turns with their floors, CPU time and ratios first: machines are noisy. Exits with 1 when a target
is missed by more than noise explains. `--commit` writes figures.json and the tables of server/BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import COMMITTED, Run, write_page

PARTS = ("server", "core", "store", "search", "policy")
LONG_PARTS = ("growth", "scale")  # minutes, a million files, gigabytes: only when they are named
KNOWN = (*PARTS, *LONG_PARTS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(KNOWN)}; {', '.join(PARTS)} when none is named")
    parser.add_argument("--commit", action="store_true", help="write figures.json and BENCHMARKS.md")
    options = parser.parse_args()
    wanted = options.parts or list(PARTS)
    if unknown := set(wanted) - set(KNOWN):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(KNOWN)}")
    failed = 0
    run = Run.load() if options.parts else Run("", ())
    with tempfile.TemporaryDirectory() as folder:
        for part in wanted:
            print(f"\n{part}\n{'─' * len(part)}", flush=True)
            file = Path(folder) / f"{part}.json"
            command = [sys.executable, "-m", f"tests.bench.bench_{part}", "--json", str(file)]
            failed |= subprocess.run(command, cwd=Path(__file__).parents[2]).returncode
            if file.exists():
                run = run.with_parts(Run.load(file))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\nCPU of this run: {spent.ru_utime + spent.ru_stime:.0f} s")
    if options.commit:
        run.write(COMMITTED)
        write_page(run)
    return failed


if __name__ == "__main__":
    sys.exit(main())
