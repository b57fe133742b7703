"""The server runs no program of a workspace, whatever `PATH` says."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.engine import rig
from tests.support.provider import call, say

import pilotfish
from pilotfish.engine.frontend import Answer
from pilotfish.workspace.own_programs import distrust, find_program, search_path

PROGRAMS = ("git", "sh", "bash", "bwrap", "rg", "rm", "find", "chmod", "unshare", "mount")


def planted(folder: Path, trace: Path) -> Path:
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).write_text(f'#!/bin/sh\necho {name} >> {trace}\nexec /usr/bin/{name} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def test_a_workspace_provides_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = planted(tmp_path / "work/.venv/bin", tmp_path / "trace")
    (tmp_path / "link").symlink_to(own)
    system = planted(tmp_path / "system", tmp_path / "trace")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", os.pathsep.join((str(own), "", ".venv/bin", f"{tmp_path}/link", str(system))))
    distrust((tmp_path / "work",))
    assert (find_program("git"), search_path()) == (str(system / "git"), str(system))
    assert find_program("git", {"PATH": str(own)}) == find_program("git", {})


async def test_an_activated_environment_of_a_hostile_repository_runs_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    commands = ("git status", "git log | head", "ls")
    replies = [
        *(call("bash", command=command) for command in commands), call("grep", pattern="x"), call("glob", pattern="*"),
    ]  # fmt: skip
    async with rig(tmp_path, *replies, say("done"), files={"a.txt": "x\n"}, mode="ask", trusted=False) as turn:
        subprocess.run(["git", "init", "-q"], cwd=turn.root, check=True)
        own = planted(turn.root / "node_modules/.bin", trace)
        monkeypatch.setenv("PATH", f"{own}{os.pathsep}{os.environ['PATH']}")
        turn.answers(lambda _: Answer(option_id="reject"))
        await turn.prompt("go")
    assert not trace.exists(), trace.read_text()


LOOKS_ELSEWHERE = {
    "workspace/own_programs.py": "it is what others use",
    "language_servers/known_servers.py": "it only shows the folder of an interpreter to a sandbox",
}


def test_every_lookup_of_a_program_names_its_path() -> None:
    """`shutil.which` without a path takes what the workspace put in front of the system."""
    package = Path(pilotfish.__file__).parent
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "which"
        and not any(keyword.arg == "path" for keyword in node.keywords)
    }
    assert found <= LOOKS_ELSEWHERE.keys()
