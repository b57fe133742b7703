"""Finding a path by a few of its letters, in a list of a hundred thousand.

The list is one string, a path a line, and is looked through by regular expressions that never go back; only the
lines they give are scored one by one.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

CANDIDATES = 3_000
"""lines that are scored; when more would match, the better kinds of match are taken first"""

_BOUNDARY = frozenset("/._- ")


@dataclass(frozen=True, slots=True)
class Match:
    score: float
    path: str


class Names:
    """Relative paths, with forward slashes; folders end in one."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._text = "\n" + "".join(f"{path}\n" for path in paths if "\n" not in path)
        folded = self._text.lower()
        # A few letters change their length with their case: then only ASCII is folded.
        self._folded = folded if len(folded) == len(self._text) else self._text.translate(_ASCII_LOWER)

    def search(self, query: str, limit: int, favourites: Collection[str] = ()) -> list[Match]:
        """The best matches, best first. Favourites are better than others by a little."""
        wanted = _folded_query(query)
        if not wanted:
            return []
        best: list[tuple[float, str, str]] = []
        for start, end in self._candidates(wanted):
            path = self._text[start:end]
            score = _score(self._folded[start:end], path, wanted) + (120 if path in favourites else 0)
            best.append((score, path, path))
        ranked = heapq.nsmallest(limit, best, key=lambda item: (-item[0], len(item[1]), item[1]))
        return [Match(score, path) for score, path, _ in ranked]

    def first(self, limit: int) -> list[str]:
        """The paths nearest to the top."""
        lines = iter(self._text.split("\n", 4_000)[1:-1])
        return heapq.nsmallest(limit, lines, key=lambda path: (path.count("/"), path))

    def _candidates(self, wanted: str) -> Iterator[tuple[int, int]]:
        """Spans of lines that match: all of them, or enough of the best kinds."""
        letters = "".join(f"[^{re.escape(char)}\n]*+{re.escape(char)}" for char in wanted)
        spans = self._lines(f"\n{letters}", CANDIDATES + 1)
        if len(spans) <= CANDIDATES:
            return iter(spans)
        whole = re.escape(wanted)
        kept: dict[tuple[int, int], None] = {}
        for kind in (
            f"/{whole}(?:\\.[^/\n]*+)?+/?+\n",  # a name, with or without its ending
            f"\n{whole}(?:\\.[^/\n]*+)?+/?+\n",
            f"/{whole}[^/\n]*+/?+\n",  # the beginning of a name
            f"\n{whole}[^/\n]*+/?+\n",
            f"{whole}[^/\n]*+/?+\n",  # within a name
            f"{whole}",  # anywhere
        ):
            for span in self._lines(kind, CANDIDATES - len(kept)):
                kept[span] = None
            if len(kept) >= CANDIDATES:
                return iter(kept)
        for span in spans[: CANDIDATES - len(kept)]:
            kept[span] = None
        return iter(kept)

    def _lines(self, pattern: str, limit: int) -> list[tuple[int, int]]:
        """The lines in which a pattern is found, each once."""
        find = re.compile(pattern).search
        text = self._folded
        spans: list[tuple[int, int]] = []
        at = 0
        while len(spans) < limit and (match := find(text, at)) is not None:
            # A pattern may begin with the line break before a line, or end with the one after it.
            inside = match.start() + 1 if text[match.start()] == "\n" else match.start()
            end = text.index("\n", inside)
            spans.append((text.rindex("\n", 0, inside) + 1, end))
            at = end
        return spans


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _folded_query(query: str) -> str:
    return "".join(query.replace("\\", "/").lower().split()).removeprefix("./").lstrip("/")[:200]


def _score(folded: str, path: str, wanted: str) -> float:
    """How well a path matches: its name before its folders, whole before scattered, near before deep."""
    bare = folded.rstrip("/")
    cut = bare.rfind("/") + 1
    name = bare[cut:]
    cost = len(path) * 0.5 + path.count("/")
    if name == wanted:
        return 1000 - cost
    if name.startswith(wanted):
        # `model` means model.py before models.py
        return (950 if name[len(wanted)] == "." else 900) - cost
    if wanted in name:
        at = name.index(wanted)
        return 700 + (100 if _is_boundary(path, cut + at) else 0) - at - cost
    if wanted in bare:
        at = bare.rindex(wanted)
        return 550 + (60 if _is_boundary(path, at) else 0) - cost
    if wanted in _initials(folded, path, cut):
        return 500 - cost
    return _scattered(bare, path, wanted, cut) - cost


def _initials(folded: str, path: str, cut: int) -> str:
    """The first letters of the words of a name: `cvs` of chatViewState."""
    return "".join(folded[at] for at in range(cut, len(path)) if _is_boundary(path, at))


def _scattered(folded: str, path: str, wanted: str, cut: int) -> float:
    """Letters apart: taken from the right, so that the name comes first; runs and word beginnings count."""
    score, at, previous = 200.0, len(folded), -2
    for char in reversed(wanted):
        at = folded.rfind(char, 0, at)
        if at < 0:
            return 0.0
        score += 12 if at >= cut else 2
        if at + 1 == previous:
            score += 15
        if _is_boundary(path, at):
            score += 18
        previous = at
    return score


def _is_boundary(path: str, at: int) -> bool:
    """Whether a word begins here: after a separator, or a capital after a small letter."""
    if at == 0 or path[at - 1] in _BOUNDARY:
        return True
    return path[at].isupper() and path[at - 1].islower()
