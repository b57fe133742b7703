"""The tables of one database: sessions and their records.

`Tables` has what all databases have in common, in SQL that SQLite and PostgreSQL both accept. `sqlite.tables` and
`postgres.tables` have the rest: transactions, full-text search, and the few statements that differ.

Everything here runs on a thread of the store. Writes happen inside a transaction that `worker.commit` opens; a batch of
appends updates a session's row once.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pilotfish.conversation.messages import FINAL_STATUSES
from pilotfish.conversation.records import (
    ApprovalRecord,
    ChunkRecord,
    Entry,
    MessageRecord,
    Record,
    StateRecord,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    UsageRecord,
)
from pilotfish.errors import BadRequest, MovedOn, StorageError
from pilotfish.store.rows import Heads, RecordPage, SessionRow, Snippet, WholeSession
from pilotfish.store.tables.blobs import Blobs, missing_blob
from pilotfish.store.tables.bodies import Body, blobs_of, decode, encode, encode_whole
from pilotfish.store.tables.changes import LISTED, ReportsChanges
from pilotfish.store.tables.connection import Connection, TextIndex, clean
from pilotfish.store.tables.controls import ControlTables
from pilotfish.store.tables.heads import SessionHead, SessionHeads, unknown
from pilotfish.store.tables.jobs import Jobs
from pilotfish.store.titles import title_of

LAST_N: Final = 1 << 62

ShareLevel = Literal["private", "read", "continue"]
"""what the other users of a database may do with a session"""


class Tables(ReportsChanges, ABC):
    """The tables behind one connection."""

    CONTAINS: ClassVar[str] = "instr(body, ?) > 0"
    """whether a record's body contains a text"""

    OWNER: ClassVar[str] = "''"
    """the column with the user that owns a session; empty in a database of one user"""

    has_all_sessions: ClassVar[bool] = True
    """whether a session that is not here does not exist"""

    def __init__(self, db: Connection, index: TextIndex, blobs: Blobs, heads: SessionHeads) -> None:
        super().__init__()
        self.db = db
        self.index = index
        self.blobs = blobs
        self.jobs = Jobs(db)
        self._heads = heads
        self.controls = ControlTables(db, self.key_of, self.touch)
        self._pins: Counter[str] | None = None

    # Transactions

    def begin(self) -> None:
        self._pins = self.blobs.pins()
        self.forget_changes()
        self.start_transaction()
        self._heads.refresh()

    def commit(self) -> None:
        self._heads.write()
        self.end_transaction()
        self.report_changes()

    def rollback(self) -> None:
        self._heads.forget()
        self.blobs.restore_pins(self._pins)
        self.end_read()

    @abstractmethod
    def start_transaction(self) -> None:
        """Start a transaction that writes."""

    @abstractmethod
    def end_transaction(self) -> None:
        """Commit."""

    @abstractmethod
    def begin_read(self) -> None:
        """Start a read transaction: until `end_read`, commits of other processes are not visible."""

    @abstractmethod
    def end_read(self) -> None:
        """End a transaction without a commit, if one is open."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """Check the whole database. Raises `DamagedDatabase` or an error of the database if something is damaged."""

    @abstractmethod
    def read_leniently(self, error: Exception) -> bool:
        """Whether a read that failed with this error may succeed now, because damaged text is replaced from now on."""

    # Records

    def append(self, session_id: str, entries: Sequence[Entry]) -> None:
        """Append records. Raises `MovedOn` if their numbers do not follow the session's heads."""
        head = self.head(session_id)
        n, seq = head.n, head.seq
        for entry in entries:
            n += 1
            if entry.seq is not None:
                seq += 1
            if entry.n != n or (entry.seq is not None and entry.seq != seq):
                raise MovedOn(head.n, head.seq)
            record = entry.record
            if isinstance(record, ChunkRecord | StateRecord):
                self._insert_chunk(head.key, entry, record)
            else:
                self.insert_record(head.key, entry, encode(record))
                head.dirty = True
                self._apply_side_effects(head, entry.n, record)
        head.n, head.seq = n, seq
        self.touch(session_id, listed=any(entry.record.type in LISTED for entry in entries))

    def insert_record(self, key: int, entry: Entry, body: Body) -> None:
        """Insert one kept record with its blobs and its search text."""
        record = entry.record
        self.db.execute(
            "INSERT INTO records (session, n, seq, type, body) VALUES (?, ?, ?, ?, ?)",
            (key, entry.n, entry.seq, record.type, body.json),
        )
        for hash_, data in body.taken_out.items():
            self.blobs.add(hash_, data)
            self.blobs.name(key, entry.n, hash_)
        for hash_ in blobs_of(record):
            self.blobs.name(key, entry.n, hash_)
        if isinstance(record, MessageRecord):
            self.index_words(key, entry.n, record)

    def index_words(self, key: int, n: int, message: MessageRecord) -> None:
        if message.content and message.role != "system":
            self.index.add_text(key, n, clean(message.content))

    def heads(self, session_id: str) -> Heads:
        self._heads.refresh()
        head = self._heads.of(clean(session_id))
        return Heads(head.n, head.seq, head.audit_hash)

    def history(self, session_id: str) -> list[Entry]:
        return list(self.each_kept(session_id))

    def each_kept(self, session_id: str) -> Iterator[Entry]:
        rows = self.db.execute(
            "SELECT n, seq, type, body FROM records WHERE session = ? ORDER BY n", (self.key_of(session_id),)
        )
        return (self._entry(row) for row in rows)

    def unfinished(self, session_id: str) -> list[Entry]:
        rows = self.db.execute(
            "SELECT n, seq, type, body FROM chunks WHERE session = ? ORDER BY n", (self.key_of(session_id),)
        )
        return [self._entry(row) for row in rows]

    def page(self, session_id: str, before_n: int | None, limit: int) -> RecordPage:
        key = self.key_of(session_id)
        end = LAST_N if before_n is None else before_n
        rows = self.db.execute(
            "SELECT n, seq, type, body FROM records WHERE session = ? AND n < ? ORDER BY n DESC LIMIT ?",
            (key, end, limit + 1),
        ).fetchall()
        has_more = len(rows) > limit
        del rows[limit:]
        first: int = rows[-1][0] if has_more and rows else 0
        rows += self.db.execute(
            "SELECT n, seq, type, body FROM chunks WHERE session = ? AND n > ? AND n < ?", (key, first, end)
        ).fetchall()
        rows.sort()
        return RecordPage(tuple(self._entry(row) for row in rows), has_more)

    def tail(self, session_id: str, after_n: int) -> list[Entry]:
        """What is stored after record `after_n`, in order: kept records and unfinished chunks."""
        key = self.key_of(session_id)
        rows = self.db.execute(
            "SELECT n, seq, type, body FROM records WHERE session = ? AND n > ?"
            " UNION ALL SELECT n, seq, type, body FROM chunks WHERE session = ? AND n > ? ORDER BY n",
            (key, after_n, key, after_n),
        )
        return [self._entry(row) for row in rows]

    def turn_after(self, session_id: str, names: Sequence[str]) -> int | None:
        """The `n` of the first turn start after the first record that contains one of `names`.

        `LAST_N` if no turn follows, None if no record contains any of them.
        """
        key = self.key_of(session_id)
        for name in names:
            row = self.db.execute(
                f"SELECT n FROM records WHERE session = ? AND {self.CONTAINS} ORDER BY n LIMIT 1",  # noqa: S608 -- SQL of our own
                (key, json.dumps(clean(name), ensure_ascii=False)),
            ).fetchone()
            if row is not None:
                return self.next_turn(session_id, row[0])
        return None

    def next_turn(self, session_id: str, n: int) -> int:
        """The `n` of the first turn start after record `n`, or `LAST_N` if no turn follows."""
        row = self.db.execute(
            "SELECT n FROM records WHERE session = ? AND n > ? AND type = 'turn_start' ORDER BY n LIMIT 1",
            (self.key_of(session_id), n),
        ).fetchone()
        return LAST_N if row is None else row[0]

    def undone_since(self, session_id: str, n: int) -> list[Entry]:
        """The undo records from record `n` on."""
        rows = self.db.execute(
            "SELECT n, seq, type, body FROM records WHERE session = ? AND n >= ? AND type = 'undo' ORDER BY n",
            (self.key_of(session_id), n),
        )
        return [self._entry(row) for row in rows]

    def usage_since(self, since: float) -> Iterator[tuple[SessionRow, str, Entry]]:
        """What usage is counted from, with each record's session and its owner: ends of turns, requests between turns
        and changes of the model, in the order of each session. Of sessions that were used since then."""
        rows = self.db.execute(
            f"SELECT {SESSION_COLUMNS}, {self.OWNER}, r.n, r.seq, r.type, body FROM sessions"  # noqa: S608 -- SQL of our own
            " JOIN (SELECT session, n, seq, type, body FROM records WHERE type IN ('turn_end', 'session', 'usage')) r"
            f" ON r.session = key WHERE updated_at >= ? AND (r.type <> 'usage' OR {self.CONTAINS}) ORDER BY key, r.n",
            (since, '"turn_id":""'),
        )
        columns = len(SessionRow._fields)
        for row in rows:
            yield SessionRow._make(row[:columns]), row[columns], self._entry(row[columns + 1 :])

    def current_user(self) -> str:
        """Who owns the sessions that this process makes. Empty where a database has one user."""
        return ""

    def has_workers(self) -> bool:
        """Whether tasks can be queued for workers: only in a database whose administrator has set that up."""
        return False

    # Blobs

    def get_blob(self, hash_: str) -> bytes:
        data = self.blobs.get(hash_)
        if data is None:
            raise missing_blob()
        return data

    # Sessions

    def create(self, row: SessionRow) -> None:
        if self.has(row.id):
            raise BadRequest(f"Session {row.id} already exists.", field="id")
        row = row._replace(title=clean(row.title))
        self.db.execute(
            "INSERT INTO sessions (id, title, workspace, model, mode, created_at, updated_at, forked_from, turns,"
            " input_tokens, output_tokens, cached_tokens, requests, tool_calls, cost, imported,"
            " reasoning_tokens, unpriced_requests, named)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, int(row.title != "")),
        )
        if row.title:
            self.index.set_title(self.key_of(row.id), row.title)
        self.touch(row.id, listed=True)

    def get(self, session_id: str) -> SessionRow:
        row = self.db.execute(SELECT_SESSIONS + " WHERE id = ?", (clean(session_id),)).fetchone()
        if row is None:
            raise unknown(session_id)
        return SessionRow._make(row)

    def newest(
        self, workspace: str | None, terms: list[str], before: tuple[float, str] | None, limit: int
    ) -> list[SessionRow]:
        """Sessions, newest first, starting after `before`, an (updated_at, id) pair."""
        where: list[str] = []
        values: list[Any] = []
        if workspace is not None:
            where.append("workspace = ?")
            values.append(workspace)
        if before is not None:
            where.append("(updated_at, id) < (?, ?)")
            values.extend(before)
        if terms:
            matches, parameters = self.index.condition_of(terms)
            where.append(matches)
            values.extend(parameters)
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        rows = self.db.execute(
            SELECT_SESSIONS + condition + " ORDER BY updated_at DESC, id DESC LIMIT ?", (*values, limit)
        )
        return list(map(SessionRow._make, rows))

    def with_open_turn(self, session_ids: Sequence[str]) -> set[str]:
        """Those sessions whose last turn has not ended: it runs, or its process has died."""
        if not session_ids:
            return set()
        marks = ", ".join("?" * len(session_ids))
        rows = self.db.execute(
            f"SELECT id FROM sessions WHERE id IN ({marks}) AND EXISTS (SELECT 1 FROM chunks WHERE session = key)",  # noqa: S608 -- marks only
            tuple(session_ids),
        )
        return {id_ for (id_,) in rows}

    def snippet(self, session_id: str, terms: list[str]) -> Snippet | None:
        return self.index.snippet(self.key_of(session_id), terms)

    def rename(self, session_id: str, title: str) -> None:
        """Set the title that the user chose. Generated titles do not replace it."""
        head = self.head(session_id)
        self._set_title(head, title)
        self.db.execute("UPDATE sessions SET named = 1 WHERE key = ?", (head.key,))
        self.touch(session_id, listed=True)

    def improve_title(self, session_id: str, title: str) -> None:
        """Set a generated title, unless the user has chosen one."""
        head = self.head(session_id)
        if self.db.execute("SELECT named FROM sessions WHERE key = ?", (head.key,)).fetchone() == (0,):
            self._set_title(head, title)
            self.touch(session_id, listed=True)

    def share(self, session_id: str, level: ShareLevel) -> None:  # noqa: ARG002 -- for databases with several users
        """Set what the other users of the database may do with a session."""
        self.key_of(session_id)
        raise StorageError(
            "Only sessions in a PostgreSQL database can be shared.",
            remedy="Move them there with `pilotfish sessions migrate`, or export this one.",
        )

    def configure(self, session_id: str, model: str | None, mode: str | None) -> None:
        self.db.execute(
            "UPDATE sessions SET model = coalesce(?, model), mode = coalesce(?, mode) WHERE key = ?",
            (model, mode, self.head(session_id).key),
        )
        self.touch(session_id, listed=True)

    def delete(self, session_id: str) -> None:
        key = self.key_of(session_id)
        self.touch(session_id, listed=True)
        self._heads.drop(clean(session_id))
        self.index.forget(key)
        self.controls.forget(key)
        self.blobs.forget(key)
        self.jobs.forget(clean(session_id))
        self.db.execute("DELETE FROM chunks WHERE session = ?", (key,))
        self.db.execute("DELETE FROM records WHERE session = ?", (key,))
        self.db.execute("DELETE FROM sessions WHERE key = ?", (key,))

    def fork(self, session_id: str, row: SessionRow, upto_n: int) -> None:
        """Create a session with the kept records up to `upto_n`, with the same numbers."""
        key = self.key_of(session_id)
        self.create(row)
        new = self.key_of(row.id)
        self.db.execute(
            "INSERT INTO records (session, n, seq, type, body)"
            " SELECT ?, n, seq, type, body FROM records WHERE session = ? AND n <= ? ORDER BY n",
            (new, key, upto_n),
        )
        self.db.execute("INSERT INTO uses SELECT ?, n, hash FROM uses WHERE session = ? AND n <= ?", (new, key, upto_n))
        self.index.copy(key, new, upto_n)
        self.recount(new)

    def bring_in(self, row: SessionRow, entries: Sequence[Entry], blobs: Mapping[str, bytes]) -> None:
        """Insert a whole imported session, with its numbers."""
        self.create(row)
        key = self.key_of(row.id)
        for hash_, data in blobs.items():
            self.blobs.add(hash_, data)
        for entry in entries:
            self.insert_record(key, entry, encode(entry.record))
        self.recount(key)

    def copy_session(self, source: Tables, session_id: str) -> None:
        """Copy a session from another database, with its numbers. Does nothing if it exists here or not in `source`."""
        if not self.has(session_id) and source.has(session_id):
            self.take_in(source.whole(session_id))

    def whole(self, session_id: str) -> WholeSession:
        """Everything that is stored of a session."""
        kept = self.history(session_id)
        return WholeSession(
            row=self.get(session_id),
            heads=self.heads(session_id),
            named=self.db.execute("SELECT named FROM sessions WHERE id = ?", (clean(session_id),)).fetchone() == (1,),
            kept=tuple(kept),
            unfinished=tuple(self.unfinished(session_id)),
            blobs={hash_: self.get_blob(hash_) for entry in kept for hash_ in blobs_of(entry.record)},
        )

    def take_in(self, session: WholeSession) -> None:
        """Add a session of another database, as it is there."""
        self.bring_in(session.row, session.kept, session.blobs)
        head = self.head(session.row.id)
        head.n, head.seq, head.audit_hash, head.dirty = (
            session.heads.n,
            session.heads.seq,
            session.heads.audit_hash,
            True,
        )
        self.db.execute("UPDATE sessions SET named = ? WHERE key = ?", (int(session.named), head.key))
        for entry in session.unfinished:
            if isinstance(entry.record, ChunkRecord | StateRecord):
                self._insert_chunk(head.key, entry, entry.record)

    def recount(self, key: int) -> None:
        """Set a session's heads and number of turns from its records."""
        [(n, seq, turns)] = self.db.execute(
            "SELECT coalesce(max(n), 0), coalesce(max(seq), 0),"
            " coalesce(sum(CASE type WHEN 'turn_start' THEN 1 END), 0) FROM records WHERE session = ?",
            (key,),
        ).fetchall()
        self.db.execute(
            "UPDATE sessions SET n = CASE WHEN n < ? THEN ? ELSE n END, seq = CASE WHEN seq < ? THEN ? ELSE seq END,"
            " turns = ? WHERE key = ?",
            (n, n, seq, seq, turns, key),
        )
        last = self.db.execute(
            "SELECT body FROM records WHERE session = ? AND type = 'approval' ORDER BY n DESC LIMIT 1", (key,)
        ).fetchone()
        if last is not None:
            record = decode(0, "approval", last[0], self.blobs.get)
            audit_hash = record.hash if isinstance(record, ApprovalRecord) else ""
            self.db.execute("UPDATE sessions SET audit_hash = ? WHERE key = ?", (audit_hash, key))

    # Side effects of an append

    def _insert_chunk(self, key: int, entry: Entry, record: ChunkRecord | StateRecord) -> None:
        item = record.item_id if isinstance(record, ChunkRecord) else ""
        self.db.execute(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?)",
            (key, entry.n, entry.seq, record.type, clean(item), encode_whole(record)),
        )

    def _apply_side_effects(self, head: SessionHead, n: int, record: Record) -> None:
        """Update the session's head from a new record, and delete the chunks that the record replaces."""
        match record:
            case TurnStartRecord():
                head.turns += 1
                head.updated_at = record.timestamp
                if not head.title:
                    self._set_title(head, title_of(record.prompt))
            case MessageRecord():
                head.updated_at = record.timestamp
                # Items of a message have ids `{message_id}.{i}`; "/" follows "." in ASCII.
                self._drop_chunks(head.key, f"{record.message_id}.", f"{record.message_id}/")
            case ToolCallRecord(call=call) if call.status in FINAL_STATUSES:
                self._drop_chunks(head.key, call.id, f"{call.id}\1")
            case ApprovalRecord():
                head.audit_hash = record.hash
            case UsageRecord(turn_id=""):
                head.usage += record.usage  # a request between turns, which no TurnEndRecord counts
            case TurnEndRecord():
                head.usage += record.usage
                head.updated_at = record.timestamp
                self.db.execute("DELETE FROM chunks WHERE session = ? AND n < ?", (head.key, n))
            case _:
                pass

    def _drop_chunks(self, key: int, first: str, beyond: str) -> None:
        self.db.execute(
            "DELETE FROM chunks WHERE session = ? AND type = 'chunk' AND item >= ? AND item < ?",
            (key, clean(first), clean(beyond)),
        )

    def _set_title(self, head: SessionHead, title: str) -> None:
        title = clean(title)
        if title != head.title:
            head.title = title
            self.db.execute("UPDATE sessions SET title = ? WHERE key = ?", (title, head.key))
            self.index.set_title(head.key, title)

    def _entry(self, row: Sequence[Any]) -> Entry:
        n, seq, type_, body = row
        return Entry(n, seq, decode(n, type_, body, self.blobs.get))

    def has(self, session_id: str) -> bool:
        return self.db.execute("SELECT 1 FROM sessions WHERE id = ?", (clean(session_id),)).fetchone() is not None

    def key_of(self, session_id: str) -> int:
        row = self.db.execute("SELECT key FROM sessions WHERE id = ?", (clean(session_id),)).fetchone()
        if row is None:
            raise unknown(session_id)
        key: int = row[0]
        return key

    def head(self, session_id: str) -> SessionHead:
        return self._heads.of(clean(session_id))


SESSION_COLUMNS: Final = (
    "id, title, workspace, model, mode, created_at, updated_at, forked_from, turns, input_tokens, output_tokens,"
    " cached_tokens, requests, tool_calls, cost, imported, reasoning_tokens, unpriced_requests"
)
"""those of `SessionRow`, in its order"""

SELECT_SESSIONS: Final = f"SELECT {SESSION_COLUMNS} FROM sessions"  # noqa: S608 -- names of our own
