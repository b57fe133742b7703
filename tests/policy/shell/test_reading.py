"""Cases in which the analysis of a command once missed what it reads or runs."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from pilotfish.conversation.messages import Category
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.policy.judge import judge
from pilotfish.policy.shell.analysis import study
from pilotfish.policy.verdict import Verdict
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import resolve


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = (tmp_path / "project").resolve()
    (place / "src").mkdir(parents=True)
    (place / "README.md").write_text("x\n")
    (place / ".env").write_text("KEY=x\n")
    (place / "16").symlink_to(".env")
    (tmp_path / "outside").mkdir()
    (place / "src/out").symlink_to(tmp_path / "outside")
    return place


def judged(command: str, root: Path, *, walled: bool) -> Verdict:
    where = partial(resolve, roots=(root,), home=root.parent / "home")
    subject = Subject(command=command)
    return judge(collect("bash", Category.EXECUTE, subject, resolve=where, directory=root, walled=walled), "auto")


@pytest.mark.parametrize(
    "command",
    [
        "grep - .env",
        "rg - .env",
        "awk '{print}' -F .env",
        "od -w 16",
        "grep -r x --include='\\.env' .",
        "rg --hidden -g '{.env,q}' x",
        "rg --iglob '.ENV' x",
        "grep -R x src",
        "diff -rN src lib",
    ],
)
def test_reading_secrets_indirectly_asks_or_runs_where_secrets_are_empty(command: str, root: Path) -> None:
    assert judged(command, root, walled=False).decision == "ask"
    verdict = judged(command, root, walled=True)
    assert verdict.decision == "ask" or verdict.wall == "read_only"


@pytest.mark.parametrize(
    "command",
    [
        "for f in x; do find README.md $fX-exec sh $fX-c 'id > PWNED' ';' ; done",
        "xxd README.md out",
        "tree -Io x",
        "git describe --dirty",
        "netstat -t",
        "strings @list",
        "egrep x README.md",
    ],
)
def test_a_line_may_do_more_than_read(command: str) -> None:
    assert not study(command).only_reads


def test_a_variable_name_ends_where_bash_ends_it(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", "for f in x; do echo a$fX-b; done"], capture_output=True, text=True, cwd=tmp_path, env=os.environ
    )
    assert done.stdout == "a-b\n"
    assert study("for f in x; do echo a$fX-b; done").parts == ()


def test_a_changed_script_is_another_call(root: Path) -> None:
    (root / "s.sh").write_text("echo one\n")
    where = partial(resolve, roots=(root,), home=root.parent / "home")

    def facts() -> object:
        subject = Subject(command="bash s.sh")
        return collect("bash", Category.EXECUTE, subject, resolve=where, directory=root, walled=True)

    before = facts()
    assert facts() == before
    (root / "s.sh").write_text("rm -rf x\n")
    assert facts() != before
