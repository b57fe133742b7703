"""In-memory tables on top of the tables on disk, used while the disk cannot be written.

The row and the head of a session are copied into memory when it is first written to. Reads combine the records on disk
with those in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from pilotfish.conversation.records import Entry
from pilotfish.errors import StorageError, UnknownSession
from pilotfish.store.rows import Heads, RecordPage, SessionRow, Snippet
from pilotfish.store.sqlite.schema import migrate
from pilotfish.store.sqlite.tables import SqliteTables
from pilotfish.store.tables.heads import SessionHead, unknown
from pilotfish.store.tables.tables import LAST_N, Tables


class MemoryOverlay(SqliteTables):
    """Tables in `db`, an empty database. `beneath` are the tables on disk, or None if they cannot be read either."""

    def __init__(self, beneath: Tables | None, db: sqlite3.Connection) -> None:
        migrate(db)
        super().__init__(db)
        self.beneath = beneath

    def begin_read(self) -> None:
        super().begin_read()
        if self.beneath is not None:
            self.beneath.begin_read()

    def end_read(self) -> None:
        super().end_read()
        if self.beneath is not None:
            self.beneath.end_read()

    def head(self, session_id: str) -> SessionHead:
        self._copy_head(session_id)
        return super().head(session_id)

    def heads(self, session_id: str) -> Heads:
        return super().heads(session_id) if self.has(session_id) else self._below(session_id).heads(session_id)

    def each_kept(self, session_id: str) -> Iterator[Entry]:
        if self._is_below(session_id):
            yield from self._below(session_id).each_kept(session_id)
        if self.has(session_id):
            yield from super().each_kept(session_id)

    def unfinished(self, session_id: str) -> list[Entry]:
        earlier = self._below(session_id).unfinished(session_id) if self._is_below(session_id) else []
        return [*earlier, *(super().unfinished(session_id) if self.has(session_id) else ())]

    def tail(self, session_id: str, after_n: int) -> list[Entry]:
        earlier = self._below(session_id).tail(session_id, after_n) if self._is_below(session_id) else []
        return [*earlier, *(super().tail(session_id, after_n) if self.has(session_id) else ())]

    def page(self, session_id: str, before_n: int | None, limit: int) -> RecordPage:
        if not self.has(session_id):
            return self._below(session_id).page(session_id, before_n, limit)
        recent = super().page(session_id, before_n, limit)
        if recent.has_more or not self._is_below(session_id):
            return recent
        room = limit - sum(entry.record.type not in ("chunk", "state") for entry in recent.entries)
        end = recent.entries[0].n if recent.entries else LAST_N if before_n is None else before_n
        earlier = self._below(session_id).page(session_id, end, room)
        return RecordPage((*earlier.entries, *recent.entries), earlier.has_more)

    def get_blob(self, hash_: str) -> bytes:
        if self.beneath is not None and self.blobs.get(hash_) is None:
            return self.beneath.get_blob(hash_)
        return super().get_blob(hash_)

    def create(self, row: SessionRow) -> None:
        if self._is_below(row.id):
            self._below(row.id).create(row)  # raises: the id is taken
        super().create(row)

    def get(self, session_id: str) -> SessionRow:
        return super().get(session_id) if self.has(session_id) else self._below(session_id).get(session_id)

    def newest(
        self, workspace: str | None, terms: list[str], before: tuple[float, str] | None, limit: int
    ) -> list[SessionRow]:
        rows = {row.id: row for row in self.beneath.newest(workspace, terms, before, limit)} if self.beneath else {}
        for session_id in rows:
            if self.has(session_id):
                rows[session_id] = super().get(session_id)
        # A session that was written to since then is newer now, and may belong on an earlier page.
        rows = {id_: row for id_, row in rows.items() if before is None or (row.updated_at, id_) < before}
        rows |= {row.id: row for row in super().newest(workspace, terms, before, limit)}
        return sorted(rows.values(), key=lambda row: (row.updated_at, row.id), reverse=True)[:limit]

    def snippet(self, session_id: str, terms: list[str]) -> Snippet | None:
        found = super().snippet(session_id, terms) if self.has(session_id) else None
        if found is None and self._is_below(session_id):
            return self._below(session_id).snippet(session_id, terms)
        return found

    def delete(self, session_id: str) -> None:
        if self._is_below(session_id):
            raise _not_now("deleted")
        super().delete(session_id)

    def fork(self, session_id: str, row: SessionRow, upto_n: int) -> None:
        if self._is_below(session_id):
            raise _not_now("forked")
        super().fork(session_id, row, upto_n)

    def _is_below(self, session_id: str) -> bool:
        try:
            self._below(session_id).key_of(session_id)
        except UnknownSession:
            return False
        return True

    def _below(self, session_id: str) -> Tables:
        """The tables on disk. Raises `UnknownSession` if they cannot be read."""
        if self.beneath is None:
            super().key_of(session_id)
            raise unknown(session_id)
        return self.beneath

    def _copy_head(self, session_id: str) -> None:
        """Copy the row and the heads of a session from disk, so that its next records continue the numbering."""
        if self.has(session_id):
            return
        below = self._below(session_id)
        heads = below.heads(session_id)
        super().create(below.get(session_id))
        self.db.execute(
            "UPDATE sessions SET n = ?, seq = ?, audit_hash = ? WHERE id = ?",
            (heads.n, heads.seq, heads.audit_hash, session_id),
        )


def _not_now(done: str) -> StorageError:
    return StorageError(
        f"The session cannot be {done} while the session database cannot be written.",
        remedy="Try again when the database can be written.",
    )
