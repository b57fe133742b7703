"""Neovim in a real terminal (tmux): keys go in, the screen comes out, and Lua runs inside it.

async with neovim(folder, environ, config="vim.opt.rtp:append(…)") as editor:
    editor.keys(":Pilotfish hello", "Enter")
    await editor.shows("Hello")
    assert await editor.lua("return vim.api.nvim_get_current_line()") == "…"
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EDITORS = ROOT / ".e2e" / "editors"
"""where `make e2e-editors` installs what the system does not have"""
BRIDGE = ROOT / "tests" / "e2e" / "nvim_bridge.lua"
SECONDS = 90.0
"""until something is taken as not coming"""


def program(name: str) -> str:
    """An editor's program. Without it the test is skipped, or fails in the gate."""
    found = shutil.which(name, path=f"{EDITORS / 'bin'}:{os.environ['PATH']}")
    if found is None:
        missing = pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip
        missing(f"{name} is not installed: run `make e2e-editors`")
    return found


class LuaError(Exception):
    """Lua code of a test raised an error."""


class Screen:
    """A program on a screen of tmux's."""

    def __init__(self, tmux: str, socket: Path) -> None:
        self._tmux = (tmux, "-S", str(socket))

    async def start(self, command: list[str], environ: Mapping[str, str], cwd: Path, size: tuple[int, int]) -> None:
        columns, lines = size
        where = ("-x", str(columns), "-y", str(lines), "-c", str(cwd))
        await self.run("-f", "/dev/null", "new-session", "-d", *where, *command, environ=environ)

    async def run(self, *words: str, environ: Mapping[str, str] | None = None) -> str:
        process = await asyncio.create_subprocess_exec(
            *self._tmux, *words, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, problem = await process.communicate()
        assert process.returncode == 0, problem.decode()
        return output.decode()

    async def keys(self, *keys: str) -> None:
        """Press keys, named as tmux names them; other words are typed."""
        for key in keys:
            await self.run("send-keys", "-t", "0", *(("-l", key) if len(key) > 1 and " " in key else (key,)))

    async def text(self) -> str:
        """What is on the screen."""
        return await self.run("capture-pane", "-p", "-t", "0")

    async def shows(self, *texts: str) -> str:
        """Waits until all of these are on the screen, and returns it."""
        shown = ""
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    shown = await self.text()
                    if all(text in shown for text in texts):
                        return shown
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{texts} never came on the screen:\n{shown}") from None

    async def stop(self) -> None:
        with contextlib.suppress(AssertionError):
            await self.run("kill-server")


class Neovim(Screen):
    """A running Neovim."""

    def __init__(self, tmux: str, folder: Path) -> None:
        super().__init__(tmux, folder / "tmux")
        self._socket = folder / "lua"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def lua(self, code: str, *args: Any) -> Any:
        """What a piece of Lua returns."""
        reader, writer = self._streams or await self._connect()
        writer.write(json.dumps({"code": code, "args": args}).encode() + b"\n")
        try:
            answer: dict[str, Any] = json.loads(await asyncio.wait_for(reader.readline(), SECONDS))
        except TimeoutError:
            raise AssertionError(f"Neovim does not answer:\n{await self.text()}") from None
        if "error" in answer:
            raise LuaError(answer["error"])
        return answer["result"]

    async def until(self, code: str, *args: Any) -> Any:
        """Waits until a piece of Lua returns something that is neither nil nor false."""
        try:
            async with asyncio.timeout(SECONDS):
                while not (result := await self.lua(code, *args)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"never true: {code}\n{await self.text()}") from None
        return result

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(SECONDS):
            while self._streams is None:
                try:
                    self._streams = await asyncio.open_unix_connection(str(self._socket), limit=2**24)
                except OSError:
                    await asyncio.sleep(0.05)
        return self._streams

    async def stop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        await super().stop()


@contextlib.asynccontextmanager
async def neovim(
    folder: Path, environ: Mapping[str, str], *, config: str, size: tuple[int, int] = (140, 40), name: str = "nvim"
) -> AsyncGenerator[Neovim]:
    """Neovim in `folder` with this text as its `init.lua`; its state is under HOME of `environ`."""
    nvim, tmux = program(name), program("tmux")
    home = Path(environ["HOME"])
    init = home / ".config" / "nvim" / "init.lua"
    init.parent.mkdir(parents=True, exist_ok=True)
    init.write_text(config, "utf-8")
    # A socket's path may only be about a hundred bytes long.
    with tempfile.TemporaryDirectory(prefix="pf") as short:
        variables = {name: value for name, value in environ.items() if not name.startswith("XDG_")}
        variables |= {"PILOTFISH_TEST_SOCKET": f"{short}/lua", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        editor = Neovim(tmux, Path(short))
        await editor.start([nvim, "-n", "-c", f"luafile {BRIDGE}"], variables, folder, size)
        try:
            yield editor
        finally:
            await editor.stop()
