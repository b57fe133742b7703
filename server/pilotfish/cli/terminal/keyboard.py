"""Plain lines from standard input, and the spinner on the last line of a terminal. Neither blocks the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable

from rich.console import Console

from pilotfish.cli.terminal.terminal_mode import drop_typed

SAME_PROMPT = 0.05
"""seconds in which further lines belong to the same prompt"""
FRAME = 0.12
SPINNER_DELAY = 0.4
"""seconds before the spinner is shown"""


class Lines:
    """Lines from a pipe, or from a terminal whose output is redirected. Waiting for a line can be cancelled."""

    def __init__(self) -> None:
        self._buffer = b""
        self._closed = False

    async def read(self, prompt: str) -> str | None:
        """One line; None at the end of input."""
        sys.stderr.write(prompt)
        sys.stderr.flush()
        while b"\n" not in self._buffer and not self._closed:
            await self._more()
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    async def read_all(self, prompt: str) -> str | None:
        """One line, with the lines that follow at once; None at the end of input."""
        line = await self.read(prompt)
        if line is None:
            return None
        lines = [line]
        while not self._closed:
            if b"\n" in self._buffer:
                lines.append(await self.read("") or "")
                continue
            try:
                async with asyncio.timeout(SAME_PROMPT):
                    await self._more()
            except TimeoutError:
                break
        return "\n".join(lines)

    def drop_typed(self) -> None:
        """Drop text typed before a question was shown: it cannot be an answer to it."""
        self._buffer = b""
        with contextlib.suppress(Exception):  # not a terminal
            drop_typed()

    async def _more(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        with contextlib.suppress(PermissionError):  # a file or /dev/null is always readable
            loop.add_reader(0, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(0)
        data = os.read(0, 65_536)
        self._closed = not data
        self._buffer += data


class Spinner:
    """Shows on the last line of a terminal what the agent waits for. It draws nothing while a prompt is open."""

    def __init__(self, console: Console, prompt_is_open: Callable[[], bool]) -> None:
        self._console = console
        self._prompt_is_open = prompt_is_open
        self._activity = ""
        self._began = 0.0
        self._frames = itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
        self._timer: asyncio.TimerHandle | None = None
        self._drawn = False

    def start(self, activity: str) -> None:
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        self.stop()
        self._activity, self._began = activity, time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(SPINNER_DELAY, self._draw)

    def stop(self) -> None:
        """Clear the spinner's line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._drawn:
            self._drawn = False
            self._write("\r\x1b[K")

    def _draw(self) -> None:
        if not self._prompt_is_open():
            seconds = time.monotonic() - self._began
            line = f"{next(self._frames)} {self._activity}" + (f" {seconds:.0f} s" if seconds >= 1 else "")
            self._write(f"\r\x1b[K\x1b[2m{line[: self._console.width - 1]}\x1b[0m")
            self._drawn = True
        self._timer = asyncio.get_running_loop().call_later(FRAME, self._draw)

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()
