"""Makes text safe to display: invisible, bidirectional and control characters are escaped, and words that mix letters
of several scripts are named."""

from __future__ import annotations

import re
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


def with_blanks(text: str) -> str:
    """Like `exact`, with blanks and line ends that are easily overlooked shown: `·` for each blank at the end of a line
    or beside another blank, `⏎` at every line end."""
    shown = re.sub(r" {2,}| +(?=\n|$)", lambda blanks: "·" * len(blanks.group()), exact(text))
    return shown.replace("\n", "⏎\n")


def mixed_scripts(text: str) -> tuple[str, ...]:
    """Return the words that mix Latin letters with letters of a script that looks like Latin, each with the foreign
    letters: `pаypal (а is CYRILLIC)`."""
    if text.isascii():
        return ()
    found: dict[str, None] = {}
    for word in re.findall(r"[^\W\d_]+", text):
        scripts = {char: _script(char) for char in word}
        alike = [f"{char} is {script}" for char, script in scripts.items() if script in _LOOK_LIKE_LATIN]
        if alike and ("LATIN" in scripts.values() or "FULLWIDTH" in scripts.values()):
            found[f"{word} ({', '.join(alike)})"] = None
    return tuple(found)


_LOOK_LIKE_LATIN = frozenset(
    {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"}
)


def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


def shows(char: str) -> bool:
    """Whether a character is visible and does not reorder others."""
    return unicodedata.category(char) not in _HIDDEN and char not in _BLANK


def _written(char: str) -> str:
    point = ord(char)
    return _NAMED.get(char) or (f"\\x{point:02x}" if point < 256 else f"\\u{{{point:04x}}}")
