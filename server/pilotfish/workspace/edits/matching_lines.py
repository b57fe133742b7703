"""Finds quoted lines in a text with ever less care for what models get wrong, and fits the new lines to the place.

A way of comparing counts only if it finds a place; the caller decides what several places mean. Nothing is guessed:
a line that an edit changes must be quoted with all its words; only lines that the edit keeps may be quoted wrongly.

Pure. Lines have no line ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " "),
    }
)
ELISION = re.compile(r"\s*(?:(?:\#|//|--|;;?|%|/\*|<!--|\{/\*)\s*(?:\.\.\.|…).*|(?:\.\.\.|…)(?:\s.*)?)")
"""a line that stands for lines left out: `...`, `# ...`, `// ... existing code ...`"""

MAX_GAP = 3  # lines of the file that a quote may leave out without saying so
MAX_COMPARED = 500_000  # quoted lines times lines of the file, for the search with a gap
SIMILAR = 0.6  # ratio of a kept line that is quoted wrongly
MIN_WORDS = 8  # letters of a quote that is compared without any spaces


@dataclass(frozen=True, slots=True)
class Place:
    """Lines `start` to `end` of the text, which become `lines`."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to compare lines: two lines match if their `key` is equal."""

    note: str
    key: Callable[[str], str]


def _words(line: str) -> str:
    return " ".join(line.translate(TYPOGRAPHY).split())


def _letters(line: str) -> str:
    return "".join(line.translate(TYPOGRAPHY).split())


WAYS = (
    Way("", lambda line: line),
    Way("matched without spaces at line ends", lambda line: line.rstrip()),
    Way("matched with other quotes and spaces at line ends", lambda line: line.translate(TYPOGRAPHY).rstrip()),
    Way("matched with other indentation", lambda line: line.strip()),
    Way("matched with other indentation and quotes", lambda line: line.translate(TYPOGRAPHY).strip()),
    Way("matched with other spaces", _words),
    Way("matched without spaces", _letters),
)


class Lines:
    """The lines of a text, compared in every way. Keys are computed once for each way."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._known: dict[str, list[str]] = {}

    def search(self, old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[list[Place], str]]:
        """The places of the quoted lines, way after way; ways that find nothing are left out."""
        if not any(line.strip() for line in old):
            return
        for way in WAYS:
            if way.key is _letters and len("".join(map(_letters, old))) < MIN_WORDS:
                continue
            if places := self._same_lines(old, new, way):
                yield places, way.note
        if places := self._other_blank_lines(old, new):
            yield places, "matched with other blank lines"
        if places := self._elided(old, new):
            yield places, "matched around the lines that were left out"
        if len([line for line in old if line.strip()]) >= 3:
            if places := self._misquoted(old, new):
                yield places, "lines that stay were quoted differently from the file"
            if places := self._gapped(old, new):
                yield places, "lines of the file that were not quoted were kept"

    def _keys(self, way: Way) -> list[str]:
        if way.note not in self._known:
            self._known[way.note] = [way.key(line) for line in self.lines]
        return self._known[way.note]

    def rows(self, old: Sequence[str], way: Way, first: int = 0, last: int | None = None) -> list[int]:
        keys = self._keys(way)
        wanted = [way.key(line) for line in old]
        size = len(wanted)
        end = len(keys) if last is None else min(last, len(keys))
        return [
            row for row in range(first, end - size + 1) if keys[row] == wanted[0] and keys[row : row + size] == wanted
        ]

    def _same_lines(self, old: Sequence[str], new: Sequence[str], way: Way) -> list[Place]:
        fitted = ((row, fit(self.lines[row : row + len(old)], old, new)) for row in self.rows(old, way))
        return [Place(row, row + len(old), tuple(lines)) for row, lines in fitted if lines is not None]

    def _other_blank_lines(self, old: Sequence[str], new: Sequence[str]) -> list[Place]:
        keys = self._keys(WAYS[5])
        filled = [row for row, line in enumerate(keys) if line]
        quoted = [number for number, line in enumerate(old) if line.strip()]
        wanted = [_words(old[number]) for number in quoted]
        if not 2 <= len(wanted) <= len(filled):
            return []
        places: list[Place] = []
        for at in range(len(filled) - len(wanted) + 1):
            rows = filled[at : at + len(wanted)]
            if keys[rows[0]] != wanted[0] or [keys[row] for row in rows] != wanted:
                continue
            if (lines := self._spread(dict(zip(quoted, rows, strict=True)), old, new)) is not None:
                places.append(Place(rows[0], rows[-1] + 1, tuple(lines)))
        return places

    def _spread(self, rows: dict[int, int], old: Sequence[str], new: Sequence[str]) -> list[str] | None:
        """The new lines where the quoted line `n` is row `rows[n]`: rows between two of them stay, unless both go."""
        found = [self.lines[rows[number]] for number in rows]
        quoted = [old[number] for number in rows]
        indent = indentation(found, quoted)
        if indent is None:
            return None
        result: list[str] = []
        done = min(rows.values())
        for tag, i1, i2, j1, j2 in _changes(old, new):
            here = [rows[number] for number in range(i1, i2) if number in rows]
            if i1 == i2 and i1 and not old[i1 - 1].strip():  # inserted after a blank line
                after = min((row for number, row in rows.items() if number >= i1), default=done)
                result += self.lines[done:after]
                done = after
            if here:
                result += self.lines[done : here[0]]
                done = here[-1] + 1
            if tag == "equal":
                result += self.lines[here[0] : here[-1] + 1] if here else ()
            else:
                result += (indent(line) for line in new[j1:j2])
        return result

    def _elided(self, old: Sequence[str], new: Sequence[str]) -> list[Place]:
        """`old` and `new` leave out the same lines, with a line of dots for each part that they leave out."""
        old_parts, new_parts = _parts(old), _parts(new)
        if len(old_parts) < 2 or len(old_parts) != len(new_parts):
            return []
        pairs = list(zip(old_parts, new_parts, strict=True))
        for parts in (pairs, [(_trim(a), _trim(b)) for a, b in pairs]):
            filled = [part for part in parts if part[0]]
            if not filled or any(b and not a for a, b in parts) or not any(line.strip() for line in filled[0][0]):
                continue
            for way in WAYS[1:6]:
                chains = [self._chain(filled, row, way) for row in self.rows(filled[0][0], way)]
                if places := [chain for chain in chains if chain is not None]:
                    return places
        return []

    def _chain(self, pairs: Sequence[tuple[list[str], list[str]]], row: int, way: Way) -> Place | None:
        """The parts in order, the first one at this row, the others in its block or below; each found there once."""
        end = self._block_end(row)
        lines: list[str] = []
        done = start = row
        for number, (old, new) in enumerate(pairs):
            rows = [row] if number == 0 else self.rows(old, way, done, end) or self.rows(old, way, done)
            if len(rows) != 1:
                return None
            at = rows[0]
            fitted = fit(self.lines[at : at + len(old)], old, new)
            if fitted is None:
                return None
            lines += [*self.lines[done:at], *fitted]
            done = at + len(old)
        return Place(start, done, tuple(lines))

    def _block_end(self, row: int) -> int:
        """The first row after this one that is indented less, and does not only close the block."""
        depth = len(_indent(self.lines[row]).expandtabs(4))
        for after in range(row + 1, len(self.lines)):
            line = self.lines[after]
            if line.strip() and len(_indent(line).expandtabs(4)) < depth:
                return after
            if depth == 0 and line[:1].strip() and after > row + 1 and not line[:1].strip(")]}"):
                return after + 1
        return len(self.lines)

    def _misquoted(self, old: Sequence[str], new: Sequence[str]) -> list[Place]:
        """Lines that the edit keeps may differ a little; those that it changes, or inserts beside, may not."""
        needed = _needed(old, new)
        if not needed:
            return []
        keys = self._keys(WAYS[5])
        wanted = [_words(line) for line in old]
        anchor = max(needed, key=lambda number: len(wanted[number]))
        if not wanted[anchor]:
            return []
        places: list[Place] = []
        for row, line in enumerate(keys):
            start = row - anchor
            if line != wanted[anchor] or start < 0 or start + len(old) > len(keys):
                continue
            here = keys[start : start + len(old)]
            if any(here[number] != wanted[number] for number in needed) or not _alike(here, wanted):
                continue
            same = [number for number in range(len(old)) if here[number] == wanted[number]]
            if (lines := self._kept(start, same, old, new)) is not None:
                places.append(Place(start, start + len(old), tuple(lines)))
        return places

    def _kept(self, start: int, same: Sequence[int], old: Sequence[str], new: Sequence[str]) -> list[str] | None:
        found = self.lines[start : start + len(old)]
        indent = indentation([found[number] for number in same], [old[number] for number in same])
        if indent is None:
            return None
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in _changes(old, new):
            lines += found[i1:i2] if tag == "equal" else (indent(line) for line in new[j1:j2])
        return lines

    def _gapped(self, old: Sequence[str], new: Sequence[str]) -> list[Place]:
        """The quote leaves out a few lines of the file between two lines that the edit keeps."""
        places: dict[tuple[int, int], Place] = {}
        if len(old) * len(self.lines) > MAX_COMPARED:
            return []
        kept = {number for tag, i1, i2, _, _ in _changes(old, new) if tag == "equal" for number in range(i1, i2)}
        for cut in range(1, len(old)):
            if not {cut - 1, cut} <= kept or not (old[cut - 1].strip() and old[cut].strip()):
                continue
            for way in WAYS[1:6]:
                for row in self.rows(old[:cut], way):
                    for gap in range(1, MAX_GAP + 1):
                        after = row + cut + gap
                        if after not in self.rows(old[cut:], way, after, after + len(old) - cut):
                            continue
                        rows = {n: row + n if n < cut else after + n - cut for n in range(len(old))}
                        lines = self._spread(rows, old, new)
                        if lines is not None:
                            end = after + len(old) - cut
                            places[row, end] = Place(row, end, tuple(lines))
        return list(places.values())


def fit(found: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """The new lines as they belong here: lines that stay are the file's own, others are indented as the file is.
    None when the file's indentation does not follow from the quoted one."""
    indent = indentation(found, old)
    result: list[str] = []
    for tag, i1, i2, j1, j2 in _changes(old, new):
        if tag == "equal":
            result += found[i1:i2]
        elif indent is not None:
            result += (indent(line) for line in new[j1:j2])
        elif i2 - i1 == j2 - j1 and all(
            _indent(before) == _indent(after) for before, after in zip(old[i1:i2], new[j1:j2], strict=True)
        ):  # line for line: each gets the indentation of the one that it replaces
            result += (_indent(was) + line.lstrip(" \t") for was, line in zip(found[i1:i2], new[j1:j2], strict=True))
        elif j1 < j2:
            return None
    return result


def indentation(found: Sequence[str], quoted: Sequence[str]) -> Callable[[str], str] | None:
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


_UNITS = ("\t", "    ", "  ", "   ", "        ", " ")


def _depth(indent: str, unit: str) -> int | None:
    depth, rest = divmod(len(indent), len(unit))
    return depth if not rest and indent == unit * depth else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _changes(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _needed(old: Sequence[str], new: Sequence[str]) -> set[int]:
    """The quoted lines that the edit changes, and for an insertion those beside it."""
    needed: set[int] = set()
    for tag, i1, i2, _, _ in _changes(old, new):
        if tag == "insert":
            needed |= {number for number in (i1 - 1, i1) if 0 <= number < len(old)}
        elif tag != "equal":
            needed |= set(range(i1, i2))
    return needed


def _alike(here: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether most lines are equal and the others nearly."""
    wrong = [number for number, line in enumerate(wanted) if here[number] != line]
    if 3 * len(wrong) > len([line for line in wanted if line]) or not wrong:
        return False
    return all(
        SequenceMatcher(None, here[number], wanted[number], autojunk=False).ratio() >= SIMILAR for number in wrong
    )


def _parts(lines: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if ELISION.fullmatch(line):
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _trim(lines: list[str]) -> list[str]:
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []
