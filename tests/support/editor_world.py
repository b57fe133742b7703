"""A workspace, a home and a scripted model for an editor that runs on a real screen.

async with editor_world(tmp_path) as world:
    world.script("play", say("Hello."))
    async with world.screen("hx", "greet.py", size=(120, 50)) as screen:
        await screen.keys(…)
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from tests.support.client import environment
from tests.support.nvim import Screen, program
from tests.support.provider import Provider, Reply, serve
from tests.support.served import Scripts

TEXT = 'def greet():\n    return "Helo"\n'
"""of `greet.py` in the workspace"""


@dataclass(frozen=True)
class World:
    """What is around an editor."""

    folder: Path
    home: Path
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
    async def screen(self, name: str, *arguments: str, size: tuple[int, int] = (120, 50)) -> AsyncGenerator[Screen]:
        """An editor in the workspace, when it shows `greet.py`."""
        async with self.command(name, *arguments, size=size) as screen:
            await screen.shows("greet.py", "def greet")
            yield screen

    @contextlib.asynccontextmanager
    async def command(self, name: str, *arguments: str, size: tuple[int, int] = (120, 50)) -> AsyncGenerator[Screen]:
        """A program in the workspace."""
        # A socket's path may only be about a hundred bytes long.
        with tempfile.TemporaryDirectory(prefix="pf") as short:
            screen = Screen(program("tmux"), Path(short) / "tmux")
            await screen.start([program(name), *arguments], self.environ, self.folder, size)
            try:
                yield screen
            finally:
                await screen.stop()


@contextlib.asynccontextmanager
async def editor_world(tmp_path: Path) -> AsyncGenerator[World]:
    """A repository with `greet.py`, an empty home, and `pilotfish` in the path."""
    folder, home, programs = tmp_path / "work", tmp_path / "home", tmp_path / "bin"
    for made in (folder / ".git", home, programs):
        made.mkdir(parents=True)
    (folder / "greet.py").write_text(TEXT)
    (programs / "pilotfish").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilotfish "$@"\n')
    (programs / "pilotfish").chmod(0o755)
    scripts = Scripts()
    async with serve(otherwise=scripts) as provider:
        environ = environment(home, OPENAI_API_KEY="sk-scripted", HOME=str(home), LC_ALL="C.UTF-8")
        environ |= {"PILOTFISH_MODEL": "openai-chat:scripted", "PILOTFISH_BASE_URL": provider.openai_url}
        environ |= {"PATH": f"{programs}:{environ['PATH']}", "TERM": "xterm-256color"}
        for name in [name for name in environ if name.startswith("XDG_")]:
            del environ[name]
        yield World(folder, home, environ, scripts, provider)
