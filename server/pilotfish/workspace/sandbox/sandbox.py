"""The environment of commands, and the workspace sandbox (bubblewrap) for commands that may write.

A command that may only read uses the sandbox of `readonly_sandbox.py` instead. Promises of this one: only the workspace
and folders of the session are written, and of the workspace not what is protected (`protected.py`); no host is reached
but those of the allow-list, through `proxy.py`; homes, sockets and the machine's keys are hidden, and the secret files
of the workspace from a command that nobody approved. Promises of the
environment: variables whose names look secret do not reach a command; git does not prompt or page, and does not run
programs that a repository's own settings name for reading it. Hooks stay: a commit is expected to run them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pilotfish.config.settings import Settings
from pilotfish.workspace.git.repository import GIT_SETTINGS, git_settings
from pilotfish.workspace.own_programs import find_program
from pilotfish.workspace.sandbox import bridge, seccomp
from pilotfish.workspace.sandbox.protected import Protection
from pilotfish.workspace.sandbox.proxy import EVERY_HOST
from pilotfish.workspace.sandbox.readonly_sandbox import (
    HIDDEN_FILES,
    HIDDEN_FOLDERS,
    SYSTEM_IN_HIDDEN,
    TOOL_FOLDERS,
    TOOL_SECRETS,
    Confined,
    ReadOnlySandbox,
    file_of,
    find_read_only_sandbox,
    no_read_only_sandbox,
    system_mounts,
)

SECRET_NAME = re.compile(
    r"(?:api|access|private|signing|encryption|account|storage|deploy|service)_?key|secret|token|passw|passphrase"
    r"|credential|cookie|webhook|connection_?string|database_url|redis_url|mongo\w*_ur[il]|amqp_url|_dsn$|_key$|_pat$"
    r"|_auth$|^auth_|_pass$|^pgpass",
    re.IGNORECASE,
)
"""Names of variables that commands do not get. `SSH_AUTH_SOCK` names a socket, not a secret, and is kept."""

HARMLESS = frozenset({"SSH_AUTH_SOCK", "XDG_SESSION_COOKIE", "COLORFGBG"})

SHELL_HOOKS = re.compile(
    r"BASH_ENV|ENV|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|PS4|CDPATH|GLOBIGNORE|BASH_FUNC_.*|BASH_XTRACEFD|IFS"
    r"|PILOTFISH_.*|ELECTRON_RUN_AS_NODE|VSCODE_.*|GIT_(?:ASKPASS|DIR|WORK_TREE|INDEX_FILE|CONFIG.*|EXTERNAL_DIFF"
    r"|PROXY_COMMAND|EXEC_PATH|TEMPLATE_DIR)|SSH_ASKPASS.*|RIPGREP_CONFIG_PATH"
)
"""What would run code at a shell's start, or belongs to the server itself."""

QUIET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "PYTHONUNBUFFERED": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "SSH_ASKPASS_REQUIRE": "never",
}
"""Nobody sits at a terminal: nothing may page, prompt or open an editor."""

SSH = "ssh -oBatchMode=yes"

OWN_FOLDER = "/run/pilotfish"
"""what the sandbox itself puts in front of a command"""
NAME_SERVICES = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd")
"""hidden with the rest of `/run` unless the whole network is open"""


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a command is given of the user's environment."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in HARMLESS or not (SECRET_NAME.search(name) or SHELL_HOOKS.fullmatch(name))
    }
    # A relative entry names another folder in every directory: the workspace would say what `ls` is.
    entries = (entry for entry in kept.get("PATH", "").split(os.pathsep) if Path(entry).is_absolute())
    kept["PATH"] = os.pathsep.join(entries) or os.defpath
    kept |= QUIET
    kept.setdefault("GIT_SSH_COMMAND", SSH)
    kept |= git_settings(GIT_SETTINGS)
    if not any(kept.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        kept["LC_CTYPE"] = "C.UTF-8"
    return kept


NO_READ_ONLY = no_read_only_sandbox("it was not looked for")


def remove_folder(folder: Path) -> None:
    """Remove a folder that commands wrote, also folders in it that they made read-only. Links are not followed."""
    with contextlib.suppress(RecursionError):
        for place, names, _ in os.walk(folder):
            for path in (Path(place, name) for name in names):
                if not path.is_symlink():
                    with contextlib.suppress(OSError):
                        path.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
    # Python's own function stops at folders that are nested too deeply, which a command can make.
    if folder.exists() and (rm := shutil.which("rm", path=os.defpath)) is not None:
        subprocess.run([rm, "-rf", "--", str(folder)], check=False, capture_output=True, stdin=subprocess.DEVNULL)


@dataclass(frozen=True, slots=True)
class SessionFolders:
    """What the commands of one session share: their `/tmp` and their home. The rest of `base` no command sees."""

    base: Path

    @property
    def tmp(self) -> Path:
        return self.base / "tmp"

    @property
    def home(self) -> Path:
        return self.base / "home"

    def make(self, identity: str) -> None:
        for folder in (self.tmp, self.home):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.tmp.chmod(0o1777)
        (self.base / "empty").touch(mode=0o444)
        (self.base / "nothing").mkdir(mode=0o555, exist_ok=True)
        (self.base / "gitconfig").write_text(identity)

    def remove(self) -> None:
        remove_folder(self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one command of the workspace sandbox may use."""

    roots: Sequence[Path]
    cwd: Path
    folders: SessionFolders
    protection: Protection = field(default_factory=lambda: Protection(roots=()))
    hidden: Sequence[Path] = ()
    """files and folders that are empty and read-only for it"""
    hosts: Sequence[str] = ()
    """the hosts it may reach; `*`: the whole network, without a proxy"""
    proxy: Path | None = None
    """the socket of its proxy"""
    writable: Sequence[Path] = ()
    """folders outside the roots that it may write too"""
    home: Path | None = None
    """the user's home, where it sees the session's"""
    sources: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    """root → the folder that it sees there; without an entry, the root itself"""
    prefix: Sequence[str] = ()
    """a program in front of bubblewrap that makes the sources; it changes the user's number, bubblewrap sets it back"""

    def may_write(self, path: Path) -> bool:
        own = [Path("/tmp"), Path("/var/tmp"), Path("/dev"), *([self.home] if self.home else [])]  # noqa: S108 - seen inside
        inside = any(path.is_relative_to(place) for place in (*self.roots, *self.writable, *own))
        hidden = any(path.is_relative_to(place) for place in self.hidden)
        return inside and not hidden and not self.protection.covers(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """How commands are confined that may write. `reason` says why they are not, when `bwrap` is None."""

    bwrap: str | None
    reason: str = ""
    network: bool = True
    """whether a command may be given the network at all"""
    hosts: tuple[str, ...] = ()
    """the hosts that every command may reach"""
    home: Path | None = None
    identity: str = ""
    """the user's name and address for commits, as git's configuration; the rest of it is hidden with the home"""
    read_only: ReadOnlySandbox = NO_READ_ONLY
    """where commands run that nobody was asked about"""

    @property
    def words(self) -> str:
        """for the status page and for people"""
        if self.bwrap is None:
            words = f"no sandbox: {self.reason}" + ("" if self.network else ", and the network cannot be closed")
        else:
            words = f"bubblewrap: workspace writable, home hidden, {self.network_words}"
        return f"{words}; {self.read_only.words}"

    @property
    def network_words(self) -> str:
        hosts = self.reach()
        if EVERY_HOST in hosts:
            return "network on"
        return f"network only to {', '.join(hosts)}" if hosts else "network off"

    def reach(self, allowed: Sequence[str] = ()) -> tuple[str, ...]:
        """The hosts a command may reach that a person allowed these."""
        return tuple(dict.fromkeys((*self.hosts, *allowed))) if self.network else ()

    def hides_below(self, path: Path) -> bool:
        """Whether showing this path would show what is hidden below it."""
        hidden = [Path(place) for place in (*HIDDEN_FOLDERS, *HIDDEN_FILES)] + ([self.home] if self.home else [])
        return any(place.is_relative_to(path) for place in hidden)

    def environment(self) -> dict[str, str]:
        """What a command needs to know of its confinement."""
        if self.bwrap is None:
            return {}
        return {"GIT_CONFIG_GLOBAL": f"{OWN_FOLDER}/gitconfig", "TMPDIR": "/tmp"}  # noqa: S108 - the sandbox's own

    def wrap(self, argv: Sequence[str], room: Room) -> Confined:
        """The command line that runs `argv` inside."""
        if self.bwrap is None:
            return Confined(list(argv))
        open_network = EVERY_HOST in room.hosts
        mounts = [*system_mounts(), *self._hidden(room, open_network)]
        mounts += ["--ro-bind", str(room.folders.base / "gitconfig"), f"{OWN_FOLDER}/gitconfig"]
        for place in (*room.roots, *room.writable):
            mounts += ["--bind", str(room.sources.get(place, place)), str(place)]
        mounts += ["--tmpfs", str(room.folders.base)] if self._shows(room) else []
        mounts += room.protection.binds()
        for place in sorted(room.hidden, key=lambda path: len(path.parts)):
            mounts += ["--ro-bind", str(room.folders.base / ("nothing" if place.is_dir() else "empty")), str(place)]
        confine = [
            "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
            "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--chdir", str(room.cwd),
        ]  # fmt: skip
        command = list(argv)
        if not open_network:
            confine.append("--unshare-net")
            if room.proxy is not None:
                socket, script = f"{OWN_FOLDER}/proxy", f"{OWN_FOLDER}/bridge.py"
                mounts += ["--ro-bind", str(room.proxy), socket, "--ro-bind", bridge.__file__, script]
                command = [os.path.realpath(sys.executable), "-I", "-S", script, socket, *argv]
        fds: tuple[int, ...] = ()
        if seccomp.supported():
            fds = (file_of(seccomp.program(seccomp.WRITING)),)
            confine += ["--seccomp", str(fds[0])]
        if room.prefix:
            confine += ["--uid", str(os.getuid()), "--gid", str(os.getgid())]
        return Confined([*room.prefix, self.bwrap, *mounts, *confine, "--", *command], fds)

    def _shows(self, room: Room) -> bool:
        """Whether the workspace holds the session's own folders."""
        return any(room.folders.base.is_relative_to(place) for place in (*room.roots, *room.writable))

    def _hidden(self, room: Room, open_network: bool) -> list[str]:
        """Hides homes, sockets and keys, and puts the session's folders and the home's toolchains in their place."""
        empty = str(room.folders.base / "empty")
        own = {Path("/tmp"): room.folders.tmp}  # noqa: S108 - the sandbox's own
        # Where `TMPDIR` points, the folders of all sessions lie, with the sockets of their proxies.
        places = (*HIDDEN_FOLDERS, tempfile.gettempdir())
        hidden = {Path(os.path.realpath(place)) for place in places if Path(place).is_dir()}
        shown = [*SYSTEM_IN_HIDDEN, *(NAME_SERVICES if open_network else ()), sys.base_prefix]
        emptied = list(HIDDEN_FILES)
        if self.home is not None and self.home.is_dir() and self.home != Path("/"):
            own[self.home] = room.folders.home
            shown += [str(self.home / folder) for folder in TOOL_FOLDERS]
            emptied += [str(self.home / file) for file in TOOL_SECRETS]
        words: list[str] = []
        for place in sorted(hidden | own.keys(), key=lambda place: len(place.parts)):
            words += ["--bind", str(own[place]), str(place)] if place in own else ["--tmpfs", str(place)]
        for place in shown:
            if Path(place).exists() and any(Path(place).is_relative_to(folder) for folder in hidden | own.keys()):
                words += ["--ro-bind", place, place]
        for file in emptied:
            if Path(file).exists():
                words += ["--ro-bind", empty, file]
        return words


def no_sandbox(reason: str, *, network: bool = True) -> Sandbox:
    """None. `network` is what was wished for: without a sandbox it cannot be closed."""
    return Sandbox(bwrap=None, reason=reason, network=network)


def chosen_sandbox(settings: Settings) -> Sandbox:
    """The sandbox that the user's settings ask for, as far as this machine has it. Blocking."""
    if settings.sandbox == "off":
        return replace(
            no_sandbox("turned off", network=settings.network),
            read_only=no_read_only_sandbox("sandboxes are turned off"),
        )
    return replace(find_sandbox(), network=settings.network, hosts=settings.allowed_hosts)


@functools.cache
def find_sandbox() -> Sandbox:
    """The sandboxes of this machine, tried once: bubblewrap may be installed and yet not work. Blocking."""
    return replace(_find_bubblewrap(), read_only=find_read_only_sandbox())


def _find_bubblewrap() -> Sandbox:
    bwrap = find_program("bwrap")
    if bwrap is None:
        return no_sandbox("bubblewrap is not installed")
    found = Sandbox(bwrap=bwrap, home=_home(), identity=_identity())
    fault = trial(found)
    return found if fault is None else no_sandbox(fault)


def trial(sandbox: Sandbox) -> str | None:
    """Run a command inside that reports whether the network is closed. None if all is well; otherwise the problem."""
    with tempfile.TemporaryDirectory(prefix="pilotfish-trial-") as name:
        folders = SessionFolders(Path(name).resolve())
        folders.make("")
        confined = sandbox.wrap(["/bin/sh", "-c", TRIAL], Room(roots=(), cwd=Path("/"), folders=folders))
        try:
            done = subprocess.run(
                confined.argv, capture_output=True, timeout=10, check=False, env={"PATH": os.defpath},
                pass_fds=confined.fds, stdin=subprocess.DEVNULL, text=True, errors="replace",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not start ({type(error).__name__})"
        finally:
            confined.close()
    if (done.returncode, done.stdout) == (0, "lo\n"):
        return None
    why = (done.stderr or done.stdout).strip().splitlines()
    return f"bubblewrap does not work here ({why[0] if why else f'exit code {done.returncode}'})"


TRIAL = "sed -n 's/^ *\\([a-z0-9]*\\):.*/\\1/p' /proc/net/dev"
"""the network devices: only the loopback of the sandbox itself"""


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _identity() -> str:
    git = find_program("git")
    if git is None:
        return ""
    lines = ["[user]"]
    for key in ("name", "email"):
        try:
            done = subprocess.run(
                [git, "config", "--global", f"user.{key}"],
                capture_output=True,
                timeout=5,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        value = done.stdout.decode(errors="replace").strip().replace("\\", "\\\\").replace('"', '\\"')
        if value and "\n" not in value:
            lines.append(f'\t{key} = "{value}"')
    return "\n".join(lines) + "\n"
