"""Copies the readable rows of a damaged database into a new one.

Rows are read in the order of their row numbers. A range that contains a damaged page is halved until the readable rows
on both sides of the page are found. The search index and the references to blobs are rebuilt.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pilotfish.conversation.records import Entry, MessageRecord, TurnStartRecord
from pilotfish.store.sqlite.schema import migrate
from pilotfish.store.sqlite.tables import SqliteTables
from pilotfish.store.tables.blobs import hash_of
from pilotfish.store.tables.bodies import blobs_of, decode, taken_out_of
from pilotfish.store.tables.connection import clean
from pilotfish.store.titles import title_of

MAX_FAILURES: Final = 50_000
"""failed reads after which the rest of a table is given up; this takes seconds"""

PATIENCE: Final = 200
"""consecutive failures before ranges are skipped"""

MAX_ROWS_PER_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Salvaged:
    sessions: int
    records: int

    def summary(self) -> str:
        if not self.sessions:
            return "No session could be recovered."
        return f"{self.sessions} sessions with {self.records} records were recovered; some may be incomplete."


def salvage(source: Path, target: Path) -> Salvaged:
    """Copy all readable rows of `source` into `target`, an empty file. `source` is not changed."""
    new = sqlite3.connect(target, isolation_level=None)
    try:
        migrate(new)
        tables = SqliteTables(new)
        new.execute("BEGIN IMMEDIATE")
        try:
            old = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        except sqlite3.Error:
            return Salvaged(0, 0)
        try:
            old.text_factory = _lenient
            # SQLite's switch for recovery: it also opens a file that is shorter than its header claims.
            old.execute("PRAGMA writable_schema = ON")
            found = _copy(old, tables)
        finally:
            old.close()
        new.execute("COMMIT")
        return found
    finally:
        new.close()


def _copy(old: sqlite3.Connection, tables: SqliteTables) -> Salvaged:
    new = tables.db
    _copy_table(old, new, "sessions", "key")
    records = _copy_table(old, new, "records", "id")
    _copy_table(old, new, "blobs", "id")
    for id_, hash_ in new.execute("SELECT id, hash FROM blobs").fetchall():
        data = tables.blobs.get(hash_)
        if data is None or hash_of(data) != hash_:
            new.execute("DELETE FROM blobs WHERE id = ?", (id_,))
    _add_missing_sessions(old, new)
    keys: list[int] = [key for (key,) in new.execute("SELECT key FROM sessions ORDER BY key")]
    for key in keys:
        _copy_chunks(old, new, key)
        _rebuild(tables, key)
    return Salvaged(len(keys), records)


def _copy_table(old: sqlite3.Connection, new: sqlite3.Connection, table: str, number: str) -> int:
    """Copy a table row by row number. Columns that only one of the two schema versions has are left out."""
    known = _columns(new, table)
    shared = [column for column in _columns(old, table) if column in known]
    if number not in shared:
        return 0
    names = ", ".join([number, *(column for column in shared if column != number)])
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(shared))})"  # noqa: S608 -- names of our own schema
    copied = 0
    for row in _readable(old, f"SELECT {names} FROM {table} WHERE {number} BETWEEN ? AND ? ORDER BY {number}", table):  # noqa: S608 -- names of our own schema
        copied += new.execute(insert, row).rowcount
    return copied


def _readable(db: sqlite3.Connection, select: str, table: str) -> Iterator[Sequence[Any]]:
    """The readable rows of a table. The first column is the row number.

    A range that fails is halved. After many consecutive failures narrow ranges are skipped, so that a wide gap costs
    little. When rows are found again after the gap, the last skipped range is read once more in full.
    """
    ranges = [(0, _highest(db, table))]
    failures = consecutive = 0
    width = 1
    skipped: tuple[int, int] | None = None
    while ranges and failures < MAX_FAILURES:
        low, high = ranges.pop()
        last = low - 1
        try:
            for row in db.execute(select, (low, high)):
                last = row[0]
                yield row
        except sqlite3.DatabaseError:
            failures += 1
            consecutive += 1
            if consecutive % PATIENCE == 0:
                width *= 4
            if high - last <= width:
                skipped = (last + 1, high)
            else:
                middle = (last + 1 + high) // 2
                ranges += [(middle + 1, high), (last + 1, middle)]
        if last >= low:
            if width > 1 and skipped is not None:
                ranges.append(skipped)
            consecutive, width, skipped = 0, 1, None


def _highest(db: sqlite3.Connection, table: str) -> int:
    """The highest row number, or an upper bound if it cannot be read."""
    try:
        highest: int | None = db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0]  # noqa: S608 -- names of our own schema
    except sqlite3.DatabaseError:
        pages: int = db.execute("PRAGMA page_count").fetchone()[0]
        return pages * MAX_ROWS_PER_PAGE
    return highest or 0


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    try:
        return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    except sqlite3.DatabaseError:
        return []


def _add_missing_sessions(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Add rows for sessions that have records but lost their row. Their ids may still be in the index on ids."""
    ids: dict[int, str] = {}
    with contextlib.suppress(sqlite3.DatabaseError):
        ids.update(old.execute("SELECT key, id FROM sessions INDEXED BY sqlite_autoindex_sessions_1"))
    lost = new.execute(
        "SELECT session FROM records WHERE session NOT IN (SELECT key FROM sessions) GROUP BY session"
    ).fetchall()
    for (key,) in lost:
        new.execute(
            "INSERT INTO sessions (key, id, title, model, mode, created_at, updated_at)"
            " VALUES (?, ?, '', '', '', 0, 0)",
            (key, ids.get(key, f"recovered-{key}")),
        )


def _copy_chunks(old: sqlite3.Connection, new: sqlite3.Connection, key: int) -> None:
    try:
        for row in old.execute("SELECT session, n, seq, type, item, body FROM chunks WHERE session = ?", (key,)):
            new.execute("INSERT OR IGNORE INTO chunks VALUES (?, ?, ?, ?, ?, ?)", row)
    except sqlite3.DatabaseError:
        return  # the text of an interrupted turn: the readable part is copied


def _rebuild(tables: SqliteTables, key: int) -> None:
    """Rebuild what is derived from a session's records: search text, blob references, heads, title and times."""
    db = tables.db
    title, created, updated = db.execute(
        "SELECT title, created_at, updated_at FROM sessions WHERE key = ?", (key,)
    ).fetchone()
    times: list[float] = []
    for n, seq, type_, body in db.execute(
        "SELECT n, seq, type, body FROM records WHERE session = ? ORDER BY n", (key,)
    ).fetchall():
        entry = Entry(n, seq, decode(n, type_, body, tables.blobs.get))
        record = entry.record
        for hash_ in (*taken_out_of(body), *blobs_of(record)):
            tables.blobs.name(key, n, hash_)
        match record:
            case MessageRecord():
                times.append(record.timestamp)
                tables.index_words(key, n, record)
            case TurnStartRecord():
                times.append(record.timestamp)
                title = title or clean(title_of(record.prompt))
            case _:
                pass
    if times and not created:
        created, updated = min(times), max(times)
    db.execute(
        "UPDATE sessions SET title = ?, created_at = ?, updated_at = ? WHERE key = ?",
        (title or "Recovered session", created, updated, key),
    )
    tables.index.set_title(key, title or "Recovered session")
    tables.recount(key)


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")
