"""The last numbers of each session (its head), cached for the writing connection.

A batch of appends reads a session's row once and writes it once. The rows stay cached between transactions until
another process writes to the database.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from pilotfish.conversation.records import Usage
from pilotfish.errors import UnknownSession
from pilotfish.store.rows import NO_USAGE


@dataclass(slots=True)
class SessionHead:
    """The last numbers of a session, and what the transaction adds to its totals."""

    key: int
    title: str
    n: int
    seq: int
    audit_hash: str
    dirty: bool = False
    """whether a kept record was added; chunks alone do not change the row"""
    updated_at: float | None = None
    turns: int = 0
    usage: Usage = NO_USAGE


class SessionHeads:
    """The heads of one database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._cached: dict[str, SessionHead] = {}
        self._data_version = -1

    def refresh(self) -> None:
        """Drop the cache if another process has written. Called when a transaction begins."""
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._data_version:
            self._cached.clear()
            self._data_version = version

    def forget(self) -> None:
        """Drop the cache, after a rollback."""
        self._cached.clear()

    def drop(self, session_id: str) -> None:
        """Forget a deleted session; pending changes of other sessions are kept."""
        self._cached.pop(session_id, None)

    def of(self, session_id: str) -> SessionHead:
        head = self._cached.get(session_id)
        if head is None:
            head = self._cached[session_id] = self.read(session_id)
        return head

    def read(self, session_id: str) -> SessionHead:
        row = self._db.execute(
            "SELECT key, title, n, seq, audit_hash FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        if row is None:
            raise unknown(session_id)
        head = SessionHead(*row)
        last = self._db.execute(
            "SELECT n, seq FROM chunks WHERE session = ? ORDER BY n DESC LIMIT 1", (head.key,)
        ).fetchone()
        if last is not None:
            head.n = max(head.n, last[0])
            head.seq = max(head.seq, last[1] or 0)
        return head

    def write(self) -> None:
        """Write every row that changed. Called before a transaction is committed."""
        for head in self._cached.values():
            if not head.dirty:
                continue
            head.dirty = False
            heads = (head.n, head.seq, head.audit_hash)
            if head.updated_at is None:
                self._db.execute("UPDATE sessions SET n = ?, seq = ?, audit_hash = ? WHERE key = ?", (*heads, head.key))
                continue
            usage = head.usage
            self._db.execute(
                "UPDATE sessions SET n = ?, seq = ?, audit_hash = ?, updated_at = max(updated_at, ?),"
                " turns = turns + ?,"
                " input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
                " cached_tokens = cached_tokens + ?, requests = requests + ?, tool_calls = tool_calls + ?,"
                " cost = CASE WHEN ? IS NULL THEN cost ELSE coalesce(cost, 0) + ? END WHERE key = ?",
                (
                    *(*heads, head.updated_at, head.turns, usage.input_tokens, usage.output_tokens),
                    *(usage.cached_tokens, usage.requests, usage.tool_calls, usage.cost, usage.cost),
                    head.key,
                ),
            )
            head.updated_at, head.turns, head.usage = None, 0, NO_USAGE


def unknown(session_id: str) -> UnknownSession:
    return UnknownSession(f"There is no session {session_id}.")
