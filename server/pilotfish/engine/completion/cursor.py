"""The text around a cursor that a completion is asked for, and the completion as it fits there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotfish.policy.secrets import has_mark

BEFORE, AFTER = 6_000, 2_000
"""characters before and after the cursor that are sent"""
MAX_LINES = 16
_SENTINEL = re.compile(r"<\|?(?:fim_\w+|endoftext|end_of_text|file_sep|EOT|/?s)\|?>|<｜.*?｜>")
_FENCE = re.compile(r"\A\s*```[^\n]*\n(.*?)(?:\n?```\s*)?\Z", re.DOTALL)
_CLOSING = re.compile(r"[\s)\]}>,;:'\"`]*")
_BIG_STEP = 3  # a line that is at least this long and repeats the next one of the file ends a completion


@dataclass(frozen=True, slots=True)
class Snippet:
    """Lines of another place that the user has changed lately."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a document."""

    uri: str
    path: Path | None
    language: str
    text: str
    offset: int
    """of the cursor in `text`"""

    @property
    def before(self) -> str:
        return self.text[max(0, self.offset - BEFORE) : self.offset]

    @property
    def after(self) -> str:
        return self.text[self.offset : self.offset + AFTER]

    @property
    def rest_of_line(self) -> str:
        return self.after.split("\n", 1)[0].rstrip("\r")

    @property
    def in_line(self) -> bool:
        """Whether words follow in the same line. Then a completion ends with the line."""
        return _CLOSING.fullmatch(self.rest_of_line) is None


def fitting(text: str, cursor: Cursor) -> str:
    """The part of a model's answer that can be inserted at the cursor; empty if there is none."""
    text = _SENTINEL.split(text, maxsplit=1)[0].replace("\r\n", "\n")
    lines = text.split("\n")
    if cursor.in_line:
        lines = lines[:1]
    lines = _until_repeated(lines[:MAX_LINES], cursor.after)
    found = "\n".join(lines)
    rest = cursor.rest_of_line.strip()
    if rest and len(lines) == 1 and found.rstrip().endswith(rest):
        found = found.rstrip()[: -len(rest)]
    if not found.strip() or has_mark(found):
        return ""
    return found.rstrip() if "\n" in found or not rest else found


def from_chat(text: str, cursor: Cursor) -> str:
    """The code in a chat model's answer, without a fence and without the line that it repeats."""
    if (fenced := _FENCE.match(text)) is not None:
        text = fenced[1]
    line = cursor.before.rpartition("\n")[2]
    return text[len(line) :] if line.strip() and text.startswith(line) else text


def _until_repeated(lines: Sequence[str], after: str) -> list[str]:
    """The lines before the one that the file goes on with."""
    following = next((line.strip() for line in after.split("\n")[1:] if line.strip()), "")
    for number, line in enumerate(lines):
        if number and len(following) >= _BIG_STEP and line.strip() == following:
            return list(lines[:number])
    return list(lines)
