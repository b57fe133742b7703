"""Runs commands, each in its own session, with limits on time and output.

A command has no terminal and no input. Its output is spooled to disk and reported as it arrives. Whatever ends it (its
own end, a timeout, a cancelled task, `kill_all`), nothing it started is left running unknown: what it leaves behind
becomes a background job that can be polled and stopped, or is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import weakref
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pilotfish.conversation.records import KilledProcess
from pilotfish.errors import ToolError
from pilotfish.workspace.process.job import Job
from pilotfish.workspace.process.launcher import WORKSPACE_LEAVE, Launcher, Leave, Redirected, Tell
from pilotfish.workspace.process.process_tree import find
from pilotfish.workspace.sandbox.confinement import NOTHING_DENIED, Denied
from pilotfish.workspace.sandbox.overlay import MAX_WRITTEN_BYTES, Changes, View
from pilotfish.workspace.sandbox.sandbox import (
    Sandbox,
    find_sandbox,
    remove_folder,
)

MAX_COMMAND_BYTES = 100_000
"""the kernel takes 128 KiB as one argument"""
MAX_JOBS = 16
GRACE = 2.0
"""seconds between TERM and KILL"""
WATCH_INTERVAL = 0.5
"""seconds between two looks at how much a command has written that is tried out"""
LINGER = 0.25
"""seconds a command's children may go on writing after it before they count as left behind"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended. `code` is None when it was stopped; negative when a signal ended it."""

    output: str
    code: int | None
    seconds: float
    stopped: str = ""
    """why it was stopped, in words"""
    left: Job | None = None
    """what it left running"""
    notes: tuple[str, ...] = ()
    denied: Denied = NOTHING_DENIED
    """what the workspace sandbox refused it"""
    cwd: Path | None = None
    """the directory it ended in, if it could tell"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedOut:
    """How a command ended in a copy-on-write view of the workspace, and what it changed there."""

    finished: Finished
    changes: Changes


class Killable(Protocol):
    """What has processes."""

    def kill_at_once(self) -> object: ...


_ALL: weakref.WeakSet[Killable] = weakref.WeakSet()


def kill_at_end(processes: Killable) -> None:
    """Have `kill_everything` end these too."""
    _ALL.add(processes)


def kill_everything() -> None:
    """At once, without waiting or asking: every process of every command. For the last moment of a server."""
    for processes in tuple(_ALL):
        processes.kill_at_once()


class Processes:
    """The commands of one session, and the working directory they share."""

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        sandbox: Callable[[], Sandbox] = find_sandbox,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self.cwd = self.home
        self._launcher = Launcher(self.roots, sandbox, environ)
        self._running: dict[int, Job] = {}
        self._jobs: dict[str, Job] = {}
        self._killed: list[KilledProcess] = []
        self._spawning: set[asyncio.Future[Job]] = set()
        self._killing: set[asyncio.Task[None]] = set()
        self._has_started = False
        kill_at_end(self)

    @property
    def home(self) -> Path:
        """where commands begin"""
        return self.roots[0].resolve() if self.roots else Path.cwd()

    @property
    def sandbox(self) -> Sandbox:
        """What the next command runs in. Blocking, the first time: the machine's sandbox is tried."""
        return self._launcher.choose()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Background jobs, ended ones too, in the order they were started."""
        return tuple(self._jobs.values())

    @property
    def alive(self) -> tuple[Job, ...]:
        """Background jobs that still run."""
        return tuple(job for job in self._jobs.values() if not job.over)

    def job(self, job_id: str) -> Job:
        if job_id not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise ToolError(f"No background command is called {job_id!r}. Known: {known}")
        return self._jobs[job_id]

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        tell: Tell,
        leave: Leave = WORKSPACE_LEAVE,
        redirected: Redirected | None = None,
    ) -> Finished:
        """Run to the end, or to the timeout. A cancelled caller leaves nothing running."""
        job, notes = await self._start(command, tell, leave, redirected)
        stopped = ""
        try:
            async with asyncio.timeout(timeout):
                await job.ended()
        except TimeoutError:
            stopped = f"it ran longer than {timeout:g} s"
        except asyncio.CancelledError:
            await self._kill_shielded(job, GRACE, job.close)
            raise
        else:
            if job.flooded:
                stopped = f"it wrote more than {job.max_output >> 20} MB"
        if stopped:
            await self._kill_shielded(job, GRACE)
            return await self._finish(job, None, stopped, notes)
        await job.drained(LINGER)
        place, jobs = job.last_words()
        if jobs and job.confined:
            ended = f"the sandbox ended {jobs} processes when the command ended; for a server, set background"
            notes = (*notes, ended)
        left: Job | None = None
        if leave.view is not None:
            await job.kill(GRACE)  # nobody may write in the view while its changes are read
        else:
            notes += self.follow(place) if redirected is None else ()
            left = self._keep(job) if await job.living() else None
        return replace(await self._finish(job, job.code, "", notes, left), cwd=place)

    async def try_out(self, command: str, *, timeout: float, tell: Tell) -> TriedOut:
        """Run to the end in a throwaway copy-on-write view of the workspace, without network. The workspace stays as it
        is. Raises ToolError where the system has no sandbox, or no overlay and a workspace too large for a copy."""
        sandbox = await asyncio.to_thread(self._launcher.choose)
        if sandbox.bwrap is None:
            raise ToolError(f"A command cannot be tried out here: {sandbox.reason}")
        folder = self._launcher.view_folder(sandbox)
        try:
            view = await asyncio.to_thread(View, folder, self.roots, sandbox.identity)
            leave = Leave(wall="workspace", offline=True, view=view)
            finished = await self._run_watched(command, timeout=timeout, tell=tell, leave=leave, view=view)
            return TriedOut(finished=finished, changes=await asyncio.to_thread(view.changes))
        finally:
            await asyncio.to_thread(remove_folder, folder)

    async def _run_watched(self, command: str, *, timeout: float, tell: Tell, leave: Leave, view: View) -> Finished:
        """Run, and stop the command when it has written too much. Raises ToolError then."""
        running = asyncio.ensure_future(self.run(command, timeout=timeout, tell=tell, leave=leave))
        flood = asyncio.ensure_future(_wait_for_flood(view))
        try:
            await asyncio.wait({running, flood}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise ToolError(f"The command was stopped: it wrote more than {MAX_WRITTEN_BYTES >> 20} MB")
            return running.result()
        finally:
            running.cancel()
            flood.cancel()
            await asyncio.gather(running, flood, return_exceptions=True)

    def follow(self, place: Path | None) -> tuple[str, ...]:
        """Go where a command went, inside the workspace. Returns a note if that is elsewhere. The command itself says
        where it went, and may lie."""
        if place is None or place == self.cwd:
            return ()
        place = Path(os.path.realpath(place))
        if self.roots and not any(place.is_relative_to(root) for root in map(Path.resolve, self.roots)):
            return (f"the working directory stays {self.cwd}: {place} is outside the workspace",)
        self.cwd = place
        return ()

    async def start(self, command: str, *, tell: Tell, leave: Leave = WORKSPACE_LEAVE) -> tuple[Job, tuple[str, ...]]:
        """Start in the background; the job is polled and stopped by its id."""
        if len(self.alive) >= MAX_JOBS:
            raise ToolError(f"{MAX_JOBS} background commands are running; stop one first")
        job, notes = await self._start(command, tell, leave)
        job.wanted = True
        self._keep(job)
        return job, notes

    async def stop(self, job: Job, grace: float = GRACE) -> None:
        """End a background job and all it started."""
        await self._kill_shielded(job, grace)

    async def kill_all(self, grace: float = 0.5) -> tuple[KilledProcess, ...]:
        """End running commands and background jobs. Everything killed since this was last asked, by whatever."""
        await self._wait_spawned()
        jobs = (*self._running.values(), *self._jobs.values())
        await asyncio.gather(*(self._kill_shielded(job, grace) for job in jobs))
        await self._sweep()
        return self.take_killed()

    async def kill_running(self, grace: float = 0.5, *, spare: Collection[Job] = ()) -> tuple[KilledProcess, ...]:
        """End running commands, and what commands left behind. Background jobs that were wanted go on, and those to be
        spared. Everything killed since this was last asked, by whatever."""
        await self._wait_spawned()
        spared = [job for job in self._jobs.values() if job.wanted or job in spare]
        left = [job for job in self._jobs.values() if job not in spared]
        await asyncio.gather(*(self._kill_shielded(job, grace) for job in (*self._running.values(), *left)))
        await self._sweep(spared)
        return self.take_killed()

    def kill_at_once(self) -> None:
        """KILL, sent and not waited for."""
        for job in (*self._running.values(), *self._jobs.values()):
            job.kill_at_once()

    def take_killed(self) -> tuple[KilledProcess, ...]:
        """The processes killed since the last call of this method."""
        taken, self._killed = tuple(self._killed), []
        return taken

    def confine(self, sandbox: Sandbox) -> None:
        """From the next command on, run in this sandbox."""
        self._launcher.choose = lambda: sandbox

    async def aclose(self) -> None:
        await self.kill_all()
        if self._killing:
            await asyncio.gather(*self._killing, return_exceptions=True)
        for job in self._jobs.values():
            job.close()
        self._jobs.clear()
        await asyncio.to_thread(self._launcher.close)

    async def _start(
        self, command: str, tell: Tell, leave: Leave, redirected: Redirected | None = None
    ) -> tuple[Job, tuple[str, ...]]:
        self._has_started = True
        if "\0" in command:
            raise ToolError("The command contains a NUL character")
        if len(command.encode(errors="surrogateescape")) > MAX_COMMAND_BYTES:
            raise ToolError("The command is too long; write it to a file with write_file and run that")
        notes = self._restore_cwd()
        # Not to be interrupted half-way: a process that has begun must be known, to be ended with all it started.
        spawning = asyncio.ensure_future(self._spawn(command, tell, leave, redirected))
        self._spawning.add(spawning)
        spawning.add_done_callback(self._spawning.discard)
        try:
            return await asyncio.shield(spawning), notes
        except asyncio.CancelledError:
            await self._run_shielded(self._end_spawned(spawning))
            raise

    async def _spawn(self, command: str, tell: Tell, leave: Leave, redirected: Redirected | None) -> Job:
        job = await self._launcher.launch(command, self.cwd, tell, leave, redirected)
        self._running[job.tree.leader] = job
        return job

    async def _wait_spawned(self) -> None:
        """Waits until the commands that are being started are registered."""
        if self._spawning:
            await asyncio.wait(self._spawning)

    async def _end_spawned(self, spawning: asyncio.Future[Job]) -> None:
        with contextlib.suppress(ToolError):  # it never began
            job = await spawning
            await self._kill(job, GRACE, job.close)

    def _restore_cwd(self) -> tuple[str, ...]:
        if self.cwd.is_dir():
            return ()
        gone, self.cwd = self.cwd, self.home
        if not self.cwd.is_dir():
            raise ToolError(f"The working directory {gone} no longer exists, and neither does {self.cwd}")
        return (f"the working directory {gone} no longer exists; the command ran in {self.cwd}",)

    def _keep(self, job: Job) -> Job:
        self._running.pop(job.tree.leader, None)
        job.id = f"bg{len(self._jobs) + 1}"
        self._jobs[job.id] = job
        return job

    async def _finish(
        self, job: Job, code: int | None, stopped: str, notes: tuple[str, ...], left: Job | None = None
    ) -> Finished:
        output = await job.new_output()
        if left is None:
            self._running.pop(job.tree.leader, None)
            job.close()
        job.confinement.end()
        return Finished(
            output=output,
            code=code,
            seconds=time.monotonic() - job.started,
            stopped=stopped,
            left=left,
            notes=(*notes, *job.confinement.notes, *job.confinement.hidden_note(code)),
            denied=job.confinement.denied(output, code),
        )

    async def _kill_shielded(self, job: Job, grace: float, then: Callable[[], None] = lambda: None) -> None:
        """Kill in a task of its own: a second cancellation stops the waiting, not the killing."""
        await self._run_shielded(self._kill(job, grace, then))

    async def _run_shielded(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._killing.add(task)
        task.add_done_callback(self._killing.discard)
        await asyncio.shield(task)

    async def _kill(self, job: Job, grace: float, then: Callable[[], None]) -> None:
        if await job.living():
            self._killed.append(KilledProcess(pid=job.tree.leader, command=job.command))
            await job.kill(grace)
        self._running.pop(job.tree.leader, None)
        then()

    async def _sweep(self, spared: Collection[Job] = ()) -> None:
        """Kill what no job knows of: daemons whose command ended before they were seen."""
        if not self._has_started:
            return  # looking at every process of the machine takes longer than the rest of a cancel
        deadline = time.monotonic() + GRACE
        while (strays := find(self._launcher.name).sure) and time.monotonic() < deadline:
            # Looked for after the strays: what a spared job starts in between counts as its own.
            for job in spared:
                strays -= find(job.tree.marker).sure
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.02)


async def _wait_for_flood(view: View) -> None:
    """Returns when the command has written too much."""
    while await asyncio.to_thread(view.written) <= MAX_WRITTEN_BYTES:  # noqa: ASYNC110 - a file system tells nobody
        await asyncio.sleep(WATCH_INTERVAL)
