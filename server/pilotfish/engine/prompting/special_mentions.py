"""What `@problems`, `@changes` and `@branch` in a prompt stand for, and the listing of a mentioned folder."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pilotfish.errors import PilotfishError, Refused
from pilotfish.policy.secrets import mask
from pilotfish.workspace.git.repository import dangerous, may_be_repository, own_settings, run_git
from pilotfish.workspace.language_servers import find_problems
from pilotfish.workspace.sandbox.sandbox import clean_environment
from pilotfish.workspace.search.listing import listing_text
from pilotfish.workspace.workspace import Workspace

PROBLEMS, CHANGES, BRANCH = "problems", "changes", "branch"
TERMINAL = "terminal"
"""the last output of the editor's terminal, which `engine/session/mentioned_text.py` reads"""
SPECIAL: Mapping[str, str] = {
    PROBLEMS: "the problems that the editor shows",
    CHANGES: "the uncommitted changes",
    BRANCH: "the commits and changes of this branch",
    TERMINAL: "the last output of the terminal, or what is selected in it",
}
"""name → what it stands for"""
MAX_PROBLEMS = 100
FOLDER_DEPTH = 2
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all")
_FILE = re.compile(r"^diff --git a/(?P<path>.+) b/(?P=path)\n", re.MULTILINE)
_FILE_OR_QUOTED = re.compile(r"^(?=diff --git )", re.MULTILINE)
_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


async def special_text(name: str, workspace: Workspace, *, trusted: bool) -> str:
    """The text that a special mention stands for. Raises Refused with the reason if there is none."""
    if name == PROBLEMS:
        return await _problems(workspace)
    if not trusted:
        raise Refused("the folder is not trusted, so git is not asked")
    root = workspace.roots[0] if workspace.roots else None
    if root is None or not may_be_repository(root):
        raise Refused("there is no git repository here")
    try:
        text = await asyncio.to_thread(_changes if name == CHANGES else _branch, root, clean_environment(os.environ))
    except subprocess.TimeoutExpired:
        raise Refused("git did not answer in time") from None
    return mask(_without_secret_files(text, workspace))[0]


async def folder_text(folder: Path, workspace: Workspace) -> str:
    """What is in a folder of the workspace."""
    root = next((root for root in workspace.roots if folder.is_relative_to(root)), folder)
    return await listing_text(folder, workspace.relative(folder), root, depth=FOLDER_DEPTH)


async def _problems(workspace: Workspace) -> str:
    try:
        found = await find_problems(workspace, None)
    except PilotfishError:
        raise Refused("the editor does not say which problems it shows") from None
    lines = [
        f"{workspace.relative(one.path)}:{one.line}: {one.severity}: {one.message}"
        f"{f' [{one.source}]' if one.source else ''}"
        for one in found[:MAX_PROBLEMS]
    ]
    if len(found) > MAX_PROBLEMS:
        lines.append(f"[{MAX_PROBLEMS} of {len(found)}, most severe first]")
    return "\n".join(lines) or "The editor shows no problems."


def _changes(root: Path, environ: Mapping[str, str]) -> str:
    _check(root, environ)
    status = run_git(root, environ, "status", "--porcelain", "--ignore-submodules=all") or ""
    # Without a commit yet there is no HEAD; then what is staged counts.
    changed = run_git(root, environ, *_DIFF, "HEAD", "--") or run_git(root, environ, *_DIFF, "--cached", "--") or ""
    return f"git status:\n{status}\ngit diff HEAD:\n{changed}" if status else "There are no uncommitted changes."


def _branch(root: Path, environ: Mapping[str, str]) -> str:
    _check(root, environ)
    branch = (run_git(root, environ, "rev-parse", "--abbrev-ref", "HEAD") or "HEAD").strip()
    for base in _BASES:
        start = None if base == branch else run_git(root, environ, "merge-base", "HEAD", base)
        if start:
            commits = run_git(root, environ, "log", "--format=%h %s", f"{start.strip()}..HEAD") or "none\n"
            changed = run_git(root, environ, *_DIFF, f"{start.strip()}...HEAD", "--") or ""
            return f"Branch {branch}, compared with {base}.\nCommits:\n{commits}\nChanges:\n{changed}"
    raise Refused("there is no main branch to compare this one with")


def _without_secret_files(text: str, workspace: Workspace) -> str:
    """The text without the diffs of files that hold secrets."""
    kept: list[str] = []
    for part in _FILE_OR_QUOTED.split(text):
        named = _FILE.match(part)
        if not part.startswith("diff --git "):
            kept.append(part)
        elif named is None:  # the name is quoted: it has odd characters
            kept.append("[a file with an unusual name is left out]\n")
        elif workspace.resolve(named["path"]).secret:
            kept.append(f"[{named['path']} is left out: it may hold a secret]\n")
        else:
            kept.append(part)
    return "".join(kept)


def _check(root: Path, environ: Mapping[str, str]) -> None:
    settings = own_settings(root, environ)
    if settings is None or dangerous(settings, inner=False):
        raise Refused("the settings of this repository name programs that git would run")
