"""The git side of attribution: new commits and their files, notes, and the hook that adds trailers to messages.

Hides: where a repository keeps its reflog, its hooks and our list of trailers, linked work trees included. Promises: no
commit is ever rewritten; a hook of somebody else is never touched; our hook adds nothing once its list is gone or older
than the last commit, so a hook that was left behind does no harm. All functions block.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotfish.workspace.git.repository import may_be_repository, run_git

NOTES = "refs/notes/pilotfish"
MAX_TAIL = 64 * 1024
"""bytes of the reflog that are read at once: more commits than a person makes between two looks"""
_OWN_WORK = re.compile(r"commit\b|cherry-pick\b|revert\b|am\b|rebase.*\((?:pick|reword|edit|squash|fixup|continue)\)")
"""reflog messages of commits made here; the others are checkouts, resets, pulls and clones"""
_MARK = "# Added by Pilotfish (setting gitAttribution)"
HOOK = f"""#!/bin/sh
{_MARK}: says in the message which turns wrote what is committed.
# It does nothing without .git/pilotfish/trailers, and is removed with the setting. It never fails a commit.
[ "$2" = merge ] && exit 0
list=$(git rev-parse --git-path pilotfish/trailers) && [ -f "$list" ] || exit 0
[ "$(sed -n 1p "$list")" = "$(git rev-parse --quiet --verify HEAD)" ] || exit 0
git -c core.quotePath=false diff --cached --name-only --no-renames --no-ext-diff |
  awk -F '\\t' '
    NR == FNR {{ staged[$0] = 1; next }}
    FNR > 1 && ($1 in staged) && !seen[$2]++ {{ print $2 }}
  ' - "$list" |
  while IFS= read -r line; do
    git interpret-trailers --in-place --if-exists addIfDifferent --trailer "$line" "$1"
  done
exit 0
"""


@dataclass(frozen=True, slots=True)
class Repository:
    """The places of a repository that attribution uses."""

    top: Path
    reflog: Path
    trailers: Path
    """our list for the hook: the commit it was made for, then a path and a trailer in each line"""
    hook: Path
    foreign_hooks: str | None
    """the folder of hooks that a setting names; we put nothing there"""


@dataclass(frozen=True, slots=True)
class CommittedFile:
    path: Path
    before: str | None
    after: str | None


def repository(folder: Path, environ: Mapping[str, str]) -> Repository | None:
    """The repository that a folder is in, if it has a work tree."""
    if not may_be_repository(folder):
        return None
    paths = ("--git-path", "logs/HEAD", "--git-path", "pilotfish/trailers", "--git-common-dir")
    answer = _git(folder, environ, "rev-parse", "--show-toplevel", *paths)
    settings = _git(folder, environ, "config", "--list", "--show-scope", "-z")
    if answer is None or settings is None:
        return None
    top, reflog, trailers, common = answer.splitlines()
    fields = settings.split("\0")
    named = [
        entry.partition("\n")[2]
        for scope, entry in zip(fields[::2], fields[1::2], strict=False)
        if scope != "command" and entry.startswith("core.hookspath\n")
    ]
    return Repository(
        top=Path(top),
        reflog=folder / reflog,
        trailers=folder / trailers,
        hook=folder / common / "hooks" / "prepare-commit-msg",
        foreign_hooks=named[-1] if named else None,
    )


def new_commits(reflog: Path, start: int) -> tuple[tuple[str, ...], int]:
    """The commits made here whose entries begin at a byte of the reflog, and where the next ones will begin."""
    try:
        with reflog.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - MAX_TAIL) if start <= end else end)
            lines = file.read().split(b"\n")
    except OSError:
        return (), 0
    entries = [line.decode(errors="replace").partition("\t") for line in lines[:-1]]
    made = [about.split(" ")[1] for about, _, message in entries if _OWN_WORK.match(message) and about.count(" ") > 1]
    return tuple(dict.fromkeys(made)), end - len(lines[-1])


def head(top: Path, environ: Mapping[str, str]) -> str:
    """The id of the last commit; empty before the first."""
    return (_git(top, environ, "rev-parse", "--quiet", "--verify", "HEAD") or "").strip()


def committed_files(
    top: Path, environ: Mapping[str, str], commit: str, wanted: Collection[Path]
) -> tuple[CommittedFile, ...]:
    """Those of these files that a commit changed. A merge counts as changing none."""
    listed = _git(top, environ, "diff-tree", "--root", "-r", "-z", "--no-renames", "--no-commit-id", commit) or ""
    fields = listed.split("\0")
    changed = [(about.split(" "), top / name) for about, name in zip(fields[::2], fields[1::2], strict=False)]
    return tuple(
        CommittedFile(path, _blob(top, environ, about[2]), _blob(top, environ, about[3]))
        for about, path in changed
        if path in wanted and "160000" not in (about[0].lstrip(":"), about[1])
    )


def changed_files(top: Path, environ: Mapping[str, str], files: Collection[Path]) -> tuple[CommittedFile, ...]:
    """Those of these files that differ from the last commit, as they are on disk."""
    found: list[CommittedFile] = []
    for path in files:
        before = _git(top, environ, "cat-file", "blob", f"HEAD:{path.relative_to(top).as_posix()}")
        after = None
        with contextlib.suppress(OSError):
            after = path.read_bytes().decode(errors="surrogateescape")
        if before != after:
            found.append(CommittedFile(path, before, after))
    return tuple(found)


def write_note(top: Path, environ: Mapping[str, str], commit: str, text: str) -> bool:
    """Give a commit a note in `NOTES`; one that it has is replaced. Returns False if git refuses."""
    return _git(top, environ, "notes", f"--ref={NOTES}", "add", "--force", "--message", text, commit) is not None


def install_hook(place: Repository) -> str | None:
    """Install the hook if it is not installed. Returns why it cannot be."""
    if place.foreign_hooks is not None:
        return f"the hooks of this repository are in {place.foreign_hooks}"
    if place.hook.parent.is_symlink():
        return "the folder of the hooks of this repository is a link"
    if os.path.lexists(place.hook):
        return None if is_ours(place.hook) else "this repository has a prepare-commit-msg hook of its own"
    try:
        place.hook.parent.mkdir(exist_ok=True)
        _replace(place.hook, HOOK, 0o755)
    except OSError as error:
        return f"the hook could not be written: {error.strerror}"
    return None


def remove_hook(place: Repository) -> None:
    """Remove what `install_hook` and `write_trailers` wrote."""
    with contextlib.suppress(OSError):
        if is_ours(place.hook):
            place.hook.unlink()
    if place.trailers.parent.is_symlink():
        return
    with contextlib.suppress(OSError):
        place.trailers.unlink(missing_ok=True)
        place.trailers.parent.rmdir()


def is_ours(hook: Path) -> bool:
    try:
        return _MARK in hook.read_text("utf-8", errors="replace")
    except OSError:
        return False


def write_trailers(place: Repository, commit: str, trailers: Sequence[tuple[str, str]]) -> None:
    """What the hook adds to the next commit's message, by path from the top of the work tree. A folder that is a link
    is not written to: a confined command can make it, and it may lead anywhere."""
    if place.trailers.parent.is_symlink():
        return
    lines = [commit, *(f"{path}\t{trailer}" for path, trailer in trailers if not set(path) & {"\t", "\n", '"', "\\"})]
    place.trailers.parent.mkdir(exist_ok=True)
    _replace(place.trailers, "\n".join(lines) + "\n", 0o644)


def _replace(file: Path, text: str, mode: int) -> None:
    """Write a file whole or not at all: git may read it at any time."""
    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as temporary:
            temporary.write(text)
        Path(name).chmod(mode)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _blob(top: Path, environ: Mapping[str, str], name: str) -> str | None:
    return None if not name.strip("0") else _git(top, environ, "cat-file", "blob", name)


def _git(folder: Path, environ: Mapping[str, str], *words: str) -> str | None:
    try:
        return run_git(folder, environ, *words)
    except subprocess.TimeoutExpired:
        return None
