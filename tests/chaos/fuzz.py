"""Coverage-guided fuzzing of every target, with a table at the end.

    python -m tests.chaos.fuzz --executions 10000000 --seed 7        # all targets, each with its share
    python -m tests.chaos.fuzz --target shell --executions 100000
    python -m tests.chaos.fuzz --target shell --input file           # repeat one input

Needs atheris: `pip install -e '.[dev,fuzz]'`. An input that violates its property is stored as `fuzz-<target>-…` in the
working directory; add its smallest form to `FOUND` of `test_inputs.py`.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LONGEST_RUN = 20  # seconds for one input; a longer run counts as a hang
MEMORY = 2048  # megabytes


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz every door by coverage.")
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 30))
    parser.add_argument("--target")
    parser.add_argument("--input", type=Path, help="run this one input and nothing else")
    options = parser.parse_args()
    if options.input is not None:
        from tests.chaos.targets import TARGETS

        TARGETS[options.target].law(options.input.read_bytes())
        return 0
    if options.target is not None:
        fuzz(options.target, options.executions, options.seed)
    return fuzz_all(options.executions, options.seed)


def fuzz_all(executions: int, seed: int) -> int:
    """Run every target in its own process, one after another. Returns how many failed."""
    from tests.chaos.targets import TARGETS

    print(f"seed {seed}", flush=True)
    broken = 0
    for name, target in TARGETS.items():
        runs = round(executions * target.share)
        begun = time.monotonic()
        words = ["--target", name, "--executions", str(runs), "--seed", str(seed)]
        child = subprocess.run([sys.executable, "-m", "tests.chaos.fuzz", *words], capture_output=True, text=True)
        done = re.findall(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: \d+ corp: (\d+)", child.stderr, re.MULTILINE)
        ran, covered, corpus = done[-1] if done else (0, 0, 0)
        took = time.monotonic() - begun
        state = "held" if child.returncode == 0 else "BROKEN"
        broken += child.returncode != 0
        print(
            f"{name:10} {ran:>9} executions  {took:7.0f} s  {covered:>5} edges  {corpus:>5} inputs  {state}", flush=True
        )
        if child.returncode:
            print(child.stderr[-4000:], flush=True)
    return broken


def fuzz(name: str, executions: int, seed: int) -> None:
    """Run one target in this process, and exit."""
    import atheris

    tools: Any = atheris
    with tools.instrument_imports(include=["pilotfish"]):
        from tests.chaos.targets import TARGETS
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as place:
        for number, data in enumerate(target.seeds):
            (Path(place) / f"seed{number}").write_bytes(data)
        flags = [
            f"-runs={executions}",
            f"-seed={seed % (1 << 31) or 1}",
            f"-max_len={target.longest}",
            f"-timeout={LONGEST_RUN}",
            f"-rss_limit_mb={MEMORY}",
            f"-artifact_prefix=fuzz-{name}-",
        ]
        tools.Setup([sys.argv[0], *flags, place], target.law)
        tools.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
