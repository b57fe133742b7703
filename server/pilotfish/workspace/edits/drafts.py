"""Computes the effect of an edit before it is applied. The preview and the edit both use it.

Pure. An intent is made against the text the model read (`base`) and drafted against the file as it is now.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pilotfish.errors import Refused, StaleEdit, ToolError
from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.edits.hunks import Conflict, diff, narrow, rebase, unified_diff
from pilotfish.workspace.edits.matching import Matched, Replacement, match
from pilotfish.workspace.edits.patches import Chunk, match_chunks
from pilotfish.workspace.files.encoding import Form, decode, encode, in_form, replace, unify
from pilotfish.workspace.files.view import View

SHOWN_DIFF_LINES = 60  # of what others changed


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Replace the whole file with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Apply these replacements, all or none."""

    replacements: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """Apply these chunks of a patch, all or none."""

    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the file."""


@dataclass(frozen=True, slots=True)
class Move:
    """Move the file to a path where there is none, after this change of its text."""

    target: Path
    change: Patch | None = None


@dataclass(frozen=True, slots=True)
class Restore:
    """Restore these bytes in place of the expected ones. Later changes are kept, and refuse it where they overlap."""

    data: bytes
    expected: bytes | None


@dataclass(frozen=True, slots=True)
class Replace:
    """Write exactly these bytes in place of exactly those; `before` is None for a new file."""

    before: bytes | None
    after: bytes

    @property
    def version(self) -> str:
        before = b"new" if self.before is None else hashlib.sha256(self.before).digest()
        return hashlib.sha256(before + hashlib.sha256(self.after).digest()).hexdigest()[:32]


TextIntent = Rewrite | Edit | Patch
FileIntent = TextIntent | Replace | Delete | Move


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePreview:
    """A file before and after, with a version that names exactly this change of exactly this file. None: no file."""

    path: Path
    before: str | None
    after: str | None
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A file before and after."""

    path: Path
    before: str | None
    """unified text; None if there is no file"""
    after: str
    hunks: tuple[Hunk, ...] = field(repr=False)
    """of `view.exact`"""
    exact: str = field(repr=False)
    data: bytes = field(repr=False)
    """what the file would hold if it were written now"""
    view: View | None = field(repr=False)
    notes: tuple[str, ...] = ()
    of_bytes: str = ""
    """the version of a change of bytes"""

    @property
    def version(self) -> str:
        """Names exactly this change of exactly this text: equal for a preview and an edit that do the same."""
        if self.of_bytes:
            return self.of_bytes
        mark = hashlib.sha256()
        for text in (self.view.exact if self.view else None, self.exact):
            mark.update(b"\0" if text is None else b"\1" + text.encode("utf-8", "surrogatepass") + b"\0")
        return mark.hexdigest()[:32]


def preview_of(draft: Draft) -> FilePreview:
    return FilePreview(path=draft.path, before=draft.before, after=draft.after, version=draft.version)


def removal_version(data: bytes, target: Path | None = None) -> str:
    """The version of a file that is deleted, or moved to `target`."""
    return hashlib.sha256(f"{target or 'deleted'}\0".encode("utf-8", "surrogatepass") + data).hexdigest()[:32]


def draft(path: Path, intent: TextIntent | Replace | Restore, base: str | None, view: View | None) -> Draft:
    """`base` is the text the model read, None when it has read nothing."""
    if view is None:
        return _create(path, intent)
    if view.trouble:
        raise Refused(view.trouble)
    match intent:
        case Rewrite(text):
            return _rewrite(path, unify(text).removeprefix("\ufeff"), base, view)
        case Edit(replacements):
            return _edit(path, lambda text: match(text, replacements), base, view)
        case Patch(chunks):
            return _edit(path, lambda text: match_chunks(text, chunks), base, view)
        case Restore(data, expected):
            return _restore(path, data, expected, view)
        case Replace():
            return _replace(path, intent, view)


def _create(path: Path, intent: TextIntent | Replace | Restore) -> Draft:
    match intent:
        case Rewrite(text) | Edit((Replacement(old="", new=text),)):
            data = encode(text, Form())
            return Draft(path=path, before=None, after=unify(text), hunks=(), exact=text, data=data, view=None)
        case Restore(data, None):
            exact = decode_or_none(data) or ""
            return Draft(path=path, before=None, after=unify(exact), hunks=(), exact=exact, data=data, view=None)
        case Restore() | Replace(bytes()):
            raise StaleEdit(f"{path} has been deleted since")
        case Replace():
            return _of_bytes(path, intent, None)
        case Edit() | Patch():
            raise ToolError(f"{path} does not exist; check its name, or write it as a new file")


def _rewrite(path: Path, text: str, base: str | None, view: View) -> Draft:
    if base is None and view.text:
        raise ToolError(f"{path} exists and has not been read; read it first, or change only parts of it")
    base = view.text if base is None else base
    try:
        hunks = rebase(diff(base, text), base, view.text)
    except Conflict as conflict:
        raise _stale(path, base, conflict) from conflict
    return _drafted(path, view, narrow(view.text, hunks), _others(base, view.text))


def _edit(path: Path, matched: Callable[[str], Matched], base: str | None, view: View) -> Draft:
    if base is None or base == view.text:
        found = matched(view.text)
        return _drafted(path, view, found.hunks, found.notes)
    in_base = _try(base, matched)
    if not isinstance(in_base, Matched) or in_base.notes:
        # What the model quotes is not what it read: perhaps it knows the newer text from elsewhere.
        in_current = _try(view.text, matched)
        if isinstance(in_current, Matched) and (not isinstance(in_base, Matched) or not in_current.notes):
            return _drafted(path, view, in_current.hunks, (*in_current.notes, *_others(base, view.text)))
        if not isinstance(in_base, Matched):
            raise in_current if isinstance(in_current, ToolError) else in_base
    try:
        hunks = rebase(in_base.hunks, base, view.text)
    except Conflict as conflict:
        raise _stale(path, base, conflict) from conflict
    return _drafted(path, view, hunks, (*in_base.notes, *_others(base, view.text)))


def _restore(path: Path, data: bytes, expected: bytes | None, view: View) -> Draft:
    if expected is None:
        raise StaleEdit(f"{path} exists again: somebody created it since")
    exact = decode_or_none(data)
    if not holds(view, expected):
        return _restore_around(path, exact, decode_or_none(expected), view)
    if exact is None:
        if view.source == "buffer":
            raise Refused(f"{path} was a binary file before and is open in the editor; close it there first")
        return Draft(path=path, before=view.text, after="", hunks=(), exact="", data=data, view=view)
    text = unify(exact)
    if view.source == "disk":
        return Draft(path=path, before=view.text, after=text, hunks=(), exact=exact, data=data, view=view)
    return _drafted(path, view, narrow(view.text, diff(view.text, text)), ())


def _replace(path: Path, intent: Replace, view: View) -> Draft:
    """Refused if the editor holds a text that it would save as other bytes."""
    if view.dirty:
        raise Refused(f"{path} has unsaved text in the editor")
    if view.data != intent.before:
        raise StaleEdit(f"{path} has been changed since")
    if view.source == "disk":
        return _of_bytes(path, intent, view)
    exact = decode_or_none(intent.after)
    made = None if exact is None else _drafted(path, view, narrow(view.text, diff(view.text, unify(exact))), ())
    if made is None or made.data != intent.after:
        raise Refused(f"{path} is open in the editor, which would save it in another form; close it there first")
    return dataclasses.replace(made, of_bytes=intent.version)


def _of_bytes(path: Path, intent: Replace, view: View | None) -> Draft:
    exact = decode_or_none(intent.after)
    before, after = _shown_bytes(intent)
    return Draft(
        path=path,
        before=before,
        after=after,
        hunks=(),
        exact=exact or "",
        data=intent.after,
        view=view,
        of_bytes=intent.version,
    )


def _shown_bytes(intent: Replace) -> tuple[str | None, str]:
    """The texts before and after. Where they would look the same, with their own line ends; otherwise, and if one is
    not text, as size and hash."""
    after = decode_or_none(intent.after)
    if intent.before is None:
        return None, _hashed(intent.after) if after is None else unify(after)
    before = decode_or_none(intent.before)
    if before is None or after is None or before == after:
        return _hashed(intent.before), _hashed(intent.after)
    return (before, after) if unify(before) == unify(after) else (unify(before), unify(after))


def _hashed(data: bytes) -> str:
    return f"[{len(data):,} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}]\n"


def _restore_around(path: Path, exact: str | None, expected: str | None, view: View) -> Draft:
    """Restore the text in a file that was changed since, and keep those changes. Refused where they overlap."""
    if exact is None or expected is None:
        raise StaleEdit(f"{path} has been changed since")
    now, then = unify(expected), unify(exact)
    try:
        hunks = rebase(diff(now, then), now, view.text)
    except Conflict as conflict:
        raise StaleEdit(f"{path} has been changed since, in the same lines") from conflict
    return _drafted(path, view, narrow(view.text, hunks), ())


def holds(view: View | None, data: bytes | None) -> bool:
    """Whether the file is these bytes; of an open document its text is compared, for its line ends are the editor's."""
    if view is None or data is None:
        return view is None and data is None
    if view.disk is not None and not view.dirty and view.disk.data == data:
        return True
    exact = decode_or_none(data)
    return view.source == "buffer" and exact is not None and unify(exact) == view.text


def decode_or_none(data: bytes) -> str | None:
    try:
        return decode(data)[0]
    except Refused:
        return None


def _drafted(path: Path, view: View, hunks: tuple[Hunk, ...], notes: tuple[str, ...]) -> Draft:
    if view.uneven:
        notes = (*notes, "the file has mixed line endings; the editor makes them uniform when it saves")
    own = in_form(hunks, view.exact, view.form)
    exact = replace(view.exact, own)
    data = encode(exact, view.form)
    return Draft(
        path=path,
        before=view.text,
        after=replace(view.text, hunks),
        hunks=own,
        exact=exact,
        data=data,
        view=view,
        notes=notes,
    )


def _try(text: str, matched: Callable[[str], Matched]) -> Matched | ToolError:
    try:
        return matched(text)
    except ToolError as error:
        return error


def _others(base: str, current: str) -> tuple[str, ...]:
    if base == current:
        return ()
    return (f"others changed the file after you read it; their changes were kept:\n{_shown_diff(base, current)}",)


def _stale(path: Path, base: str, conflict: Conflict) -> StaleEdit:
    touched = replace(base, conflict.theirs)
    return StaleEdit(
        f"{path} was changed since you read it, in the lines you want to edit. Nothing was written. "
        f"What changed:\n{_shown_diff(base, touched)}\nRead it again before you edit it."
    )


def _shown_diff(before: str, after: str) -> str:
    lines = unified_diff(before, after, "since you read it").split("\n")[2:]
    cut = [f"… and {len(lines) - SHOWN_DIFF_LINES} more lines"] if len(lines) > SHOWN_DIFF_LINES else []
    return "\n".join(lines[:SHOWN_DIFF_LINES] + cut).rstrip("\n")
