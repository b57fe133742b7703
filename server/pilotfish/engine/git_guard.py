"""Settings of a repository that would make an innocent `git status` run a program.

`workspace/sandbox.py` overrides those that can be overridden by name. The rest (filters, text conversions, external
diffs, whatever an include brings, and all of it inside submodules, to which git does not pass the overrides) can only
be looked for. A hostile folder may bring its own `.git`: nothing here follows a path out of it, blocks, or runs git.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

MAX_CONFIG = 1_000_000  # bytes
MAX_MODULES = 100
MAX_NAMED = 5  # settings a question names
MAX_FOLDERS = 3_000  # looked at for repositories inside the repository
GITLINK = b"\x00\x00\xe0\x00"
"""the mode of a submodule in the index"""

_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_PROGRAMS = re.compile(
    r"filter\..*\.(?:clean|smudge|process)|diff\..*\.(?:textconv|command)|diff\.external|gpg\.(?:.*\.)?program"
    r"|gpg\.ssh\.defaultkeycommand|include\.path|includeif\..*\.path"
)
"""run, or may bring what is run, when a repository is only read"""
_TRANSPORT = re.compile(r"remote\..*\.(?:uploadpack|vcs|proxy)|core\.(?:gitproxy|sshcommand)")
"""run when objects are missing and fetched on the way: in a partial clone"""
_PARTIAL = re.compile(r"extensions\.partialclone|remote\..*\.promisor")
_HOOKS = ("post-index-change", "reference-transaction")
"""hooks that reading a repository can run"""
_LFS = re.compile(r"git-lfs (?:clean -- %f|smudge(?: --skip)? -- %f|filter-process(?: --skip)?)")


def programs_in(directory: Path) -> tuple[str, ...]:
    """What would run in the repository a directory belongs to, and in those inside it, when git reads it."""
    top = _top(directory)
    if top is None:
        return ()
    git = top if _is_bare(top) else _git_directory(top / ".git")
    if git is None:
        return ("a .git that cannot be followed",)
    # A `.git` that is a file belongs to a submodule or a linked work tree: its work tree is elsewhere by right.
    found = list(_of(git, submodule=git != top / ".git"))
    for inner in _inner(top, git):
        found += (f"{name} (submodule)" for name in _of(inner, submodule=True))
    return tuple(dict.fromkeys(found))[:MAX_NAMED]


def dangerous(text: str, *, submodule: bool = False) -> tuple[str, ...]:
    """The settings in a git configuration that make git run a program, or read elsewhere, while reading."""
    settings = [(name, value.strip()) for name, value in _settings(text)]
    partial = any(_PARTIAL.fullmatch(name) for name, _ in settings)
    found: list[str] = []
    for name, value in settings:
        if name.startswith("filter.lfs.") and _LFS.fullmatch(value.strip('"')):
            continue
        runs_monitor = name == "core.fsmonitor" and value.lower() not in {"", "true", "false", "0", "1"}
        transport = partial and _TRANSPORT.fullmatch(name)
        elsewhere = name == "core.worktree" and not submodule
        if _PROGRAMS.fullmatch(name) or transport or elsewhere or (submodule and runs_monitor):
            found.append(name)
    return tuple(found)


def _settings(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for raw in text.replace("\\\n", "").splitlines():
        line = raw
        while header := _SECTION.match(line):
            name, sub = header.group(1).lower(), header.group(2)
            section = name if sub is None else f"{name}.{sub.lower()}"
            line = line[header.end() :]
        if line.strip()[:1] in {"#", ";", ""}:
            continue
        if setting := _SETTING.match(line):
            yield f"{section}.{setting.group(1).lower()}", setting.group(2) or ""


def _of(git: Path, *, submodule: bool) -> Iterator[str]:
    common = _common(git)
    hooks = common / "hooks"
    for place in dict.fromkeys((common / "config", git / "config", git / "config.worktree")):
        text = _text(place) or ""
        yield from dangerous(text, submodule=submodule)
        for name, value in _settings(text):
            if name == "core.hookspath":
                hooks = git.parent / value.strip().strip('"')
    yield from (f"the hook {name}" for name in _HOOKS if os.path.lexists(hooks / name))


def _top(directory: Path) -> Path | None:
    for place in (directory, *directory.parents):
        if os.path.lexists(place / ".git") or _is_bare(place):
            return place
    return None


def _is_bare(place: Path) -> bool:
    """Whether git would take the folder itself for a repository: one in disguise among ordinary files."""
    return (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir()


def _git_directory(place: Path) -> Path | None:
    """Where `.git` leads: itself, or where its one line says."""
    if place.is_dir():
        return place
    text = _text(place)
    if text is None or not text.startswith("gitdir:"):
        return None
    goal = (place.parent / text.removeprefix("gitdir:").strip()).resolve()
    return goal if goal.is_dir() else None


def _common(git: Path) -> Path:
    text = _text(git / "commondir")
    return git if text is None else (git / text.strip()).resolve()


def _inner(top: Path, git: Path) -> Iterator[Path]:
    """The git directories of submodules: kept under `.git/modules`, or in the work tree."""
    count = 0
    modules = _common(git) / "modules"
    if modules.is_dir():
        for folder, folders, files in os.walk(modules):
            if "config" in files and "HEAD" in files:
                folders[:] = [name for name in folders if name == "modules"]
                count += 1
                yield Path(folder)
            if count >= MAX_MODULES:
                return
    if GITLINK not in (_bytes(git / "index") or b""):
        return
    for looked, (folder, folders, _) in enumerate(os.walk(top)):
        if looked > MAX_FOLDERS or count >= MAX_MODULES:
            return
        if Path(folder) != top and os.path.lexists(Path(folder) / ".git"):
            inner = _git_directory(Path(folder) / ".git")
            if inner is not None:
                count += 1
                yield inner
        folders[:] = [name for name in folders if name not in {".git", "node_modules", ".venv"}]


def _text(place: Path) -> str | None:
    data = _bytes(place, MAX_CONFIG)
    return None if data is None else data.decode("utf-8", "replace")


def _bytes(place: Path, limit: int = 64_000_000) -> bytes | None:
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        try:
            return file.read(limit)
        except OSError:
            return None
