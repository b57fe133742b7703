"""Runs commands, each in its own session, with limits on time and output.

A command has no terminal and no input. Its output is spooled to disk and reported as it arrives. Whatever ends it (its
own end, a timeout, a cancelled task, `kill_all`), nothing it started is left running unknown: what it leaves behind
becomes a background job that can be polled and stopped, or is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pilotfish.conversation.records import KilledProcess
from pilotfish.errors import ToolError
from pilotfish.policy.shell.analysis import study
from pilotfish.workspace.git.repository import tame_repository, untracked
from pilotfish.workspace.process.job import Job
from pilotfish.workspace.process.orphan_reaper import OrphanReaper
from pilotfish.workspace.process.pipes import Pipe
from pilotfish.workspace.process.process_tree import MARKER, ProcessTree, find, now_in_ticks
from pilotfish.workspace.process.readonly_sandbox import Confined, Scene, secret_files
from pilotfish.workspace.process.sandbox import GIT_WRITERS, Sandbox, clean_environment, find_sandbox

MAX_COMMAND_BYTES = 100_000
"""the kernel takes 128 KiB as one argument"""
MAX_OUTPUT_BYTES = 512 << 20
"""a command that writes more than this is stopped"""
MAX_JOBS = 16
GRACE = 2.0
"""seconds between TERM and KILL"""
LINGER = 0.25
"""seconds a command's children may go on writing after it before they count as left behind"""

# `eval` keeps a syntax error, a heredoc or an `exit` inside the command from touching the lines around it. The trap
# tells where the command ended up and which jobs it leaves, unless the command sets a trap of its own.
SCRIPT = (
    'trap "{{ pwd -P; jobs -rp; }} >&{fd} 2>/dev/null" EXIT; __pilotfish=$1; shift; '
    'eval "unset __pilotfish; $__pilotfish"'
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """What a command may do. `read_only`: it was not approved and may change nothing. `workspace`: it was approved."""

    wall: Literal["read_only", "workspace"]
    paths: tuple[Path, ...] = ()
    """hidden or protected files that the user allowed it to use"""


READ_ONLY_LEAVE = Leave(wall="read_only")
WORKSPACE_LEAVE = Leave(wall="workspace")


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


_ALL: weakref.WeakSet[Processes] = weakref.WeakSet()


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
        self._choose = sandbox
        self._environ = clean_environment(os.environ if environ is None else environ)
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._running: dict[int, Job] = {}
        self._jobs: dict[str, Job] = {}
        self._killed: list[KilledProcess] = []
        self._spawning: set[asyncio.Future[Job]] = set()
        self._killing: set[asyncio.Task[None]] = set()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._orphan_reaper = OrphanReaper(self._name)
        self._has_started = False
        _ALL.add(self)

    @property
    def home(self) -> Path:
        """where commands begin"""
        return self.roots[0].resolve() if self.roots else Path.cwd()

    @property
    def sandbox(self) -> Sandbox:
        """What the next command runs in. Blocking, the first time: the machine's sandbox is tried."""
        return self._choose()

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

    async def run(self, command: str, *, timeout: float, tell: Tell, leave: Leave = WORKSPACE_LEAVE) -> Finished:
        """Run to the end, or to the timeout. A cancelled caller leaves nothing running."""
        job, notes = await self._start(command, tell, leave)
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
                stopped = f"it wrote more than {MAX_OUTPUT_BYTES >> 20} MB"
        if stopped:
            await self._kill_shielded(job, GRACE)
            return await self._finish(job, None, stopped, notes)
        await job.drained(LINGER)
        notes += self._follow(job)
        left = self._keep(job) if await job.living() else None
        return await self._finish(job, job.code, "", notes, left)

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
        self._choose = lambda: sandbox

    async def aclose(self) -> None:
        await self.kill_all()
        if self._killing:
            await asyncio.gather(*self._killing, return_exceptions=True)
        for job in self._jobs.values():
            job.close()
        self._jobs.clear()
        await asyncio.to_thread(self._orphan_reaper.close)
        if self._scratch is not None:
            self._scratch.cleanup()

    async def _start(self, command: str, tell: Tell, leave: Leave) -> tuple[Job, tuple[str, ...]]:
        self._has_started = True
        bash = shutil.which("bash")
        if bash is None:
            raise ToolError("bash is not installed on this machine")
        if "\0" in command:
            raise ToolError("The command contains a NUL character")
        if len(command.encode(errors="surrogateescape")) > MAX_COMMAND_BYTES:
            raise ToolError("The command is too long; write it to a file with write_file and run that")
        notes = self._restore_cwd()
        # Not to be interrupted half-way: a process that has begun must be known, to be ended with all it started.
        spawning = asyncio.ensure_future(self._spawn(bash, command, tell, leave))
        self._spawning.add(spawning)
        spawning.add_done_callback(self._spawning.discard)
        try:
            return await asyncio.shield(spawning), notes
        except asyncio.CancelledError:
            await self._run_shielded(self._end_spawned(spawning))
            raise

    async def _spawn(self, bash: str, command: str, tell: Tell, leave: Leave) -> Job:
        marker, born = f"{self._name}.{next(self._numbers)}", now_in_ticks()
        sandbox = await asyncio.to_thread(self._choose)
        scratch = self._scratch_folder()
        self._orphan_reaper.start(scratch)
        own = {MARKER: marker, "PWD": str(self.cwd)}
        output, place = Pipe(), Pipe()
        confined = Confined([])
        try:
            argv = [bash, "--noprofile", "--norc", "-c", SCRIPT.format(fd=place.writer), "bash", command]
            confined, environment = await asyncio.to_thread(self._confined, sandbox, argv, command, leave, scratch)
            process = await asyncio.create_subprocess_exec(
                *confined.argv,
                cwd=self.cwd,
                env=environment | own,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.writer,
                stderr=output.writer,
                pass_fds=(place.writer, *confined.fds),
                start_new_session=True,
            )
        except BaseException as error:
            output.close()
            place.close()
            if isinstance(error, OSError):
                raise ToolError(f"The command could not be started: {error.strerror}") from error
            raise
        finally:
            confined.close()
        output.close_writer()
        place.close_writer()
        job = Job(
            command=command,
            process=process,
            family=ProcessTree(process.pid, marker, born),
            output=output,
            place=place,
            tell=tell,
            max_output=MAX_OUTPUT_BYTES,
            confined=leave.wall == "read_only" or sandbox.bwrap is not None,
        )
        self._running[process.pid] = job
        return job

    def _confined(
        self, sandbox: Sandbox, argv: list[str], command: str, leave: Leave, scratch: Path
    ) -> tuple[Confined, dict[str, str]]:
        """The command line and its environment, as the leave says. Blocking: secrets are looked for on the disk."""
        runs = {words[0] for words in study(command).found}
        if leave.wall == "read_only":
            read_only = sandbox.read_only
            secrets = () if not read_only.stands else secret_files(self.roots, Path.home())
            if secrets and "git" in runs:
                secrets = untracked(secrets, self.roots, self._environ)
            scene = Scene(roots=self.roots, cwd=self.cwd, scratch=scratch, secrets=secrets, shown=leave.paths)
            added = read_only.environment(self._environ, self.roots)
            tame = tame_repository(self.cwd, self._environ | added, read_only.git_settings())
            return read_only.wrap(argv, scene), self._environ | added | tame
        wrapped = sandbox.wrap(
            argv,
            roots=self.roots,
            cwd=self.cwd,
            scratch=scratch,
            writes_git=bool(runs & GIT_WRITERS),
            allowed=leave.paths,
        )
        return Confined(wrapped), self._environ | tame_repository(self.cwd, self._environ) | sandbox.environment(
            scratch
        )

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

    def _follow(self, job: Job) -> tuple[str, ...]:
        """Go where the command went, inside the workspace."""
        place, jobs = job.last_words()
        notes: list[str] = []
        if jobs and job.confined:
            notes.append(f"the sandbox ended {jobs} processes when the command ended; for a server, set background")
        if place is None or place == self.cwd:
            return tuple(notes)
        if self.roots and not any(place.is_relative_to(root) for root in map(Path.resolve, self.roots)):
            return (*notes, f"the working directory stays {self.cwd}: {place} is outside the workspace")
        self.cwd = place
        return tuple(notes)

    def _keep(self, job: Job) -> Job:
        self._running.pop(job.family.leader, None)
        job.id = f"bg{len(self._jobs) + 1}"
        self._jobs[job.id] = job
        return job

    async def _finish(
        self, job: Job, code: int | None, stopped: str, notes: tuple[str, ...], left: Job | None = None
    ) -> Finished:
        output = await job.new_output()
        if left is None:
            self._running.pop(job.family.leader, None)
            job.close()
        return Finished(
            output=output,
            code=code,
            seconds=time.monotonic() - job.started,
            stopped=stopped,
            left=left,
            notes=notes,
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
            self._killed.append(KilledProcess(pid=job.family.leader, command=job.command))
            await job.kill(grace)
        self._running.pop(job.family.leader, None)
        then()

    async def _sweep(self, spared: Collection[Job] = ()) -> None:
        """Kill what no job knows of: daemons whose command ended before they were seen."""
        if not self._has_started:
            return  # looking at every process of the machine takes longer than the rest of a cancel
        deadline = time.monotonic() + GRACE
        while (strays := find(self._name).sure) and time.monotonic() < deadline:
            # Looked for after the strays: what a spared job starts in between counts as its own.
            for job in spared:
                strays -= find(job.family.marker).sure
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.02)

    def _scratch_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="pilotfish-", ignore_cleanup_errors=True)
        return Path(self._scratch.name)
