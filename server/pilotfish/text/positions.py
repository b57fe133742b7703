"""Positions in a text: line and character in the encoding that an editor counts in, and offsets in code points.

A line ends at `\\n`, `\\r\\n` or `\\r` and nowhere else, as LSP says; Python's `splitlines` disagrees.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

_LINE_END = re.compile("\r\n|\r|\n")
_WIDTH = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_UNIT = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@dataclass(frozen=True, slots=True)
class TextPosition:
    """A position: line and character count from zero, characters in the client's units."""

    line: int
    character: int


class Text:
    """A text with an index of its lines."""

    __slots__ = ("_starts", "encoding", "value")

    def __init__(self, value: str, encoding: str) -> None:
        self.value = value
        self.encoding = encoding
        self._starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        """the offset at which each line starts"""
        if self._starts is None:
            if "\r" in self.value:
                self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.value))]
            else:
                lengths = accumulate(len(line) + 1 for line in self.value.split("\n"))
                self._starts = [0, *lengths]
                self._starts.pop()
        return self._starts

    def offset(self, place: TextPosition) -> int:
        """The offset of a position. A position after the end of a line or of the text is clamped to that end."""
        if place.line >= len(self.starts):
            return len(self.value)
        line = self.line(place.line)
        if line.isascii() or self.encoding == "utf-32":
            column = min(place.character, len(line))
        else:
            units = line.encode(_WIDTH[self.encoding], "surrogatepass")[: place.character * _UNIT[self.encoding]]
            column = len(units.decode(_WIDTH[self.encoding], "ignore"))
        return self.starts[place.line] + column

    def place(self, offset: int) -> TextPosition:
        """The position of an offset."""
        row = bisect_right(self.starts, offset) - 1
        start = self.starts[row]
        return TextPosition(row, self.units(self.value[start:offset]))

    def line(self, row: int) -> str:
        """A line without its end."""
        start = self.starts[row]
        end = self.starts[row + 1] if row + 1 < len(self.starts) else len(self.value)
        return self.value[start:end].rstrip("\r\n")

    def units(self, text: str) -> int:
        """The length of a text in the client's units."""
        if text.isascii() or self.encoding == "utf-32":
            return len(text)
        return len(text.encode(_WIDTH[self.encoding], "surrogatepass")) // _UNIT[self.encoding]

    def slice(self, start: TextPosition, end: TextPosition) -> str:
        return self.value[self.offset(start) : self.offset(end)]
