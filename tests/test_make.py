"""What `make help` lists, and the count of tests that `.ci/run` prints at its end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEST_LOG = """\
ruff: All checks passed!
= 1 failed, 3900 passed, 12 skipped, 2 deselected, 1 warning in 400.12s (0:06:40) =
\x1b[2m Test Files \x1b[22m \x1b[1m\x1b[32m33 passed\x1b[39m\x1b[22m\x1b[90m (33)\x1b[39m
\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[32m361 passed\x1b[39m\x1b[22m\x1b[90m (361)\x1b[39m
"""
E2E_LOG = """\
======================= 41 passed, 3000 deselected in 90.1s (0:01:30) ========================
ℹ tests 120
ℹ pass 119
ℹ fail 0
ℹ skipped 1
ℹ tests 30
ℹ pass 30
"""
COUNTS = """\
Python       3900 passed, 1 failed, 12 skipped
client unit  361 passed
e2e          149 passed, 1 skipped
editors      41 passed
tests        4451 passed, 1 failed, 13 skipped
"""


def count(folder: Path, test_log: str, e2e_log: str) -> tuple[int, str]:
    (folder / "test").write_text(test_log, "utf-8")
    (folder / "e2e").write_text(e2e_log, "utf-8")
    command = [sys.executable, "-X", "utf8", ".ci/count_tests.py", str(folder / "test"), str(folder / "e2e")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_every_target_is_listed_once_with_what_it_does() -> None:
    command = ["make", "--no-print-directory", "help"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    targets = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert sorted(line.split()[0] for line in listed) == sorted(" ".join(targets).split())
    assert [line for line in listed if len(line.split()) < 2] == []


def test_the_gate_counts_every_kind_of_test(tmp_path: Path) -> None:
    assert count(tmp_path, TEST_LOG, E2E_LOG) == (0, COUNTS)


def test_a_kind_of_test_that_did_not_run_fails_the_gate(tmp_path: Path) -> None:
    code, printed = count(tmp_path, TEST_LOG, "no output")
    assert code == 1
    assert "editors      0 passed\n" in printed
