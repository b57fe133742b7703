"""A real git repository for a test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_WHO = {
    f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in (("NAME", "T"), ("EMAIL", "t@t"))
}


def git(folder: Path, *words: str) -> str:
    """What git says in this folder."""
    environment = {**os.environ, **_WHO, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def make_repository(folder: Path, files: Mapping[str, str]) -> str:
    """A repository with one commit of these files; returns the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return commit(folder, files)


def commit(folder: Path, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a commit")
    return git(folder, "rev-parse", "HEAD").strip()


def state_of(folder: Path) -> tuple[str, str, str, dict[str, bytes]]:
    """Everything a background task must not touch: branch, branches, status and files of the working tree."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
    heads = git(folder, "for-each-ref", "refs/heads", "refs/tags", "refs/stash")
    return git(folder, "symbolic-ref", "HEAD"), heads, git(folder, "status", "--porcelain"), files
