"""Combines the open document and the file on disk into one view.

An open document wins over the disk when it holds something the disk does not. A document that nobody typed in and that
lags behind the disk (a command has just written the file, the editor has not reloaded yet) does not: the disk is then
the truth. The protocol has no dirty flag, so the moments when both agreed are remembered with their version.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pilotfish.workspace.clock import Clock
from pilotfish.workspace.editor import Buffer, Editor
from pilotfish.workspace.files import disk as disks
from pilotfish.workspace.files.disk import Disk
from pilotfish.workspace.files.encoding import MAX_TEXT_BYTES, Binary, Form, Newline, decode, encode, form_of, unify

RELOAD_WAIT = 0.6  # seconds an editor is given to reload a file it has not been seen with; it takes 0.1 to 0.2
RECENT = 2.0  # seconds: a file written longer ago has been reloaded by now
POLL = 0.02  # seconds
BROKEN = "\ufffd"  # what editors show for bytes that do not fit the encoding

State = Literal["clean", "dirty", "lagging", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A file as the user sees it."""

    path: Path
    text: str
    """lines end in `\\n`, whatever they end in in the file"""
    exact: str = field(repr=False)
    """the text with its own line ends"""
    version: str
    """names this state: a document's version, or the file's identity on disk"""
    form: Form
    dirty: bool
    """the editor holds text that is not on disk"""
    source: Literal["buffer", "disk"]
    buffer: Buffer | None = field(default=None, repr=False)
    """the open document; it may lag behind when `source` is "disk" """
    disk: Disk | None = field(default=None, repr=False)
    trouble: str | None = None
    """why it must not be edited"""
    uneven: bool = False
    """the file's lines end in ways that the editor will not keep when it saves"""

    @property
    def data(self) -> bytes:
        """The bytes of this text: what is on disk, or would be if it were saved."""
        return encode(self.exact, self.form) if self.dirty or self.disk is None else self.disk.data

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.exact.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def encoding(self) -> str:
        return self.form.encoding

    @property
    def newline(self) -> Newline:
        return self.form.newline

    @property
    def bom(self) -> bool:
        return bool(self.form.bom)

    @property
    def final_newline(self) -> bool:
        return self.form.final_newline


class Views:
    """Looks at files, and remembers when document and disk agreed."""

    def __init__(self, editor: Editor, clock: Clock) -> None:
        self._editor = editor
        self._clock = clock
        self._agreed: dict[Path, tuple[int, int]] = {}
        """document → version and hash of the text that was also on disk"""
        self._unified: dict[Path, tuple[str, str]] = {}
        """document → its text, and the same unified"""

    async def look(self, path: Path) -> View | None:
        """The file as it is now, or None when there is none."""
        deadline: float | None = None
        before: dict[Path, int] = {}
        while True:
            loaded = await asyncio.to_thread(load, path)
            if loaded is None or loaded.kept_by_editors:
                await self._editor.refresh(path)
            buffers = self.documents(path)
            states: list[tuple[Buffer, State]] = [(buffer, self._state(buffer, loaded)) for buffer in buffers]
            dirty = [buffer for buffer, state in states if state == "dirty"]
            if not dirty or not self._may_reload(loaded, dirty):
                break
            now = self._clock.now()
            deadline = deadline or now + RELOAD_WAIT
            versions = {buffer.path: buffer.version for buffer in dirty}
            if now > deadline or (before and before != versions):
                break
            before = versions
            await self._clock.sleep(POLL)
        view = self._view(path, loaded, states)
        if view is not None and view.source == "buffer" and view.buffer is not None:
            named = self._editor.buffer(view.buffer.path)
            if named is not None and (named.version, named.text) != (view.buffer.version, view.buffer.text):
                return replace(view, trouble=_open_twice(path))
        return view

    async def look_at_bytes(self, path: Path) -> View | None:
        """The file as it is now, also one that is not text: that has no text."""
        try:
            return await self.look(path)
        except Binary:
            disk = await asyncio.to_thread(disks.read, path)
        if disk is None:
            return None
        return View(
            path=path, text="", exact="", version=disk.identity, form=Form(), dirty=False, source="disk", disk=disk
        )

    async def caught_up(self, path: Path, seconds: float) -> bool:
        """Whether no document lags behind the disk any more, after waiting a little for the editor."""

        async def none_lags() -> bool:
            loaded = await asyncio.to_thread(load, path)
            return all(self._state(buffer, loaded) != "lagging" for buffer in self.documents(path))

        return await self._clock.until(none_lags, seconds)

    def documents(self, path: Path) -> Sequence[Buffer]:
        """Every open document of this file, under whatever name it was opened."""
        try:
            target = path.stat()
        except OSError:
            target = None
        found = [buffer for buffer in self._editor.buffers() if _same_file(buffer.path, path, target)]
        direct = self._editor.buffer(path)
        if direct is not None and not any(buffer.path == direct.path for buffer in found):
            found.insert(0, direct)
        return found

    def is_dirty(self, buffer: Buffer) -> bool:
        """Whether a document has moved on from what was last seen on disk too; a guess, made without looking."""
        if buffer.dirty is not None:
            return buffer.dirty
        return self._agreed.get(buffer.path) != (buffer.version, hash(buffer.text))

    def _state(self, buffer: Buffer, loaded: LoadedFile | None) -> State:
        mark = (buffer.version, hash(buffer.text))
        if loaded is not None:
            shown = self._text(buffer)
            if shown == loaded.text:
                self._agreed[buffer.path] = mark
                return "clean"
            if BROKEN in shown and shown == unify(loaded.disk.data.decode("utf-8", "replace").removeprefix("\ufeff")):
                self._agreed[buffer.path] = mark
                return "broken"
        untouched = self._agreed.get(buffer.path) == mark if buffer.dirty is None else not buffer.dirty
        return "lagging" if untouched else "dirty"

    def _may_reload(self, loaded: LoadedFile | None, dirty: Sequence[Buffer]) -> bool:
        """A document never seen in agreement, or typed in and undone, and a disk that changed just now: perhaps it is
        being reloaded."""
        if loaded is None or any(buffer.dirty for buffer in dirty):
            return False
        unsure = any(self._agreed.get(buffer.path, (0, None))[1] in (None, hash(buffer.text)) for buffer in dirty)
        return unsure and abs(self._clock.wall() - loaded.disk.modified) < RECENT

    def _view(self, path: Path, loaded: LoadedFile | None, states: Sequence[tuple[Buffer, State]]) -> View | None:
        dirty = [buffer for buffer, state in states if state == "dirty"]
        clean = [buffer for buffer, state in states if state == "clean"]
        if dirty or clean:
            return self._view_of_buffers(path, dirty or clean[:1], loaded, dirty=bool(dirty))
        if loaded is None:
            return None
        view = loaded.view()
        if not states:
            return view
        buffer, state = states[0]
        return replace(view, buffer=buffer, trouble=_broken(path, view.form) if state == "broken" else None)

    def _view_of_buffers(
        self, path: Path, buffers: Sequence[Buffer], loaded: LoadedFile | None, *, dirty: bool
    ) -> View:
        buffer = buffers[0]
        on_disk = Form() if loaded is None else loaded.form
        form = form_of(buffer.text, on_disk.encoding, on_disk.bom)
        trouble: str | None = None
        if loaded is not None and loaded.text is None:
            trouble = f"{path} is a binary file on disk"
        elif BROKEN in buffer.text and (loaded is None or BROKEN not in (loaded.text or "")):
            trouble = _broken(path, form)
        elif len({self._text(other) for other in buffers}) > 1:
            trouble = _open_twice(path)
        elif len(buffer.text) > MAX_TEXT_BYTES:
            trouble = f"{path} is too big to be edited in an editor"
        return View(
            path=path,
            text=self._text(buffer),
            exact=buffer.text,
            version=f"buffer:{buffer.version}",
            form=form,
            dirty=dirty,
            source="buffer",
            buffer=buffer,
            disk=None if loaded is None else loaded.disk,
            trouble=trouble,
            uneven=on_disk.mixed or ("\n" in form.newline) != ("\n" in on_disk.newline),
        )

    def _text(self, buffer: Buffer) -> str:
        """The document's text, unified; once for each text."""
        exact, text = self._unified.get(buffer.path, ("", ""))
        if exact is not buffer.text:
            text = unify(buffer.text)
            still_open = {other.path for other in self._editor.buffers()}
            self._unified = {path: both for path, both in self._unified.items() if path in still_open}
            self._unified[buffer.path] = (buffer.text, text)
        return text


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file on disk, decoded."""

    path: Path
    disk: Disk
    exact: str
    text: str | None
    """unified; None if the file is not text"""
    form: Form

    @property
    def kept_by_editors(self) -> bool:
        """Whether every editor that opens this file and saves it keeps its form: it may read an old encoding as UTF-8,
        and give a file with mixed line ends one kind."""
        form = self.form
        return self.text is not None and form.encoding == "utf-8" and form.newline != "\r" and not form.mixed

    def view(self) -> View:
        if self.text is None:
            raise Binary(_binary(self.path, self.disk.data))
        return View(
            path=self.path,
            text=self.text,
            exact=self.exact,
            version=self.disk.identity,
            form=self.form,
            dirty=False,
            source="disk",
            disk=self.disk,
        )


def load(path: Path, limit: int = MAX_TEXT_BYTES) -> LoadedFile | None:
    """The file on disk, or None when there is none. Slow for a long file: do not call it on the event loop."""
    disk = disks.read(path, limit)
    if disk is None:
        return None
    try:
        exact, encoding, bom = decode(disk.data)
    except Binary:
        return LoadedFile(path, disk, "", None, Form())
    return LoadedFile(path, disk, exact, unify(exact), form_of(exact, encoding, bom))


def _open_twice(path: Path) -> str:
    return f"{path} is open twice with different text; the user must save or revert one of them"


def _same_file(one: Path, other: Path, known: os.stat_result | None) -> bool:
    if one == other or known is None:
        return one == other
    try:
        return os.path.samestat(one.stat(), known)
    except OSError:
        return False


def _broken(path: Path, form: Form) -> str:
    return (
        f"the editor could not decode {path}, and saving it would destroy characters; "
        f"the user can reopen it with encoding {form.encoding}, or close it"
    )


def _binary(path: Path, data: bytes) -> str:
    kind = next((words for magic, words in _MAGIC_WORDS if data.startswith(magic)), "binary data")
    return f"{path} is not text ({kind}, {len(data):,} bytes); use a command to inspect it"


_MAGIC_WORDS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "an SQLite database"),
)
