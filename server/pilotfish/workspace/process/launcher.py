"""Starts a command in the sandbox that its verdict names, with the environment, folders and proxy that it may have.

Every process is marked with the name of its session, so that whatever a command leaves behind can be found.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.errors import ToolError
from pilotfish.policy.shell.analysis import study
from pilotfish.policy.shell.effects import Effect, effect_of
from pilotfish.workspace.git.repository import tame_repository, tracked
from pilotfish.workspace.own_programs import find_program
from pilotfish.workspace.process.job import Job
from pilotfish.workspace.process.orphan_reaper import OrphanReaper
from pilotfish.workspace.process.pipes import Pipe
from pilotfish.workspace.process.process_tree import MARKER, ProcessTree, now_in_ticks
from pilotfish.workspace.sandbox.confinement import Confinement
from pilotfish.workspace.sandbox.inner_repositories import protect_repositories
from pilotfish.workspace.sandbox.overlay import View
from pilotfish.workspace.sandbox.protected import GIT_WRITERS, Protection, pin, protect, protect_instructions
from pilotfish.workspace.sandbox.proxy import EVERY_HOST, Proxy
from pilotfish.workspace.sandbox.readonly_sandbox import Confined, Scene, secret_files
from pilotfish.workspace.sandbox.sandbox import Room, Sandbox, SessionFolders, clean_environment

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


class Launcher:
    """Starts the commands of one session."""

    def __init__(
        self, roots: Sequence[Path], choose: Callable[[], Sandbox], environ: Mapping[str, str] | None = None
    ) -> None:
        self.roots = tuple(roots)
        self.choose = choose
        """returns the sandbox of the next command; blocking, the first time"""
        self.name = secrets.token_hex(8)
        """marks the processes of this session"""
        self.folders: SessionFolders | None = None
        self._environ = clean_environment(os.environ if environ is None else environ)
        self._numbers = itertools.count(1)
        self._orphan_reaper = OrphanReaper(self.name)

    async def launch(
        self, command: str, cwd: Path, tell: Tell, leave: Leave, redirected: Redirected | None = None
    ) -> Job:
        """Start a command. Raises ToolError if it cannot be started."""
        bash = find_program("bash")
        if bash is None:
            raise ToolError("bash is not installed on this machine")
        marker, born = f"{self.name}.{next(self._numbers)}", now_in_ticks()
        sandbox = await asyncio.to_thread(self.choose)
        folders = self.session_folders(sandbox)
        self._orphan_reaper.start(folders.base, self.roots)
        own = {MARKER: marker, "PWD": str(cwd)}
        output, place = Pipe(), Pipe()
        confined, confinement = Confined([]), Confinement()
        try:
            argv = [bash, "--noprofile", "--norc", "-c", SCRIPT.format(fd=place.writer), "bash", command]
            if leave.wall == "read_only":
                confined, environment = await asyncio.to_thread(
                    self._read_only, sandbox, argv, command, cwd, leave, folders
                )
            else:
                confinement = await self._confinement(sandbox, command, cwd, leave, folders)
                confined, environment = await asyncio.to_thread(self._writing, sandbox, argv, cwd, confinement)
            process = await asyncio.create_subprocess_exec(
                *confined.argv,
                cwd=cwd,
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
                raise ToolError(f"The command could not be started: {error.strerror or error}") from error
            raise
        finally:
            confined.close()
        output.close_writer()
        place.close_writer()
        return Job(
            command=command,
            process=process,
            tree=ProcessTree(process.pid, marker, born),
            output=output,
            place=place,
            tell=tell,
            confined=leave.wall == "read_only" or sandbox.bwrap is not None,
            confinement=confinement,
        )

    def view_folder(self, sandbox: Sandbox) -> Path:
        """A new name for the folder of a copy-on-write view."""
        return self.session_folders(sandbox).base / f"view-{next(self._numbers)}"

    def session_folders(self, sandbox: Sandbox) -> SessionFolders:
        """The folders of this session in the sandbox, made when the first command starts."""
        if self.folders is None:
            self.folders = SessionFolders(Path(tempfile.mkdtemp(prefix="pilotfish-")).resolve())
            self.folders.make(sandbox.identity)
            weakref.finalize(self, self.folders.remove)
        return self.folders

    def close(self) -> None:
        """Remove the folders of the session. Blocking. No process of it may run any more."""
        self._orphan_reaper.close()
        if self.folders is not None:
            self.folders.remove()
            self.folders = None

    def _read_only(
        self, sandbox: Sandbox, argv: list[str], command: str, cwd: Path, leave: Leave, folders: SessionFolders
    ) -> tuple[Confined, dict[str, str]]:
        """The command line and its environment in the read-only sandbox. Blocking: secrets are looked for."""
        read_only = sandbox.read_only
        secrets = () if not read_only.stands else secret_files(self.roots, Path.home())
        if secrets and "git" in _programs(command):
            known = tracked(secrets, self.roots, self._environ)
            secrets = tuple(file for file in secrets if not known.get(file))
        scene = Scene(roots=self.roots, cwd=cwd, scratch=folders.base, secrets=secrets, shown=leave.paths)
        # Tests and linters are programs of the workspace; what only reads uses those of the system.
        runs_code = study(command).effect is not Effect.READS
        added = read_only.environment(self._environ, () if runs_code else self.roots)
        tame = tame_repository(cwd, self._environ | added, read_only.git_settings())
        return read_only.wrap(argv, scene), self._environ | added | tame

    async def _confinement(
        self, sandbox: Sandbox, command: str, cwd: Path, leave: Leave, folders: SessionFolders
    ) -> Confinement:
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
            programs = _writing_programs(command) if leave.hides_secrets else _programs(command)
            found = protect(
                self.roots, programs=programs, allowed=leave.paths, home=sandbox.home, environ=self._environ
            )
            if leave.hides_secrets:
                found = protect_instructions(found, leave.paths)
                found = protect_repositories(found, programs)
            return pin(found, hidden), hidden

        protected, hidden = await asyncio.to_thread(protection)
        room = Room(
            roots=self.roots,
            cwd=cwd,
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

    def _writing(
        self, sandbox: Sandbox, argv: list[str], cwd: Path, confinement: Confinement
    ) -> tuple[Confined, dict[str, str]]:
        """The command line and its environment in the workspace sandbox. Blocking."""
        confinement.put_up()
        environment = self._environ | tame_repository(cwd, self._environ) | sandbox.environment()
        room = confinement.room
        return Confined(argv) if room is None else sandbox.wrap(argv, room), environment


def _programs(command: str) -> frozenset[str]:
    """The programs that a command line names."""
    return frozenset(Path(words[0]).name for words in study(command).found if words)


def _writing_programs(command: str) -> frozenset[str]:
    """Those that the line runs for more than reading: `git status` and `pip list` open nothing for the rest of it."""
    harmless = {Effect.READS}
    return frozenset(
        name
        for words in study(command).found
        if words and (name := Path(words[0]).name)
        if effect_of(words).effect not in (harmless | {Effect.RUNS} if name in SCRIPT_RUNNERS else harmless)
    )


SCRIPT_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun"})
"""Their scripts install nothing; `uv run` does."""
