"""Says in one line what else depends on the files that a call would change: who uses a symbol, who imports a file.

Language servers say who uses a symbol, where some answer at once. Otherwise, and for imports, words are searched for in
the workspace: a hint for the user, not a proof. A question never waits longer for it than `SECONDS`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotfish.errors import PilotfishError
from pilotfish.workspace.edits.drafts import FilePreview
from pilotfish.workspace.language_servers import count_references
from pilotfish.workspace.search.search import Query, TextSearch
from pilotfish.workspace.workspace import Workspace

SECONDS = 0.5
SERVER_SECONDS = 0.3
"""for language servers; the words are searched for at the same time"""
MAX_NAMES = 3
MAX_LINES = 20_000
"""of the files together: comparing more takes too long"""
DEFINITION = re.compile(
    r"^\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub(?:\([^)]*\))?)\s+)*"
    r"(?:def|class|function\*?|fn|func|struct|enum|trait|interface|type|const|record|object)\s+"
    r"(?:\([^)]*\)\s*)?([A-Za-z_$][\w$]{2,})"
)
IMPORTS = r"(?:import|from|require|include|use|mod|source)\b.*\b{}\b"
PACKAGE_FILES = frozenset({"__init__", "index", "mod"})
"""they are imported by the name of their folder"""


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a symbol is defined now."""

    path: Path
    line: int
    name: str


async def impact_of(workspace: Workspace, files: Sequence[FilePreview]) -> str:
    """For example "parse is used in 12 places in 4 other files". Empty if nothing is known in time."""
    changed = frozenset(str(file.path) for file in files)
    removed = [file.path for file in files if file.after is None][:MAX_NAMES]
    asked = [_imports(workspace, path, changed) for path in removed]
    asked += [_uses(workspace, definition, changed) for definition in _changed_definitions(files)[:MAX_NAMES]]
    if not asked:
        return ""
    looks = [asyncio.ensure_future(look) for look in asked]
    try:
        await asyncio.wait(looks, timeout=SECONDS)
        return "; ".join(look.result() for look in looks if look.done() and look.result())
    finally:
        for look in looks:
            look.cancel()


async def _imports(workspace: Workspace, path: Path, changed: frozenset[str]) -> str:
    stem = path.stem if path.stem not in PACKAGE_FILES else path.parent.name
    counts = await _count(workspace, IMPORTS.format(re.escape(stem)), changed)
    return f"{path.name} is imported by {_counted(len(counts), 'other file')}" if counts else ""


async def _uses(workspace: Workspace, definition: Definition, changed: frozenset[str]) -> str:
    name = definition.name
    words = asyncio.ensure_future(_count(workspace, rf"\b{re.escape(name)}\b", changed))
    try:
        known = await count_references(workspace, definition.path, definition.line, name, SERVER_SECONDS)
        counts = await words if known is None else {path: n for path, n in known.items() if path not in changed}
    finally:
        words.cancel()
    if not counts:
        return ""
    places = _counted(sum(counts.values()), "place")
    return f"{name} is used in {places} in {_counted(len(counts), 'other file')}"


async def _count(workspace: Workspace, pattern: str, changed: frozenset[str]) -> dict[str, int]:
    """file → lines that match, without the changed files; nothing if the search fails"""
    search = TextSearch(
        query=Query(pattern=pattern, mode="count"), roots=workspace.roots, unsaved={}, on_hits=lambda _: None
    )
    try:
        found = await search.over(workspace.roots)
    except (PilotfishError, OSError):
        return {}
    return {hit.path: hit.line for hit in found.hits if str(Path(hit.path)) not in changed}


def _changed_definitions(files: Sequence[FilePreview]) -> list[Definition]:
    """The symbols whose definition is changed or removed, and not only moved."""
    found: dict[str, Definition] = {}
    lines = 0
    for file in files:
        before, after = (file.before or "").splitlines(), (file.after or "").splitlines()
        lines += len(before) + len(after)
        if lines > MAX_LINES:
            break
        for line in Counter(before) - Counter(after):
            if match := DEFINITION.match(line):
                found.setdefault(match[1], Definition(file.path, before.index(line) + 1, match[1]))
    return list(found.values())


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
