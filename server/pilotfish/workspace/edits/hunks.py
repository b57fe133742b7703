"""Compares texts, applies hunks, and rebases hunks over concurrent changes.

Pure. All texts here are unified: lines end in `\n`. Offsets are code points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.files.encoding import replace

EXACT_DIFF_LIMIT = 4_000_000  # lines times lines: below it a diff is exact, above it popular lines are skipped
COARSE_DIFF_LINES = 200_000  # beyond it a changed middle is one hunk


@dataclass(frozen=True, slots=True)
class Conflict(Exception):
    """Hunks overlap with changes by somebody else. `theirs` are those changes, as hunks of the base."""

    theirs: tuple[Hunk, ...]


def diff(before: str, after: str) -> tuple[Hunk, ...]:
    """Hunks of whole lines that turn `before` into `after`."""
    if before == after:
        return ()
    head = _common_head(before, after)
    head = before.rfind("\n", 0, head) + 1
    tail = _common_tail(before, after, head)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    old_lines, new_lines = lines_of(old), lines_of(new)
    if len(old_lines) + len(new_lines) > COARSE_DIFF_LINES:
        return (Hunk(head, head + len(old), new),)
    exact = len(old_lines) * len(new_lines) <= EXACT_DIFF_LIMIT
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=not exact)
    starts = _starts(old_lines, head)
    return tuple(
        Hunk(starts[i1], starts[i2], "".join(new_lines[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


def narrow(text: str, hunks: Sequence[Hunk]) -> tuple[Hunk, ...]:
    """The same change in the smallest hunks, without replacing equal text."""
    small: list[Hunk] = []
    for hunk in hunks:
        old = text[hunk.start : hunk.end]
        for part in diff(old, hunk.text) if old and hunk.text else (Hunk(0, len(old), hunk.text),):
            was = old[part.start : part.end]
            head = _common_head(was, part.text)
            tail = _common_tail_letters(was, part.text, head)
            start, end = hunk.start + part.start + head, hunk.start + part.end - tail
            if start < end or len(part.text) > head + tail:
                small.append(Hunk(start, end, part.text[head : len(part.text) - tail]))
    return tuple(small)


def rebase(hunks: Sequence[Hunk], base: str, current: str) -> tuple[Hunk, ...]:
    """Hunks of `base` as hunks of `current`. A change that somebody else already made identically is left
    out. `Conflict` when a hunk touches, or lies right beside, lines that were changed otherwise."""
    theirs = diff(base, current)
    if not theirs:
        return tuple(hunks)
    moved: list[Hunk] = []
    conflicts: list[Hunk] = []
    shift = 0
    for low, high, mine, others in _clusters(hunks, theirs, base):
        grown = sum(len(hunk.text) - (hunk.end - hunk.start) for hunk in others)
        if not others:
            moved += (Hunk(hunk.start + shift, hunk.end + shift, hunk.text) for hunk in mine)
        elif mine and _applied(base, low, high, mine) != _applied(base, low, high, others):
            conflicts += others
        shift += grown
    if conflicts:
        raise Conflict(tuple(conflicts))
    return tuple(moved)


def compose(hunks: Sequence[Hunk], later: Sequence[Hunk]) -> tuple[Hunk, ...]:
    """One list of hunks for two: `later` are hunks of the text after `hunks`. Both sorted; linear in their number."""
    result: list[Hunk] = []
    first, second = list(reversed(hunks)), list(reversed(later))
    shift = 0  # offset after `hunks` so far, minus offset before them
    while first or second:
        if not second or (first and _end_after(first[-1], shift) < second[-1].start):
            hunk = first.pop()
            result.append(hunk)
            shift += _growth(hunk)
        elif not first or second[-1].end < first[-1].start + shift:
            hunk = second.pop()
            result.append(Hunk(hunk.start - shift, hunk.end - shift, hunk.text))
        else:
            low = min(first[-1].start + shift, second[-1].start)
            texts: list[Hunk] = []  # of the hunks that touch each other, in offsets between the two lists
            changes: list[Hunk] = []
            start, high = low - shift, low
            while True:
                if first and first[-1].start + shift <= high:
                    hunk = first.pop()
                    begin, end = hunk.start + shift, _end_after(hunk, shift)
                    texts.append(Hunk(begin, end, hunk.text))
                    shift += _growth(hunk)
                elif second and second[-1].start <= high:
                    hunk = second.pop()
                    end = hunk.end
                    changes.append(hunk)
                else:
                    break
                high = max(high, end)
            result.append(Hunk(start, high - shift, _overlaid(texts, changes, low, high)))
    return tuple(result)


def _end_after(hunk: Hunk, shift: int) -> int:
    return hunk.start + shift + len(hunk.text)


def _growth(hunk: Hunk) -> int:
    return len(hunk.text) - (hunk.end - hunk.start)


def _overlaid(texts: Sequence[Hunk], changes: Sequence[Hunk], low: int, high: int) -> str:
    """The text from `low` to `high`: `changes`, and between them what `texts` have there."""
    pieces: list[str] = []
    at, number = low, 0
    for change in (*changes, Hunk(high, high, "")):
        while number < len(texts):
            text = texts[number]
            pieces.append(text.text[max(at - text.start, 0) : max(change.start - text.start, 0)])
            if text.end > change.start:
                break
            number += 1
        pieces.append(change.text)
        at = max(at, change.end)
    return "".join(pieces)


def count(before: str, after: str) -> tuple[int, int]:
    """(lines added, lines removed)"""
    hunks = diff(before, after)
    return sum(_line_count(hunk.text) for hunk in hunks), sum(
        _line_count(before[hunk.start : hunk.end]) for hunk in hunks
    )


def unified_diff(before: str, after: str, name: str, new_name: str | None = None, context: int = 3) -> str:
    """The unified diff between two texts; empty if they are equal."""
    hunks = diff(before, after)
    if not hunks:
        return ""
    pieces = [f"--- {name}\n+++ {new_name or name}\n"]
    shift = 0
    for group in _groups(hunks, before, context):
        first, last = group[0].start, group[-1].end
        low, high = _lines_back(before, first, context), _lines_on(before, last, context)
        body: list[str] = []
        at = low
        for hunk in group:
            body += (" " + line for line in lines_of(before[at : hunk.start]))
            body += ("-" + line for line in lines_of(before[hunk.start : hunk.end]))
            body += ("+" + line for line in lines_of(hunk.text))
            at = hunk.end
        body += (" " + line for line in lines_of(before[at:high]))
        old = sum(1 for line in body if line[0] != "+")
        new = sum(1 for line in body if line[0] != "-")
        line = before.count("\n", 0, low) + 1
        pieces.append(f"@@ -{line - (not old)},{old} +{line + shift - (not new)},{new} @@\n")
        pieces += (row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in body)
        shift += new - old
    return "".join(pieces)


def lines_of(text: str) -> list[str]:
    """Lines with their `\n`; the last may have none. (`splitlines` ends lines at characters editors do not.)"""
    parts = text.split("\n")
    last = parts.pop()
    lines = [part + "\n" for part in parts]
    return [*lines, last] if last else lines


def line_number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _clusters(ours: Sequence[Hunk], theirs: Sequence[Hunk], base: str) -> list[tuple[int, int, list[Hunk], list[Hunk]]]:
    """Changes that touch each other, in order: (start, end, ours, theirs) in offsets of the base."""
    spans = [(*_line_span(base, hunk), 0, hunk) for hunk in ours] + [(hunk.start, hunk.end, 1, hunk) for hunk in theirs]
    spans.sort(key=lambda span: span[:3])
    clusters: list[tuple[int, int, list[Hunk], list[Hunk]]] = []
    for start, end, side, hunk in spans:
        if clusters and start <= clusters[-1][1] and (clusters[-1][3] or side):
            low, high, mine, others = clusters[-1]
            clusters[-1] = (low, max(high, end), mine, others)
        else:
            clusters.append((start, end, [], []))
        (clusters[-1][3] if side else clusters[-1][2]).append(hunk)
    return clusters


def _applied(base: str, low: int, high: int, hunks: Sequence[Hunk]) -> str:
    return replace(base[low:high], [Hunk(hunk.start - low, hunk.end - low, hunk.text) for hunk in hunks])


def _line_span(text: str, hunk: Hunk) -> tuple[int, int]:
    """The whole lines a hunk changes; an insertion between two lines changes neither."""
    start = text.rfind("\n", 0, hunk.start) + 1
    if hunk.end == start or (hunk.end > hunk.start and text[hunk.end - 1] == "\n"):
        return start, hunk.end
    end = text.find("\n", hunk.end)
    return start, len(text) if end < 0 else end + 1


def _groups(hunks: Sequence[Hunk], text: str, context: int) -> list[list[Hunk]]:
    groups: list[list[Hunk]] = []
    for hunk in hunks:
        if groups and text.count("\n", groups[-1][-1].end, hunk.start) <= 2 * context:
            groups[-1].append(hunk)
        else:
            groups.append([hunk])
    return groups


def _lines_back(text: str, offset: int, count: int) -> int:
    for _ in range(count):
        if offset == 0:
            break
        offset = text.rfind("\n", 0, offset - 1) + 1
    return offset


def _lines_on(text: str, offset: int, count: int) -> int:
    for _ in range(count):
        end = text.find("\n", offset)
        if end < 0:
            return len(text)
        offset = end + 1
    return offset


def _line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") if text else 0)


def _starts(lines: Sequence[str], at: int) -> list[int]:
    starts = [at]
    for line in lines:
        at += len(line)
        starts.append(at)
    return starts


def _common_head(a: str, b: str) -> int:
    """How many characters two texts begin with alike: halving, so that comparing is done by whole blocks."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_tail(a: str, b: str, head: int) -> int:
    """How many characters of whole lines two texts end with alike, not counting the first `head`."""
    tail = _common_tail_letters(a, b, head)
    if not tail:
        return 0
    in_a, in_b = len(a) - tail, len(b) - tail
    if (in_a == head or a[in_a - 1] == "\n") and (in_b == head or b[in_b - 1] == "\n"):
        return tail
    end = a.find("\n", in_a)
    return 0 if end < 0 else len(a) - end - 1


def _common_tail_letters(a: str, b: str, head: int) -> int:
    low, high = 0, min(len(a), len(b)) - head
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low
