"""Protects files of a workspace that a program obeys later: an editor, git, a shell, a build server, an agent.

Existing names are mounted read-only. A name that does not exist yet is given an empty folder as mount point, which is
read-only for the command, so that nobody can make it; git does not show empty folders. The folders made for this have a
mode of their own (`MASK_MODE`) and are removed when the last command in the workspace has ended, also of another
process; the orphan reaper removes them after a crash. A folder above a protected name is a mount of its own: otherwise
it could be renamed and made anew.

Three kinds of names cannot be mounted over: symbolic links, files of git whose mere existence means something, and
missing instruction files in the folders below the roots. They are compared when the command has ended; what is not as
it was is renamed (`BLOCKED`) and put back.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pilotfish.workspace.git.repository import linked_git_folder, obeyed_files, submodules
from pilotfish.workspace.sandbox.readonly_sandbox import PUBLISHED

if sys.platform != "win32":  # there are no mounts, so nothing is locked
    import fcntl

MASK_MODE = 0o1755
BLOCKED = ".blocked"

OBEYED = (
    ".vscode", ".idea", ".zed", ".devcontainer", ".husky", ".githooks", ".pre-commit-config.yaml", ".github/workflows",
    ".github/actions", ".gitlab-ci.yml", ".circleci", ".ci", "AGENTS.md", "CLAUDE.md", ".mcp.json", ".pilotfish",
    ".claude", ".cursor", ".codex", ".envrc", ".gdbinit", "sitecustomize.py", ".github/copilot-instructions.md",
)  # fmt: skip
"""Obeyed in every kind of project; masked when missing."""
ALSO_OBEYED = (
    ".devcontainer.json", "lefthook.yml", "Jenkinsfile", "GEMINI.md", ".gemini", ".agents", ".windsurf", ".clinerules",
    ".cursorrules", "usercustomize.py",
)  # fmt: skip
"""Less common: protected when they exist. Each mask is a folder that the user sees while a command runs."""
INSTRUCTION_NAMES = frozenset({"AGENTS.md", "CLAUDE.md", "GEMINI.md"})
"""Obeyed by agents in every folder."""
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
    ".inputrc", ".gitconfig", ".config/git", ".config/fish", ".ssh",
)  # fmt: skip
"""Obeyed in a home folder only. Missing ones are masked where the workspace is the home."""
TOOL_FILES = {
    ".cargo": ("Cargo.toml",),
    ".mvn": ("pom.xml",),
    "mvnw": ("pom.xml",),
    "gradlew": ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    "gradle/wrapper": ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
}
"""Obeyed by a build tool: missing ones are masked where the project uses the tool."""
INSTALLED = (".venv", "venv", "node_modules/.bin")
"""What package managers install and others run. Missing ones are not masked: making them is an ordinary task."""
INSTALLERS = frozenset({
    "pip", "pip3", "pipx", "uv", "poetry", "pdm", "hatch", "rye", "pipenv", "conda", "mamba", "virtualenv", "tox",
    "nox", "npm", "pnpm", "yarn", "bun", "corepack",
})  # fmt: skip
"""Programs for which the installed files are writable."""
GIT_WRITERS = frozenset({"git", "gh", "glab", "hub", "jj", "pre-commit", "lefthook", "tig", "lazygit"})
"""Programs for which the repository itself is writable."""

_NOT_TO_EXIST = ("commondir", "config.worktree")
"""git obeys these when they exist, and fails when they are folders: they cannot be masked"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What a command may not write inside the roots. The order of the mounts is theirs."""

    roots: tuple[Path, ...]
    read_only: tuple[Path, ...] = ()
    """existing files and folders"""
    masks: tuple[Path, ...] = ()
    """names that do not exist"""
    pinned: tuple[Path, ...] = ()
    """folders that may not be renamed: something in them is protected"""
    compared: Mapping[Path, str | None] = field(default_factory=dict[Path, str | None])
    """what cannot be mounted over → the target of a link, None for what must not exist"""
    instructions: frozenset[Path] | None = None
    """the only instruction files that may exist when the command has ended; None: any may"""
    repositories: frozenset[Path] | None = None
    """the repositories inside the roots that were there before; None: they do not matter"""

    def binds(self) -> list[str]:
        """The arguments of bubblewrap, for after the roots are writable."""
        words: list[str] = []
        for place in sorted(self.pinned, key=lambda path: len(path.parts)):
            words += ["--bind", str(place), str(place)]
        for place in sorted((*self.read_only, *self.masks), key=lambda path: len(path.parts)):
            words += ["--ro-bind", str(place), str(place)]
        return words

    def covers(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in (*self.read_only, *self.masks, *self.compared))


def protect(
    roots: Sequence[Path],
    *,
    programs: Iterable[str],
    allowed: Sequence[Path] = (),
    home: Path | None,
    environ: Mapping[str, str],
) -> Protection:
    """What a command that runs these programs may not write; `allowed` are files that a person allowed. Blocking."""
    runs = frozenset(programs)
    if any(".git" in path.parts for path in allowed):
        runs |= {"git"}  # what is allowed is the repository; its hooks and settings are not part of it
    names = [name for root in roots for name in _names(root, runs, home, environ)]
    repositories = list(_writable_repositories(roots)) if runs & GIT_WRITERS else []
    names += [name for git in repositories for name in _git_names(git)]
    read_only: dict[Path, None] = {}
    masks: dict[Path, None] = {}
    pinned: dict[Path, None] = {}
    compared: dict[Path, str | None] = {}
    if not repositories:  # they may lie in a hidden home, and git must read them
        read_only.update((git, None) for root in roots if (git := linked_git_folder(root)) is not None)
    for base, name, mask in names:
        place = base / name
        if any(path.is_relative_to(place) for path in allowed):
            continue
        steps = _steps(base, place)
        # The first that is a link or missing stands for what would be below it.
        last = next((step for step in steps if step.is_symlink() or not step.is_dir()), place)
        if any(path.is_relative_to(last) for path in allowed):
            continue
        pinned.update(dict.fromkeys(steps[: steps.index(last)]))
        if last.is_symlink():
            compared[last] = str(last.readlink())
        elif last.exists():
            read_only[last] = None
        elif last.name in _NOT_TO_EXIST:
            compared[last] = None
        elif mask:
            masks[last] = None
    return Protection(
        roots=(*roots, *(git for git in repositories if not any(git.is_relative_to(root) for root in roots))),
        read_only=tuple(read_only),
        masks=tuple(masks),
        pinned=tuple(place for place in pinned if place not in read_only),
        compared=compared,
    )


def pin(protection: Protection, hidden: Iterable[Path]) -> Protection:
    """The same, and no folder above what is hidden can be renamed: to a name that is not searched for secrets."""
    steps = (
        step
        for root in protection.roots
        for path in hidden
        if path.is_relative_to(root)
        for step in _steps(root, path)[:-1]
    )
    return replace(protection, pinned=tuple(dict.fromkeys((*protection.pinned, *steps))))


def protect_instructions(protection: Protection, allowed: Sequence[Path] = ()) -> Protection:
    """The same, and no instruction file in any folder is changed or made, except those allowed. Blocking."""
    found = [file for file in _instruction_files(protection.roots) if file not in allowed]
    links = {file: str(file.readlink()) for file in found if file.is_symlink()}
    # The text of a link is that of the file it leads to.
    texts = dict.fromkeys(file.resolve() if file in links else file for file in found)
    kept = [file for file in texts if file.is_file() and any(map(file.is_relative_to, protection.roots))]
    kept = [file for file in kept if file not in allowed and not protection.covers(file)]
    more = replace(
        protection,
        read_only=(*protection.read_only, *kept),
        compared={**links, **protection.compared},
        instructions=frozenset((*found, *allowed)),
    )
    return pin(more, (*kept, *links))


def _instruction_files(roots: Iterable[Path]) -> Iterator[Path]:
    """Those in the folders of the roots, without folders of installed files, where no agent follows them."""
    for root in roots:
        for folder, folders, files in os.walk(root):
            for name in INSTRUCTION_NAMES.intersection((*files, *folders)):
                place = Path(folder, name)
                if place.is_symlink() or place.is_file():
                    yield place
            folders[:] = [name for name in folders if name not in PUBLISHED]


def _steps(base: Path, place: Path) -> list[Path]:
    """The folders from below `base` to the place itself."""
    parts = place.relative_to(base).parts
    return [base.joinpath(*parts[: size + 1]) for size in range(len(parts))]


def _names(
    root: Path, runs: frozenset[str], home: Path | None, environ: Mapping[str, str]
) -> Iterator[tuple[Path, str, bool]]:
    """A folder, a name below it, and whether the name is masked when it does not exist."""
    yield from ((root, name, True) for name in OBEYED)
    yield from ((root, name, False) for name in ALSO_OBEYED)
    yield from ((root, name, home is not None and root == home) for name in SHELL_FILES)
    for name, projects in TOOL_FILES.items():
        yield root, name, any((root / project).exists() for project in projects)
    if not runs & INSTALLERS:
        yield from ((root, name, False) for name in INSTALLED)
    git = root / ".git"
    if not runs & GIT_WRITERS:
        yield root, ".git", True
    elif git.is_symlink() or git.is_file():
        yield root, ".git", False
    for file in obeyed_files(root, environ):
        if file.is_relative_to(root) and not file.is_relative_to(git):
            yield root, str(file.relative_to(root)), True
    if (root / ".gitmodules").exists():
        for module in submodules(root, environ):
            yield root, str(module.relative_to(root) / ".git"), False


def mask_places(roots: Sequence[Path]) -> Iterator[Path]:
    """Every place where a mask could be: for those who clean up without knowing what a command used."""
    for root in roots:
        for name in (*OBEYED, *SHELL_FILES, *TOOL_FILES, ".git/hooks"):
            yield from _steps(root, root / name)
        if (linked := linked_git_folder(root)) is not None:
            yield linked / "hooks"


def _writable_repositories(roots: Sequence[Path]) -> Iterator[Path]:
    """Those of the roots, and those that linked work trees belong to."""
    for root in roots:
        if (linked := linked_git_folder(root)) is not None:
            yield linked
        elif (git := (root / ".git").resolve()).is_dir():
            yield git


def _git_names(git: Path) -> Iterator[tuple[Path, str, bool]]:
    """What the user's own git would run or obey later, in a repository that the command may write."""
    base = git.parent
    for place in (git, *_inner_repositories(git / "modules")):
        inside = place.relative_to(base)
        yield base, str(inside / "hooks"), True
        yield from ((base, str(inside / name), False) for name in ("config", "info/attributes", *_NOT_TO_EXIST))


def _inner_repositories(folder: Path, depth: int = 4) -> Iterator[Path]:
    """The repositories of submodules."""
    with contextlib.suppress(OSError):
        for entry in sorted(folder.iterdir()):
            if entry.is_symlink() or not entry.is_dir():
                continue
            if (entry / "HEAD").exists():
                yield entry
                yield from _inner_repositories(entry / "modules", depth)
            elif depth:
                yield from _inner_repositories(entry, depth - 1)


# ---------------------------------------------------------------- mount points for missing names


class Masks:
    """The mount points of this process, counted by root. Those of other processes are known by a lock on the root."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Path, tuple[int, int]] = {}
        """root → how many commands run there, and the open file that holds the lock (-1 without)"""
        self._made: dict[Path, set[Path]] = {}

    def put(self, protection: Protection) -> None:
        """Make the mount points. Blocking: another process may be removing its own."""
        with self._lock:
            for root in protection.roots:
                count, handle = self._held.get(root, (0, -1))
                self._held[root] = (count + 1, _shared_lock(root) if count == 0 else handle)
                made = self._made.setdefault(root, set())
                for place in protection.masks:
                    if place.is_relative_to(root):
                        made.add(place)
                        with contextlib.suppress(OSError):  # nobody can make it here, or it has just been made
                            _make_mask(place)

    def lift(self, protection: Protection) -> None:
        """Remove the mount points if this was the last command in the root."""
        with self._lock:
            for root in protection.roots:
                count, handle = self._held[root]
                if count > 1:
                    self._held[root] = (count - 1, handle)
                    continue
                del self._held[root]
                made = self._made.pop(root)
                if handle < 0 or _is_last(handle):
                    for place in made:
                        remove_mask(place)
                if handle >= 0:
                    os.close(handle)


MASKS = Masks()


def _make_mask(place: Path) -> None:
    place.mkdir()
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(handle, MASK_MODE)  # mkdir leaves out what the umask says
    finally:
        os.close(handle)


def remove_mask(place: Path) -> None:
    """Remove a mount point that a command left. Anything else stays."""
    with contextlib.suppress(OSError):
        status = place.lstat()
        if stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == MASK_MODE:
            place.rmdir()


def _shared_lock(root: Path) -> int:
    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:  # a file system without locks
        os.close(handle)
        return -1
    return handle


def _is_last(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def block_changes(protection: Protection) -> tuple[str, ...]:
    """Put back what could not be protected by a mount. What was there instead is renamed; the words say so."""
    notes: list[str] = []
    for place, target in protection.compared.items():
        with contextlib.suppress(OSError):
            now = str(place.readlink()) if place.is_symlink() else None
            if now == target and (target is not None or not os.path.lexists(place)):
                continue
            if os.path.lexists(place):
                aside = free_name(place)
                place.rename(aside)
                notes.append(f"{place} is protected: what the command made there is now {aside.name}")
            else:
                notes.append(f"{place} is protected: it was put back")
            if target is not None:
                place.symlink_to(target)
    if protection.instructions is not None:
        for place in tuple(_instruction_files(protection.roots)):
            if place not in protection.instructions:
                with contextlib.suppress(OSError):
                    aside = free_name(place)
                    place.rename(aside)
                    notes.append(
                        f"{place} would instruct agents, and nobody approved the command that made it: "
                        f"it is now {aside.name}; set for_real to ask the user"
                    )
    return tuple(notes)


def free_name(place: Path) -> Path:
    """A name beside a place for what is put aside."""
    number = 1
    while os.path.lexists(found := place.with_name(f"{place.name}{BLOCKED}{number}")):
        number += 1
    return found
