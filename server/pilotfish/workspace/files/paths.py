"""Resolves paths: follows links, searches several roots, and marks paths that are outside or sensitive.

Resolving opens no file. Policy decides whether an outside or sensitive path may be used; a path that cannot be a
project file (`/proc`, a device directory, a name with a NUL byte) is refused here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from pilotfish.errors import Refused
from pilotfish.text.uris import path_of
from pilotfish.workspace.files.sensitive import hard_link_mark, mark_of

_SYSTEM = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path after resolving."""

    path: Path
    """absolute, without links, `.` or `..`"""
    inside: bool
    root: Path | None
    """the root it is inside of"""
    sensitive: str | None
    """why it is sensitive, in a few words"""
    secret: bool = False
    """reading it reveals a secret; for other sensitive files only changing them is dangerous"""


def resolve(text: str, roots: Sequence[Path], home: Path) -> ResolvedPath:
    """Resolve a path. A relative path is searched in every root; `root-name/…` names a root."""
    # Strings instead of pathlib for speed: every tool call resolves paths several times.
    written = os.path.normpath(meant := str(_written(text, roots, home)))
    _check_system(text, written)
    try:
        real = os.path.realpath(meant)
    except (OSError, ValueError) as error:
        raise Refused(f"{text[:200]} cannot be resolved: {error}") from error
    _check_system(text, real)
    root = next((root for root in roots if _within(real, root)), None)
    # A link named .env and a link to .env are both sensitive.
    mark = mark_of((real, written), home)
    if mark is None or not mark.secret:
        mark = hard_link_mark(real, root, home) or mark
    why, secret = (mark.why, mark.secret) if mark else (None, False)
    return ResolvedPath(Path(real), root is not None, root, why, secret=secret)


def _check_system(text: str, path: str) -> None:
    if os.name == "posix" and any(path == system or path.startswith(f"{system}/") for system in _SYSTEM):
        raise Refused(f"{text} is part of the running system, not of a project")


def _written(text: str, roots: Sequence[Path], home: Path) -> Path:
    """The absolute path, before links are followed."""
    if not text.strip():
        raise Refused("the path is empty")
    if "\0" in text:
        raise Refused("a path cannot contain a NUL byte")
    if text.startswith("file:"):
        named = path_of(text)
        if named is None:
            raise Refused(f"{text} does not name a file on this machine")
        text = str(named)
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    path = Path(text)
    if path.is_absolute():
        check_share(path, roots)
        return path
    if not roots:
        raise Refused(f"{text} is relative and no folder is open; give an absolute path")
    try:
        return _in_roots(path, roots)
    except OSError as error:
        raise Refused(f"{text[:200]}: {error.strerror or error}") from error


def check_share(path: PurePath, roots: Sequence[PurePath]) -> None:
    """Raises Refused for a path on a share of another host (UNC) that no root is on: on Windows even to look whether it
    exists sends the user's password hash to that host."""
    if path.drive.startswith("\\\\") and path.drive.lower() not in {root.drive.lower() for root in roots}:
        raise Refused(f"{path} is on a network share that is not part of the workspace")


def _in_roots(path: Path, roots: Sequence[Path]) -> Path:
    if len(roots) == 1 or not path.parts:
        return roots[0] / path  # `.` is the folder of the session, which is the first
    found = [root / path for root in roots if os.path.lexists(root / path)]
    first, *rest = path.parts or (".",)
    named = [root.joinpath(*rest) for root in roots if root.name == first]
    found += [candidate for candidate in named if os.path.lexists(candidate) and candidate not in found]
    if len(found) > 1:
        choices = ", ".join(str(candidate) for candidate in found)
        raise Refused(f"{path} exists in several folders; name one of them: {choices}")
    if found:
        return found[0]
    if len(named) == 1 and rest:
        return named[0]  # a new file in the root that is named
    for root in roots:
        if path.parent != Path() and (root / path.parent).is_dir():
            return root / path
    return roots[0] / path


def _within(real: str, root: Path) -> bool:
    if real.startswith(f"{root}{os.sep}"):
        return True
    path = Path(real)
    if path.is_relative_to(root):
        return True
    # Another spelling of the same directory: a disk without case, or one mounted twice.
    try:
        goal = root.stat()
    except OSError:
        return False
    for parent in (path, *path.parents):
        try:
            found = parent.stat()
        except (OSError, ValueError):
            continue
        if os.path.samestat(found, goal):
            return True
    return False
