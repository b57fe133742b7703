"""The spool: a SQLite database on this machine with what could not be written to the server.

A process that ends before the server is back leaves its spool behind. The next one that reaches the server appends its
records there, with the numbers that they have.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from pilotfish.errors import StorageError
from pilotfish.store.locks import lock_alone, make_private, open_lock_file
from pilotfish.store.postgres.tables import PgTables
from pilotfish.store.rows import StoreNotice
from pilotfish.store.sqlite.schema import VERSION, version_of
from pilotfish.store.sqlite.tables import SqliteTables
from pilotfish.store.tables.bodies import blobs_of
from pilotfish.store.tables.tables import Tables
from pilotfish.store.worker import StoreJob, commit


class Spool:
    """The spools of one database, in a directory. A process has at most one, and locks it."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._path = directory / f"{name}.db"
        self._lock_fd: int | None = None

    def open(self) -> sqlite3.Connection:
        """An empty spool. It is in memory if the disk cannot be written either."""
        try:
            make_private(self._directory)
            self._lock_fd = open_lock_file(_lock_of(self._path))
            lock_alone(self._lock_fd)
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600))
            db = sqlite3.connect(self._path, isolation_level=None)
            db.execute("PRAGMA journal_mode = WAL").fetchall()
            db.execute("PRAGMA synchronous = NORMAL")
        except (OSError, sqlite3.Error):
            return sqlite3.connect(":memory:", isolation_level=None)
        return db

    def discard(self) -> None:
        """Delete the spool of this process: everything in it was written."""
        _delete(self._path)
        self.leave()

    def leave(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def adopt(self, tables: PgTables) -> list[StoreNotice]:
        """Write the spools of processes that have ended. The notices name what could not be written."""
        notices: list[StoreNotice] = []
        for path in sorted(self._directory.glob("*.db")) if self._directory.is_dir() else ():
            if path == self._path:
                continue
            fd = open_lock_file(_lock_of(path))
            try:
                if lock_alone(fd) and path.exists():
                    notices += _adopt(path, tables)
            finally:
                os.close(fd)
        return notices


def _adopt(path: Path, tables: PgTables) -> list[StoreNotice]:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        if version_of(db) != VERSION:
            return []  # empty, or of another version of this program, which will read it
        spooled = SqliteTables(db)
        sessions: list[str] = [id_ for (id_,) in db.execute("SELECT id FROM sessions")]
        jobs = [StoreJob(lambda tables, id_=id_: _append(spooled, tables, id_)) for id_ in sessions]
        commit(tables, jobs)
    finally:
        db.close()
    refused = [job.error for job in jobs if job.error is not None]
    if not refused:
        _delete(path)
        return []
    aside = path.with_suffix(".refused")
    path.replace(aside)
    return [
        StoreNotice(
            f"{len(refused)} of {len(jobs)} sessions that were kept on this machine could not be saved: {refused[0]}",
            f"Their records are in {aside}.",
        )
    ]


def _append(spooled: SqliteTables, tables: Tables, session_id: str) -> None:
    """Append the spooled records of a session that the server does not have. Others are there already: the process
    ended before it could delete its spool."""
    entries = sorted([*spooled.history(session_id), *spooled.unfinished(session_id)], key=lambda entry: entry.n)
    if not tables.has(session_id):
        if entries and entries[0].n != 1:
            raise StorageError(f"Session {session_id} is not in the database any more.", remedy="It was deleted there.")
        row = spooled.get(session_id)
        [(named,)] = spooled.db.execute("SELECT named FROM sessions WHERE id = ?", (session_id,)).fetchall()
        tables.create(
            row._replace(
                **dict.fromkeys(_COUNTED, 0), cost=None, title=row.title if named else "", updated_at=row.created_at
            )
        )
    head = tables.heads(session_id)
    missing = [entry for entry in entries if entry.n > head.n]
    for entry in missing:
        for hash_ in blobs_of(entry.record):
            data = spooled.blobs.get(hash_)
            if data is not None:
                tables.blobs.add(hash_, data)
    tables.append(session_id, missing)


_COUNTED = (
    "turns",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "requests",
    "tool_calls",
    "reasoning_tokens",
    "unpriced_requests",
)
"""the columns that appending counts again"""


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _delete(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    _lock_of(path).unlink(missing_ok=True)
