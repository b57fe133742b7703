"""Finds commands in a text with tree-sitter's bash grammar, for explanations and for the read-only sandbox.

The grammar accepts texts that bash reads differently, so its result proves nothing. See `reader_commands.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_COMMANDS = 100
MAX_TEXT = 3_000  # characters; the time grows with the square of the text that the grammar cannot parse


@dataclass(frozen=True, slots=True)
class Tree:
    """The commands in a text as raw words, and the raw targets of its output redirections."""

    commands: tuple[tuple[str, ...], ...] = ()
    written: tuple[str, ...] = ()
    whole: bool = False
    """The grammar parsed the whole text without errors, and the number of commands was within the limit."""


def read(text: str) -> Tree:
    """Parse a text. The result is empty if the text is too long or the grammar is not installed."""
    language = _language() if len(text) <= MAX_TEXT else None
    if language is None:
        return Tree()
    from tree_sitter import Parser

    # The C scanner of the grammar uses a table of 256 characters, and other characters have crashed it. They are
    # replaced for parsing only: the words are taken from the original text.
    source = "".join(char if char.isascii() and char != "\0" else "x" for char in text).encode("ascii")
    commands: list[tuple[str, ...]] = []
    written: list[str] = []
    # Each text gets its own parser, because calls are judged in several threads.
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
"""Nodes of a command that are not words."""


def _text(text: str, node: Node) -> str:
    return text[node.start_byte : node.end_byte]


@cache
def _language() -> Language | None:
    # Imported here because it takes 20 ms, and most commands do not need it.
    try:
        import tree_sitter_bash
        from tree_sitter import Language
    except ImportError:
        return None
    return Language(tree_sitter_bash.language())
