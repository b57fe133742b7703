"""Splits a search query into terms, and marks word boundaries in texts of scripts without spaces.

A session matches if each word of the query is a prefix of a word in its title or in any of its messages. Words in
double quotes match as one phrase.
"""

from __future__ import annotations

import re
from typing import Final

from pilotfish.store.rows import Snippet

MAX_INDEXED_CHARS: Final = 200_000
"""length of the indexed part of one message; later text is not found"""

SNIPPET_WORDS: Final = 16

WORD_BREAK: Final = "\u200b"
"""a zero-width space: a word boundary for the tokenizer, invisible to a reader"""

_WORDS: Final = re.compile(r'"([^"]*)"|(\S+)')
_CJK: Final = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")


MARK_OPEN: Final = "\x02"
MARK_CLOSE: Final = "\x03"
"""around the matched words in the text of a snippet"""


def terms_of(query: str) -> list[str]:
    """The words and phrases of a query. Those without a letter or digit are not indexed and are left out."""
    found = (searchable(phrase or word) for phrase, word in _WORDS.findall(query))
    return [term for term in found if any(character.isalnum() for character in term)]


def searchable(text: str) -> str:
    """Text with word boundaries around Chinese, Japanese and Korean characters. These scripts have no spaces between
    words, so the tokenizer would treat a whole sentence as one word."""
    return text if text.isascii() else _CJK.sub(rf"{WORD_BREAK}\1{WORD_BREAK}", text)


def marked_snippet(text: str) -> Snippet:
    """Convert the marker characters in a text to positions."""
    plain: list[str] = []
    marks: list[tuple[int, int]] = []
    length = start = 0
    for piece in re.split(f"([{MARK_OPEN}{MARK_CLOSE}])", " ".join(text.replace(WORD_BREAK, "").split())):
        if piece == MARK_OPEN:
            start = length
        elif piece == MARK_CLOSE:
            marks.append((start, length))
        else:
            plain.append(piece)
            length += len(piece)
    return Snippet("".join(plain), tuple(marks))
