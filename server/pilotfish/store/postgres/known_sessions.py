"""What this process knows of its sessions while the server is out of reach: their rows and last numbers.

It is what a turn needs to go on. Older records cannot be read, and asking for them says why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import ClassVar

from pilotfish.conversation.records import Entry
from pilotfish.errors import StorageError
from pilotfish.store.rows import Heads, RecordPage, SessionRow
from pilotfish.store.sqlite.schema import migrate
from pilotfish.store.sqlite.tables import SqliteTables


class KnownSessions(SqliteTables):
    """Tables in memory with the rows of sessions and without their records. `error` says why."""

    has_all_sessions: ClassVar[bool] = False

    def __init__(self, known: Mapping[str, tuple[SessionRow, Heads]], error: StorageError) -> None:
        db = sqlite3.connect(":memory:", isolation_level=None)
        migrate(db)
        super().__init__(db)
        self._error = error
        for row, heads in known.values():
            self.create(row)
            self.db.execute(
                "UPDATE sessions SET n = ?, seq = ?, audit_hash = ? WHERE id = ?",
                (heads.n, heads.seq, heads.audit_hash, row.id),
            )

    def each_kept(self, session_id: str) -> Iterator[Entry]:
        raise self._out_of_reach(session_id)

    def unfinished(self, session_id: str) -> list[Entry]:
        raise self._out_of_reach(session_id)

    def page(self, session_id: str, before_n: int | None, limit: int) -> RecordPage:
        raise self._out_of_reach(session_id, before_n, limit)

    def newest(
        self, workspace: str | None, terms: list[str], before: tuple[float, str] | None, limit: int
    ) -> list[SessionRow]:
        raise self._out_of_reach(workspace, terms, before, limit)

    def get_blob(self, hash_: str) -> bytes:
        raise self._out_of_reach(hash_)

    def _out_of_reach(self, *_: object) -> StorageError:
        return StorageError(str(self._error), remedy=self._error.remedy)
