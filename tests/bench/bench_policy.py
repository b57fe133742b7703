"""What judging a command costs, from its text to the verdict: facts from the disk, analysis, rules.
`python -m tests.bench.bench_policy`.

Milliseconds of CPU and of waiting, over the commands that coding agents run (`tests/policy/corpus`), each judged for
the first time in a repository whose settings are known.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.bench.figures import Table
from tests.support.policy import agent_commands

from pilotfish.conversation.messages import Category
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.policy.judge import judge
from pilotfish.policy.shell.analysis import study
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import resolve

MEDIAN = 2.0  # milliseconds


def main() -> int:
    table = Table("policy")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        subprocess.run(["git", "init", "-q", folder], check=True)
        for name in ("src", "tests", "docs", "web"):
            (root / name).mkdir()
            (root / name / "a.py").write_text("x\n")
        where = partial(resolve, roots=(root,), home=Path.home())

        def judged(command: str) -> float:
            began = time.perf_counter()
            subject = Subject(command=command)
            facts = collect(
                "bash", Category.EXECUTE, subject, resolve=where, directory=root, walled=True, confined=True
            )
            judge(facts, "edit")
            return (time.perf_counter() - began) * 1000

        for command in ("git status", "echo $(ls)"):  # loads the grammar and asks git for the settings
            judged(command)
        study.cache_clear()
        times = sorted(judged(command) for _, command in agent_commands())
    table.add("judge a command, median", statistics.median(times), "ms", target=MEDIAN)
    table.add("judge a command, 99 of 100", times[int(len(times) * 0.99)], "ms")
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
