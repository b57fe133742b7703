"""Text fit to be shown in a question: nothing in it is invisible, reordered or a control."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that draw nothing, though their category says otherwise.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00\ufe01\ufe02\ufe0e") | {
    chr(point) for point in range(0xE0100, 0xE01F0)
}
_NAMED = {"\t": "\\t", "\r": "\\r", "\x1b": "\\e"}


def display_safe(text: str) -> str:
    """The text with control, bidirectional and invisible characters written out. Line ends stay.

    Shown text that differs from the text itself is a reason not to offer a quick "Allow".
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char == "\n" or shows(char) else _written(char) for char in text)


def exact(text: str) -> str:
    """Likewise, for what a program will read: blanks that only look like a space are written out too."""
    return "".join(
        _written(char) if unicodedata.category(char) == "Zs" and char != " " else char for char in display_safe(text)
    )


def one_line(text: str) -> str:
    """Likewise, with line ends written out too."""
    return exact(text).replace("\n", "\\n")


def shows(char: str) -> bool:
    """Whether a character is drawn, where it stands."""
    return unicodedata.category(char) not in _HIDDEN and char not in _BLANK


def _written(char: str) -> str:
    point = ord(char)
    return _NAMED.get(char) or (f"\\x{point:02x}" if point < 256 else f"\\u{{{point:04x}}}")
