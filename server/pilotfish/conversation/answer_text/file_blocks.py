"""Finds the code blocks of an answer that show a file, with the name that the answer gives it.

A very small model shows a file more reliably than it calls a tool. The name stands behind the fence, in a comment on
the first line, or in the last line of text above the block. Blocks of commands and of output do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_TEXT = 200_000  # characters of an answer that are searched
MAX_BLOCKS = 8

_BLOCK = re.compile(
    r"^(?P<indent>[ ]{0,3})(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)\n(?P<code>.*?)\n?^[ ]{0,3}(?P=mark)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_NAME = r"[\w@.-]*[\w@./\\-]*\.[A-Za-z]\w{0,7}"
_IN_INFO = re.compile(rf"(?:\w+:|(?:title|file|filename|path)=)?[\"']?({_NAME})[\"']?")
_IN_COMMENT = re.compile(
    rf"\s*(?:#|//|--|;|/\*|<!--)\s*(?:file(?:name)?:\s*)?({_NAME})\s*(?:\*/|-->)?\s*$", re.IGNORECASE
)
_IN_LINE = re.compile(rf"(?<![\w/.-])({_NAME})(?![\w/])")
_NO_FILE = frozenset({
    "bash", "sh", "shell", "zsh", "console", "terminal", "cmd", "powershell", "text", "txt", "output", "log", "diff",
    "patch", "json-rpc", "tool_call",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A block that shows a file."""

    name: str | None
    code: str
    end: int
    """its offset in the text"""


def file_blocks(text: str) -> Iterator[FileBlock]:
    """The blocks of a text that may show files, in order."""
    found = 0
    for block in _BLOCK.finditer(text[:MAX_TEXT]):
        info = block["info"].split()
        named = _in_comment(block["code"])
        name = _in_info(info) or (named[0] if named else None)
        if name is None and info and info[0].casefold() in _NO_FILE:
            continue
        name = name or _above(text[: block.start()])
        if found == MAX_BLOCKS:
            return
        found += 1
        code = named[1] if named and named[0] == name else block["code"]
        yield FileBlock(name and name.removeprefix("./"), code + "\n", block.end())


def _in_info(words: list[str]) -> str | None:
    found = (_IN_INFO.fullmatch(word) for word in words)
    return next((match[1] for match in found if match), None)


def _in_comment(code: str) -> tuple[str, str] | None:
    first, _, rest = code.partition("\n")
    match = _IN_COMMENT.match(first)
    return (match[1], rest) if match else None


def _above(before: str) -> str | None:
    """The last name in the last line of text above a block, if the next block does not stand between."""
    lines = before.rstrip().rsplit("\n", 1)
    names = _IN_LINE.findall(lines[-1]) if lines[-1].strip() else []
    return names[-1] if names else None
