"""Standard input and the line at the bottom of a terminal, without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import time

from rich.console import Console

PASTED = 0.05
"""seconds in which further lines belong to the same paste"""
FRAME = 0.12
PATIENCE = 0.4
"""seconds before a wait is worth showing"""


class Lines:
    """Lines of standard input: a wait for one can be cancelled."""

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
        """One line, or all lines of a paste; None at the end of input."""
        line = await self.read(prompt)
        if line is None:
            return None
        lines = [line]
        while not self._closed:
            if b"\n" in self._buffer:
                lines.append(await self.read("") or "")
                continue
            try:
                async with asyncio.timeout(PASTED):
                    await self._more()
            except TimeoutError:
                break
        return "\n".join(lines)

    def forget(self) -> None:
        """Drop what was typed before a question was shown: it cannot be an answer to it."""
        self._buffer = b""
        with contextlib.suppress(Exception):  # no terminal, or no such thing on this system
            import termios

            termios.tcflush(0, termios.TCIFLUSH)

    async def _more(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        with contextlib.suppress(PermissionError):  # a file, or /dev/null: never waited for
            loop.add_reader(0, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(0)
        data = os.read(0, 65_536)
        self._closed = not data
        self._buffer += data


class Spinner:
    """Shows that something is being waited for, on the last line of a terminal; elsewhere it is silent."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._words = ""
        self._began = 0.0
        self._frames = itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
        self._timer: asyncio.TimerHandle | None = None
        self._drawn = False

    def start(self, words: str) -> None:
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        self.stop()
        self._words, self._began = words, time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._draw)

    def stop(self) -> None:
        """Leave the line as it was before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._drawn:
            self._drawn = False
            self._write("\r\x1b[K")

    def _draw(self) -> None:
        seconds = time.monotonic() - self._began
        line = f"{next(self._frames)} {self._words}" + (f" {seconds:.0f} s" if seconds >= 1 else "")
        self._write(f"\r\x1b[K\x1b[2m{line[: self._console.width - 1]}\x1b[0m")
        self._drawn = True
        self._timer = asyncio.get_running_loop().call_later(FRAME, self._draw)

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()
