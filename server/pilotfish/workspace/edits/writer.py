"""Applies a draft: through the editor if the document is open, otherwise on disk; completely or not at all.

Concurrent changes are never overwritten: an edit applies to exactly the version it was drafted against, or it is
drafted again against the current text. Edits of one file never overlap, over all sessions of the process.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from pilotfish.errors import Refused, StaleEdit, ToolError
from pilotfish.workspace.clock import Clock
from pilotfish.workspace.editor import Buffer, Editor
from pilotfish.workspace.edits.drafts import Draft
from pilotfish.workspace.edits.hunks import diff
from pilotfish.workspace.files import atomic
from pilotfish.workspace.files import disk as disks
from pilotfish.workspace.files.atomic import Staged
from pilotfish.workspace.files.disk import Moved
from pilotfish.workspace.files.encoding import check
from pilotfish.workspace.files.view import View, Views, load

ATTEMPTS = 8  # drafts of one edit while somebody types
REFUSALS = 3  # of an edit of one and the same version: that is no typing
CATCH_UP = 1.0  # seconds an editor is given to reload a clean document before the disk is written beside it
REPORT_SECONDS = 1.0  # seconds until the editor has reported an edit it made, or the result of a save
LONG_TEXT = 500_000  # characters; drafting takes a millisecond or more
REFUSED = 0.3  # seconds until the editor has reported the typing that an edit was refused for

_LOCKS: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A draft that was applied."""

    draft: Draft
    after: str
    """unified text of the file as the agent left it, format-on-save included"""
    data: bytes
    via: Literal["buffer", "disk"]
    saved: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Unsaved:
    """A document that only the agent has made dirty: its text, and the bytes on disk below it."""

    text: str
    disk: bytes

    def is_still(self, view: View) -> bool:
        """Whether document and disk are as the agent left them."""
        return view.text == self.text and view.disk is not None and view.disk.data == self.disk


def lock(path: Path) -> asyncio.Lock:
    """One writer at a time for one file."""
    found = _LOCKS.get(path)
    if found is None:
        found = _LOCKS[path] = asyncio.Lock()
    return found


async def make_draft(view: View | None, drafted: Callable[[View | None], Draft]) -> Draft:
    """Draft; in a thread when the file is long, for the event loop must not wait."""
    if view is None or len(view.text) < LONG_TEXT:
        return drafted(view)
    return await asyncio.to_thread(drafted, view)


class FileWriter:
    def __init__(self, editor: Editor, views: Views, clock: Clock) -> None:
        self._editor = editor
        self._clock = clock
        self._views = views
        self._unsaved: dict[Path, _Unsaved] = {}

    async def write(
        self,
        path: Path,
        drafted: Callable[[View | None], Draft],
        look: Callable[[Path], Awaitable[View | None]] | None = None,
    ) -> Written:
        """Draft and apply; repeated if the file changes meanwhile. Call it under the file's lock. Without a `look` that
        reads bytes, a file that is not text is refused."""
        look = look or self._views.look
        await self.hold(path)
        refused: Draft | None = None
        refusals: list[int] = []
        for _ in range(ATTEMPTS):
            view = await look(path)
            if refused is not None and view is not None and view.text == refused.after:
                return await self._finish(refused)  # an editor that answered too late had made the edit after all
            draft = await make_draft(view, drafted)
            if view is None:
                if await self._on_disk(draft):
                    return _written(draft, "disk", saved=True)
            elif draft.exact == view.exact and (view.source == "buffer" or draft.data == view.data):
                return _written(draft, view.source, saved=not view.dirty)
            elif view.source == "buffer" and view.buffer is not None and self._editor.can_edit:
                if await self._through_editor(draft, view, view.buffer, refusals):
                    return await self._finish(draft)
                refused = draft
                if refusals.count(view.buffer.version) == REFUSALS:
                    raise ToolError(f"the editor refused to edit {path}, which may be locked; nothing was written")
            elif await self._on_disk(draft):
                return _written(draft, "disk", saved=True)
        raise StaleEdit(f"{path} keeps changing while it is edited; nothing was written. Try again in a moment")

    async def hold(self, path: Path) -> None:
        """A document in a background tab may be unsaved and unknown until the editor is asked to hold it."""
        if not self._editor.can_edit:
            return
        if path.suffix.casefold() == ".ipynb":
            raise Refused(
                f"{path} is a notebook, which the editor keeps as cells; editing the file on disk would lose text"
            )
        if not self._views.documents(path) and await asyncio.to_thread(_is_kept_by_editors, path):
            await self._editor.hold([path])

    async def save_own_edits(self) -> None:
        """Save documents that only the agent changed, where the editor or the user allows it."""
        waiting = sorted(self._unsaved)
        if waiting and not self._editor.can_save and not await self._editor.allows_disk_writes(waiting):
            return
        for path in waiting:
            async with lock(path):
                if (unsaved := self._unsaved.get(path)) is not None:
                    if not self._editor.can_save:
                        await self._write_below(path, unsaved)
                    await self._save_own(path, unsaved)

    async def delete(self, path: Path, view: View) -> None:
        if view.dirty or view.disk is None:
            raise Refused(f"{path} has unsaved text in the editor; it was not deleted")
        try:
            atomic.remove(path, view.disk)
        except (Moved, FileNotFoundError) as error:
            raise StaleEdit(f"{path} has been changed since") from error
        self._unsaved.pop(path, None)

    async def rename(self, old: Path, new: Path, view: View) -> None:
        if view.dirty or view.disk is None:
            raise Refused(f"{old} has unsaved text in the editor; save it before renaming it")
        if any(self._views.is_dirty(buffer) for buffer in self._views.documents(new)):
            raise Refused(f"{new} is open in the editor with unsaved text")
        try:
            atomic.rename(old, new, view.disk)
        except (Moved, FileNotFoundError) as error:
            raise StaleEdit(f"{old} has been changed since") from error
        except FileExistsError as error:
            raise ToolError(f"{new} already exists; nothing was overwritten") from error

    async def _through_editor(self, draft: Draft, view: View, buffer: Buffer, refusals: list[int]) -> bool:
        """Whether the editor made the edit. `refusals` gets the version of the document when it refused to."""
        check(buffer.text, draft.hunks)
        if view.disk is not None and disks.identity(draft.path) != view.disk.identity:
            return False  # an editor would edit the old text, and the document would be in conflict with the disk
        applied = await self._editor.apply(buffer.path, buffer.version, draft.hunks)

        async def reported() -> bool:
            now = self._editor.buffer(buffer.path)
            return now is None or now.version != buffer.version

        await self._clock.until(reported, REPORT_SECONDS if applied else REFUSED)
        if not applied:
            refusals.append(buffer.version)
        return applied

    async def _finish(self, draft: Draft) -> Written:
        """After an edit through the editor: saved if it was clean before, and what saving did to it picked up."""
        view = draft.view
        if view is None or view.dirty or view.disk is None:
            if not await self._is_saved(draft.path):  # some editors save what they are given to write
                return _written(draft, "buffer", "the document had unsaved changes before, so it is left unsaved")
        else:
            unsaved = self._unsaved[draft.path] = _Unsaved(draft.after, view.disk.data)
            if not self._editor.can_save:
                if not await self._is_saved(draft.path):
                    return _written(draft, "buffer", "it is left unsaved in the editor, which has no save request")
                self._unsaved.pop(draft.path, None)
            elif not await self._save_own(draft.path, unsaved):
                reason = "it is left unsaved in the editor: it could not be saved, or was changed at the same time"
                return _written(draft, "buffer", reason)
        now = await self._views.look(draft.path)
        written = _written(draft, "buffer", saved=True)
        if now is None:
            return written
        if now.text == draft.after:
            return replace(written, data=now.data)  # the line ends are the editor's
        if view is None:
            return written
        if now.text == view.text or _is_gone(view.text, draft.after, now.text):
            return replace(written, notes=(*written.notes, "the edit was undone in the editor immediately"))
        if not _only_formatted(draft.after, now.text):
            return written
        note = "saving it reformatted the file; the diff shows the result"
        return replace(written, after=now.text, data=now.data, notes=(*written.notes, note))

    async def _save_own(self, path: Path, unsaved: _Unsaved) -> bool:
        """Save a document if it holds the agent's text over the disk as it was; a text that somebody typed in is
        theirs to save. True when document and disk are equal now."""
        for _ in range(2):  # a save during typing may fail, and the second one succeeds
            view = await self._views.look(path)
            if view is None or not view.dirty:
                break  # autosave was faster, or the user
            if not unsaved.is_still(view) or view.buffer is None or not self._editor.can_save:
                return False
            if (await self._editor.save(view.buffer.path)).saved:
                await self._clock.until(
                    lambda: self._is_saved(path), REPORT_SECONDS
                )  # the edits of a formatter are reported late
        if not await self._is_saved(path):
            return False
        self._unsaved.pop(path, None)
        return True

    async def _write_below(self, path: Path, unsaved: _Unsaved) -> None:
        """Give the disk the agent's text, unless somebody typed in the document or changed the file."""
        view = await self._views.look(path)
        if view is None or view.buffer is None or not unsaved.is_still(view):
            return
        document = view.buffer
        staged = await asyncio.to_thread(Staged, view.path, view.data, view.disk)
        # No await from here, as in `_on_disk`.
        if any(buffer.text != document.text for buffer in self._views.documents(view.path)):
            staged.discard()
            return
        try:
            staged.commit()
        except (Moved, FileNotFoundError):
            staged.discard()

    async def _is_saved(self, path: Path) -> bool:
        view = await self._views.look(path)
        return view is None or not view.dirty

    async def _on_disk(self, draft: Draft) -> bool:
        """Write the file on disk. False if it changed or was opened; the caller must look again."""
        path, view = draft.path, draft.view
        if view is not None and view.dirty:
            raise Refused(f"{path} has unsaved changes in an editor that accepts no edits; the user must save it first")
        lags = view is not None and view.buffer is not None and view.source == "disk"
        # Clean but behind: once it has reloaded, the edit goes through it and can be undone there.
        if lags and self._editor.can_edit and await self._views.caught_up(path, CATCH_UP):
            return False
        staged = await asyncio.to_thread(Staged, path, draft.data, view.disk if view else None)
        # No await from here: nothing of this process comes between the last look and the write.
        if any(self._views.is_dirty(buffer) for buffer in self._views.documents(path)):
            staged.discard()
            return False
        try:
            staged.commit()
        except (Moved, FileNotFoundError):
            staged.discard()
            return False
        return True


def _written(draft: Draft, via: Literal["buffer", "disk"], *notes: str, saved: bool = False) -> Written:
    return Written(draft=draft, after=draft.after, data=draft.data, via=via, saved=saved, notes=(*draft.notes, *notes))


def _is_kept_by_editors(path: Path) -> bool:
    """Whether editors keep the form of this file. If not, it is written beside the editor unless the user has it
    open."""
    try:
        loaded = load(path)
    except ToolError:
        return False
    return loaded is not None and loaded.kept_by_editors


def _only_formatted(before: str, after: str) -> bool:
    """Whether a formatter could have done this: it moves words and drops some, and adds none; only commas and the
    like. What somebody typed during the save must not pass for the agent's."""
    return set(_added(before, after)) <= set(",;'\"()")


def _is_gone(before: str, edited: str, now: str) -> bool:
    """Whether nothing is left of the words an edit brought."""
    brought = _added(before, edited)
    return bool(brought) and not brought - _added(now, edited)


def _added(before: str, after: str) -> Counter[str]:
    """The words and signs that one text has more than the other."""
    hunks = diff(before, after)
    old = Counter(_WORD_OR_SIGN.findall("\n".join(before[hunk.start : hunk.end] for hunk in hunks)))
    return Counter(_WORD_OR_SIGN.findall("\n".join(hunk.text for hunk in hunks))) - old


_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
