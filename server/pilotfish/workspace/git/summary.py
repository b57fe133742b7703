"""Summarises a repository for the model: branch, changed files, last commits."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pilotfish.workspace.git.repository import dangerous, may_be_repository, own_settings, run_git

MAX_COMMITS = 5
MAX_SUBJECT = 80


@dataclass(frozen=True, slots=True)
class GitSummary:
    branch: str
    changed: int | None = None
    """files that differ from the last commit, or None if git was not asked"""
    commits: tuple[str, ...] = ()


def summarise(folder: Path, environ: Mapping[str, str], *, trusted: bool) -> GitSummary | None:
    """The state of the repository of a folder. None if there is none. Blocking.

    In a folder that is not trusted only the branch is read. Where settings of the repository name programs, git is not
    asked for changed files, because it would run them.
    """
    if not may_be_repository(folder):
        return None
    try:
        branch = run_git(folder, environ, "rev-parse", "--abbrev-ref", "HEAD")
        if branch is None or not trusted:
            return None if branch is None else GitSummary(branch.strip())
        settings = own_settings(folder, environ)
        status = None
        if settings is not None and not dangerous(settings, inner=False):
            status = run_git(folder, environ, "status", "--porcelain", "--ignore-submodules=all", "--no-renames")
        log = run_git(folder, environ, "log", f"-{MAX_COMMITS}", "--format=%h %s")
    except subprocess.TimeoutExpired:
        return None
    commits = tuple(line[:MAX_SUBJECT] for line in (log or "").splitlines())
    return GitSummary(branch.strip(), None if status is None else len(status.splitlines()), commits)
