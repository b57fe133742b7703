r"""Finds the text that a model quotes, in order to replace it.

The exact text first. If it is nowhere, other readings of the quote are tried (line numbers copied along, escapes), and
lines are compared with ever less care (`matching_lines`). A place counts only when it is the only one. There is no
"most similar": what does not match is an error that shows what the file has instead.

Pure. Texts are unified: lines end in `\n`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pilotfish.errors import ToolError
from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.edits.hunks import compose, line_number, narrow
from pilotfish.workspace.edits.matching_lines import ELISION, TYPOGRAPHY, Lines, Place
from pilotfish.workspace.files.encoding import replace, unify

SHOWN_CANDIDATES = 5
SHOWN_LINES = 12
NEAREST_LIMIT = 20_000  # lines of a file searched for something similar to show


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Replace `old` by `new`; everywhere, or where it is found once."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Matched:
    """Hunks of the text that was searched, and how the places were found (empty: exactly)."""

    hunks: tuple[Hunk, ...]
    notes: tuple[str, ...]


class NotFound(ToolError):
    """The quoted text is not in the file."""


class Ambiguous(ToolError):
    """The quoted text is in the file more than once."""


def match(text: str, replacements: Sequence[Replacement]) -> Matched:
    """Match all replacements, each against the result of the ones before; raises if one does not match."""
    hunks: tuple[Hunk, ...] = ()
    notes: list[str] = []
    working = text
    for number, replacement in enumerate(replacements, 1):
        label = f"edit {number}: " if len(replacements) > 1 else ""
        found, note = _find(working, replacement, label)
        if note:
            notes.append(label + note)
        hunks = compose(hunks, found)
        working = replace(working, found)
    if working == text:
        raise ToolError("nothing would change: old_string and new_string are the same")
    return Matched(narrow(text, hunks), tuple(notes))


def _find(text: str, wanted: Replacement, label: str) -> tuple[list[Hunk], str]:
    old, new = unify(wanted.old), unify(wanted.new)
    if not old:
        if text:
            raise ToolError(
                f"{label}old_string is empty; quote the text to replace, or use write_file for the whole file"
            )
        return [Hunk(0, 0, new)], ""
    check_placeholders(text, old, new, label)
    for quoted, substitute, reading in readings(old, new):
        for hunks, note in _places(text, quoted, substitute):
            if len(hunks) > 1 and not wanted.everywhere:
                raise Ambiguous(_several(text, [(hunk.start, hunk.end) for hunk in hunks], label))
            return _first_of_overlapping(hunks), ", ".join(filter(None, (reading, note)))
    raise NotFound(label + not_found(text, old))


def _places(text: str, old: str, new: str) -> Iterator[tuple[list[Hunk], str]]:
    """The places of a quote, way after way."""
    if spans := _exact(text, old):
        yield [Hunk(start, end, new) for start, end in spans], ""
    if spans := _exact(text.translate(TYPOGRAPHY), old.translate(TYPOGRAPHY)):
        hunks = [Hunk(start, end, _kept_signs(text[start:end], old, new)) for start, end in spans]
        yield hunks, "matched with other quotes, dashes or spaces"
    lines = text.split("\n")
    starts = line_starts(lines)
    for places, note in Lines(lines).search(*_trimmed(old, new)):
        yield [line_hunk(text, starts, place) for place in places], note


def line_hunk(text: str, starts: Sequence[int], place: Place) -> Hunk:
    """The hunk of whole lines. `starts` are the offsets of all lines and of the end of the text plus one."""
    start, end = starts[place.start], starts[place.end] - 1
    if place.lines:
        return Hunk(start, end, "\n".join(place.lines))
    return Hunk(start, min(end + 1, len(text)), "")  # the lines go with the end of the last one


def check_placeholders(text: str, old: str, new: str, label: str) -> None:
    """Raise if the new text has a comment in place of code, such as `// ... existing code ...`, that nobody wrote."""
    if "..." not in new and "…" not in new:
        return
    if old not in text and any(ELISION.fullmatch(quoted) for quoted in old.split("\n")):
        return  # the quote leaves lines out too
    own = {line.strip() for line in text.split("\n")}
    for line in new.split("\n"):
        if ELISION.fullmatch(line) and _PLACEHOLDER.search(line) and line.strip() not in own:
            raise ToolError(
                f"{label}new_string has a placeholder ({line.strip()}), which would be written into the file in place "
                "of the code; write the code itself, or quote only the lines that change"
            )


def not_found(text: str, old: str) -> str:
    """The error for a quote that is nowhere, with the nearest lines of the file."""
    lines = text.split("\n")
    message = "old_string is not in the file."
    place = _nearest(lines, old.strip("\n").split("\n"))
    if place is None:
        return f"{message} Read the file again and quote it exactly."
    row, size = place
    shown = "\n".join(
        f"{number + 1:>6}\t{lines[number]}" for number in range(row, min(row + size, row + SHOWN_LINES, len(lines)))
    )
    return f"{message} The nearest text is:\n{shown}\nQuote it exactly, or read the file again."


def _several(text: str, spans: Sequence[tuple[int, int]], label: str) -> str:
    shown = "\n".join(_excerpt(text, start, end) for start, end in spans[:SHOWN_CANDIDATES])
    more = f"\n… and {len(spans) - SHOWN_CANDIDATES} more" if len(spans) > SHOWN_CANDIDATES else ""
    return (
        f"{label}old_string is in the file {len(spans)} times. Quote more lines around the one that is meant, "
        f"or set replace_all.\n{shown}{more}"
    )


def _exact(text: str, old: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    at = text.find(old)
    while at >= 0:
        spans.append((at, at + len(old)))
        at = text.find(old, at + 1)
    return spans


def _first_of_overlapping(hunks: Sequence[Hunk]) -> list[Hunk]:
    apart: list[Hunk] = []
    for hunk in hunks:
        if not apart or hunk.start >= apart[-1].end:
            apart.append(hunk)
    return apart


def _excerpt(text: str, start: int, end: int) -> str:
    """The place with a line before and after, numbered as read_file numbers."""
    first = max(1, line_number(text, start) - 1)
    last = line_number(text, end) + 1
    lines = text.split("\n")
    rows = range(first, min(last, first + SHOWN_LINES - 1, len(lines)) + 1)
    return f"line {line_number(text, start)}:\n" + "\n".join(f"{row:>6}\t{lines[row - 1]}" for row in rows)


def _trimmed(old: str, new: str) -> tuple[list[str], list[str]]:
    """Lines of both, without the blank lines both begin or end with, and without a last end of line both have."""
    old_lines, new_lines = old.split("\n"), new.split("\n")
    while len(old_lines) > 1 and not old_lines[-1].strip():
        old_lines.pop()
        if new_lines and not new_lines[-1].strip():
            new_lines.pop()
    while len(old_lines) > 1 and not old_lines[0].strip():
        old_lines.pop(0)
        if new_lines and not new_lines[0].strip():
            new_lines.pop(0)
    return old_lines, [] if new == "" else new_lines


def readings(old: str, new: str) -> Iterator[tuple[str, str, str]]:
    """What was quoted, and what may have been meant."""
    yield old, new, ""
    lines = old.split("\n")
    if all(_NUMBERED.match(line) for line in lines if line.strip()):
        bare = "\n".join(_NUMBERED.sub("", line) for line in lines)
        yield bare, "\n".join(_NUMBERED.sub("", line) for line in new.split("\n")), "line numbers removed"
    if fenced := _FENCE.fullmatch(old):
        inside = _FENCE.fullmatch(new)
        yield fenced[1], inside[1] if inside else new, "code fence removed"
    if "\\" in old and (plain := _unescaped(old)) != old:
        yield plain, _unescaped(new), "escapes removed"
    if "&" in old and (plain := html.unescape(old)) != old:
        yield plain, html.unescape(new), "HTML entities removed"


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


def _kept_signs(found: str, old: str, new: str) -> str:
    """The new text, with the file's own quotes and dashes in every part that was only quoted, not changed."""
    lines, quoted, wanted = found.split("\n"), old.split("\n"), new.split("\n")
    result: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, quoted, wanted, autojunk=False).get_opcodes():
        if tag == "equal":
            result += lines[i1:i2]
        elif i2 - i1 == j2 - j1:
            result += map(_kept_letters, lines[i1:i2], quoted[i1:i2], wanted[j1:j2])
        else:
            result += wanted[j1:j2]
    return "\n".join(result)


def _kept_letters(found: str, old: str, new: str) -> str:
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return "".join(found[i1:i2] if tag == "equal" else new[j1:j2] for tag, i1, i2, j1, j2 in opcodes)


def _nearest(lines: Sequence[str], old_lines: Sequence[str]) -> tuple[int, int] | None:
    """The window with most lines in common, then with the most similar first line; only to show it."""
    if len(lines) > NEAREST_LIMIT or not old_lines:
        return None
    wanted = {line.strip() for line in old_lines if line.strip()}
    size = len(old_lines)
    marks = [1 if line.strip() in wanted else 0 for line in lines]
    first = next((line.strip() for line in old_lines if line.strip()), "")
    score = sum(marks[:size])
    best, at = (score, lines[0].strip() == first), 0
    for row in range(1, max(1, len(lines) - size + 1)):
        score += (marks[row + size - 1] if row + size - 1 < len(marks) else 0) - marks[row - 1]
        if (here := (score, lines[row].strip() == first)) > best:
            best, at = here, row
    if best[0]:
        return at, size
    matcher = SequenceMatcher(None, "", first, autojunk=False)
    ratio, at = 0.6, -1
    for row, line in enumerate(lines[:2000]):
        matcher.set_seq1(line.strip())
        if matcher.real_quick_ratio() > ratio and matcher.quick_ratio() > ratio and matcher.ratio() > ratio:
            ratio, at = matcher.ratio(), row
    return (at, size) if at >= 0 else None


def line_starts(lines: Sequence[str]) -> list[int]:
    """The offset of each line, and the offset after the last one's end."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


_NUMBERED = re.compile(r"^\s*\d+(?:\t|→|\s?\| ?)")
_FENCE = re.compile(r"\s*```[\w+-]*\n(.*?)\n?```\s*", re.DOTALL)
_ESCAPE = re.compile(r"\\([nt\"'\\`])")
_ESCAPED = {"n": "\n", "t": "\t"}
_PLACEHOLDER = re.compile(
    r"existing|rest of|unchanged|remain|same as|previous|other (?:code|methods|fields|imports|lines)|omitted|code here",
    re.IGNORECASE,
)
