r"""Reads patches in OpenAI's `apply_patch` format, and finds the places of their chunks.

    *** Begin Patch
    *** Update File: src/a.py
    @@ class A
     context
    -old
    +new
    *** Add File: b.py
    +text
    *** Delete File: c.py
    *** End Patch

Pure. A chunk is found like an edit that quotes whole lines (`matching_lines`): after the line that `@@` names, after
the chunk before it, and in one place only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pilotfish.errors import ToolError
from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.edits.hunks import compose, line_number, narrow
from pilotfish.workspace.edits.matching import (
    Ambiguous,
    Matched,
    NotFound,
    check_placeholders,
    line_hunk,
    line_starts,
    not_found,
    readings,
)
from pilotfish.workspace.edits.matching_lines import WAYS, Lines, Place
from pilotfish.workspace.files.encoding import replace, unify

FORM = "Begin with *** Begin Patch, then *** Update File: path (or Add File, Delete File), end with *** End Patch."


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines that change, with the lines around them. `anchors` are lines before them, from the outermost."""

    anchors: tuple[str, ...] = ()
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file."""

    path: str
    action: Literal["add", "update", "delete"]
    text: str = ""
    """of a new file"""
    chunks: tuple[Chunk, ...] = ()
    move_to: str | None = None


@dataclass(slots=True)
class _Open:
    """A file section while it is read."""

    path: str
    action: Literal["add", "update", "delete"]
    lines: list[str] = field(default_factory=list[str])
    move_to: str | None = None


def parse(patch: str) -> tuple[FilePatch, ...]:
    """The files of a patch. Raises `ToolError` for what is no patch, or names a file twice."""
    lines = unify(patch).strip("\n").split("\n")
    begin = next((row for row, line in enumerate(lines) if line.strip() == "*** Begin Patch"), None)
    if begin is None and not any(_SECTION.match(line.strip()) for line in lines):
        raise ToolError(f"this is no patch. {FORM}")
    sections: list[_Open] = []
    for line in lines[(-1 if begin is None else begin) + 1 :]:
        if line.strip() == "*** End Patch":
            break
        if found := _SECTION.match(line.strip()):
            action: Literal["add", "update", "delete"] = found[1].lower()  # pyright: ignore[reportAssignmentType] -- the pattern has these three
            sections.append(_Open(found[2].strip(), action))
        elif not sections:
            if line.strip():
                raise ToolError(f"the patch has {line!r} before its first file. {FORM}")
        elif found := _MOVE.match(line.strip()):
            sections[-1].move_to = found[1].strip()
        else:
            sections[-1].lines.append(line)
    files = tuple(_file(section) for section in sections)
    if not files:
        raise ToolError(f"the patch names no file. {FORM}")
    return _joined(files)


def match_chunks(text: str, chunks: Sequence[Chunk]) -> Matched:
    """Match all chunks, each against the result of the ones before; raises if one does not match."""
    hunks: tuple[Hunk, ...] = ()
    notes: list[str] = []
    working, first = text, 0
    for number, chunk in enumerate(chunks, 1):
        label = f"chunk {number}: " if len(chunks) > 1 else ""
        check_placeholders(working, "\n".join(chunk.old), "\n".join(chunk.new), label)
        hunk, first, note = _find(working, chunk, first, label)
        if note:
            notes.append(label + note)
        hunks = compose(hunks, [hunk])
        working = replace(working, [hunk])
    if working == text:
        raise ToolError("nothing would change: the patch has no line with + or - that differs from the file")
    return Matched(narrow(text, hunks), tuple(notes))


def _find(text: str, chunk: Chunk, first: int, label: str) -> tuple[Hunk, int, str]:
    """(the hunk of a chunk, the row after it, how it was found)"""
    ends = text.endswith("\n")
    lines = Lines(text.removesuffix("\n").split("\n") if text else [])
    starts = line_starts(lines.lines)
    anchored = _after_anchors(lines, chunk, first, label)
    start = first if anchored is None else anchored
    if not any(line.strip() for line in chunk.old):  # only new lines: after the anchor, or at the end of the file
        row = len(lines.lines) if anchored is None or chunk.at_end else start
        place = Place(row, row, chunk.new)
        note = ""
    else:
        place, note = _one_place(text, lines, chunk, start, label, anchored=anchored is not None)
    after = place.start + len(place.lines)
    if place.start == place.end:
        offset = min(starts[place.start], len(text))
        whole = "".join(f"{line}\n" for line in place.lines)
        if offset == len(text) and text and not ends:
            return Hunk(offset, offset, f"\n{whole}".removesuffix("\n")), after, note
        return Hunk(offset, offset, whole), after, note
    if not place.lines and starts[place.end] - 1 == len(text) and place.start:  # the last line, which has no end
        return Hunk(starts[place.start] - 1, len(text), ""), after, note
    return line_hunk(text, starts, place), after, note


def _one_place(text: str, lines: Lines, chunk: Chunk, start: int, label: str, *, anchored: bool) -> tuple[Place, str]:
    for old, new, reading in _trims(chunk):
        for places, way in lines.search(old, new):
            note = ", ".join(filter(None, (reading, way)))
            later = [place for place in places if place.start >= start] or places
            if chunk.at_end:
                later = [place for place in later if place.end >= len(lines.lines)] or later
            if len(later) == 1 or (anchored and later[0].start >= start):
                return later[0], note
            offsets = line_starts(lines.lines)
            rows = ", ".join(str(line_number(text, offsets[place.start])) for place in later[:5])
            raise Ambiguous(
                f"{label}its lines are in the file {len(later)} times (at lines {rows}). Put more lines around them, "
                "or name the function before them with @@"
            )
    raise NotFound(label + not_found(text, "\n".join(chunk.old)).replace("old_string is", "its lines are"))


def _trims(chunk: Chunk) -> Iterator[tuple[Sequence[str], Sequence[str], str]]:
    """The chunk, the chunk without blank lines that it begins or ends with, and other readings of its lines."""
    yield chunk.old, chunk.new, ""
    old, new = list(chunk.old), list(chunk.new)
    while len(old) > 1 and not old[-1].strip() and new and not new[-1].strip():
        old.pop()
        new.pop()
    while len(old) > 1 and not old[0].strip() and new and not new[0].strip():
        old.pop(0)
        new.pop(0)
    if len(old) < len(chunk.old):
        yield old, new, ""
    for quoted, substitute, note in readings("\n".join(old), "\n".join(new)):
        if note:
            yield quoted.split("\n"), substitute.split("\n") if new else [], note


def _after_anchors(lines: Lines, chunk: Chunk, first: int, label: str) -> int | None:
    """The row after the last line that `@@` names; None without such a line."""
    row: int | None = None
    for anchor in chunk.anchors:
        found = _anchor_row(lines, anchor, first if row is None else row)
        if found is None:
            raise NotFound(f"{label}the file has no line {anchor!r}, which @@ names; quote a line of the file there")
        # The chunk may quote the line that @@ names.
        quoted = chunk.old[:1] and chunk.old[0].strip() == lines.lines[found].strip()
        row = found if quoted and anchor == chunk.anchors[-1] else found + 1
    return row


def _anchor_row(lines: Lines, anchor: str, first: int) -> int | None:
    for way in WAYS:
        if rows := lines.rows([anchor], way):
            return next((row for row in rows if row >= first), rows[0] if len(rows) == 1 else None)
    wanted = anchor.strip()
    rows = [row for row, line in enumerate(lines.lines) if wanted and line.strip().startswith(wanted)]
    return next((row for row in rows if row >= first), rows[0] if len(rows) == 1 else None)


def _file(section: _Open) -> FilePatch:
    path, lines = section.path, section.lines
    match section.action:
        case "delete":
            return FilePatch(path, "delete")
        case "add":
            while lines and not lines[-1].strip():
                lines.pop()
            body = [line.removeprefix("+") for line in lines]
            return FilePatch(path, "add", text="".join(f"{line}\n" for line in body))
        case "update":
            chunks = tuple(_chunks(lines, path))
            if not chunks and section.move_to is None:
                raise ToolError(f"the patch changes nothing in {path}: it has no line with + or -")
            return FilePatch(path, "update", chunks=chunks, move_to=section.move_to)


def _chunks(lines: Sequence[str], path: str) -> Iterator[Chunk]:
    anchors: list[str] = []
    old: list[str] = []
    new: list[str] = []
    changed = False
    trailing = len(lines)
    while trailing and not lines[trailing - 1].strip():
        trailing -= 1
    for line in (*lines[:trailing], "@@"):
        mark, rest = line[:1], line[1:]
        if line.startswith("@@") or line.strip() == "*** End of File":
            if changed:
                yield Chunk(tuple(anchors), tuple(old), tuple(new), at_end=line.startswith("***"))
            if changed or old:
                anchors, old, new, changed = [], [], [], False
            anchor = _ANCHOR.sub("", line).strip("\n") if line.startswith("@@") else ""
            if anchor.strip():
                anchors.append(anchor)
        elif mark == "+":
            new.append(rest)
            changed = True
        elif mark == "-":
            old.append(rest)
            changed = True
        elif mark == " " or not line:
            old.append(rest)
            new.append(rest)
        elif mark == "\t":
            old.append(line)
            new.append(line)
        else:
            raise ToolError(
                f"a line of the patch of {path} begins with neither space, + nor -: {line[:80]!r}. "
                "Put a space before each line that stays"
            )


def _joined(files: Sequence[FilePatch]) -> tuple[FilePatch, ...]:
    """Several sections that update one file become one; any other file may be named once."""
    found: dict[str, FilePatch] = {}
    for file in files:
        known = found.get(file.path)
        if known is None:
            found[file.path] = file
        elif known.action == file.action == "update":
            chunks = (*known.chunks, *file.chunks)
            found[file.path] = FilePatch(file.path, "update", chunks=chunks, move_to=known.move_to or file.move_to)
        else:
            raise ToolError(f"the patch names {file.path} twice")
    return tuple(found.values())


_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = re.compile(r"\*\*\* Move to: (.+)")
_ANCHOR = re.compile(r"^@@ ?(?:-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?)?|(?<=.) @@$")
