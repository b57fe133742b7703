"""The database schema and its migrations.

The schema version of a database is its `user_version`. `MIGRATIONS[v]` migrates it from version v to v + 1, inside one
transaction. A new record type needs a new version too: an older program must not open records that it cannot read.

The SQL is deliberately plain: except for the two full-text tables, PostgreSQL accepts it with few changes.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from pilotfish.errors import StorageError

APPLICATION_ID: Final = 0x50_46_49_53
"""identifies the file as a Pilotfish database ("PFIS"), for example to the `file` command"""

_V1: Final = """
-- One row a session. n, seq and audit_hash are where its numbering stands (see also chunks); the sums are of its
-- finished turns.
CREATE TABLE sessions (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    title         TEXT NOT NULL,
    named         INTEGER NOT NULL DEFAULT 0,
    workspace     TEXT,
    model         TEXT NOT NULL,
    mode          TEXT NOT NULL,
    created_at    REAL NOT NULL,
    updated_at    REAL NOT NULL,
    forked_from   TEXT,
    n             INTEGER NOT NULL DEFAULT 0,
    seq           INTEGER NOT NULL DEFAULT 0,
    audit_hash    TEXT NOT NULL DEFAULT '',
    turns         INTEGER NOT NULL DEFAULT 0,
    input_tokens  INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    requests      INTEGER NOT NULL DEFAULT 0,
    tool_calls    INTEGER NOT NULL DEFAULT 0,
    cost          REAL
);
CREATE INDEX sessions_newest ON sessions (updated_at, id);
CREATE INDEX sessions_of_workspace ON sessions (workspace, updated_at, id);

-- What is kept: history, transcript, undo and audit are folded from these rows.
CREATE TABLE records (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    seq     INTEGER,
    type    TEXT NOT NULL,
    body    TEXT NOT NULL,
    UNIQUE (session, n)
);

-- What passes: text while it is being made. A row lives until the record that holds it whole is stored, so that a
-- crash in between loses nothing that was shown. The numbering stands at the larger of sessions.n and the last n here.
CREATE TABLE chunks (
    session INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    seq     INTEGER,
    type    TEXT NOT NULL,
    item    TEXT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (session, n)
) WITHOUT ROWID;

-- Large payloads, once each, by their hash.
CREATE TABLE blobs (
    id     INTEGER PRIMARY KEY,
    hash   TEXT NOT NULL UNIQUE,
    size   INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    data   BLOB NOT NULL
);

-- Which record names which blob. A negative session is a process that has put a blob and not named it yet (n is then
-- the time in seconds).
CREATE TABLE uses (
    session INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    hash    TEXT NOT NULL,
    PRIMARY KEY (session, n, hash)
) WITHOUT ROWID;
CREATE INDEX uses_of_blob ON uses (hash);

-- Full text. A text's rowid is (session << 32) + n, a title's is the session's key.
CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = "unicode61 remove_diacritics 2");
CREATE VIRTUAL TABLE titles USING fts5 (title, tokenize = "unicode61 remove_diacritics 2");
"""

_V2: Final = """
-- The number of the last record that was imported; 0 for a session that was made here.
ALTER TABLE sessions ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;
"""

_V3: Final = """
-- Of the output tokens; and the requests that `cost` does not count, because the price of the model is not known.
ALTER TABLE sessions ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN unpriced_requests INTEGER NOT NULL DEFAULT 0;
"""

_V4: Final = """
-- How processes work on one session together (`tables/controls.py`): the questions of the turn that runs, and what
-- other processes ask of the one that runs it.
CREATE TABLE questions (
    place      INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    session    INTEGER NOT NULL,
    body       TEXT NOT NULL,
    resolution TEXT
);
CREATE INDEX questions_of_session ON questions (session);
CREATE TABLE controls (
    place   INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    body    TEXT NOT NULL,
    sender  TEXT NOT NULL DEFAULT '',
    taken   INTEGER NOT NULL DEFAULT 0,
    reply   TEXT
);
CREATE INDEX controls_of_session ON controls (session);
"""

_V5: Final = """
-- Tasks that run in the background, at most one for a session. The times are in seconds.
CREATE TABLE jobs (
    session    TEXT PRIMARY KEY,
    state      TEXT NOT NULL,
    spec       TEXT NOT NULL,
    place      TEXT NOT NULL,
    note       TEXT NOT NULL,
    result     TEXT,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    bundle     BLOB
);
CREATE INDEX jobs_by_state ON jobs (state, created_at);
"""

MIGRATIONS: Final[tuple[str, ...]] = (_V1, _V2, _V3, _V4, _V5)
"""MIGRATIONS[v] is the SQL from version v to v + 1. Version 0 is an empty file."""

VERSION: Final = len(MIGRATIONS)


def version_of(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def refuse_newer(db: sqlite3.Connection) -> None:
    """Raise `StorageError` for a database of a newer program, which is left unchanged."""
    found = version_of(db)
    if found > VERSION:
        raise StorageError(
            f"The session database was written by a newer Pilotfish (format {found}; this one reads {VERSION}).",
            remedy="Update Pilotfish, or set `storage` to another directory. The database was not changed.",
        )


def migrate(db: sqlite3.Connection) -> None:
    """Migrate the database to this program's version, in one transaction."""
    refuse_newer(db)
    if version_of(db) == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have migrated it while this one waited for the lock.
        for version in range(version_of(db), VERSION):
            for statement in statements(MIGRATIONS[version]):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version + 1}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def statements(script: str) -> list[str]:
    """Split a script into statements, because `executescript` would commit the open transaction."""
    found: list[str] = []
    pending = ""
    for line in script.splitlines():
        if not pending and (not line.strip() or line.lstrip().startswith("--")):
            continue
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found
