"""Where each session stands within the running transaction.

A group of appends reads a session's row once and writes it once. Between transactions the rows are remembered, as
long as no other process has written.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from pilotfish.core.records import Usage
from pilotfish.errors import UnknownSession
from pilotfish.store.rows import NO_USAGE


@dataclass(slots=True)
class Standing:
    """A session's numbering, and what the transaction adds to its sums."""

    key: int
    title: str
    n: int
    seq: int
    audit_hash: str
    dirty: bool = False
    """whether a kept record was added: chunks alone need no row"""
    updated_at: float | None = None
    turns: int = 0
    usage: Usage = NO_USAGE


class Standings:
    """The standings of one database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._known: dict[str, Standing] = {}
        self._data_version = -1

    def refresh(self) -> None:
        """A transaction begins: forget what another process may have changed."""
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._data_version:
            self._known.clear()
            self._data_version = version

    def forget(self) -> None:
        """What was remembered does not hold any more."""
        self._known.clear()

    def drop(self, session_id: str) -> None:
        """The session is gone; the others keep what they have to write."""
        self._known.pop(session_id, None)

    def of(self, session_id: str) -> Standing:
        standing = self._known.get(session_id)
        if standing is None:
            standing = self._known[session_id] = self.read(session_id)
        return standing

    def read(self, session_id: str) -> Standing:
        row = self._db.execute(
            "SELECT key, title, n, seq, audit_hash FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        if row is None:
            raise unknown(session_id)
        standing = Standing(*row)
        last = self._db.execute(
            "SELECT n, seq FROM chunks WHERE session = ? ORDER BY n DESC LIMIT 1", (standing.key,)
        ).fetchone()
        if last is not None:
            standing.n = max(standing.n, last[0])
            standing.seq = max(standing.seq, last[1] or 0)
        return standing

    def write(self) -> None:
        """The transaction ends: write every row that changed."""
        for standing in self._known.values():
            if not standing.dirty:
                continue
            standing.dirty = False
            heads = (standing.n, standing.seq, standing.audit_hash)
            if standing.updated_at is None:
                self._db.execute(
                    "UPDATE sessions SET n = ?, seq = ?, audit_hash = ? WHERE key = ?", (*heads, standing.key)
                )
                continue
            usage = standing.usage
            self._db.execute(
                "UPDATE sessions SET n = ?, seq = ?, audit_hash = ?, updated_at = max(updated_at, ?),"
                " turns = turns + ?,"
                " input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
                " cached_tokens = cached_tokens + ?, requests = requests + ?, tool_calls = tool_calls + ?,"
                " cost = CASE WHEN ? IS NULL THEN cost ELSE coalesce(cost, 0) + ? END WHERE key = ?",
                (
                    *(*heads, standing.updated_at, standing.turns, usage.input_tokens, usage.output_tokens),
                    *(usage.cached_tokens, usage.requests, usage.tool_calls, usage.cost, usage.cost),
                    standing.key,
                ),
            )
            standing.updated_at, standing.turns, standing.usage = None, 0, NO_USAGE


def unknown(session_id: str) -> UnknownSession:
    return UnknownSession(f"There is no session {session_id}.")
