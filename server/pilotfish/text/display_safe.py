"""Makes text safe to display: invisible, bidirectional and control characters are escaped."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that are invisible although their Unicode category says otherwise.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00\ufe01\ufe02\ufe0e") | {
    chr(point) for point in range(0xE0100, 0xE01F0)
}
_NAMED = {"\t": "\\t", "\r": "\\r", "\x1b": "\\e"}


def display_safe(text: str) -> str:
    """Return the text with control, bidirectional and invisible characters escaped. Line ends are kept.

    If the result differs from the text, a client should not offer a quick "Allow".
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char == "\n" or shows(char) else _written(char) for char in text)


def exact(text: str) -> str:
    """Like `display_safe`, for text that a program reads: characters that look like a space are escaped too."""
    return "".join(
        _written(char) if unicodedata.category(char) == "Zs" and char != " " else char for char in display_safe(text)
    )


def one_line(text: str) -> str:
    """Like `exact`, with line ends escaped too."""
    return exact(text).replace("\n", "\\n")


def shows(char: str) -> bool:
    """Whether a character is visible and does not reorder others."""
    return unicodedata.category(char) not in _HIDDEN and char not in _BLANK


def _written(char: str) -> str:
    point = ord(char)
    return _NAMED.get(char) or (f"\\x{point:02x}" if point < 256 else f"\\u{{{point:04x}}}")
