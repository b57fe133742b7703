"""The environment of commands, and the bubblewrap sandbox for approved commands.

A command that runs without approval uses the sandbox of `readonly_sandbox.py` instead. Promises: variables
whose names look secret do not reach a command; git does not prompt or page, and does not run programs
that a repository's own settings name for reading it. Hooks stay: a commit is expected to run them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pilotfish.config.settings import Settings
from pilotfish.workspace.git.repository import GIT_SETTINGS, git_settings
from pilotfish.workspace.process.readonly_sandbox import (
    TOOL_FOLDERS,
    TOOL_SECRETS,
    ReadOnlySandbox,
    find_read_only_sandbox,
    linked_git_folder,
    no_read_only_sandbox,
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

IDENTITY_FILE = ".gitconfig"

HIDDEN_FOLDERS = ("/run/user", "/var/tmp")  # noqa: S108 - hidden, not used
"""The user's session sockets, and what others left lying about."""

MASKED_SOCKETS = ("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")
"""Who may speak to these may do anything on the machine."""

PROTECTED = (
    ".vscode", ".idea", ".zed", ".devcontainer", ".husky", ".githooks", ".pre-commit-config.yaml", ".github/workflows",
    ".github/actions", ".gitlab-ci.yml", ".circleci", ".ci", "AGENTS.md", "CLAUDE.md", ".mcp.json", ".pilotfish",
    ".claude", ".cursor", ".codex", ".envrc", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv",
    ".cargo/config.toml", ".mvn", ".gdbinit",
)  # fmt: skip
"""Of a workspace: what an editor, a shell, git, a build server or an agent obeys later. Commands do not write it."""

GIT_WRITERS = frozenset({"git", "gh", "glab", "hub", "jj", "pre-commit", "lefthook", "tig", "lazygit"})
"""Programs for which the repository itself is writable."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """How approved commands are confined. `reason` says why they are not, when `bwrap` is None."""

    bwrap: str | None
    reason: str = ""
    network: bool = True
    home: Path | None = None
    identity: str = ""
    """the user's name and address for commits, as git's configuration; the rest of it is hidden with the home"""
    read_only: ReadOnlySandbox = NO_READ_ONLY
    """where commands run that nobody was asked about"""

    @property
    def words(self) -> str:
        """for the status page and for people"""
        if self.bwrap is None:
            told = f"no sandbox: {self.reason}" + ("" if self.network else ", and the network cannot be closed")
        else:
            told = f"bubblewrap: workspace writable, home hidden, network {'on' if self.network else 'off'}"
        return f"{told}; {self.read_only.words}"

    def environment(self, scratch: Path) -> dict[str, str]:
        """What a command needs to know of its confinement."""
        if self.bwrap is None:
            return {}
        (scratch / IDENTITY_FILE).write_text(self.identity)
        return {"GIT_CONFIG_GLOBAL": f"/tmp/{IDENTITY_FILE}", "TMPDIR": "/tmp"}  # noqa: S108 - the sandbox's own

    def wrap(
        self,
        argv: Sequence[str],
        *,
        roots: Sequence[Path],
        cwd: Path,
        scratch: Path,
        writes_git: bool = True,
        allowed: Sequence[Path] = (),
    ) -> list[str]:
        """The command line that runs `argv` inside. `scratch` is what it sees as /tmp, kept between commands; `allowed`
        are protected files that a person allowed it to change."""
        if self.bwrap is None:
            return list(argv)
        binds: list[str] = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        binds += ["--bind", str(scratch), "/tmp"]  # noqa: S108 - the sandbox's own
        for folder in HIDDEN_FOLDERS:
            if Path(folder).is_dir():
                binds += ["--tmpfs", folder]
        for socket in MASKED_SOCKETS:
            if Path(socket).exists():
                binds += ["--ro-bind", "/dev/null", socket]
        binds += self._home_binds()
        for root in roots:
            binds += ["--bind", str(root), str(root)]
        for place in _protected(roots, writes_git=writes_git):
            if not any(path.is_relative_to(place) for path in allowed):
                binds += ["--ro-bind", str(place), str(place)]
        confine = [
            "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--new-session",
            "--die-with-parent", "--chdir", str(cwd),
        ]  # fmt: skip
        if not self.network:
            confine.append("--unshare-net")
        linked = [str(git) for root in roots if (git := linked_git_folder(root)) is not None and writes_git]
        writable = [word for git in linked for word in ("--bind", git, git)]
        guarded = [word for git in linked for word in _guards(Path(git))]
        return [self.bwrap, *binds, *writable, *guarded, *confine, "--", *argv]

    def _home_binds(self) -> list[str]:
        home = self.home
        if home is None or not home.is_dir() or home == Path("/"):
            return []
        binds = ["--tmpfs", str(home)]
        for folder in TOOL_FOLDERS:
            if (home / folder).exists():
                binds += ["--ro-bind", str(home / folder), str(home / folder)]
        for file in TOOL_SECRETS:
            if (home / file).exists():
                binds += ["--ro-bind", "/dev/null", str(home / file)]
        return binds


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
    return find_sandbox(settings.network)


@functools.cache
def find_sandbox(network: bool = True) -> Sandbox:
    """The sandboxes of this machine, tried once: bubblewrap may be installed and yet not work. Blocking."""
    return replace(_find_bubblewrap(network), read_only=find_read_only_sandbox())


def _find_bubblewrap(network: bool) -> Sandbox:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return no_sandbox("bubblewrap is not installed", network=network)
    trial = Sandbox(bwrap=bwrap, network=network, home=_home(), identity=_identity())
    probe = trial.wrap(["true"], roots=(), cwd=Path("/"), scratch=Path("/tmp"))  # noqa: S108 - only `true` runs
    try:
        done = subprocess.run(probe, capture_output=True, timeout=5, check=False, env={"PATH": os.defpath})
    except (OSError, subprocess.TimeoutExpired) as error:
        return no_sandbox(f"bubblewrap does not start ({type(error).__name__})", network=network)
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        words = why[0] if why else f"exit code {done.returncode}"
        return no_sandbox(f"bubblewrap does not work here ({words})", network=network)
    return trial


def _protected(roots: Sequence[Path], *, writes_git: bool) -> list[Path]:
    """What is in the workspace and not for commands to write. A repository has a folder for hooks, so that none can be
    made: an empty one changes nothing."""
    found = [root / name for root in roots for name in PROTECTED if (root / name).exists()]
    for root in roots:
        git = root / ".git"
        if git.is_dir() and not git.is_symlink():
            found += [git] if not writes_git else [Path(path) for path in _guards(git)[1::3]]
        elif git.exists():
            found.append(git)
    return found


def _guards(git: Path) -> list[str]:
    """What the user's own git would run or obey later."""
    with contextlib.suppress(OSError):
        (git / "hooks").mkdir(exist_ok=True)
    names = ("hooks", "config", "config.worktree", "info/attributes")
    return [word for name in names if (git / name).exists() for word in ("--ro-bind", str(git / name), str(git / name))]


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _identity() -> str:
    lines = ["[user]"]
    for key in ("name", "email"):
        try:
            done = subprocess.run(
                ["git", "config", "--global", f"user.{key}"],  # noqa: S607 - the user's own git
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
