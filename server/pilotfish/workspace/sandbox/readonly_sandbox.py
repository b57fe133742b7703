"""The read-only sandbox, for commands that run without approval.

Promises, for every kind of it: no file changes, no network and no socket is opened, the home and other users' homes
are empty but for compilers, the workspace's secret files are empty or unreadable, no privilege is gained. So a mistake
in the analysis of a command does no harm. Which kind works on this machine is found by trying it (`find`).

Kinds: bubblewrap (Linux; own pid namespace, mounts and seccomp), Landlock with seccomp (Linux 5.13 and later, without
bubblewrap; processes outside are visible but cannot be signalled or read), sandbox-exec (macOS). None: no command runs
here, and policy asks about all but a short list.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.errors import ToolError
from pilotfish.workspace.files.sensitive import mark_of, may_name_secret, secrets_at_home
from pilotfish.workspace.git.repository import linked_git_folder
from pilotfish.workspace.own_programs import find_program
from pilotfish.workspace.sandbox import landlock, seccomp

Kind = Literal["bubblewrap", "landlock", "sandbox-exec", "none"]

HIDDEN_FOLDERS = (
    "/run", "/tmp", "/var/tmp", "/home", "/root", "/Users", "/var/run", "/private/tmp", "/private/var/tmp",  # noqa: S108 - hidden, not used
    "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private", "/etc/wireguard", "/etc/NetworkManager/system-connections",
)  # fmt: skip
"""Sockets, what others left lying about, homes, and the machine's own keys."""
HIDDEN_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/krb5.keytab")
SYSTEM_IN_HIDDEN = ("/run/current-system", "/run/booted-system")
"""Where NixOS keeps its programs."""
TOOL_FOLDERS = (
    ".asdf", ".bun", ".cargo", ".deno", ".dotnet", ".fnm", ".ghcup", ".gradle", ".jenv", ".juliaup", ".local/bin",
    ".local/lib", ".local/pipx", ".local/share/fnm", ".local/share/mise", ".local/share/pnpm", ".local/share/uv",
    ".m2/repository", ".config/git/ignore", ".config/git/attributes",
    ".nix-profile", ".nodenv", ".nvm", ".opam", ".pyenv", ".rbenv", ".rustup", ".rye", ".sdkman", ".volta", "go",
)  # fmt: skip
"""Of a hidden home these stay readable: compilers and package managers live there."""
TOOL_SECRETS = (".cargo/credentials", ".cargo/credentials.toml", ".gradle/gradle.properties")
"""Of those, what holds keys."""
SHOWN_OF_SYSTEM = (
    "/dev/random", "/dev/urandom", "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat",
    "/proc/uptime", "/proc/version",
)  # fmt: skip
KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "driver", "tty", "pressure")
"""Of `/proc`: root may write these without any capability, and one of them names a program that the kernel runs."""
WRITABLE_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")

PUBLISHED = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", "target"})
"""Folders that are not searched for secrets: what others published, and git's own files, which git must read."""
MAX_ENTRIES = 200_000
MAX_HIDDEN = 1_500
"""bubblewrap takes a few thousand arguments"""

READ_ONLY_GIT = (("core.hooksPath", os.devnull), ("format.pretty", "medium"), ("submodule.recurse", "false"))
"""Stronger than a repository's own settings, where nothing may be changed."""


@dataclass(frozen=True, slots=True)
class Confined:
    """A command line that runs inside. `fds` belong to the child; `close` them after it has started."""

    argv: list[str]
    fds: tuple[int, ...] = ()

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a confined command sees."""

    roots: Sequence[Path]
    cwd: Path
    scratch: Path
    """a folder of the session's own, for the empty file that hides others"""
    secrets: Sequence[Path] = ()
    """files and folders that are hidden"""
    shown: Sequence[Path] = ()
    """what is shown whatever hides it: a person allowed reading it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlySandbox:
    """How commands are run that may not change anything. `reason` says why they are not, when `kind` is none."""

    kind: Kind
    reason: str = ""
    program: str = ""
    home: Path | None = None
    trusted_folders: tuple[str, ...] = ()
    """the user's own `safe.directory` settings of git, which the hidden home would take away"""

    @property
    def stands(self) -> bool:
        return self.kind != "none"

    @property
    def words(self) -> str:
        """for the status page and for people"""
        if not self.stands:
            return f"no read-only sandbox ({self.reason}): all but a few plain commands are asked about"
        return f"commands that only read run in a read-only sandbox without network ({self.kind})"

    def environment(self, environ: Mapping[str, str], roots: Sequence[Path]) -> dict[str, str]:
        """The environment of a command inside: nothing of the workspace is on its search path, git fetches nothing."""
        entries = (Path(entry) for entry in environ.get("PATH", os.defpath).split(os.pathsep))
        inside = tuple(Path(os.path.realpath(root)) for root in roots)
        kept = [
            str(entry)
            for entry in entries
            if not any(Path(os.path.realpath(entry)).is_relative_to(root) for root in inside)
        ]
        return {
            "PATH": os.pathsep.join(kept) or os.defpath,
            "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
        }

    def git_settings(self) -> tuple[tuple[str, str], ...]:
        return (*READ_ONLY_GIT, *(("safe.directory", folder) for folder in self.trusted_folders))

    def wrap(self, argv: Sequence[str], scene: Scene) -> Confined:
        """The command line that runs `argv` inside. Raises ToolError where there is no such sandbox."""
        match self.kind:
            case "bubblewrap":
                return self._bubblewrap(argv, scene)
            case "landlock":
                return self._landlock(argv, scene)
            case "sandbox-exec":
                return Confined([self.program, "-p", profile(scene, self.home), *argv])
            case "none":
                raise ToolError("There is no read-only sandbox on this machine; run the command again")

    def _bubblewrap(self, argv: Sequence[str], scene: Scene) -> Confined:
        empty = scene.scratch / "empty"
        empty.touch(mode=0o444, exist_ok=True)
        mounts = system_mounts()
        for place, how in sorted(_layers(scene, self.home).items(), key=lambda item: len(item[0].parts)):
            if how == "show":
                mounts += ["--ro-bind", str(place), str(place)]
            elif place.is_dir():
                mounts += ["--tmpfs", str(place)]
            else:
                mounts += ["--ro-bind", str(empty), str(place)]
        confine = [
            "--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
            "--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session", "--die-with-parent",
            "--chdir", str(scene.cwd),
        ]  # fmt: skip
        fds: tuple[int, ...] = ()
        if seccomp.supported():
            fds = (file_of(seccomp.program()),)
            confine += ["--seccomp", str(fds[0])]
        return Confined([self.program, *mounts, *confine, "--", *argv], fds)

    def _landlock(self, argv: Sequence[str], scene: Scene) -> Confined:
        layers = _layers(scene, self.home)
        # Without a pid namespace /proc shows every process of the machine, with its environment.
        hidden = dict.fromkeys((Path("/dev"), Path("/proc")), "hide")
        system = hidden | dict.fromkeys(map(Path, SHOWN_OF_SYSTEM), "show")
        plan = landlock.Plan(
            read=[str(place) for place in _readable(Path("/"), layers | system)] + ["/proc/self"],
            list=[str(root) for root in scene.roots],
            write=list(WRITABLE_DEVICES),
            seccomp=seccomp.program(landlock_abi=landlock.version()).hex(),
        )
        handle = file_of(json.dumps(plan).encode())
        script = Path(landlock.__file__)
        return Confined([sys.executable, "-I", "-S", str(script), str(handle), *argv], (handle,))


def system_mounts() -> list[str]:
    """The first arguments of bubblewrap: everything read-only, own devices and processes."""
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for place in (f"/proc/{name}" for name in KERNEL_SETTINGS):
        words += ["--ro-bind-try", place, place]
    return words


def no_read_only_sandbox(reason: str) -> ReadOnlySandbox:
    return ReadOnlySandbox(kind="none", reason=reason)


@functools.cache
def find_read_only_sandbox() -> ReadOnlySandbox:
    """The read-only sandbox of this machine: the first kind that holds when it is tried. Blocking, once."""
    home, folders = _home(), _trusted_folders()
    reasons: list[str] = []
    for candidate in _candidates():
        if isinstance(candidate, str):
            reasons.append(candidate)
            continue
        kind, program = candidate
        sandbox = ReadOnlySandbox(kind=kind, program=program, home=home, trusted_folders=folders)
        fault = trial(sandbox)
        if fault is None:
            return sandbox
        reasons.append(f"{kind} does not work here ({fault})")
    return no_read_only_sandbox("; ".join(reasons))


def _candidates() -> Iterator[tuple[Kind, str] | str]:
    if sys.platform == "darwin":
        program = find_program("sandbox-exec")
        yield ("sandbox-exec", program) if program else "sandbox-exec is not installed"
        return
    if sys.platform != "linux":
        yield f"no read-only sandbox is known for {platform.system()}"
        return
    program = find_program("bwrap")
    yield ("bubblewrap", program) if program else "bubblewrap is not installed"
    if not seccomp.supported():
        yield f"there is no seccomp filter for {platform.machine()}"
    elif landlock.version() < 1:
        yield "the kernel has no Landlock"
    else:
        yield ("landlock", sys.executable)


TRIAL = """
cat shown || echo 'a shown file cannot be read'
if cat hidden 2>/dev/null | grep -q .; then echo 'a hidden file can be read'; fi
if (: > shown) 2>/dev/null || (: > new) 2>/dev/null; then echo 'a file can be written'; fi
if chmod 777 shown 2>/dev/null; then echo 'a mode can be changed'; fi
if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then echo 'the network can be reached'; fi
"""


def trial(sandbox: ReadOnlySandbox) -> str | None:
    """Run a command inside that tries to do what it must not. None if all attempts failed; otherwise the problem."""
    bash = find_program("bash")
    if bash is None:
        return "bash is not installed"
    with tempfile.TemporaryDirectory(prefix="pilotfish-trial-") as name, socket.create_server(("127.0.0.1", 0)) as ear:
        root, scratch = Path(name).resolve() / "root", Path(name).resolve() / "scratch"
        root.mkdir()
        scratch.mkdir()
        (root / "shown").write_text("it holds\n")
        (root / "hidden").write_text("a secret\n")
        scene = Scene(roots=(root,), cwd=root, scratch=scratch, secrets=(root / "hidden",))
        confined = sandbox.wrap([bash, "--noprofile", "--norc", "-c", TRIAL, "bash", str(ear.getsockname()[1])], scene)
        try:
            done = subprocess.run(
                confined.argv, cwd=root, capture_output=True, timeout=10, check=False, pass_fds=confined.fds,
                env={"PATH": os.defpath}, text=True, errors="replace", stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the test command does not start: {type(error).__name__}"
        finally:
            confined.close()
        if done.stdout == "it holds\n":
            return None
        words = (done.stdout.removeprefix("it holds\n") or done.stderr).strip().splitlines()
        return words[0] if words else f"exit code {done.returncode}"


# ---------------------------------------------------------------- what is hidden


def secret_files(roots: Iterable[Path], home: Path) -> tuple[Path, ...]:
    """The secret files and folders below the roots, including hard links to secret files. Raises ToolError if there
    are too many files to check."""
    looked = 0
    found: dict[Path, None] = {}
    inodes: dict[int, None] = dict.fromkeys(stat.st_ino for stat in secrets_at_home(home))
    others: list[tuple[int, str]] = []
    waiting = [str(root) for root in roots]
    in_secret = any(_is_secret(f"{root}/name", home) for root in waiting)
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        looked += len(entries)
        if looked > MAX_ENTRIES:
            raise ToolError(
                "The workspace has too many files to hide its secrets in the read-only sandbox. "
                "Set for_real to ask the user"
            )
        for entry in entries:
            if entry.is_symlink() or entry.name in PUBLISHED:
                continue  # where a link leads is hidden there
            if (in_secret or may_name_secret(entry.name)) and _is_secret(entry.path, home):
                found[Path(entry.path)] = None
                inodes[entry.inode()] = None
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                others.append((entry.inode(), entry.path))
    found.update((Path(path), None) for inode, path in others if inode in inodes)
    if len(found) > MAX_HIDDEN:
        raise ToolError("The workspace has too many secret files to hide. Set for_real to ask the user")
    return tuple(found)


def _is_secret(path: str, home: Path) -> bool:
    mark = mark_of((path,), home)
    return mark is not None and mark.secret


Layer = Literal["show", "hide"]


def _layers(scene: Scene, home: Path | None) -> dict[Path, Layer]:
    """Which places are shown and hidden; the deeper one counts. A root counts more than what hides it."""
    layers: dict[Path, Layer] = {}

    def lay(paths: Iterable[Path | str], how: Layer) -> None:
        for path in paths:
            place = Path(os.path.realpath(path))
            if place.exists() and place != Path("/"):
                layers[place] = how

    lay((*HIDDEN_FOLDERS, tempfile.gettempdir()), "hide")
    lay(HIDDEN_FILES, "hide")
    lay(SYSTEM_IN_HIDDEN, "show")
    if home is not None:
        lay((home,), "hide")
        lay((home / name for name in TOOL_FOLDERS), "show")
        lay((home / name for name in TOOL_SECRETS), "hide")
    lay((git for root in scene.roots if (git := linked_git_folder(root)) is not None), "show")
    lay(scene.roots, "show")
    lay((scene.scratch,), "hide")
    lay(scene.secrets, "hide")
    lay(scene.shown, "show")
    return layers


def _readable(place: Path, layers: Mapping[Path, str], shown: bool = True) -> Iterator[Path]:
    """The places that, with all below them, are exactly what is shown: for a sandbox that can only allow."""
    below = [path for path in layers if path != place and path.is_relative_to(place)]
    if shown and not any(layers[path] == "hide" for path in below):
        yield place
    elif below:
        try:
            entries = [place / name for name in os.listdir(place)]  # noqa: PTH208 - names only
        except OSError:
            return
        for entry in entries:
            inside = any(path == entry or path.is_relative_to(entry) for path in below)
            if shown or inside:
                if entry.is_symlink():
                    continue
                yield from _readable(entry, layers, layers.get(entry, "show" if shown else "hide") == "show")


# ---------------------------------------------------------------- macOS


def profile(scene: Scene, home: Path | None) -> str:
    """The profile for `sandbox-exec`. The last rule that matches counts, so the deeper place comes later."""
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow sysctl-read)",
        '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
        "(allow file-read*)",
    ]
    for place, how in sorted(_layers(scene, home).items(), key=lambda item: len(item[0].parts)):
        action = "allow" if how == "show" else "deny"
        lines.append(f"({action} file-read-data (subpath {_quoted(place)}))")
    lines += [
        f"(allow file-write-data file-read-data (literal {_quoted(Path(device))}))" for device in WRITABLE_DEVICES
    ]
    lines.append("(deny network*)")
    return "\n".join(lines)


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---------------------------------------------------------------- helpers


def file_of(data: bytes) -> int:
    """A file in memory, open at its start."""
    make: Callable[[str], int] = os.memfd_create
    fd = make("pilotfish")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _trusted_folders() -> tuple[str, ...]:
    git = find_program("git")
    if git is None:
        return ()
    command = [git, "config", "--global", "-z", "--get-all", "safe.directory"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=5, check=False, text=True)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ()
    return tuple(filter(None, done.stdout.split("\0")))
