"""The tables of a PostgreSQL database.

A transaction that writes locks the row of each session it appends to, so `n` and `seq` have no gap and no double
whoever writes. Its statements are sent in a pipeline: a batch costs a few round trips, not one for each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from pilotfish.conversation.records import MessageRecord
from pilotfish.errors import StorageError
from pilotfish.store.postgres.connection import PgConnection
from pilotfish.store.postgres.search import PgSearchIndex
from pilotfish.store.rows import Heads, SessionRow
from pilotfish.store.tables.blobs import Blobs, hash_of
from pilotfish.store.tables.bodies import decode
from pilotfish.store.tables.heads import SELECT_HEAD, SessionHeads
from pilotfish.store.tables.tables import SESSION_COLUMNS, ShareLevel, Tables

EVERYBODY: Final = "''"
"""in place of an owner: a channel for changes of sessions that are shared"""


def channel(kind: Literal["session", "lists"], name: str) -> str:
    """The SQL expression for the name of a channel. Channels belong to a database, sessions to a schema in it."""
    return f"'pilotfish_' || md5(current_schema() || '/{kind}/' || CAST({name} AS text))"


class PgTables(Tables):
    """The tables behind one connection. `writer_id` is the row of `writers` that its transactions update."""

    CONTAINS: ClassVar[str] = "strpos(body, ?) > 0"
    OWNER: ClassVar[str] = "owner"

    db: PgConnection

    def __init__(self, db: PgConnection, writer_id: str = "") -> None:
        self._pg_heads = PgHeads(db)
        super().__init__(db, PgSearchIndex(db, self._text_of), PgBlobs(db), self._pg_heads)
        self._writer_id = writer_id
        self.batch = 0
        """the number of the next transaction, unique for this writer"""
        self.known: dict[str, tuple[SessionRow, Heads]] = {}
        """the sessions that this process has created, leased or written, as of its last commit"""
        self._created: dict[str, tuple[SessionRow, Heads]] = {}
        """the empty sessions that the transaction has created"""

    def start_transaction(self) -> None:
        self.db.start_pipeline()
        self.db.execute("BEGIN")
        self.db.execute("UPDATE writers SET batch = ?, seen = now() WHERE id = ?", (self.batch, self._writer_id))
        self._pg_heads.start_locking()
        self._created.clear()

    def end_transaction(self) -> None:
        self.db.execute("COMMIT")
        self.db.end_pipeline()
        self.known |= self._created | self._pg_heads.stop_locking()

    # Notifications belong to the transaction: the server sends them when it is committed.

    def announce(self, session_id: str) -> None:
        self.db.execute(f"SELECT pg_notify({channel('session', '?')}, '')", (session_id,))

    def announce_lists(self, session_id: str) -> None:
        self.db.execute(
            f"SELECT pg_notify({channel('lists', 'owner')}, ''),"  # noqa: S608 -- SQL of our own
            f" CASE WHEN share <> 'private' THEN pg_notify({channel('lists', EVERYBODY)}, '') END"
            " FROM sessions WHERE id = ?",
            (session_id,),
        )

    def current_user(self) -> str:
        return str(next(iter(self.db.execute("SELECT current_user")))[0])

    def has_workers(self) -> bool:
        found = self.db.execute(
            "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass('jobs') AND tgname = 'enqueue_job'"
        )
        return found.fetchone() is not None

    def begin_read(self) -> None:
        self.db.start_pipeline()
        self.db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def end_read(self) -> None:
        self._pg_heads.stop_locking()
        self.db.rollback()

    def close(self) -> None:
        self.db.close()

    def check(self) -> None:
        """The server checks its pages itself."""
        self.db.execute("SELECT 1").fetchall()

    def read_leniently(self, error: Exception) -> bool:  # noqa: ARG002 -- the server checks its texts
        return False

    def create(self, row: SessionRow) -> None:
        super().create(row)
        self._created[row.id] = (row, Heads(0, 0, ""))

    def recount(self, key: int) -> None:
        super().recount(key)
        self._created.clear()  # a fork or an import: it is not empty

    def delete(self, session_id: str) -> None:
        self.head(session_id)
        owned = self.db.execute(
            "SELECT owner = current_user OR row_security_active('sessions') IS FALSE FROM sessions WHERE id = ?",
            (session_id,),
        ).fetchone()
        if owned != (True,):
            raise StorageError("The session belongs to another user.", remedy="Its owner can delete it.")
        super().delete(session_id)

    def share(self, session_id: str, level: ShareLevel) -> None:
        self.key_of(session_id)
        changed = self.db.execute("UPDATE sessions SET share = ? WHERE id = ? RETURNING id", (level, session_id))
        if changed.fetchone() is None:
            raise StorageError("The session belongs to another user.", remedy="Its owner can share it.")
        self.db.execute(f"SELECT pg_notify({channel('lists', EVERYBODY)}, '')")

    def remember(self, session_id: str) -> None:
        """Keep what is needed to continue a session while the server is out of reach, if it exists."""
        if self.has(session_id):
            self.known[session_id] = (self.get(session_id), self.heads(session_id))

    def last_batch(self) -> int:
        """The last transaction of this writer that was committed. Waits for one that is still running."""
        row = self.db.execute("SELECT batch FROM writers WHERE id = ? FOR UPDATE", (self._writer_id,)).fetchone()
        return row[0] if row else 0

    def _text_of(self, key: int, n: int) -> str:
        row = self.db.execute("SELECT type, body FROM records WHERE session = ? AND n = ?", (key, n)).fetchone()
        record = decode(n, row[0], row[1], self.blobs.get) if row else None
        return record.content if isinstance(record, MessageRecord) else ""


class PgHeads(SessionHeads):
    """The heads of the sessions in one transaction. Nothing is cached longer: other programs write too."""

    db: PgConnection

    def __init__(self, db: PgConnection) -> None:
        super().__init__(db)
        self._locking = False
        self._rows: dict[str, SessionRow] = {}

    def start_locking(self) -> None:
        """Lock the rows that are read from now on, until the transaction ends."""
        self._cached.clear()
        self._rows.clear()
        self._locking = True

    def stop_locking(self) -> dict[str, tuple[SessionRow, Heads]]:
        """Called when the transaction has ended. Returns the sessions that it has read, and their last numbers."""
        self._locking = False
        found = {
            id_: (self._rows[id_], Heads(head.n, head.seq, head.audit_hash))
            for id_, head in self._cached.items()
            if id_ in self._rows
        }
        self._cached.clear()
        return found

    def refresh(self) -> None:
        if not self._locking:
            self._cached.clear()

    def row(self, session_id: str) -> Sequence[Any] | None:
        if not self._locking:
            return super().row(session_id)
        row = self._db.execute(_SELECT_LOCKED, (session_id,)).fetchone()
        if row is None and super().row(session_id) is not None:
            raise StorageError(
                "The session belongs to another user, who has shared it for reading only.",
                remedy="Fork it to go on by yourself, or ask its owner to share it with `--as continue`.",
            )
        if row is None:
            return None
        self._rows[session_id] = SessionRow._make(row[_HEAD_COLUMNS:])
        return row[:_HEAD_COLUMNS]


class PgBlobs(Blobs):
    """The blobs of one database. Writers run at the same time, unlike in SQLite.

    A blob must not be deleted for want of a reference while another transaction adds one. So every transaction that
    stores or references blobs holds a lock that excludes those that delete them.
    """

    def add(self, hash_: str, data: bytes) -> None:
        self._db.execute("LOCK TABLE uses IN ROW EXCLUSIVE MODE")
        super().add(hash_, data)

    def get(self, hash_: str) -> bytes | None:
        data = super().get(hash_)
        # Another role may have stored other bytes under this hash.
        return data if data is not None and hash_of(data) == hash_ else None

    def forget(self, key: int) -> None:
        self._db.execute("LOCK TABLE uses IN SHARE ROW EXCLUSIVE MODE")
        super().forget(key)

    def delete_unused(self, candidates: list[str]) -> None:
        self._db.execute("SELECT delete_unused_blobs(?)", (candidates,))


_HEAD_COLUMNS = 5
_SELECT_LOCKED = SELECT_HEAD.replace(" FROM ", f", {SESSION_COLUMNS} FROM ") + " FOR UPDATE"
