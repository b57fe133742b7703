"""Finds the files that a path which does not exist probably means."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from pilotfish.errors import ToolError
from pilotfish.workspace.search.file_index import walk
from pilotfish.workspace.search.ignore import IgnoreRules

MAX_FOUND = 3
MAX_FILES = 50_000  # of a workspace that are compared


async def nearest_paths(path: Path, roots: Sequence[Path]) -> list[Path]:
    """At most three paths, best first: the same path from `/`, the same end of the path, a similar name."""
    found: list[Path] = []
    for root in roots:
        if path.is_relative_to(root):
            absolute = Path("/") / path.relative_to(root)  # a path whose first slash was left out
            if any(absolute.is_relative_to(inside) for inside in roots) and await asyncio.to_thread(absolute.exists):
                found.append(absolute)
    files: list[Path] = []
    for root in roots:
        try:
            names = await walk(root, rules=await asyncio.to_thread(IgnoreRules, root), limit=MAX_FILES - len(files))
            files += [root / name for name in names[:MAX_FILES]]
        except (ToolError, OSError):
            continue
    found += await asyncio.to_thread(_nearest, path, files)
    return list(dict.fromkeys(found))[:MAX_FOUND]


def _nearest(path: Path, files: Sequence[Path]) -> list[Path]:
    tails = [(common, file) for file in files if (common := _common_tail(path, file))]
    same = [file for _, file in sorted(tails, key=lambda one: (-one[0], len(one[1].parts), one[1]))]
    names: dict[str, list[Path]] = {}
    for file in files:
        names.setdefault(file.name.casefold(), []).append(file)
    close = get_close_matches(path.name.casefold(), names, MAX_FOUND, 0.75)
    similar = [file for name in close for file in names[name]]
    similar.sort(key=lambda file: file.parent != path.parent)
    return [*same[:MAX_FOUND], *similar]


def _common_tail(one: Path, other: Path) -> int:
    """How many parts two paths end with alike, whatever their case."""
    count = 0
    for a, b in zip(reversed(one.parts), reversed(other.parts), strict=False):
        if a.casefold() != b.casefold():
            break
        count += 1
    return count
