"""What tree-sitter's grammar of bash sees in a text: for explaining, and for trying a command where it can do no harm.

It accepts texts that bash reads differently: nothing is proved by what it says. See `readers.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_COMMANDS = 100
MAX_TEXT = 3_000  # characters; its time grows with the square of what it cannot make sense of


@dataclass(frozen=True, slots=True)
class Tree:
    """The commands in a text, as raw words, and the raw targets its output is written to."""

    commands: tuple[tuple[str, ...], ...] = ()
    written: tuple[str, ...] = ()
    whole: bool = False
    """the grammar has a place for every part of the text, and there were not too many commands"""


def read(text: str) -> Tree:
    """Read a text. Empty when it is long, or the grammar is not at hand."""
    language = _language() if len(text) <= MAX_TEXT else None
    if language is None:
        return Tree()
    from tree_sitter import Parser

    # The grammar's scanner is C that looks letters up in a table of 256: other characters have crashed it. Each
    # stands for itself in the words that are given back.
    source = "".join(char if char.isascii() and char != "\0" else "x" for char in text).encode("ascii")
    commands: list[tuple[str, ...]] = []
    written: list[str] = []
    # A parser of its own for each text: calls are judged in several threads.
    root = Parser(language).parse(source).root_node
    waiting: list[Node] = [root]
    while waiting and len(commands) < MAX_COMMANDS:
        node = waiting.pop()
        if node.type == "command":
            words = tuple(_text(text, child) for child in node.children if child.type not in _BESIDE)
            commands.append(words)
        elif node.type == "file_redirect" and any(">" in child.type for child in node.children):
            written += [_text(text, child) for child in node.children_by_field_name("destination")]
        waiting += reversed(node.children)
    return Tree(tuple(commands), tuple(written), whole=not root.has_error and not waiting)


_BESIDE = frozenset({"variable_assignment", "file_redirect", "heredoc_redirect", "herestring_redirect"})
"""what stands in a command and is none of its words"""


def _text(text: str, node: Node) -> str:
    return text[node.start_byte : node.end_byte]


@cache
def _language() -> Language | None:
    # Imported here: it costs a start 20 ms, and a plain command never needs it.
    try:
        import tree_sitter_bash
        from tree_sitter import Language
    except ImportError:
        return None
    return Language(tree_sitter_bash.language())
