"""Full-text search over titles and messages.

A session matches if each word of the query is a prefix of a word in its title or in any of its messages. Words in
double quotes match as one phrase.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Any, Final

from pilotfish.store.rows import Snippet

MAX_INDEXED_CHARS: Final = 200_000
"""length of the indexed part of one message; later text is not found"""

SNIPPET_WORDS: Final = 16

SCRUBBED_PAGES: Final = 400
"""index pages that one step of scrubbing rewrites; this takes a few milliseconds"""

_WORDS: Final = re.compile(r'"([^"]*)"|(\S+)')
_CJK: Final = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_BREAK: Final = "\u200b"
"""a zero-width space: a word boundary for the tokenizer, invisible to a reader"""
_OPEN: Final = "\x02"
_CLOSE: Final = "\x03"


class SearchIndex:
    """The full-text tables of one database. A text's rowid is (session key << 32) + n."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def restore_merging(self) -> None:
        """Turn on FTS5's automatic merging of segments, which earlier versions of this program had turned off."""
        for table in ("texts", "titles"):
            found = dict(self._db.execute(f"SELECT k, v FROM {table}_config"))  # noqa: S608 -- names of our own
            for name, default in (("automerge", 4), ("crisismerge", 16)):
                if found.get(name, default) != default:
                    self._db.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (name, default))  # noqa: S608 -- names of our own

    def add_text(self, key: int, n: int, text: str) -> None:
        self._db.execute(
            "INSERT INTO texts (rowid, text) VALUES (?, ?)", ((key << 32) + n, searchable(text[:MAX_INDEXED_CHARS]))
        )

    def set_title(self, key: int, title: str) -> None:
        self._db.execute("DELETE FROM titles WHERE rowid = ?", (key,))
        if title:
            self._db.execute("INSERT INTO titles (rowid, title) VALUES (?, ?)", (key, searchable(title)))

    def copy(self, key: int, new_key: int, upto_n: int) -> None:
        self._db.execute(
            "INSERT INTO texts (rowid, text) SELECT rowid + ?, text FROM texts WHERE rowid BETWEEN ? AND ?",
            ((new_key - key) << 32, key << 32, (key << 32) + min(upto_n, 0xFFFF_FFFF)),
        )

    def forget(self, key: int) -> None:
        self._db.execute("DELETE FROM titles WHERE rowid = ?", (key,))
        self._db.execute("DELETE FROM texts WHERE rowid BETWEEN ? AND ?", (key << 32, (key << 32) + 0xFFFF_FFFF))

    def scrub(self) -> bool:
        """Rewrite a part of the index without deleted text, which FTS5 only marks. False if nothing is left."""
        self._db.execute("INSERT INTO titles (titles) VALUES ('optimize')")
        before = self._db.total_changes
        self._db.execute("INSERT INTO texts (texts, rank) VALUES ('merge', ?)", (-SCRUBBED_PAGES,))
        # FTS5 reports that nothing is left to merge by fewer than two changes.
        return self._db.total_changes - before >= 2

    def check(self) -> None:
        """Raise `sqlite3.DatabaseError` if an index does not match its texts."""
        self._db.execute("INSERT INTO texts (texts) VALUES ('integrity-check')")
        self._db.execute("INSERT INTO titles (titles) VALUES ('integrity-check')")

    def rebuild(self) -> None:
        """Rebuild both indexes from their texts."""
        self._db.execute("INSERT INTO texts (texts) VALUES ('rebuild')")
        self._db.execute("INSERT INTO titles (titles) VALUES ('rebuild')")

    def snippet(self, key: int, terms: list[str]) -> Snippet | None:
        """The best match in a session's messages. None if only its title matches."""
        row = self._db.execute(
            "SELECT snippet(texts, 0, ?, ?, '…', ?) FROM texts WHERE texts MATCH ? AND rowid BETWEEN ? AND ?"
            " ORDER BY rank LIMIT 1",
            (_OPEN, _CLOSE, SNIPPET_WORDS, " OR ".join(terms), key << 32, (key << 32) + 0xFFFF_FFFF),
        ).fetchone()
        return _marked(row[0]) if row else None


def terms_of(query: str) -> list[str]:
    """The words of a query as FTS5 terms. Words without a letter or digit are not indexed and are left out."""
    found: list[str] = []
    for phrase, word in _WORDS.findall(query):
        text = searchable(phrase or word).replace('"', '""').replace("\0", "")
        if any(character.isalnum() for character in text):
            found.append(f'"{text}" *')
    return found


def condition_of(terms: list[str]) -> tuple[str, list[Any]]:
    """The SQL condition that selects the rows of `sessions` that match these terms, and its parameters."""
    where = " AND ".join(
        "key IN (SELECT rowid >> 32 FROM texts WHERE texts MATCH ? UNION SELECT rowid FROM titles WHERE titles MATCH ?)"
        for _ in terms
    )
    return where, [term for term in terms for _ in range(2)]


def searchable(text: str) -> str:
    """Text with word boundaries around Chinese, Japanese and Korean characters. These scripts have no spaces between
    words, so the tokenizer would treat a whole sentence as one word."""
    return text if text.isascii() else _CJK.sub(rf"{_BREAK}\1{_BREAK}", text)


def _marked(text: str) -> Snippet:
    """Convert the marker characters of FTS5's snippet to positions."""
    plain: list[str] = []
    marks: list[tuple[int, int]] = []
    length = start = 0
    for piece in re.split(f"([{_OPEN}{_CLOSE}])", " ".join(text.replace(_BREAK, "").split())):
        if piece == _OPEN:
            start = length
        elif piece == _CLOSE:
            marks.append((start, length))
        else:
            plain.append(piece)
            length += len(piece)
    return Snippet("".join(plain), tuple(marks))
