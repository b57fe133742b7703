"""A repository's own settings that name programs: reading it must not run them.

`git diff` runs `diff.external` and text converters, `git status` runs clean filters. They cannot be unset from outside,
only set to something tame; and only what a repository really sets is touched, so that git works as ever elsewhere.
git-lfs is left alone: without it, files would be stored wrongly.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pilotfish.workspace.sandbox import GIT_SETTINGS, git_folder, git_settings

_MAY_NAME_PROGRAMS = re.compile(rb"^\s*\[\s*(?:diff|filter|include|includeif)\b", re.IGNORECASE | re.MULTILINE)
_CONVERTER = re.compile(r"diff\..+\.textconv")
_DIFFER = re.compile(r"diff\.(?:.+\.command|external)")
_FILTER = re.compile(r"filter\..+\.(clean|smudge|process)")

PLAIN_DIFF = """sh -c 'diff -u --label "a/$0" --label "b/$0" "$1" "$4"; true'"""
"""Shows what an external diff is asked to show (path, old file, its hash and mode, new file, …)."""


def tame_repository(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """What to add to the environment of a command that runs in this folder. Blocking, and mostly one small read."""
    git = _repository_of(folder)
    if git is None or not any(_MAY_NAME_PROGRAMS.search(_read(git / name)) for name in ("config", "config.worktree")):
        return {}
    settings: list[tuple[str, str]] = []
    added: dict[str, str] = {}
    for key, value in _own_settings(folder, environ):
        if _CONVERTER.fullmatch(key):
            settings.append((key, "cat"))
        elif key == "diff.external":
            added["GIT_EXTERNAL_DIFF"] = PLAIN_DIFF
        elif _DIFFER.fullmatch(key):
            settings.append((key, PLAIN_DIFF))
        elif (found := _FILTER.fullmatch(key)) and not value.startswith("git-lfs "):
            settings.append((key, "" if found[1] == "process" else "cat"))
    return added | (git_settings((*GIT_SETTINGS, *settings)) if settings else {})


def _repository_of(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            return git_folder(place)
    return None


def _own_settings(folder: Path, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """What the repository itself sets, files it includes counted in."""
    command = ["git", "config", "--list", "--show-scope", "-z"]
    try:
        done = subprocess.run(command, cwd=folder, env=dict(environ), capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    fields = done.stdout.decode(errors="replace").split("\0")
    scoped = zip(fields[::2], fields[1::2], strict=False)
    pairs = [entry.partition("\n") for scope, entry in scoped if scope in ("local", "worktree")]
    return [(key, value) for key, _, value in pairs]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
