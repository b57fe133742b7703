"""Finds the text that a model quotes, in order to replace it.

The exact text first. If it is nowhere, lines are compared with ever less care for what models get wrong (spaces at
line ends, typographic quotes, line numbers copied along, indentation), and a place counts only when it is the
only one. There is no "most similar": what does not match is an error that shows what the file has instead.

Pure. Texts are unified: lines end in `\n`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pilotfish.errors import ToolError
from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.files.edits import compose, line_number, narrow
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


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to compare lines: two lines match if their `key` is equal."""

    note: str
    key: Callable[[str], str]


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
        for hunk in reversed(found):
            hunks = compose(hunks, hunk.start, hunk.end, hunk.text)
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
    spans = _exact(text, old)
    if spans:
        _check_one(text, spans, wanted, label)
        return _first_of_overlapping([Hunk(start, end, new) for start, end in spans]), ""
    plain = text.translate(_TYPOGRAPHY)
    if spans := _exact(plain, old.translate(_TYPOGRAPHY)):
        _check_one(text, spans, wanted, label)
        hunks = [Hunk(start, end, _kept_signs(text[start:end], old, new)) for start, end in spans]
        return _first_of_overlapping(hunks), "matched with other quotes, dashes or spaces"
    return _by_lines(text, old, new, wanted, label)


def _by_lines(text: str, old: str, new: str, wanted: Replacement, label: str) -> tuple[list[Hunk], str]:
    lines = text.split("\n")
    starts = _line_starts(lines)
    for quoted, substitute, extra in _readings(old, new):
        old_lines, new_lines = _trimmed(quoted, substitute)
        if not any(line.strip() for line in old_lines):
            continue
        for way in _WAYS:
            rows = _rows(lines, old_lines, way.key)
            hunks: list[Hunk] = []
            for row in rows:
                fit = _fit(lines[row : row + len(old_lines)], old_lines, new_lines)
                if fit is not None:
                    hunks.append(_lines_hunk(text, starts[row], starts[row + len(old_lines)] - 1, fit))
            if hunks:
                _check_one(text, [(hunk.start, hunk.end) for hunk in hunks], wanted, label)
                return _first_of_overlapping(hunks), ", ".join(filter(None, (extra, way.note)))
    raise NotFound(_not_found(lines, old, label))


def _lines_hunk(text: str, start: int, end: int, new_lines: list[str]) -> Hunk:
    if new_lines:
        return Hunk(start, end, "\n".join(new_lines))
    return Hunk(start, min(end + 1, len(text)), "")  # the lines go with the end of the last one


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


def _check_one(text: str, spans: Sequence[tuple[int, int]], wanted: Replacement, label: str) -> None:
    if len(spans) == 1 or wanted.everywhere:
        return
    shown = "\n".join(_excerpt(text, start, end) for start, end in spans[:SHOWN_CANDIDATES])
    more = f"\n… and {len(spans) - SHOWN_CANDIDATES} more" if len(spans) > SHOWN_CANDIDATES else ""
    raise Ambiguous(
        f"{label}old_string is in the file {len(spans)} times. Quote more lines around the one that is meant, "
        f"or set replace_all.\n{shown}{more}"
    )


def _excerpt(text: str, start: int, end: int) -> str:
    """The place with a line before and after, numbered as read_file numbers."""
    first = max(1, line_number(text, start) - 1)
    last = line_number(text, end) + 1
    lines = text.split("\n")
    rows = range(first, min(last, first + SHOWN_LINES - 1, len(lines)) + 1)
    return f"line {line_number(text, start)}:\n" + "\n".join(f"{row:>6}\t{lines[row - 1]}" for row in rows)


def _rows(lines: Sequence[str], old_lines: Sequence[str], key: Callable[[str], str]) -> list[int]:
    keys = [key(line) for line in lines]
    wanted = [key(line) for line in old_lines]
    size = len(wanted)
    return [row for row in range(len(keys) - size + 1) if keys[row] == wanted[0] and keys[row : row + size] == wanted]


def _fit(found: Sequence[str], old_lines: Sequence[str], new_lines: Sequence[str]) -> list[str] | None:
    """The new lines as they belong here: lines that stay are the file's own, others are indented as the file is.
    None when the file's indentation does not follow from the quoted one."""
    indent = _indentation(found, old_lines)
    if indent is None:
        return None
    result: list[str] = []
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            result += found[i1:i2]
        else:
            result += (indent(line) for line in new_lines[j1:j2])
    return result


def _indentation(found: Sequence[str], quoted: Sequence[str]) -> Callable[[str], str] | None:
    """How the quoted lines must be indented to be the found ones: the same way for all of them."""
    pairs = {(_indent(theirs), _indent(ours)) for theirs, ours in zip(quoted, found, strict=True) if theirs.strip()}
    if all(theirs == ours for theirs, ours in pairs):
        return lambda line: line
    for change in (_same_prefix(pairs), _same_units(pairs)):
        if change is not None:
            return change
    return None


def _same_prefix(pairs: set[tuple[str, str]]) -> Callable[[str], str] | None:
    """every line has the same text more, or the same text less, before it"""
    theirs, ours = min(pairs, key=lambda pair: len(pair[0]))
    if ours.endswith(theirs):
        more = ours[: len(ours) - len(theirs)]
        if all(inner == more + outer for outer, inner in pairs):
            return lambda line: more + line if line.strip() else line
    if theirs.endswith(ours):
        less = theirs[: len(theirs) - len(ours)]
        if all(outer == less + inner for outer, inner in pairs):
            return lambda line: line.removeprefix(less)
    return None


def _same_units(pairs: set[tuple[str, str]]) -> Callable[[str], str] | None:
    """tabs for spaces or spaces for tabs, or other widths, perhaps at another depth"""
    for theirs_unit in _UNITS:
        for ours_unit in _UNITS:
            depths = {(_depth(theirs, theirs_unit), _depth(ours, ours_unit)) for theirs, ours in pairs}
            if any(outer is None or inner is None for outer, inner in depths):
                continue
            moves = {inner - outer for outer, inner in depths if outer is not None and inner is not None}
            if len(moves) != 1 or (theirs_unit == ours_unit and moves == {0}):
                continue
            move = moves.pop()

            def change(line: str, theirs_unit: str = theirs_unit, ours_unit: str = ours_unit, move: int = move) -> str:
                indent = _indent(line)
                depth = _depth(indent, theirs_unit)
                if not line.strip() or depth is None:
                    return line
                return ours_unit * max(0, depth + move) + line[len(indent) :]

            return change
    return None


def _depth(indent: str, unit: str) -> int | None:
    depth, rest = divmod(len(indent), len(unit))
    return depth if not rest and indent == unit * depth else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


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


def _readings(old: str, new: str) -> list[tuple[str, str, str]]:
    """What was quoted, and what may have been meant."""
    readings = [(old, new, "")]
    lines = old.split("\n")
    if all(_NUMBERED.match(line) for line in lines if line.strip()):
        bare = [_NUMBERED.sub("", line) for line in lines]
        substitute = [_NUMBERED.sub("", line) for line in new.split("\n")]
        readings.append(("\n".join(bare), "\n".join(substitute), "line numbers removed"))
    return readings


def _kept_signs(found: str, old: str, new: str) -> str:
    """The new text, with the file's own quotes and dashes in every part that was only quoted, not changed."""
    result: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        result.append(found[i1:i2] if tag == "equal" else new[j1:j2])
    return "".join(result)


def _not_found(lines: Sequence[str], old: str, label: str) -> str:
    message = f"{label}old_string is not in the file."
    place = _nearest(lines, old.strip("\n").split("\n"))
    if place is None:
        return f"{message} Read the file again and quote it exactly."
    row, size = place
    shown = "\n".join(
        f"{number + 1:>6}\t{lines[number]}" for number in range(row, min(row + size, row + SHOWN_LINES, len(lines)))
    )
    return f"{message} The nearest text is:\n{shown}\nQuote it exactly, or read the file again."


def _nearest(lines: Sequence[str], old_lines: Sequence[str]) -> tuple[int, int] | None:
    """The window with most lines in common, then with the most similar first line; only to show it."""
    if len(lines) > NEAREST_LIMIT or not old_lines:
        return None
    wanted = {line.strip() for line in old_lines if line.strip()}
    size = len(old_lines)
    marks = [1 if line.strip() in wanted else 0 for line in lines]
    score = sum(marks[:size])
    best, at = score, 0
    for row in range(1, max(1, len(lines) - size + 1)):
        score += (marks[row + size - 1] if row + size - 1 < len(marks) else 0) - marks[row - 1]
        if score > best:
            best, at = score, row
    if best:
        return at, size
    first = next((line.strip() for line in old_lines if line.strip()), "")
    matcher = SequenceMatcher(None, "", first, autojunk=False)
    ratio, at = 0.6, -1
    for row, line in enumerate(lines[:2000]):
        matcher.set_seq1(line.strip())
        if matcher.real_quick_ratio() > ratio and matcher.quick_ratio() > ratio and matcher.ratio() > ratio:
            ratio, at = matcher.ratio(), row
    return (at, size) if at >= 0 else None


def _line_starts(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " "),
    }
)
_NUMBERED = re.compile(r"^\s*\d+(?:\t|→|\s?\| ?)")
_UNITS = ("\t", "    ", "  ", "   ", "        ", " ")
_WAYS = (
    _Way("matched without spaces at line ends", lambda line: line.rstrip()),
    _Way("matched with other quotes and spaces at line ends", lambda line: line.translate(_TYPOGRAPHY).rstrip()),
    _Way("matched with other indentation", lambda line: line.strip()),
    _Way("matched with other indentation and quotes", lambda line: line.translate(_TYPOGRAPHY).strip()),
)
