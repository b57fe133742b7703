"""Finds and overrides settings of a repository that make git run programs.

`git diff` runs `diff.external` and text converters, `git status` runs clean filters. They cannot be unset from outside,
only set to something tame; and only what a repository really sets is touched, so that git works as ever elsewhere.
git-lfs is left alone: without it, files would be stored wrongly. Nothing here reads git's files: git is asked, from the
physical directory, with the settings that would make the question itself run a program switched off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotfish.workspace.own_programs import find_program, search_path

TIMEOUT = 3.0
MAX_MODULES = 100
MAX_NAMED = 5  # settings that an approval names

GIT_SETTINGS = (
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("log.showSignature", "false"),
    ("protocol.ext.allow", "never"),
    ("safe.bareRepository", "explicit"),
)
"""Override the repository's own values, because each of these names a program that reading a repository would run.
Settings whose names a repository can choose are overridden one by one in `tame_repository`."""

_CONVERTER = re.compile(r"diff\..+\.textconv")
_DIFFER = re.compile(r"diff\.(?:.+\.command|external)")
_FILTER = re.compile(r"filter\..+\.(clean|smudge|process)")
_PROGRAMS = re.compile(
    r"filter\..*\.(?:clean|smudge|process)|diff\..*\.(?:textconv|command)|diff\.external|gpg\.(?:.*\.)?program"
    r"|gpg\.ssh\.defaultkeycommand|trailer\..*\.(?:command|cmd)|lfs\.extension\..*|lfs\.customtransfer\..*"
    r"|lfs\.(?:.*\.)?standalonetransferagent|core\.alternaterefscommand"
)
"""run when a repository is only read"""
_TRANSPORT = re.compile(
    r"remote\..*\.(?:uploadpack|vcs|proxy)|core\.(?:gitproxy|sshcommand|askpass)|credential\.(?:.*\.)?helper"
)
"""run when objects are missing and fetched on the way: in a partial clone"""
_PARTIAL = re.compile(r"extensions\.partialclone|remote\..*\.(?:promisor|partialclonefilter)")
_INCLUDE = re.compile(r"include\.path|includeif\..*\.path")
_HOOKS = ("post-index-change", "reference-transaction")
"""hooks that reading a repository can run"""
_LFS = re.compile(r"git-lfs (?:clean -- %f|smudge(?: --skip)? -- %f|filter-process(?: --skip)?)")
_SUBMODULE_MODE = "160000 "

PLAIN_DIFF = """sh -c 'diff -u --label "a/$0" --label "b/$0" "$1" "$4"; true'"""
"""Shows what an external diff is asked to show (path, old file, its hash and mode, new file, …)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a repository's own."""

    name: str
    value: str
    origin: str = ""
    """the file it is in"""


def git_settings(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Environment variables that set these git settings. They override every configuration file."""
    named = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in enumerate(settings):
        named |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return named


def tame_repository(
    folder: Path, environ: Mapping[str, str], stronger: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """What to add to the environment of a command that runs in this folder; `stronger` are settings that hold whatever
    the repository says. Blocking."""
    settings: list[tuple[str, str]] = []
    added: dict[str, str] = {}
    for setting in own_settings(folder, environ) or ():
        key = setting.name
        if _CONVERTER.fullmatch(key):
            settings.append((key, "cat"))
        elif key == "diff.external":
            added["GIT_EXTERNAL_DIFF"] = PLAIN_DIFF
        elif _DIFFER.fullmatch(key):
            settings.append((key, PLAIN_DIFF))
        elif (found := _FILTER.fullmatch(key)) and not setting.value.startswith("git-lfs "):
            settings.append((key, "" if found[1] == "process" else "cat"))
    return added | (git_settings((*GIT_SETTINGS, *stronger, *settings)) if settings or stronger else {})


def programs_in(directory: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What would run in the repository a directory belongs to, and in those inside it, when git reads it. Blocking."""
    place = Path(os.path.realpath(directory))
    if not may_be_repository(place):
        return ()
    try:
        return tuple(dict.fromkeys(_programs(place, environ, inner=False)))[:MAX_NAMED]
    except subprocess.TimeoutExpired:
        return ("a repository that git could not read in time",)


def may_be_repository(directory: Path) -> bool:
    """Whether git could find a repository here or above: by a `.git`, or a folder that is one itself."""
    return any(
        os.path.lexists(place / ".git") or os.path.lexists(place / "HEAD") for place in (directory, *directory.parents)
    )


def own_settings(directory: Path, environ: Mapping[str, str]) -> list[Setting] | None:
    """What a repository itself sets, files it includes counted in. None if git failed."""
    if not may_be_repository(Path(os.path.realpath(directory))):
        return []
    try:
        output = run_git(directory, environ, "config", "--list", "--show-scope", "--show-origin", "-z")
    except subprocess.TimeoutExpired:
        output = None
    if output is None:
        return None
    fields = output.split("\0")
    found = zip(fields[::3], fields[1::3], fields[2::3], strict=False)
    own = [(origin, *entry.partition("\n")) for scope, origin, entry in found if scope in ("local", "worktree")]
    return [Setting(key, value, origin.removeprefix("file:")) for origin, key, _, value in own]


def obeyed_files(directory: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The configuration files of the repository a directory belongs to, included ones too, and its folder of hooks
    where a setting names it. Blocking."""
    physical = Path(os.path.realpath(directory))
    found: dict[Path, None] = {}
    for setting in own_settings(directory, environ) or ():
        origin = physical / setting.origin
        found[origin] = None
        if setting.name == "core.hookspath" and setting.value:  # from the top of the work tree
            found[physical / os.path.expanduser(setting.value)] = None  # noqa: PTH111 - a user may not exist
        elif _INCLUDE.fullmatch(setting.name):  # also a file that is empty or missing
            found[origin.parent / os.path.expanduser(setting.value)] = None  # noqa: PTH111 - likewise
    return tuple(Path(os.path.normpath(file)) for file in found)


def linked_git_folder(root: Path) -> Path | None:
    """The repository of a linked work tree, when it lies elsewhere and knows this work tree: the word of a `.git` file
    alone would show any folder it names."""
    pointer = root / ".git"
    try:
        if not pointer.is_file():
            return None
        inner = (root / pointer.read_text(errors="replace").removeprefix("gitdir:").strip()).resolve()
        if Path(inner, "gitdir").read_text(errors="replace").strip() != str(pointer.resolve()):
            return None
        common = (inner / Path(inner, "commondir").read_text(errors="replace").strip()).resolve()
        known = (common / "HEAD").is_file() and (common / "objects").is_dir() and inner.is_relative_to(common)
    except (OSError, ValueError):
        return None
    return common if known else None


def tracked(files: Sequence[Path], roots: Sequence[Path], environ: Mapping[str, str]) -> dict[Path, bool]:
    """Those of the files that git tracks, also below folders among them, each with whether its content is the one in
    git's own files. The name alone proves nothing: a command can add any name to the index."""
    found: dict[Path, bool] = {}
    for root in roots:
        inside = [file for file in files if file.is_relative_to(root)]
        if inside and may_be_repository(root):
            with contextlib.suppress(subprocess.TimeoutExpired):
                asked = ("--literal-pathspecs", "ls-files", "-s", "-z", "--", *map(str, inside))
                for entry in filter(None, (run_git(root, environ, *asked) or "").split("\0")):
                    facts, _, name = entry.partition("\t")
                    found[root / name] = _blob_hash(root / name, len(facts.split()[1])) == facts.split()[1]
    return found


def _blob_hash(file: Path, length: int) -> str | None:
    """The hash that git gives the content of a file."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    data = b"blob %d\0%b" % (len(content), content)
    return (hashlib.sha1(data, usedforsecurity=False) if length == 40 else hashlib.sha256(data)).hexdigest()


def dangerous(settings: Sequence[Setting], *, inner: bool) -> tuple[str, ...]:
    """The settings that make git run a program, or read elsewhere, while reading. `inner`: of a repository inside
    another, to which git does not pass what overrides its settings."""
    partial = any(_PARTIAL.fullmatch(setting.name) for setting in settings)
    found: list[str] = []
    for name, value in ((setting.name, setting.value) for setting in settings):
        if name.startswith("filter.lfs.") and _LFS.fullmatch(value):
            continue
        runs_monitor = name == "core.fsmonitor" and value.lower() not in {"", "true", "false", "0", "1", "yes", "no"}
        transport = partial and _TRANSPORT.fullmatch(name)
        elsewhere = name == "core.worktree" and not inner
        if _PROGRAMS.fullmatch(name) or transport or elsewhere or (inner and runs_monitor):
            found.append(name)
    return tuple(found)


def _programs(place: Path, environ: Mapping[str, str], *, inner: bool, depth: int = 0) -> Iterator[str]:
    facts = run_git(place, environ, "rev-parse", "--is-bare-repository", "--git-common-dir")
    if facts is None:
        return  # git finds no repository, or will not use it: neither will the command
    bare, common = [*facts.split("\n"), "", ""][:2]
    mark = " (submodule)" if inner else ""
    if bare == "true":
        yield "a bare repository"
    settings = own_settings(place, environ)
    if settings is None:
        yield f"settings that cannot be read{mark}"
        return
    # A `.git` that is a file belongs to a submodule or a linked work tree: its work tree is elsewhere by right.
    linked = inner or (place / ".git").is_file()
    yield from (f"{name}{mark}" for name in dangerous(settings, inner=linked))
    own = [setting.value for setting in settings if setting.name == "core.hookspath"]
    folder = place / (own[-1] if own else f"{common}/hooks")
    yield from (f"the hook {name}{mark}" for name in _HOOKS if os.path.lexists(folder / name))
    top = run_git(place, environ, "rev-parse", "--show-toplevel")
    if top is None:
        return
    modules = list(submodules(Path(top.rstrip("\n")), environ))
    if len(modules) > MAX_MODULES or (modules and depth > 3):
        yield "too many submodules to check"
        return
    for module in modules:
        yield from _programs(module, environ, inner=True, depth=depth + 1)


def submodules(top: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """The work trees of submodules that are checked out. Raises TimeoutExpired."""
    listed = run_git(top, environ, "ls-files", "--stage", "-z") or ""
    for entry in listed.split("\0"):
        if entry.startswith(_SUBMODULE_MODE):
            module = top / entry.partition("\t")[2]
            if os.path.lexists(module / ".git"):
                yield module


_ASKING = (*GIT_SETTINGS, ("core.hooksPath", os.devnull))


def run_git(directory: Path, environ: Mapping[str, str], *words: str) -> str | None:
    """What git says, asked from the physical directory; None when it says no. Raises TimeoutExpired."""
    git = find_program("git", environ)
    if git is None:
        return None
    physical = os.path.realpath(directory)
    environment = {
        **environ,
        **git_settings(_ASKING),
        "PATH": search_path(environ),
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    try:
        done = subprocess.run(
            [git, *words],
            cwd=physical,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return None
    return done.stdout.decode(errors="surrogateescape") if done.returncode == 0 else None
