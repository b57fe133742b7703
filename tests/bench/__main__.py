"""`make bench`: every benchmark, one after the other. `python -m tests.bench server store` runs some of them.

Medians of interleaved runs, CPU time and ratios first: machines are noisy. Exits with 1 when a promise is broken.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHES = ("server", "core", "store", "search")


def main() -> int:
    wanted = sys.argv[1:] or BENCHES
    if unknown := set(wanted) - set(BENCHES):
        print(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
        return 2
    failed = 0
    for name in wanted:
        print(f"\n{name}\n{'─' * len(name)}", flush=True)
        run = subprocess.run([sys.executable, "-m", f"tests.bench.bench_{name}"], cwd=Path(__file__).parents[2])
        failed |= run.returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
