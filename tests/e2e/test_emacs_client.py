"""The Emacs client in a real Emacs on a real screen, against the real server, loaded as its README says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.client import environment
from tests.support.nvim import ROOT, Screen, program
from tests.support.provider import Provider, Reply, call, say, serve
from tests.support.served import Scripts

pytestmark = pytest.mark.editors

README = (ROOT / "client-emacs" / "README.md").read_text("utf-8")
QUIET = "(setq inhibit-startup-screen t make-backup-files nil native-comp-async-report-warnings-errors nil)\n"


@dataclass(frozen=True)
class World:
    """A workspace, a home with the README's configuration, and a scripted model."""

    folder: Path
    environ: dict[str, str]
    scripts: Scripts
    provider: Provider

    def script(self, name: str, *replies: Reply) -> str:
        """What the model does when a prompt holds the name."""
        self.scripts.add(name, *replies)
        return f"#{name}#"

    def sent(self) -> str:
        """What the model was sent last, as JSON."""
        return json.dumps(self.provider.requests[-1].messages, ensure_ascii=False)

    @contextlib.asynccontextmanager
    async def editor(self, *more: str) -> AsyncGenerator[Screen]:
        with tempfile.TemporaryDirectory(prefix="pf") as short:
            screen = Screen(program("tmux"), Path(short) / "tmux")
            await screen.start([program("emacs"), "-nw", "greet.py", *more], self.environ, self.folder, (120, 50))
            try:
                await screen.shows("greet.py", "def greet")
                yield screen
            finally:
                await screen.stop()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    folder, home, programs = tmp_path / "work", tmp_path / "home", tmp_path / "bin"
    for made in (folder / ".git", home / ".emacs.d", programs):
        made.mkdir(parents=True)
    (folder / "greet.py").write_text('def greet():\n    return "Helo"\n')
    (programs / "pilotfish").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilotfish "$@"\n')
    (programs / "pilotfish").chmod(0o755)
    snippet = re.findall(r"```elisp\n(.*?)```", README, re.DOTALL)[0]
    installed = snippet.replace("~/src/pilotfish/client-emacs", str(ROOT / "client-emacs"))
    (home / ".emacs.d" / "init.el").write_text(QUIET + installed)
    scripts = Scripts()
    async with serve(otherwise=scripts) as provider:
        environ = environment(home, OPENAI_API_KEY="sk-scripted", HOME=str(home), LC_ALL="C.UTF-8")
        environ |= {"PILOTFISH_MODEL": "openai-chat:scripted", "PILOTFISH_BASE_URL": provider.openai_url}
        environ |= {"PATH": f"{programs}:{environ['PATH']}", "TERM": "xterm-256color"}
        yield World(folder, environ, scripts, provider)


async def run(screen: Screen, command: str, *then: str) -> None:
    """`M-x` a command, then more keys."""
    await screen.keys("M-x")
    await screen.shows("M-x")
    await screen.keys(command, "Enter", *then)


async def prompt(screen: Screen, text: str) -> None:
    await run(screen, "pilotfish")
    await screen.shows("Pilotfish (empty: the chat):")
    await screen.keys(text, "Enter")


async def test_trust_edit_of_unsaved_text_approved_with_its_preview_and_undone(world: World):
    edits = [{"old_string": "Helo wörld", "new_string": "Hello wörld"}]
    world.script(
        "play",
        call("read_file", path="greet.py"),
        call("update_file", path="greet.py", edits=edits),
        say("It is done."),
    )
    async with world.editor() as screen:
        await screen.keys("M->", '# Helo wörld "is', " not saved")
        await prompt(screen, "#play# please")
        await screen.shows("Trust ", "(y or n)")
        await screen.keys("y")
        await screen.shows(
            "Edit greet.py?", "a  Allow once", '-# Helo wörld "is not saved', '+# Hello wörld "is not saved'
        )
        await run(screen, "pilotfish-approve", "a")
        await screen.shows("It is done.", '# Hello wörld "is not saved', "✓ Edit greet.py")
        assert (world.folder / "greet.py").read_text() == 'def greet():\n    return "Helo"\n'
        await screen.keys("C-_")
        await screen.shows('\n# Helo wörld "is not saved')


async def test_a_saved_buffer_is_saved_again_before_a_command_runs_and_the_region_goes_with_the_prompt(world: World):
    edits = [{"old_string": "Helo", "new_string": "Hello"}]
    change = call("update_file", path="greet.py", edits=edits)
    world.script(
        "play",
        call("read_file", path="greet.py"),
        change,
        call("bash", command="touch seen; cat greet.py; exit 3"),
        say("Seen."),
    )
    async with world.editor() as screen:
        await screen.keys("C-Space", "M->")
        await prompt(screen, "#play# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows("Edit greet.py?")
        assert "return" in json.dumps(world.provider.requests[0].messages[-1])
        await run(screen, "pilotfish-approve", "a")
        await screen.shows("Run touch seen; cat greet.py; exit 3?", "cat greet.py; exit 3\n")
        assert (world.folder / "greet.py").read_text() == 'def greet():\n    return "Hello"\n'
        await run(screen, "pilotfish-approve", "f")
        await screen.shows("Tell the agent why:")
        await screen.keys("not now", "Enter")
        await screen.shows("⊘ Run touch seen; cat greet.py; exit 3", "Seen.")
        assert "not now" in world.sent()


async def test_stop_and_going_on_after_a_restart(world: World):
    world.script("slow", say("one ", "two ", end="stall"))
    world.script("next", say("The next answer."))
    async with world.editor() as screen:
        await prompt(screen, "#slow# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows("one two")
        await run(screen, "pilotfish-stop")
        await screen.shows("Stopped.")
    async with world.editor() as screen:
        await run(screen, "pilotfish-sessions")
        await screen.shows("Go on with:")
        await screen.keys("Tab", "Enter")
        await screen.shows("one two", "Stopped.")
        await prompt(screen, "#next# please")
        await screen.shows("The next answer.")
        await asyncio.sleep(0)
        assert "one two" in world.sent()


FLYMAKE = """(progn (require 'flymake)
  (add-hook 'python-mode-hook (lambda ()
    (add-hook 'flymake-diagnostic-functions (lambda (report &rest _)
      (funcall report (list (flymake-make-diagnostic (current-buffer) 5 10 :warning "an odd name")))) nil t)
    (flymake-mode 1))))"""


async def test_diagnostics_of_flymake_reach_the_agent(world: World):
    world.script("play", call("diagnostics", path="greet.py"), say("I see."))
    init = Path(world.environ["HOME"]) / ".emacs.d" / "init.el"
    init.write_text(init.read_text() + FLYMAKE)
    async with world.editor() as screen:
        await prompt(screen, "#play# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows("I see.")
        assert "an odd name" in world.sent()
