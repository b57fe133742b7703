"""Describes a finished edit: a change that can be undone, the diff, and notes for the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.workspace.edits.changes import FileChange, UndoStep
from pilotfish.workspace.edits.drafts import decode_or_none
from pilotfish.workspace.edits.hunks import count, unified_diff
from pilotfish.workspace.edits.writer import Written
from pilotfish.workspace.files.encoding import unify
from pilotfish.workspace.files.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A finished edit."""

    change: FileChange | None
    """None if the file already had this content"""
    diff: str
    """the diff that was made"""
    saved: bool
    """the edit is also on disk"""
    notes: tuple[str, ...]
    """notes for the model"""


def edited_by(written: Written, path: Path, name: str) -> Edited:
    """Slow for a long text: do not call it on the event loop."""
    return Edited(
        change=_change_of(written, path),
        diff=unified_diff(written.draft.before or "", written.after, name),
        saved=written.saved,
        notes=written.notes,
    )


def _change_of(written: Written, path: Path) -> FileChange | None:
    before = written.draft.view
    old = before.data if before else None
    if before is not None and before.text == written.after and (before.source == "buffer" or old == written.data):
        return None
    added, removed = count(written.draft.before or "", written.after)
    return FileChange(
        path=path,
        change="edited" if before else "created",
        before=old,
        after=written.data,
        added=added,
        removed=removed,
        via=written.via,
    )


def deletion_of(path: Path, view: View) -> FileChange:
    removed = count(view.text, "")[1]
    return FileChange(path=path, change="deleted", before=view.data, after=None, added=0, removed=removed, via="disk")


def renaming_of(old: Path, new: Path, before: bytes, after: bytes) -> FileChange:
    return FileChange(
        path=new, change="renamed", before=before, after=after, added=0, removed=0, via="disk", old_path=old
    )


def change_of_step(step: UndoStep, via: Literal["buffer", "disk"]) -> FileChange:
    old, new = (text_of_bytes(step.now), text_of_bytes(step.then))
    added, removed = count(old, new)
    kind: Literal["created", "edited", "deleted", "renamed"] = "edited"
    if step.now is None:
        kind = "created"
    elif step.then is None:
        kind = "deleted"
    elif step.path != step.target:
        kind = "renamed"
    return FileChange(
        path=step.target,
        change=kind,
        before=step.now,
        after=step.then,
        added=added,
        removed=removed,
        via=via,
        old_path=step.path if step.path != step.target else None,
    )


def text_of_bytes(data: bytes | None) -> str:
    """The text of a file for counting lines; empty if it is none."""
    return unify(decode_or_none(data) or "") if data else ""
