"""Starts real servers quickly: a process that has imported everything forks one for each connection.

The start and first turn of a server cost two seconds of CPU time, nearly all of it for imports. Without them a test can
afford a thousand crashes. After the fork it is `pilotfish serve` with its own stdin and stdout, environment, store and
process id.

    async with fork_server() as spawn_fork:
        client = await spawn_fork(home, OPENAI_API_KEY="key")      # as tests.support.client.spawn
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from tests.support.client import SERVER, Client, environment
from tests.support.engine import rig
from tests.support.provider import call, say

ROOT = SERVER.parent
Spawn = Callable[..., Awaitable[Client]]
LINE = 1 << 16


class Forked:
    """A server that is not a child process, with the parts of `asyncio.subprocess.Process` that `Client` uses."""

    def __init__(self, pid: int, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._gone = asyncio.Event()
        self._watch = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._watch, self._ended)

    def _ended(self) -> None:
        self.returncode = 0  # only the parent process knows the real code
        asyncio.get_running_loop().remove_reader(self._watch)
        os.close(self._watch)
        if not self.stdin.transport.is_closing():
            self.stdin.transport.abort()
        self._gone.set()

    async def wait(self) -> int:
        await asyncio.wait_for(self._gone.wait(), 120)
        return 0

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextlib.asynccontextmanager
async def fork_server() -> AsyncGenerator[Spawn]:
    """Forks servers until the end of the block. Servers that still run then belong to their clients."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.fork_server", str(theirs.fileno())],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{SERVER}{os.pathsep}{ROOT}"},
        pass_fds=(theirs.fileno(),),
    )
    theirs.close()
    ours.settimeout(120)

    async def spawn_fork(home: Path, **more: str) -> Client:
        loop = asyncio.get_running_loop()
        (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
        request = json.dumps(environment(home, **more)).encode()
        pid = await loop.run_in_executor(None, _ask, ours, request, their_in, their_out)
        os.close(their_in)
        os.close(their_out)
        reader = asyncio.StreamReader(limit=2**26)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_in, "rb", 0))
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(our_out, "wb", 0)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        client = Client()
        client.attach(cast("Any", Forked(pid, writer, reader)))
        return client

    try:
        yield spawn_fork
    finally:
        ours.close()
        process.wait(60)


def _ask(ours: socket.socket, request: bytes, their_in: int, their_out: int) -> int:
    socket.send_fds(ours, [request], [their_in, their_out])
    return int(ours.recv(LINE))


def serve_forks(door: socket.socket) -> None:
    """Fork a server for each request on this socket, until it closes."""
    from pilotfish.lsp import start

    _warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, *_ = socket.recv_fds(door, LINE, 2)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor, number in zip(descriptors, (0, 1), strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(json.loads(request))
            os._exit(start.serve())
        for descriptor in descriptors:
            os.close(descriptor)
        door.send(str(pid).encode())


def _warm_up() -> None:
    """Import everything and run a turn, so that all one-time work happens before the first fork. Leaves no thread."""
    for name in ("features", "frontend", "handlers", "generic_client.generic_client"):
        importlib.import_module(f"pilotfish.lsp.{name}")

    async def play(place: Path) -> None:
        acts = (call("read_file", path="a"), call("bash", command="true"), call("write_file", path="a", content="b"))
        async with rig(place, *acts, say("warm"), mode="auto") as engine:
            await engine.prompt("warm up")

    with tempfile.TemporaryDirectory() as place:
        asyncio.run(play(Path(place)))


if __name__ == "__main__":
    serve_forks(socket.socket(fileno=int(sys.argv[1])))
