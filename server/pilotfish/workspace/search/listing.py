"""Lists a folder, subfolders first; ignored folders are listed but not entered."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from pilotfish.errors import ToolError
from pilotfish.workspace.search.ignore import IgnoreRules

MAX_ENTRIES = 500  # of one listing


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One name. `kind` is `/` for a folder, `@` for a link, `|` for what is no regular file."""

    name: str
    depth: int
    kind: str
    ignored: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    entries: tuple[FolderEntry, ...]
    more: bool


def list_folder(folder: Path, rules: IgnoreRules, *, depth: int, limit: int) -> Listing:
    """Blocking: call it in a thread. Folders are entered down to `depth`, links and ignored ones never."""
    entries: list[FolderEntry] = []
    try:
        whole = _list(folder, rules, 0, depth, limit, entries)
    except FileNotFoundError:
        raise ToolError(f"{folder} does not exist") from None
    except NotADirectoryError:
        raise ToolError(f"{folder} is a file; use read_file") from None
    except PermissionError:
        raise ToolError(f"{folder}: permission denied") from None
    except OSError as error:
        raise ToolError(f"{folder} cannot be listed: {error.strerror}") from error
    return Listing(tuple(entries), more=not whole)


async def listing_text(folder: Path, name: str, root: Path, *, depth: int = 1) -> str:
    """The entries of a folder, one in a line, below the name of the folder."""
    listing = await asyncio.to_thread(list_folder, folder, IgnoreRules(root), depth=depth, limit=MAX_ENTRIES)
    lines = [f"{name}/"]
    for entry in listing.entries:
        notes = [note for note in (entry.note, "ignored" if entry.ignored else "") if note]
        shown = entry.name.replace("\n", "\\n")
        lines.append("  " * (entry.depth + 1) + shown + entry.kind + (f"  ({', '.join(notes)})" if notes else ""))
    if not listing.entries:
        lines.append("  (empty)")
    if listing.more:
        lines.append(f"[only the first {MAX_ENTRIES} entries; list a subfolder, or use glob]")
    return "\n".join(lines)


def _list(folder: Path, rules: IgnoreRules, level: int, depth: int, limit: int, out: list[FolderEntry]) -> bool:
    with os.scandir(folder) as scan:
        found = sorted(scan, key=lambda entry: (not _is_folder(entry), entry.name))
    for entry in found:
        if len(out) >= limit:
            return False
        path = folder / entry.name
        is_folder = _is_folder(entry)
        ignored = rules.ignored(path, is_dir=is_folder)
        place = len(out)
        out.append(FolderEntry(entry.name, level, _kind(entry), ignored))
        if is_folder and not ignored and level + 1 < depth:
            try:
                if not _list(path, rules, level + 1, depth, limit, out):
                    return False
            except OSError as error:
                out[place] = FolderEntry(entry.name, level, "/", ignored, error.strerror or "unreadable")
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_symlink():
            return "@"
        if entry.is_dir(follow_symlinks=False):
            return "/"
        return "" if entry.is_file(follow_symlinks=False) else "|"
    except OSError:
        return "|"
