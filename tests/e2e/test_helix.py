"""Helix as it is installed, with the configuration of docs/install.md, on a real screen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.editor_world import World, editor_world
from tests.support.nvim import ROOT, SECONDS, Screen
from tests.support.provider import call, say

pytestmark = pytest.mark.editors

INSTALL_PAGE = (ROOT / "docs" / "install.md").read_text("utf-8")
LONG = "One line of a long answer.\n\n" * 6
NEW_TEXT = "import greet; print('the test saw', greet.greet())"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    """A home with that configuration."""
    async with editor_world(tmp_path) as made:
        config = made.home / ".config" / "helix"
        config.mkdir(parents=True)
        snippet = re.findall(r"```toml\n(\[language-server.pilotfish\].*?)```", INSTALL_PAGE, re.DOTALL)[0]
        (config / "languages.toml").write_text(snippet)
        yield made


async def choose(screen: Screen, action: str) -> None:
    """`space a`, and the code action that begins with these words."""
    async with asyncio.timeout(SECONDS):
        while f" {action}" not in (shown := await screen.text()):  # the server may still be starting
            await screen.keys("Space", "a")
            await asyncio.sleep(0.5)
    menu = [line for line in shown.split("\n") if "Pilotfish" in line or " (" in line or "conversation" in line]
    row = next(number for number, line in enumerate(menu) if f" {action}" in line)
    await screen.keys(*["Down"] * row, "Enter")


async def run(screen: Screen, command: str) -> None:
    await screen.keys(f":lsp-workspace-command {command}", "Enter")


async def select(screen: Screen, text: str) -> None:
    """Write a line at the end, save, and select it."""
    await screen.keys("g", "e", "o", text)
    await screen.shows(" INS ", text)
    await screen.keys("Escape")
    await screen.shows(" NOR ")  # a key that follows at once would be read as Alt and the key
    await screen.keys(":w!", "Enter")  # the agent may have written the file too
    await screen.shows("written")
    await screen.keys("x")


async def test_trust_edit_tests_undo_stop_and_going_on_after_a_restart(world: World):
    edits = [{"old_string": "Helo", "new_string": "Hello"}]
    world.script(
        "play",
        call("read_file", path="greet.py"),
        call("update_file", path="greet.py", edits=edits),
        call("bash", command=f'python3 -B -c "{NEW_TEXT}"; touch seen'),
        say(*LONG),
    )
    world.script("slow", say("one ", "two ", end="stall"))
    world.script("next", say("The next answer."))
    async with world.screen("hx", "greet.py", size=(200, 50)) as screen:
        await select(screen, "# please #play# this")
        await choose(screen, "Continue the conversation")
        await screen.shows("Answer with a code action: Do you trust the folder work?")
        await choose(screen, "Trust this folder")
        await screen.shows("Edit greet.py?", '-    return "Helo"\n', '+    return "Hello"\n')
        await screen.keys("C-w", "q")
        await choose(screen, "Allow once (Edit greet.py?")
        await screen.shows("Answer with a code action: A command will run now.")
        await choose(screen, "Always write edits to disk")
        await screen.shows("the test saw Hello", "; touch seen\n")
        await screen.keys("C-w", "q")
        await choose(screen, "Allow once (Run python3")
        await screen.shows("One line of a long answer.")
        assert "the test saw Hello" in world.sent()
        await screen.keys("C-w", "q")
        await screen.shows('return "Hello"')
        await run(screen, "pilotfish.undo")
        await screen.shows('return "Helo"')
        await select(screen, "# now #slow# please")
        await choose(screen, "Continue the conversation")
        await world.provider.received(len(world.provider.requests) + 1)
        await run(screen, "pilotfish.cancel")
        await screen.shows("Stopped.")
    async with world.screen("hx", "greet.py", size=(200, 50)) as screen:
        async with asyncio.timeout(SECONDS):
            while "Answer with a code action: Which session should go on?" not in await screen.text():
                await run(screen, "pilotfish.sessions")  # the server may still be starting
                await asyncio.sleep(1.0)
        await choose(screen, "1. ")
        await screen.shows("## You", "#slow#")
        await screen.keys("C-w", "q")
        await select(screen, "# and #next# please")
        await choose(screen, "Continue the conversation")
        await screen.shows("The next answer.")
        assert "the test saw Hello" in world.sent()
