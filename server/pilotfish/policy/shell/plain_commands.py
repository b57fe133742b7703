"""The few fixed commands that run without a question where no sandbox stands.

Without a wall the reading alone decides, so it is kept small enough to see through: whole lines, and `ls`, `cat`,
`head`, `tail` and `wc` with one-letter options of a short list and operands that are plain paths. No expansion, no
pipe into anything else, no program that has ever run another program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol


class _Path(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def recursive(self) -> bool: ...


_WHOLE = frozenset(
    tuple(line.split())
    for line in ("pwd", "git status", "git status -s", "git status --short", "git status -sb", "whoami", "date", "true")
)
_OPTIONS = {
    "ls": r"-[1aAlhtrS]{1,6}",
    "cat": r"-n",
    "head": r"-n|-[0-9]{1,5}|-n[0-9]{1,5}|[0-9]{1,5}",
    "tail": r"-n|-[0-9]{1,5}|-n[0-9]{1,5}|[0-9]{1,5}",
    "wc": r"-[lwc]",
}
_OPERAND = re.compile(r"(?!-)[A-Za-z0-9_./-]{1,300}")


_TEXT = re.compile(r"[A-Za-z0-9_./ -]+")


def is_plain(text: str, touched: Sequence[_Path]) -> bool:
    """Whether a line of one command, which the strict reading found to only read, is on the list."""
    words = text.split()
    if not words or not _TEXT.fullmatch(text):
        return False
    if tuple(words) in _WHOLE:
        return True
    options = _OPTIONS.get(words[0])
    if options is None or any(touch.recursive for touch in touched):
        return False
    if words[0] != "ls" and not touched:
        return False  # it would wait for its input
    return all(re.fullmatch(options, word) or _OPERAND.fullmatch(word) for word in words[1:])
