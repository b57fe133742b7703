"""Keeps a language server's view of the files equal to the user's: open documents by text, other files by events.

The texts of documents that are asked about or have unsaved changes are sent with versions. For all other files the
server reads the disk, and is told what changed there since the last look.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

from pilotfish.errors import PilotfishError
from pilotfish.language_servers.client import objects
from pilotfish.language_servers.known_servers import is_searched
from pilotfish.text.uris import path_of
from pilotfish.workspace.own_servers import ServedWorkspace

MAX_OPEN = 32
"""documents that a server holds; the one that was asked about longest ago is closed"""
MAX_FILES = 20_000
"""files whose changes are noticed; in larger folders those of the first ones"""
PROJECT_FILES = frozenset(
    {
        "pyproject.toml", "pyrightconfig.json", "ruff.toml", "package.json", "tsconfig.json", "jsconfig.json", "go.mod",
        "go.work", "Cargo.toml", "Cargo.lock", "compile_commands.json", "compile_flags.txt",
    }
)  # fmt: skip
"""files beside the sources that servers read"""

Notify = Callable[[str, Any], None]
Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SentText:
    """A document as the server has it."""

    text: str
    version: int
    at: float
    """when it was sent, in the loop's time"""


class SentDocuments:
    """The documents that one server has open."""

    def __init__(self, notify: Notify, root: Path, languages: Mapping[str, str]) -> None:
        self._notify = notify
        self._root = root
        self._languages = languages
        self._sent: dict[Path, SentText] = {}
        self._files: dict[str, Stamp] | None = None
        self._busy = asyncio.Lock()
        self._versions = itertools.count(1)

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self._sent)

    def sample(self) -> Path | None:
        """A file that the server may be sent if it has none yet."""
        files = () if self._sent else map(Path, self._files or ())
        return next(filter(self.serves, files), None)

    def get(self, path: Path) -> SentText | None:
        return self._sent.get(path)

    def serves(self, path: Path) -> bool:
        """Whether the server knows the language of this file, and the file is in its folder."""
        return path.suffix in self._languages and path.is_relative_to(self._root)

    async def send(self, workspace: ServedWorkspace, asked: Iterable[Path]) -> None:
        """Send what the user sees now: the files asked about, open documents that are not saved, and everything that
        was sent before."""
        async with self._busy:
            written = await self._send_events()
            wanted = [path for path in asked if self.serves(path)]
            unsaved = [buffer.path for buffer in workspace.open_documents() if buffer.dirty is not False]
            for path in dict.fromkeys((*self._sent, *filter(self.serves, (*written, *unsaved)), *wanted)):
                try:
                    text = (await workspace.look(path)).text
                except (PilotfishError, OSError):
                    self._close(path)
                else:
                    self._open(path, text)
            for path in wanted:  # the newest are kept
                if path in self._sent:
                    self._sent[path] = self._sent.pop(path)
            for path in list(self._sent)[: max(0, len(self._sent) - MAX_OPEN)]:
                self._close(path)

    async def is_current(self, workspace: ServedWorkspace, edit: Mapping[str, Any]) -> bool:
        """Whether an edit of the server's is for the texts as they are now."""
        for path, version in _edited_documents(edit):
            sent = self._sent.get(path)
            if sent is None:
                continue
            if version not in (None, sent.version):
                return False
            try:
                if (await workspace.look(path)).text != sent.text:
                    return False
            except (PilotfishError, OSError):
                return False
        return True

    def _open(self, path: Path, text: str) -> None:
        sent = self._sent.get(path)
        if sent is not None and sent.text == text:
            return
        document: dict[str, Any] = {"uri": path.as_uri(), "version": next(self._versions)}
        self._sent[path] = SentText(text, document["version"], asyncio.get_running_loop().time())
        if sent is None:
            opened = {**document, "languageId": self._languages[path.suffix], "text": text}
            self._notify(types.TEXT_DOCUMENT_DID_OPEN, {"textDocument": opened})
        else:
            change = {"textDocument": document, "contentChanges": [{"text": text}]}
            self._notify(types.TEXT_DOCUMENT_DID_CHANGE, change)

    def _close(self, path: Path) -> None:
        if self._sent.pop(path, None) is not None:
            self._notify(types.TEXT_DOCUMENT_DID_CLOSE, {"textDocument": {"uri": path.as_uri()}})

    async def _send_events(self) -> list[Path]:
        """Tell the server which files changed on disk; the first look is compared with nothing. Returns files that were
        written: servers take their time with events, and none with documents."""
        before, self._files = self._files, await asyncio.to_thread(_stamps, self._root, frozenset(self._languages))
        if before is None:
            return []
        events = [(path, types.FileChangeType.Deleted) for path in before.keys() - self._files.keys()]
        for path, stamp in self._files.items():
            if path not in before:
                events.append((path, types.FileChangeType.Created))
            elif before[path] != stamp:
                events.append((path, types.FileChangeType.Changed))
        if events:
            changes = [{"uri": Path(path).as_uri(), "type": kind.value} for path, kind in events]
            self._notify(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, {"changes": changes})
        return [Path(path) for path, kind in events if kind is not types.FileChangeType.Deleted][: MAX_OPEN // 2]


def _stamps(root: Path, suffixes: frozenset[str]) -> dict[str, Stamp]:
    """Each file of these languages, with what changes when it is written. Blocking."""
    found: dict[str, Stamp] = {}
    waiting = [str(root)]
    while waiting and len(found) < MAX_FILES:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if is_searched(entry.name):
                        waiting.append(entry.path)
                elif os.path.splitext(entry.name)[1] in suffixes or entry.name in PROJECT_FILES:  # noqa: PTH122 - for thousands of names
                    stat = entry.stat()
                    found[entry.path] = (stat.st_mtime_ns, stat.st_size)
            except OSError:
                continue
    return found


def _edited_documents(edit: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    """The documents of a WorkspaceEdit with their versions."""
    for change in objects(edit.get("documentChanges")):
        for document in objects(change.get("textDocument")):
            if (path := path_of(str(document.get("uri")))) is not None:
                yield path, document.get("version")
    for changes in objects(edit.get("changes")):
        for uri in changes:
            if (path := path_of(uri)) is not None:
                yield path, None
