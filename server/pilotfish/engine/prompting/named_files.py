"""Finds the files that a prompt names without an `@`, for models that do not look for them themselves.

A path counts, a file name, and the stem of a file name that only one file has. Ignored files do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pilotfish.errors import ToolError
from pilotfish.workspace.search.file_index import walk
from pilotfish.workspace.search.ignore import IgnoreRules
from pilotfish.workspace.workspace import Workspace

MAX_FILES = 5_000  # of a workspace that are compared
MAX_LISTED = 40  # files of a workspace that are listed; a larger one is not
MAX_NAMED = 4
MAX_BYTES = 8_000  # a longer file is not attached
MIN_STEM = 4  # letters; a shorter stem is often a common word

_WORD = re.compile(r"[\w./\\-]*\w")


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that a prompt names, and those of a small workspace."""

    named: Sequence[str] = ()
    listed: Sequence[str] = ()


async def named_files(text: str, workspace: Workspace) -> NamedFiles:
    """The files of the first root that a text names, paths and names before stems."""
    if not workspace.roots:
        return NamedFiles()
    root = workspace.roots[0]
    try:
        files = sorted(await walk(root, rules=IgnoreRules(root), limit=MAX_FILES))
    except (ToolError, OSError):
        return NamedFiles()
    named = [name for name in _named(text, files) if _is_short(root / name)]
    return NamedFiles(named[:MAX_NAMED], files if len(files) <= MAX_LISTED else ())


def _named(text: str, files: Sequence[str]) -> list[str]:
    words = {word.removeprefix("./").casefold() for word in _WORD.findall(text)}
    whole = [file for file in files if file.casefold() in words or PurePosixPath(file).name.casefold() in words]
    stems: dict[str, list[str]] = {}
    for file in files:
        stems.setdefault(PurePosixPath(file).stem.casefold(), []).append(file)
    known = {PurePosixPath(file).stem.casefold() for file in whole}
    unique = [stems[word][0] for word in sorted(words & stems.keys() - known) if len(stems[word]) == 1]
    return [*whole, *(file for file in unique if len(PurePosixPath(file).stem) >= MIN_STEM)]


def _is_short(file: Path) -> bool:
    try:
        return file.stat().st_size <= MAX_BYTES
    except OSError:
        return False
