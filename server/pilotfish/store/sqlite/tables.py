"""The tables of a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from pilotfish.store.database_errors import DamagedDatabase
from pilotfish.store.sqlite.schema import VERSION
from pilotfish.store.sqlite.search import SearchIndex
from pilotfish.store.tables.blobs import Blobs
from pilotfish.store.tables.heads import SessionHeads
from pilotfish.store.tables.tables import Tables

SPARE_PAGES: Final = 512
"""free pages (of 4 KiB) that the file keeps for later writes"""

VACUUMED_PAGES: Final = 256
"""pages that one transaction returns to the disk; this takes a few milliseconds"""


class SqliteTables(Tables):
    """The tables behind one connection."""

    db: sqlite3.Connection
    index: SearchIndex

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__(db, SearchIndex(db), Blobs(db), SqliteHeads(db))
        self.wake: Callable[[frozenset[str]], None] = lambda _: None
        """called with the topics of each commit"""

    def report(self, topics: frozenset[str]) -> None:
        self.wake(topics)

    def start_transaction(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")

    def end_transaction(self) -> None:
        self.db.execute("COMMIT")

    def begin_read(self) -> None:
        self.db.execute("BEGIN")

    def end_read(self) -> None:
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def close(self) -> None:
        self.db.close()

    def check(self) -> None:
        if self.db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            raise DamagedDatabase
        self.index.check()

    def read_leniently(self, error: Exception) -> bool:
        # A flipped bit inside a text: SQLite does not detect it, Python does. The session must stay readable.
        undecodable = isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error)
        if not undecodable or self.db.text_factory is not str:
            return False
        self.db.text_factory = _lenient
        return True

    def shrink_file(self) -> bool:
        """Return free pages at the end of the file to the disk, outside of a transaction. False if none are left."""
        [(free,)] = self.db.execute("PRAGMA freelist_count").fetchall()
        if free <= SPARE_PAGES:
            return False
        # `executescript`, because `execute` would do one step of this statement, which frees one page.
        self.db.executescript(f"PRAGMA incremental_vacuum({VACUUMED_PAGES})")
        [(left,)] = self.db.execute("PRAGMA freelist_count").fetchall()
        return SPARE_PAGES < left < free

    def write_header(self) -> None:
        """Write a page without changing a value. SQLite skips an UPDATE that changes nothing, but not this pragma."""
        self.db.execute(f"PRAGMA user_version = {VERSION}")


class SqliteHeads(SessionHeads):
    """The heads of one database file. The rows stay cached until another process writes to the file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__(db)
        self._data_version = -1

    def refresh(self) -> None:
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._data_version:
            self._cached.clear()
            self._data_version = version


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")
