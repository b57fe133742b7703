"""Full-text search over titles and messages, with FTS5."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from pilotfish.store.rows import Snippet
from pilotfish.store.search_terms import (
    MARK_CLOSE,
    MARK_OPEN,
    MAX_INDEXED_CHARS,
    SNIPPET_WORDS,
    marked_snippet,
    searchable,
)

SCRUBBED_PAGES: Final = 400
"""index pages that one step of scrubbing rewrites; this takes a few milliseconds"""


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

    def condition_of(self, terms: list[str]) -> tuple[str, list[Any]]:
        where = " AND ".join(
            "key IN (SELECT rowid >> 32 FROM texts WHERE texts MATCH ?"
            " UNION SELECT rowid FROM titles WHERE titles MATCH ?)"
            for _ in terms
        )
        return where, [_match(term) for term in terms for _ in range(2)]

    def snippet(self, key: int, terms: list[str]) -> Snippet | None:
        any_term = " OR ".join(map(_match, terms))
        row = self._db.execute(
            "SELECT snippet(texts, 0, ?, ?, '…', ?) FROM texts WHERE texts MATCH ? AND rowid BETWEEN ? AND ?"
            " ORDER BY rank LIMIT 1",
            (
                MARK_OPEN,
                MARK_CLOSE,
                SNIPPET_WORDS,
                any_term,
                key << 32,
                (key << 32) + 0xFFFF_FFFF,
            ),
        ).fetchone()
        return marked_snippet(row[0]) if row else None


def _match(term: str) -> str:
    """The FTS5 expression for a term: a phrase whose last word is a prefix."""
    quoted = term.replace('"', '""').replace("\0", "")
    return f'"{quoted}" *'
