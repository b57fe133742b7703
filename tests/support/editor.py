"""An editor for tests that behaves as VS Code was seen to behave, traps included.

The user acts through plain methods (`open`, `type`, `save_as_user`, `undo`, …). The workspace sees it through the
`Editor` port, a moment late while a loop runs, as a server's mirror of documents is. `meanwhile` holds what happens
while the workspace waits for an answer, so that a test can place a keystroke exactly between a look and an edit.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pilotfish.workspace.editor import Buffer, Hunk, Saved

Stage = Literal["hold", "apply", "applied", "save", "saving", "staged"]
"""When a request has arrived, when an edit has been made and not been answered, when a save is under way; and, for
tests that have it happen, when new bytes of a file are on disk and not yet the file."""


@dataclass(slots=True)
class Doc:
    """A text model of the editor."""

    path: Path
    text: str
    version: int
    eol: str
    bom: bool
    size: int | None
    """of the file as it was last loaded or saved; None: it did not exist"""
    saved_text: str
    dirty: bool = False
    """what the editor says; a text that was edited back to what is on disk is still called dirty"""
    history: list[str] = field(default_factory=list[str])
    saved_version: int = 0
    saved_at: int = 0
    """length of the history when it was clean; -1: it cannot come back to that by undo"""
    hidden: bool = False


class FakeEditor:
    """Implements `workspace.port.Editor`."""

    def __init__(self, *, can_edit: bool = True, can_save: bool = True, tells_dirty: bool = False) -> None:
        self.can_edit = can_edit
        self.can_save = can_save
        self.encoding = "utf-16"
        self.tells_dirty = tells_dirty
        self.encoding = "utf-8"
        self.disk_writes = False
        """whether the workspace may write edits to disk where `can_save` is False"""
        self.format: Callable[[str], str] = lambda text: text
        self.meanwhile: dict[Stage, deque[Callable[[], object]]] = defaultdict(deque)
        """one is taken each time the stage is reached"""
        self.first_version = 1
        self.requests: list[str] = []
        self.docs: dict[Path, Doc] = {}
        self._mirror: dict[Path, Buffer] = {}
        self.unsynced: dict[Path, Doc] = {}
        """documents in background tabs that were restored and not shown yet: the server knows nothing of them"""

    # -- the user ------------------------------------------------------------------------------------------------

    def open(self, path: Path) -> Doc:
        if path not in self.docs:
            doc = self.unsynced.pop(path, None) or self._load(path)
            self.docs[path] = doc
            self._tell()
        return self.docs[path]

    def restore_in_background(self, path: Path, text: str) -> Doc:
        """A hot exit: the tab is back with unsaved text, and is not synced until somebody shows it."""
        doc = self._load(path)
        doc.text, doc.dirty, doc.saved_at = text, True, -1
        self.unsynced[path] = doc
        return doc

    def close(self, path: Path) -> None:
        assert not self.docs[path].dirty, "the editor would ask"
        del self.docs[path]
        self._tell()

    def type(self, path: Path, at: int, text: str, *, over: int = 0) -> None:
        doc = self.docs[path]
        at = max(0, min(at, len(doc.text)))
        if doc.eol == "\r\n" and doc.text[at - 1 : at + 1] == "\r\n":
            at -= 1  # no cursor stands between the two
        self._set(doc, doc.text[:at] + text.replace("\n", doc.eol) + doc.text[at + over :])

    def undo(self, path: Path) -> None:
        doc = self.docs[path]
        if doc.history:
            doc.text = doc.history.pop()
            doc.version += 1
            doc.dirty = len(doc.history) != doc.saved_at
            self._tell()

    def save_as_user(self, path: Path) -> bool:
        """False: a conflict with the disk, shown as a toast."""
        return self._save(self.docs[path])

    def tick(self) -> None:
        """What the editor's file watcher does: clean documents are loaded again, dirty ones stay."""
        for doc in self.docs.values():
            if doc.dirty or not doc.path.exists():
                continue
            fresh = self._load(doc.path)
            if fresh.text != doc.text:
                doc.history.append(doc.text)
                doc.text, doc.eol, doc.saved_at = fresh.text, fresh.eol, len(doc.history)
                doc.version += 1
                doc.saved_text, doc.saved_version = doc.text, doc.version
            doc.size = fresh.size
        self._tell()

    # -- the port ------------------------------------------------------------------------------------------------

    def for_session(self, session_id: str) -> Self:
        return self

    async def refresh(self, path: Path) -> None:
        """It reports its changes."""

    def buffer(self, path: Path) -> Buffer | None:
        return self._mirror.get(path)

    def buffers(self) -> Sequence[Buffer]:
        return tuple(self._mirror.values())

    async def hold(self, paths: Sequence[Path]) -> None:
        await self._request("hold")
        if not self.can_save:
            return
        for path in paths:
            if path not in self.docs and (path.exists() or path in self.unsynced):
                hidden = path not in self.unsynced
                self.open(path).hidden = hidden

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        await self._request("apply")
        doc = self.docs.get(path)
        if doc is None or doc.version != version:
            return False
        text, at = "", 0
        for hunk in sorted(hunks, key=lambda hunk: (hunk.start, hunk.end)):
            if hunk.start < at:
                return False
            start, end = min(hunk.start, len(doc.text)), min(hunk.end, len(doc.text))  # clamped, and called done
            text += doc.text[at:start] + re.sub("\r\n|\r|\n", doc.eol, hunk.text)
            at = end
        self._set(doc, text + doc.text[at:])
        self.happen("applied")
        await asyncio.sleep(0)
        return True

    async def save(self, path: Path) -> Saved:
        await self._request("save")
        doc = self.docs.get(path)
        if doc is None:
            return Saved(saved=False, reason="not open")
        before = doc.version
        self.happen("saving")
        if doc.version != before:
            return Saved(saved=False, reason="typing")
        if not self._save(doc):
            return Saved(saved=False, reason="conflict")
        if doc.hidden:
            del self.docs[path]
            self._tell()
        return Saved(saved=True)

    async def allows_disk_writes(self, paths: Sequence[Path]) -> bool:
        self.requests.append("allow")
        return self.disk_writes

    def can_answer(self, method: str) -> bool:
        del method
        return False

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        del method, params, timeout

    # -- inside --------------------------------------------------------------------------------------------------

    async def _request(self, name: Stage) -> None:
        self.requests.append(name)
        await asyncio.sleep(0)
        self.happen(name)

    def happen(self, stage: Stage) -> None:
        if self.meanwhile[stage]:
            self.meanwhile[stage].popleft()()

    def _tell(self) -> None:
        """Have the server hear of what the documents are now."""
        now = {
            path: Buffer(path, doc.text, doc.version, doc.dirty if self.tells_dirty else None)
            for path, doc in self.docs.items()
        }

        def tell() -> None:
            self._mirror = now

        try:
            asyncio.get_running_loop().call_soon(tell)
        except RuntimeError:
            tell()

    def _set(self, doc: Doc, text: str) -> None:
        if len(doc.history) < doc.saved_at:
            doc.saved_at = -1
        doc.history.append(doc.text)
        doc.text = text
        doc.version += 1
        doc.dirty = True
        self._tell()

    def _load(self, path: Path) -> Doc:
        data = path.read_bytes() if path.exists() else None
        text = (data or b"").decode(self.encoding, "replace")
        bom = text.startswith("\ufeff")
        text = text.removeprefix("\ufeff")
        pairs = text.count("\r\n")
        eol = "\r\n" if pairs * 2 > len(re.findall("\r\n|\r|\n", text)) else "\n"
        text = re.sub("\r\n|\r|\n", eol, text)
        size = None if data is None else len(data)
        return Doc(path, text, self.first_version, eol, bom, size, text, saved_version=self.first_version)

    def _save(self, doc: Doc) -> bool:
        on_disk = doc.path.stat().st_size if doc.path.exists() else None
        if on_disk is not None and on_disk != doc.size:
            return False  # only a change of length is noticed
        formatted = re.sub("\r\n|\r|\n", doc.eol, self.format(doc.text))
        if formatted != doc.text:
            self._set(doc, formatted)
        data = (("\ufeff" if doc.bom else "") + doc.text).encode(self.encoding, "replace")
        doc.path.write_bytes(data)
        doc.size, doc.dirty, doc.saved_at = len(data), False, len(doc.history)
        doc.saved_text, doc.saved_version = doc.text, doc.version
        self._tell()
        return True
