"""`pilotfish` as a person and as a script use it: a real process, on a real pseudo-terminal or on pipes."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.provider import Provider

SECONDS = 90
"""how long a test waits for output"""


ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>78])|\r")


class Terminal:
    """A process on a pseudo-terminal: the text it shows, without escape sequences, and keys to press."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self._raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seen = 0
        self._master = master
        asyncio.get_running_loop().add_reader(master, self._read)

    @property
    def shown(self) -> str:
        return ESCAPES.sub("", self._raw)

    async def sees(self, text: str) -> None:
        """Waits until this text is shown, after the text of the last call."""
        async with asyncio.timeout(SECONDS):
            while (at := self.shown.find(text, self._seen)) < 0:
                assert self.process.returncode is None, f"ended without {text!r}: {self.shown}"
                await asyncio.sleep(0.02)
        self._seen = at + len(text)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def end(self) -> int:
        """The exit code, when everything it showed has been read."""
        async with asyncio.timeout(SECONDS):
            code = await self.process.wait()
        await asyncio.sleep(0.1)
        return code

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)

    def _read(self) -> None:
        try:
            self._raw += self._decoder.decode(os.read(self._master, 65_536))
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)


def environment(tmp_path: Path, provider: Provider | None = None) -> dict[str, str]:
    """A user's environment with a separate store, without the variables that make libraries print less."""
    own = {
        "PILOTFISH_STORAGE": str(tmp_path / "store"),
        "PILOTFISH_CONFIG": str(tmp_path / "config.toml"),
        "PILOTFISH_LOG": str(tmp_path / "log"),
        "PILOTFISH_LANGUAGE_SERVERS": "off",  # whatever is installed on the machine
        "TERM": "xterm",
        "COLUMNS": "200",
        "PROMPT_TOOLKIT_NO_CPR": "1",  # nothing answers a request for the cursor's position here
    }
    if provider is not None:
        own |= {
            "PILOTFISH_MODEL": "openai-chat:scripted",
            "PILOTFISH_BASE_URL": provider.openai_url,
            "OPENAI_API_KEY": "test-key",
        }
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    return {**kept, **own}


def work_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    return folder


@asynccontextmanager
async def terminal(
    tmp_path: Path, *arguments: str, provider: Provider | None = None, env: Mapping[str, str] | None = None
) -> AsyncGenerator[Terminal]:
    """`pilotfish ARGUMENTS` on a terminal of its own, in the folder `work`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pilotfish", *arguments),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=work_folder(tmp_path),
        env={**environment(tmp_path, provider), **(env or {})},
        preexec_fn=take_terminal,
    )
    os.close(slave)
    shown = Terminal(process, master)
    try:
        yield shown
    finally:
        shown.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def piped(
    tmp_path: Path,
    *arguments: str,
    provider: Provider | None = None,
    sent: str | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    """`pilotfish ARGUMENTS` with pipes: exit code, standard output, standard error. Without `sent`, no input."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pilotfish", *arguments),
        stdin=asyncio.subprocess.DEVNULL if sent is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=work_folder(tmp_path),
        env={**environment(tmp_path, provider), **(env or {})},
    )
    out, err = await asyncio.wait_for(process.communicate(None if sent is None else sent.encode()), SECONDS)
    return process.returncode or 0, out.decode(), err.decode()
