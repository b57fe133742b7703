"""The review of what the agent changed: `review/list`, `review/keep`, `review/undo`, `review/blame`."""

from __future__ import annotations

from typing import Literal

from pilotfish.protocol.wire.base import Change, Range, Wire


class ReviewListParams(Wire):
    """Selects the pending changes of a session, or of all open sessions; of all files, or of one."""

    session_id: str | None = None
    uri: str | None = None


class ReviewHunk(Wire):
    """Lines that the agent changed. Undoing the hunk replaces `range`, which has the text `after`, by `before`."""

    id: str
    """A hunk whose text or place has changed has another id."""
    range: Range
    """whole lines of the current text, unsaved text included"""
    before: str
    after: str
    turn_id: str
    state: Literal["pending", "kept", "undone"] = "pending"


class ReviewFile(Wire):
    """A file with pending changes. A new or deleted file has one hunk; a file that is not text has none."""

    session_id: str
    uri: str
    change: Change
    added: int
    removed: int
    hunks: tuple[ReviewHunk, ...]
    old_uri: str | None = None
    """where the file was before the agent renamed it"""
    before: str | None = None
    """the whole text without the pending changes; only if `uri` was given"""


class ReviewListResult(Wire):
    """The files with pending changes."""

    files: tuple[ReviewFile, ...]


class ReviewParams(Wire):
    """Selects what is kept or undone: hunks of a file, all of a file, or everything in the session."""

    session_id: str
    uri: str | None = None
    hunk_ids: tuple[str, ...] | None = None


class BlameParams(Wire):
    """Selects lines of a document."""

    uri: str
    range: Range | None = None


class BlamedLines(Wire):
    """Lines that one turn wrote."""

    range: Range
    session_id: str
    turn_id: str
    prompt_title: str
    """the beginning of the turn's prompt"""


class BlameResult(Wire):
    """The lines that turns of this folder's newest sessions wrote. Lines of the user are left out."""

    lines: tuple[BlamedLines, ...]
