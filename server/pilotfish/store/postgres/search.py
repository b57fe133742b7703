"""Full-text search over titles and messages, with `tsvector`.

Words are found and folded (case, accents) here and not by a text search configuration of the server, so that a search
finds the same on every server, and the same as in SQLite.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pilotfish.store.postgres.connection import PgConnection
from pilotfish.store.rows import Snippet
from pilotfish.store.search_terms import (
    MARK_CLOSE,
    MARK_OPEN,
    MAX_INDEXED_CHARS,
    SNIPPET_WORDS,
    marked_snippet,
    searchable,
)

MAX_POSITION: Final = 16_383
"""the last position of a word that a tsvector has; a phrase is found before it only"""
MAX_POSITIONS: Final = 255
"""positions that a tsvector keeps of one word"""
MAX_WORD_CHARS: Final = 400
MAX_VECTOR_CHARS: Final = 250_000
"""keeps a tsvector below its limit of 1 MiB"""

_WORD: Final = re.compile(r"[^\W_]+")


class PgSearchIndex:
    """The words of one database. `text_of` gives the text of a message record."""

    def __init__(self, db: PgConnection, text_of: Callable[[int, int], str]) -> None:
        self._db = db
        self._text_of = text_of

    def add_text(self, key: int, n: int, text: str) -> None:
        vector = _vector(text[:MAX_INDEXED_CHARS])
        self._db.execute("INSERT INTO texts (session, n, words) VALUES (?, ?, CAST(? AS tsvector))", (key, n, vector))

    def set_title(self, key: int, title: str) -> None:
        self._db.execute("DELETE FROM titles WHERE session = ?", (key,))
        if title:
            self._db.execute(
                "INSERT INTO titles (session, words) VALUES (?, CAST(? AS tsvector))", (key, _vector(title))
            )

    def copy(self, key: int, new_key: int, upto_n: int) -> None:
        self._db.execute(
            "INSERT INTO texts (session, n, words) SELECT ?, n, words FROM texts WHERE session = ? AND n <= ?",
            (new_key, key, upto_n),
        )

    def forget(self, key: int) -> None:
        self._db.execute("DELETE FROM titles WHERE session = ?", (key,))
        self._db.execute("DELETE FROM texts WHERE session = ?", (key,))

    def condition_of(self, terms: list[str]) -> tuple[str, list[Any]]:
        # OFFSET 0 keeps the planner from reading the texts of all sessions at once: a role sees few of them.
        where = " AND ".join(
            "(EXISTS (SELECT FROM texts WHERE session = key AND words @@ CAST(? AS tsquery) OFFSET 0)"
            " OR EXISTS (SELECT FROM titles WHERE session = key AND words @@ CAST(? AS tsquery) OFFSET 0))"
            for _ in terms
        )
        return where, [_query(term) for term in terms for _ in range(2)]

    def snippet(self, key: int, terms: list[str]) -> Snippet | None:
        any_term = " | ".join(f"({query})" for term in terms if (query := _query(term)))
        row = self._db.execute(
            "SELECT n FROM texts WHERE session = ? AND words @@ CAST(? AS tsquery)"
            " ORDER BY ts_rank(words, CAST(? AS tsquery)) DESC, n LIMIT 1",
            (key, any_term, any_term),
        ).fetchone()
        return best_snippet(self._text_of(key, row[0]), terms) if row else None


def words_of(text: str) -> Iterator[tuple[str, int, int]]:
    """The folded words of a text, with their places in it."""
    for found in _WORD.finditer(text):
        decomposed = unicodedata.normalize("NFKD", found[0][:MAX_WORD_CHARS])
        letters = "".join(character for character in decomposed if not unicodedata.combining(character))
        yield unicodedata.normalize("NFC", letters).casefold(), found.start(), found.end()


def best_snippet(text: str, terms: Sequence[str]) -> Snippet:
    """The part of a text with the most terms, at most SNIPPET_WORDS words, with its matches marked."""
    text = searchable(unicodedata.normalize("NFC", text[:MAX_INDEXED_CHARS]))
    words = list(words_of(text))
    wanted = [[word for word, _, _ in words_of(term)] for term in terms]
    matches = [
        (at, at + len(phrase), term)
        for term, phrase in enumerate(wanted)
        for at in range(len(words) - len(phrase) + 1)
        if phrase and _is_at(words, at, phrase)
    ]
    last_start = max(0, len(words) - SNIPPET_WORDS)
    starts = sorted({max(0, min(at - SNIPPET_WORDS // 4, last_start)) for at, _, _ in matches} or {0})

    def terms_from(start: int) -> int:
        return len({term for at, end, term in matches if start <= at and end <= start + SNIPPET_WORDS})

    first = max(starts, key=terms_from)
    beyond = min(len(words), first + SNIPPET_WORDS)
    begin = words[first][1] if first else 0
    end = words[beyond - 1][2] if beyond < len(words) else len(text)
    marked = {at for begun, ended, _ in matches if first <= begun and ended <= beyond for at in range(begun, ended)}
    pieces: list[str] = ["…"] if first else []
    for at in sorted(marked):
        pieces += (text[begin : words[at][1]], MARK_OPEN, text[words[at][1] : words[at][2]], MARK_CLOSE)
        begin = words[at][2]
    pieces.append(text[begin:end])
    return marked_snippet("".join([*pieces, "…"] if beyond < len(words) else pieces))


def _is_at(words: Sequence[tuple[str, int, int]], at: int, phrase: Sequence[str]) -> bool:
    """Whether a phrase is at this word; its last word is a prefix."""
    return words[at + len(phrase) - 1][0].startswith(phrase[-1]) and all(
        words[at + offset][0] == word for offset, word in enumerate(phrase[:-1])
    )


def _vector(text: str) -> str:
    """The tsvector of a text."""
    positions: dict[str, list[int]] = {}
    chars = 0
    for position, (word, _, _) in enumerate(words_of(searchable(unicodedata.normalize("NFC", text))), 1):
        if word not in positions:
            chars += len(word)
            if chars > MAX_VECTOR_CHARS:
                break
        places = positions.setdefault(word, [])
        if len(places) < MAX_POSITIONS:
            places.append(min(position, MAX_POSITION))
    return " ".join(f"'{word}':{','.join(map(str, places))}" for word, places in positions.items())


def _query(term: str) -> str:
    """The tsquery of a term: a phrase whose last word is a prefix."""
    words = [f"'{word}'" for word, _, _ in words_of(term)]
    return f"{' <-> '.join(words)}:*" if words else ""
