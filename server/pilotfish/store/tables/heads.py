"""The last numbers of each session (its head), cached for the writing connection.

A batch of appends reads a session's row once and writes it once. The rows stay cached between transactions until
`refresh` drops them, because another process may have written to the database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pilotfish.conversation.records import Usage
from pilotfish.errors import UnknownSession
from pilotfish.store.rows import NO_USAGE
from pilotfish.store.tables.connection import Connection

SELECT_HEAD: Final = "SELECT key, title, n, seq, audit_hash FROM sessions WHERE id = ?"


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


class SessionHeads(ABC):
    """The heads of one database."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._cached: dict[str, SessionHead] = {}

    @abstractmethod
    def refresh(self) -> None:
        """Drop the cache if another process may have written. Called when a transaction begins."""

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
        row = self.row(session_id)
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

    def row(self, session_id: str) -> Sequence[Any] | None:
        return self._db.execute(SELECT_HEAD, (session_id,)).fetchone()

    def write(self) -> None:
        """Write every row that changed. Called before a transaction is committed."""
        for head in self._cached.values():
            if not head.dirty:
                continue
            head.dirty = False
            heads = (head.n, head.seq, head.audit_hash)
            if head.updated_at is None and head.usage == NO_USAGE:
                self._db.execute("UPDATE sessions SET n = ?, seq = ?, audit_hash = ? WHERE key = ?", (*heads, head.key))
                continue
            usage = head.usage
            self._db.execute(
                "UPDATE sessions SET n = ?, seq = ?, audit_hash = ?,"
                " updated_at = CASE WHEN updated_at < ? THEN ? ELSE updated_at END, turns = turns + ?,"
                " input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
                " cached_tokens = cached_tokens + ?, requests = requests + ?, tool_calls = tool_calls + ?,"
                " reasoning_tokens = reasoning_tokens + ?, unpriced_requests = unpriced_requests + ?,"
                " cost = coalesce(coalesce(cost, 0) + ?, cost) WHERE key = ?",
                (
                    *(
                        *heads,
                        head.updated_at or 0.0,
                        head.updated_at or 0.0,
                        head.turns,
                        usage.input_tokens,
                        usage.output_tokens,
                    ),
                    *(usage.cached_tokens, usage.requests, usage.tool_calls),
                    *(usage.reasoning_tokens, usage.unpriced_requests, usage.cost),
                    head.key,
                ),
            )
            head.updated_at, head.turns, head.usage = None, 0, NO_USAGE


def unknown(session_id: str) -> UnknownSession:
    return UnknownSession(f"There is no session {session_id}.")
