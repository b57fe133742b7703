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
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from pilotfish.conversation.records import KilledProcess
from pilotfish.errors import ToolError
from pilotfish.policy.shell.analysis import study
from pilotfish.policy.shell.effects import Effect
from pilotfish.workspace.git.repository import tame_repository, tracked
from pilotfish.workspace.own_programs import find_program
from pilotfish.workspace.process.job import Job
from pilotfish.workspace.process.orphan_reaper import OrphanReaper
from pilotfish.workspace.process.pipes import Pipe
from pilotfish.workspace.process.process_tree import MARKER, ProcessTree, find, now_in_ticks
from pilotfish.workspace.sandbox.confinement import NOTHING_DENIED, Confinement, Denied
from pilotfish.workspace.sandbox.inner_repositories import protect_repositories
from pilotfish.workspace.sandbox.overlay import MAX_WRITTEN_BYTES, Changes, View
from pilotfish.workspace.sandbox.protected import GIT_WRITERS, Protection, pin, protect, protect_instructions
from pilotfish.workspace.sandbox.proxy import EVERY_HOST, Proxy
from pilotfish.workspace.sandbox.readonly_sandbox import Confined, Scene, secret_files
from pilotfish.workspace.sandbox.sandbox import (
    Room,
    Sandbox,
    SessionFolders,
    clean_environment,
    find_sandbox,
    remove_folder,
)

MAX_COMMAND_BYTES = 100_000
"""the kernel takes 128 KiB as one argument"""
MAX_OUTPUT_BYTES = 512 << 20
"""a command that writes more than this is stopped"""
MAX_JOBS = 16
GRACE = 2.0
"""seconds between TERM and KILL"""
WATCH_INTERVAL = 0.5
"""seconds between two looks at how much a command has written that is tried out"""
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
    """What a command may do. `read_only`: it may change nothing. `workspace`: it may write in the workspace."""

    wall: Literal["read_only", "workspace"]
    paths: tuple[Path, ...] = ()
    """hidden or protected files that the user allowed it to use"""
    hosts: tuple[str, ...] = ()
    """hosts that the user allowed it to reach, beside those of the settings; `*`: the whole network"""
    writable: tuple[Path, ...] = ()
    """existing files and folders outside the workspace that the user allowed it to write"""
    offline: bool = False
    """it may not use the network, whatever the settings say"""
    hides_secrets: bool = False
    """nobody approved it: the secret files of the workspace are empty for it, except `paths`, as in the read-only
    sandbox, and it makes and changes no instruction file"""
    view: View | None = None
    """it sees this in place of the workspace"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirected:
    """File descriptors in place of the empty input, and of the common output for what goes to stderr. Such a command
    does not move the working directory."""

    stdin: int
    stderr: int


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
        self._choose = sandbox
        self._environ = clean_environment(os.environ if environ is None else environ)
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._running: dict[int, Job] = {}
        self._jobs: dict[str, Job] = {}
        self._killed: list[KilledProcess] = []
        self._spawning: set[asyncio.Future[Job]] = set()
        self._killing: set[asyncio.Task[None]] = set()
        self._folders: SessionFolders | None = None
        self._orphan_reaper = OrphanReaper(self._name)
        self._has_started = False
        kill_at_end(self)

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
                stopped = f"it wrote more than {MAX_OUTPUT_BYTES >> 20} MB"
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
        sandbox = await asyncio.to_thread(self._choose)
        if sandbox.bwrap is None:
            raise ToolError(f"A command cannot be tried out here: {sandbox.reason}")
        folder = self._session_folders(sandbox).base / f"view-{next(self._numbers)}"
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
        self._choose = lambda: sandbox

    async def aclose(self) -> None:
        await self.kill_all()
        if self._killing:
            await asyncio.gather(*self._killing, return_exceptions=True)
        for job in self._jobs.values():
            job.close()
        self._jobs.clear()
        await asyncio.to_thread(self._orphan_reaper.close)
        if self._folders is not None:
            await asyncio.to_thread(self._folders.remove)
            self._folders = None

    async def _start(
        self, command: str, tell: Tell, leave: Leave, redirected: Redirected | None = None
    ) -> tuple[Job, tuple[str, ...]]:
        self._has_started = True
        bash = find_program("bash")
        if bash is None:
            raise ToolError("bash is not installed on this machine")
        if "\0" in command:
            raise ToolError("The command contains a NUL character")
        if len(command.encode(errors="surrogateescape")) > MAX_COMMAND_BYTES:
            raise ToolError("The command is too long; write it to a file with write_file and run that")
        notes = self._restore_cwd()
        # Not to be interrupted half-way: a process that has begun must be known, to be ended with all it started.
        spawning = asyncio.ensure_future(self._spawn(bash, command, tell, leave, redirected))
        self._spawning.add(spawning)
        spawning.add_done_callback(self._spawning.discard)
        try:
            return await asyncio.shield(spawning), notes
        except asyncio.CancelledError:
            await self._run_shielded(self._end_spawned(spawning))
            raise

    async def _spawn(self, bash: str, command: str, tell: Tell, leave: Leave, redirected: Redirected | None) -> Job:
        marker, born = f"{self._name}.{next(self._numbers)}", now_in_ticks()
        sandbox = await asyncio.to_thread(self._choose)
        folders = self._session_folders(sandbox)
        self._orphan_reaper.start(folders.base, self.roots)
        own = {MARKER: marker, "PWD": str(self.cwd)}
        output, place = Pipe(), Pipe()
        confined, confinement = Confined([]), Confinement()
        try:
            argv = [bash, "--noprofile", "--norc", "-c", SCRIPT.format(fd=place.writer), "bash", command]
            if leave.wall == "read_only":
                confined, environment = await asyncio.to_thread(self._read_only, sandbox, argv, command, leave, folders)
            else:
                confinement = await self._confinement(sandbox, command, leave, folders)
                confined, environment = await asyncio.to_thread(self._writing, sandbox, argv, confinement)
            process = await asyncio.create_subprocess_exec(
                *confined.argv,
                cwd=self.cwd,
                env=environment | own,
                stdin=asyncio.subprocess.DEVNULL if redirected is None else redirected.stdin,
                stdout=output.writer,
                stderr=output.writer if redirected is None else redirected.stderr,
                pass_fds=(place.writer, *confined.fds),
                start_new_session=True,
            )
        except BaseException as error:
            output.close()
            place.close()
            confinement.end()
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
            confinement=confinement,
        )
        self._running[process.pid] = job
        return job

    def _read_only(
        self, sandbox: Sandbox, argv: list[str], command: str, leave: Leave, folders: SessionFolders
    ) -> tuple[Confined, dict[str, str]]:
        """The command line and its environment in the read-only sandbox. Blocking: secrets are looked for."""
        read_only = sandbox.read_only
        secrets = () if not read_only.stands else secret_files(self.roots, Path.home())
        if secrets and "git" in _programs(command):
            known = tracked(secrets, self.roots, self._environ)
            secrets = tuple(file for file in secrets if not known.get(file))
        scene = Scene(roots=self.roots, cwd=self.cwd, scratch=folders.base, secrets=secrets, shown=leave.paths)
        # Tests and linters are programs of the workspace; what only reads uses those of the system.
        runs_code = study(command).effect is not Effect.READS
        added = read_only.environment(self._environ, () if runs_code else self.roots)
        tame = tame_repository(self.cwd, self._environ | added, read_only.git_settings())
        return read_only.wrap(argv, scene), self._environ | added | tame

    async def _confinement(self, sandbox: Sandbox, command: str, leave: Leave, folders: SessionFolders) -> Confinement:
        """What the workspace sandbox needs for this command."""
        if sandbox.bwrap is None:
            return Confinement()
        folders = folders if leave.view is None else leave.view.folders
        hosts = () if leave.offline else sandbox.reach(leave.hosts)
        proxy = None if EVERY_HOST in hosts else Proxy(folders.base / f"proxy-{next(self._numbers)}", hosts)

        def protection() -> tuple[Protection, tuple[Path, ...]]:
            if leave.view is not None:
                return Protection(roots=()), ()  # all it changes is thrown away
            hidden = self._hidden(command, leave) if leave.hides_secrets else ()
            found = protect(
                self.roots, programs=_programs(command), allowed=leave.paths, home=sandbox.home, environ=self._environ
            )
            if leave.hides_secrets:
                found = protect_instructions(found, leave.paths)
                found = protect_repositories(found, _programs(command))
            return pin(found, hidden), hidden

        protected, hidden = await asyncio.to_thread(protection)
        room = Room(
            roots=self.roots,
            cwd=self.cwd,
            folders=folders,
            protection=protected,
            hidden=hidden,
            hosts=hosts,
            proxy=proxy.path if proxy is not None else None,
            writable=tuple(path for path in leave.writable if path.exists() and not sandbox.hides_below(path)),
            home=sandbox.home,
            sources=leave.view.sources if leave.view is not None else {},
            prefix=leave.view.prefix if leave.view is not None else (),
        )
        if proxy is not None:
            await proxy.start()
        return Confinement(room, proxy, self._environ)

    def _hidden(self, command: str, leave: Leave) -> tuple[Path, ...]:
        """The secret files that a command of the workspace sandbox does not see. Raises ToolError where git would
        record them as emptied. Blocking."""
        found = secret_files(self.roots, Path.home())
        found = tuple(file for file in found if not any(path.is_relative_to(file) for path in leave.paths))
        if not found or not _programs(command) & GIT_WRITERS:
            return found
        known = tracked(found, self.roots, self._environ)
        if changed := [file for file, same in known.items() if not same or file not in found]:
            raise ToolError(
                f"git tracks {changed[0]}, which is hidden from a command that nobody approved. "
                "Set for_real to ask the user"
            )
        return tuple(file for file in found if file not in known)

    def _writing(self, sandbox: Sandbox, argv: list[str], confinement: Confinement) -> tuple[Confined, dict[str, str]]:
        """The command line and its environment in the workspace sandbox. Blocking."""
        confinement.put_up()
        environment = self._environ | tame_repository(self.cwd, self._environ) | sandbox.environment()
        room = confinement.room
        return Confined(argv) if room is None else sandbox.wrap(argv, room), environment

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

    def _session_folders(self, sandbox: Sandbox) -> SessionFolders:
        if self._folders is None:
            self._folders = SessionFolders(Path(tempfile.mkdtemp(prefix="pilotfish-")).resolve())
            self._folders.make(sandbox.identity)
            weakref.finalize(self, self._folders.remove)
        return self._folders


async def _wait_for_flood(view: View) -> None:
    """Returns when the command has written too much."""
    while await asyncio.to_thread(view.written) <= MAX_WRITTEN_BYTES:  # noqa: ASYNC110 - a file system tells nobody
        await asyncio.sleep(WATCH_INTERVAL)


def _programs(command: str) -> frozenset[str]:
    """The programs that a command line names."""
    return frozenset(Path(words[0]).name for words in study(command).found if words)
