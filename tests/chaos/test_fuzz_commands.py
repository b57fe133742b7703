"""A fuzzer for the read-only sandbox: generated commands that policy allows are run, and nothing may change.

Commands are generated from the programs of the table with arguments that have misled the parser before. The allowed
ones run as the server would run them, in the sandbox that their verdict names, in a workspace full of traps. The test
fails if a file changed, a program of the workspace left a trace outside, a listener got a connection, or the output
contains a secret. `PILOTFISH_LONG=1` (make chaos) runs many more. Without the sandbox, the plain commands are run.
"""

from __future__ import annotations

import hashlib
import os
import random
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest

from pilotfish.conversation.messages import Category
from pilotfish.engine.turn.call_facts import collect
from pilotfish.policy.judge import judge
from pilotfish.policy.shell.git_commands import GIT
from pilotfish.policy.shell.read_only_commands import TABLE
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import resolve
from pilotfish.workspace.process.processes import Leave, Processes
from pilotfish.workspace.process.sandbox import find_sandbox

LONG = bool(os.environ.get("PILOTFISH_LONG"))
SEED = int(os.environ.get("PILOTFISH_SEED", "18"))
SECRET = "fuzz-secret-value"
WORDS = (
    "a.txt", ".env", "src", "-", "--", "-r", "-R", "-n", "-o", "-f", "-e", "-i", "-x", "-exec", "x", "link",
    "16", "*", "@list", "'{.env,q}'", "--include='\\.env'", "-g", "--iglob", "--output=made", "'s/a/b/w made'",
    "'1e ./evil'", "$fX-exec", "sh", "-c", "'./evil > made'", "';'", "+", "{}", "--pre=./evil",
    "--compress-program=./evil", "HEAD", "docs", "-C", "$(./evil)", "`./evil`", "<(./evil)", "2>/dev/null",
    "'BEGIN{system(\"./evil\")}'", "'{print > \"made\"}'", "~/.ssh/id_rsa", "hard.txt", "-delete",
)  # fmt: skip
JOINS = (" | ", " && ", "; ", " || ", "\n")


def made(dice: random.Random) -> str:
    parts: list[str] = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        name = dice.choice(
            [*sorted(TABLE), "find", "xargs", "bash -c", "timeout 5", "env", *(f"git {one}" for one in GIT)]
        )
        parts.append(" ".join((name, *(dice.choice(WORDS) for _ in range(dice.randint(0, 5))))))
    text = dice.choice(JOINS).join(parts)
    return f"for f in x; do {text} ; done" if dice.random() < 0.15 else text


def hostile(place: Path) -> Path:
    root = place / "home/project"
    (root / "src").mkdir(parents=True)
    (place / "home/.ssh").mkdir()
    (place / "home/.ssh/id_rsa").write_text(SECRET)
    (root / "a.txt").write_text("one\n")
    (root / ".env").write_text(f"KEY={SECRET}\n")
    os.link(root / ".env", root / "hard.txt")
    (root / "link").symlink_to(place / "home/.ssh")
    (root / "16").symlink_to(".env")
    (root / "list").write_text(".env\n")
    (root / "evil").write_text(f"#!/bin/sh\necho evil >> {place}/trace; echo evil >> {root}/trace; cat .env\n")
    (root / "evil").chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    subprocess.run([*git, "init", "-q"], cwd=root, check=True)
    subprocess.run([*git, "add", "a.txt"], cwd=root, check=True)
    subprocess.run([*git, "commit", "-qm", "one"], cwd=root, check=True)
    (root / "docs").mkdir()
    return root


def snapshot(place: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path): (path.lstat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize("walled", [True, False], ids=["sandbox", "no sandbox"])
async def test_generated_commands_that_are_not_asked_about_do_nothing(
    walled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = find_sandbox()
    if walled and not sandbox.read_only.stands:
        (pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip)("no read-only sandbox works here")
    root = hostile(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    processes = Processes(
        [root], sandbox=lambda: sandbox, environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    )
    where = partial(resolve, roots=(root,), home=tmp_path / "home")
    dice, before, ran = random.Random(SEED), snapshot(tmp_path), 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for _ in range(100_000 if LONG else 400):
            text = made(dice)
            facts = collect(
                "bash", Category.EXECUTE, Subject(command=text), resolve=where, directory=processes.home, walled=walled
            )
            verdict = judge(facts, "ask")
            if verdict.decision != "allow":
                continue
            ran += 1
            assert verdict.wall == ("read_only" if walled else "workspace")
            finished = await processes.run(text, timeout=10, tell=lambda _: None, leave=Leave(wall=verdict.wall))
            processes.cwd = processes.home
            assert SECRET not in finished.output, text
            if ran % 20 == 0:
                assert snapshot(tmp_path) == before, text
        with pytest.raises(BlockingIOError):
            listener.accept()
    await processes.aclose()
    assert snapshot(tmp_path) == before
    assert ran > (50 if walled else 0)
    print(f"fuzzed {ran} allowed commands, {'with' if walled else 'without'} the sandbox, seed {SEED}: no hit")  # noqa: T201
