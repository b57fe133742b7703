"""The file list of a workspace, for mentions: made by ripgrep, kept fresh by looking only at folders that changed.

A search answers from the list there is and has it refreshed behind its back. Only the first one waits for it, and one
that finds nothing: it may be for a file that was just made.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pilotfish.errors import ToolError
from pilotfish.workspace.search.fuzzy_paths import Names
from pilotfish.workspace.search.globs import compile_glob, whole_in_name
from pilotfish.workspace.search.ignore import RULE_FILES, IgnoreRules
from pilotfish.workspace.search.ripgrep import WALK, Ripgrep
from pilotfish.workspace.search.search import glob_arguments

MAX_FILES = 1_000_000
"""files of one folder that are listed at all"""
FRESH = 2.0
"""seconds in which a list is taken as it is"""
WHOLE_AGAIN = 120.0
"""seconds after which folders that were empty, and so unknown, are looked for"""
MAX_CHANGED = 500
"""folders looked at one by one; beyond it the whole list is made again"""
SETTLED = 100_000_000
"""ns: a folder changed less than this ago may change again within one tick of its clock"""


@dataclass(frozen=True, slots=True)
class PathMatch:
    """A file or folder a person may mean. `name` is what to show and to write after the @."""

    path: Path
    name: str
    is_folder: bool
    score: float


async def walk(
    folder: Path, *, rules: IgnoreRules | None, glob: str | None = None, limit: int = MAX_FILES
) -> list[str]:
    """Files below a folder, relative to it, in no order. Without rules, ignored ones too."""
    arguments = ["--files", "--null", *glob_arguments(glob)]
    arguments += [*WALK, *(("--no-ignore",) if rules is None else rules.options(folder))]
    run = Ripgrep(cwd=folder, arguments=arguments, paths=(), separator=b"\0")
    found: list[str] = []
    async with contextlib.aclosing(run.blocks()) as blocks:
        async for block in blocks:
            # Taken apart together, while ripgrep goes on: path by path would cost as much as the walk itself.
            names = os.fsdecode(block).split("\0")[:-1]
            found += names if rules is None else rules.unhidden(folder, names)
            if len(found) >= limit:
                break
    if run.ended.code == 2:
        _explain(folder, run.ended.errors)
    if glob is not None and not whole_in_name(glob):
        found = list(filter(compile_glob(glob).fullmatch, found))
    return found


def _explain(folder: Path, errors: str) -> None:
    if not folder.is_dir():
        raise ToolError(f"{folder} no longer exists")
    if "glob" in errors:
        raise ToolError(f"That is not a glob: {errors.strip().removeprefix('rg: ')}")


class FileIndex:
    """The files of all roots. One per session; nothing runs until it is first asked."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self._trees: dict[Path, _Tree] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed = float("-inf")

    async def search(self, query: str, limit: int = 20, open_files: Collection[Path] = ()) -> list[PathMatch]:
        """The best mentions, best first; with an empty query the open files, then what is near the top."""
        began = time.monotonic()
        await self._ready()
        found = self._best(query, limit, open_files)
        if not found and query.strip() and self._refreshed < began:
            await self.refresh()
            found = self._best(query, limit, open_files)
        return found

    def _best(self, query: str, limit: int, open_files: Collection[Path]) -> list[PathMatch]:
        found: list[PathMatch] = []
        for root, tree in self._trees.items():
            favourites = {path.relative_to(root).as_posix() for path in open_files if path.is_relative_to(root)}
            if query.strip():
                matches = [(match.path, match.score) for match in tree.names.search(query, limit, favourites)]
            else:
                nearest = [name for name in tree.names.first(limit) if name not in favourites]
                matches = [(name, -float(rank)) for rank, name in enumerate([*sorted(favourites), *nearest])]
            found += [self._mention(root, name, score) for name, score in matches]
        found.sort(key=lambda mention: (-mention.score, len(mention.name), mention.name))
        return found[:limit]

    async def refresh(self) -> None:
        """Look for what changed, now."""
        await asyncio.shield(self._begin())

    def stale(self) -> None:
        """Something changed on disk: the next search looks."""
        self._refreshed = float("-inf")

    async def aclose(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _ready(self) -> None:
        if set(self._trees) != set(self.roots):
            await self.refresh()
        elif time.monotonic() - self._refreshed > FRESH:
            self._begin()

    def _begin(self) -> asyncio.Task[None]:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        for root in self.roots:
            tree = self._trees.get(root)
            if tree is None or time.monotonic() - tree.made > WHOLE_AGAIN:
                self._trees[root] = await _make(root)
            else:
                self._trees[root] = await _renew(tree)
        for root in self._trees.keys() - set(self.roots):
            del self._trees[root]
        self._refreshed = time.monotonic()

    def _mention(self, root: Path, name: str, score: float) -> PathMatch:
        shown = name if len(self.roots) == 1 else f"{root.name}/{name}"
        shown = shown.encode("utf-8", "backslashreplace").decode()  # a name may hold bytes that are no text
        return PathMatch(root / name, shown, name.endswith("/"), score)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The files below a root, the folders that hold them, and when each was last changed."""

    root: Path
    paths: list[str]
    folders: dict[str, int]
    """relative folder → mtime; -1 when it had not settled"""
    rule_files: dict[str, int]
    names: Names
    made: float = field(default_factory=time.monotonic)


async def _make(root: Path) -> _Tree:
    rules = IgnoreRules(root)
    paths: list[str] = []
    with contextlib.suppress(ToolError):  # a root that is gone has no files
        paths += await walk(root, rules=rules)
    return await asyncio.to_thread(_build, root, paths, None)


def _build(root: Path, paths: list[str], made: float | None) -> _Tree:
    folders = {"": 0}
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent not in folders:
            folders[parent] = 0
            parent = parent.rpartition("/")[0]
    paths.sort()
    for folder in folders:
        folders[folder] = _mtime(root / folder)
    rule_files = {path: _mtime(root / path) for path in paths if path.rpartition("/")[2] in RULE_FILES}
    names = Names([*paths, *(f"{folder}/" for folder in folders if folder)])
    return _Tree(root, paths, folders, rule_files, names, time.monotonic() if made is None else made)


async def _renew(tree: _Tree) -> _Tree:
    """The tree as it is now, having looked only at folders whose time has changed."""
    changed, rules_changed = await asyncio.to_thread(_changes, tree)
    if rules_changed or len(changed) > MAX_CHANGED:
        return await _make(tree.root)
    if not changed:
        return tree
    kept, new_folders = await asyncio.to_thread(_look_again, tree, changed)
    rules = IgnoreRules(tree.root)
    for folder in new_folders:
        with contextlib.suppress(ToolError):  # gone again
            kept += [f"{folder}/{name}" for name in await walk(tree.root / folder, rules=rules)]
    if any(path.rpartition("/")[2] in RULE_FILES and path not in tree.rule_files for path in kept):
        return await _make(tree.root)
    return await asyncio.to_thread(_build, tree.root, kept, tree.made)


def _changes(tree: _Tree) -> tuple[set[str], bool]:
    changed = {folder for folder, mtime in tree.folders.items() if _mtime(tree.root / folder) != mtime or mtime < 0}
    rules = any(_mtime(tree.root / file) != mtime or mtime < 0 for file, mtime in tree.rule_files.items())
    return changed, rules


def _look_again(tree: _Tree, changed: set[str]) -> tuple[list[str], list[str]]:
    """The files that are still there or new in changed folders, and the folders that are new."""
    rules = IgnoreRules(tree.root)
    kept = [path for path in tree.paths if path.rpartition("/")[0] not in changed]
    new_folders: list[str] = []
    for folder in changed:
        prefix = f"{folder}/" if folder else ""
        try:
            with os.scandir(tree.root / folder) as scan:
                entries = [
                    (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                    for entry in scan
                ]
        except OSError:  # gone; its files are not kept
            continue
        for name, is_folder, is_file in entries:
            path = prefix + name
            if is_folder:
                if path not in tree.folders and not rules.ignored(tree.root / path, is_dir=True):
                    new_folders.append(path)
            elif is_file and not rules.ignored(tree.root / path, is_dir=False):
                kept.append(path)
    return kept, new_folders


def _mtime(path: Path) -> int:
    try:
        mtime = path.stat().st_mtime_ns
    except OSError:
        return -1
    return -1 if time.time_ns() - mtime < SETTLED else mtime
