"""The few fixed commands that run without a question where no sandbox is available.

Without a sandbox the analysis of the text alone decides, so the list is short enough to check by hand: complete lines,
and `ls`, `cat`, `head`, `tail` and `wc` with a few one-letter options and operands that are plain paths. There is no
expansion, no pipe, and no program that can run another program.
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
    """Whether a line of one command, which only reads by the strict analysis, is on the list."""
    words = text.split()
    if not words or not _TEXT.fullmatch(text):
        return False
    if tuple(words) in _WHOLE:
        return True
    options = _OPTIONS.get(words[0])
    if options is None or any(touch.recursive for touch in touched):
        return False
    if words[0] != "ls" and not touched:
        return False  # it would wait for standard input
    return all(re.fullmatch(options, word) or _OPERAND.fullmatch(word) for word in words[1:])
