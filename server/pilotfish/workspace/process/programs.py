"""Runs programs that answer over pipes as long as they are used, such as language servers, in the read-only sandbox.

A program changes no file, has no network, does not see secret files, and ends with this process, also when that is
killed (`orphan_reaper.py`). Where the machine has no read-only sandbox no program is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pilotfish.errors import ToolError
from pilotfish.workspace.process.orphan_reaper import OrphanReaper
from pilotfish.workspace.process.process_tree import MARKER, ProcessTree, now_in_ticks
from pilotfish.workspace.process.processes import kill_at_end
from pilotfish.workspace.sandbox.readonly_sandbox import Confined, Scene, secret_files
from pilotfish.workspace.sandbox.sandbox import Sandbox, clean_environment, remove_folder

KILL_SECONDS = 2.0
"""for the kernel to end what was sent KILL"""
LINE_LIMIT = 1 << 16
"""bytes of one line that a program may write"""


class Program:
    """A program that runs, with its input and output."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        tree: ProcessTree,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
    ) -> None:
        self._process = process
        self._tree = tree
        self.stdin = stdin
        self.stdout = stdout

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.returncode

    async def ended(self) -> None:
        """Return when it has ended."""
        await self._process.wait()

    async def kill(self) -> None:
        """End it and everything that it started. It gets no time to clean up: it has nothing that could be lost."""
        self.stdin.close()
        deadline = time.monotonic() + KILL_SECONDS
        while self.kill_at_once() and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells of grandchildren
            await asyncio.sleep(0.02)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self._process.wait()

    def kill_at_once(self) -> bool:
        """KILL, sent and not waited for. Returns whether anything was alive."""
        members = self._tree.members(leader_alive=self.code is None)
        if members.sure:
            self._tree.send(signal.SIGKILL, members.sure, leader_alive=self.code is None)
        return bool(members.sure or members.unsure)


class Programs:
    """The programs of this process. Nothing is made until the first one is started."""

    def __init__(self, sandbox: Callable[[], Sandbox]) -> None:
        self._sandbox = sandbox
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._running: set[Program] = set()
        self._scratch: Path | None = None
        self._orphan_reaper = OrphanReaper(self._name)
        kill_at_end(self)

    async def start(
        self, argv: Sequence[str], *, root: Path, shown: Sequence[Path] = (), environ: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program in `root`. `shown` are places of the home that it may read too. Raises ToolError."""
        confined, environment = await asyncio.to_thread(self._confined, argv, root, shown, environ or {})
        marker, born = f"{self._name}.{next(self._numbers)}", now_in_ticks()
        try:
            process = await asyncio.create_subprocess_exec(
                *confined.argv,
                cwd=root,
                env=environment | {MARKER: marker, "PWD": str(root)},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=confined.fds,
                start_new_session=True,
                limit=LINE_LIMIT,
            )
        except OSError as error:
            raise ToolError(f"{argv[0]} could not be started: {error.strerror}") from error
        finally:
            confined.close()
        if process.stdin is None or process.stdout is None:
            raise ToolError(f"{argv[0]} has no input or output")
        program = Program(process, ProcessTree(process.pid, marker, born), process.stdin, process.stdout)
        self._running = {other for other in self._running if other.code is None} | {program}
        return program

    def kill_at_once(self) -> None:
        """KILL to every program, sent and not waited for."""
        for program in self._running:
            program.kill_at_once()

    async def aclose(self) -> None:
        await asyncio.gather(*(program.kill() for program in self._running))
        self._running.clear()
        await asyncio.to_thread(self._orphan_reaper.close)

    def _confined(
        self, argv: Sequence[str], root: Path, shown: Sequence[Path], environ: Mapping[str, str]
    ) -> tuple[Confined, dict[str, str]]:
        """The command line and its environment. Blocking: the sandbox is tried once, secrets are looked for."""
        read_only = self._sandbox().read_only
        if not read_only.stands:
            raise ToolError(f"There is no read-only sandbox for {argv[0]}: {read_only.reason}")
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="pilotfish-")).resolve()
            weakref.finalize(self, remove_folder, self._scratch)
        self._orphan_reaper.start(self._scratch, ())
        scene = Scene(
            roots=(root,),
            cwd=root,
            scratch=self._scratch,
            secrets=secret_files((root,), Path.home()),
            shown=[place for place in shown if place.exists()],
        )
        own = clean_environment(os.environ)
        return read_only.wrap(argv, scene), own | read_only.environment(own, (root,)) | dict(environ)
