"""Repositories inside a workspace beside its own, which a command that nobody approved could make or change.

The settings and hooks of a repository are programs: the next `git status` in its folder runs them, also that of an
editor or a prompt, outside every sandbox. Existing ones are protected like the workspace's own (`protected.py`). A new
one may stay if its settings are those that `git init`, `clone` and `worktree add` write; others are put aside.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pilotfish.workspace.git.repository import linked_git_folder, own_settings, run_git
from pilotfish.workspace.sandbox.protected import GIT_WRITERS, Protection, free_name, pin
from pilotfish.workspace.sandbox.readonly_sandbox import PUBLISHED

HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|worktree"
    r"|autocrlf|eol)|remote\..*\.(?:url|fetch|pushurl|tagopt)|branch\..*\.(?:remote|merge|rebase)"
    r"|submodule\.(?:.*\.(?:url|active|branch)|active)|user\.(?:name|email)|extensions\.(?:objectformat|refstorage)"
    r"|lfs\.repositoryformatversion"
)
"""Settings that name no program and no other file with settings."""
_OBEYED = ("config", "config.worktree", "commondir", "hooks")
_SHAPES = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
"""A folder with these is a repository to git, whatever it is called."""


def protect_repositories(protection: Protection, programs: Iterable[str]) -> Protection:
    """The same, and what git obeys in other repositories of the roots is not changed. Blocking."""
    found = tuple(_repositories(protection.roots))
    runs_git = not GIT_WRITERS.isdisjoint(programs)
    read_only: dict[Path, None] = {}
    compared: dict[Path, str | None] = {}
    pinned: dict[Path, None] = {}

    def keep(place: Path) -> None:
        if place.is_symlink():
            compared[place] = str(place.readlink())
        elif not os.path.lexists(place):
            compared[place] = None
        elif not protection.covers(place):
            read_only[place] = None

    for git in found:
        if git.is_symlink() or git.is_file() or not runs_git:
            keep(git)
        else:
            pinned[git] = None
        folder = _pointed(git)
        for name in _OBEYED if folder is not None and runs_git else ():
            keep(Path(os.path.normpath(git.parent / (folder or "") / name)))
    inside = [place for place in compared if any(map(place.is_relative_to, protection.roots))]
    more = replace(
        protection,
        read_only=(*protection.read_only, *read_only),
        pinned=tuple(dict.fromkeys((*protection.pinned, *pinned))),
        compared={**{place: compared[place] for place in inside}, **protection.compared},
        repositories=frozenset(found),
    )
    return pin(more, found)


def block_repositories(protection: Protection, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Put aside the repositories that a command made and that could run a program. The words say so. Blocking."""
    if protection.repositories is None:
        return ()
    found = tuple(_repositories(protection.roots))
    places = {*map(_real, found), *_own_repositories(protection.roots)}
    made = [git for git in found if git not in protection.repositories]
    return tuple(_put_aside(git) for git in made if not _is_harmless(git, places, protection, environ))


def _put_aside(git: Path) -> str:
    with contextlib.suppress(OSError):  # without its HEAD a folder is no repository, by whatever name
        if not git.is_symlink():
            (git / "HEAD").rename(free_name(git / "HEAD"))
    now = git
    if git.name == ".git":
        with contextlib.suppress(OSError):
            now = git.rename(free_name(git))
    return (
        f"{git} has settings or hooks that git would obey outside the sandbox, and nobody approved the command that "
        f"made it: it is put aside ({now.name}, without its HEAD); set for_real to ask the user"
    )


def _repositories(roots: Iterable[Path]) -> Iterator[Path]:
    """The repositories in the roots, except those of the roots and what installed packages have."""
    for root in roots:
        own = {root / ".git", linked_git_folder(root)}
        for folder, folders, files in os.walk(root):
            place = Path(folder)
            if place in own:
                folders.clear()
                continue
            if ".git" in folders or ".git" in files:
                git = place / ".git"
                if git not in own and not _is_mask(git):
                    yield git
            if place.name != ".git" and any({*folders, *files} >= shape for shape in _SHAPES):
                yield place
            folders[:] = [name for name in folders if name not in PUBLISHED]


def _is_mask(place: Path) -> bool:
    """Whether this is a folder in place of a missing name, or any other that is empty: to git it is no repository."""
    with contextlib.suppress(OSError):
        return place.is_dir() and not place.is_symlink() and not any(place.iterdir())
    return False


def _own_repositories(roots: Iterable[Path]) -> Iterator[Path]:
    for root in roots:
        yield _real(linked_git_folder(root) or root / ".git")


def _pointed(git: Path) -> str | None:
    """The folder of a repository, as a `.git` file names it or as it is. None if the file names none."""
    if git.is_dir():
        return git.name
    try:
        return git.read_text(errors="replace").removeprefix("gitdir:").strip()
    except OSError:
        return None


def _is_harmless(git: Path, places: set[Path], protection: Protection, environ: Mapping[str, str]) -> bool:
    """Whether a repository obeys nothing but plain settings, and files that the command could not write. It is one of
    these places or in one of them: what it obeys elsewhere could be changed by the next command."""
    asked = {**environ, "GIT_DIR": str(git)}
    try:
        settings = own_settings(git.parent, asked)
        named = run_git(git.parent, asked, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
    except subprocess.TimeoutExpired:
        return False
    if settings is None or named is None:
        return False
    folders = [_real(Path(line)) for line in named.splitlines()]
    if any(not any(map(folder.is_relative_to, places)) for folder in folders):
        return False
    if any(
        not HARMLESS.fullmatch(setting.name) and not protection.covers(_real(git.parent / setting.origin))
        for setting in settings
    ):
        return False
    hooks = folders[-1] / "hooks"
    try:
        return protection.covers(hooks) or all(name.endswith(".sample") for name in os.listdir(hooks))  # noqa: PTH208 - names only
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
