"""The tables through which processes work on one session: open questions, and requests to the process that runs a turn.

A question is written by the process that runs the turn. A request is written by any other process; the one that holds
the lease takes it and writes its reply. Rows live as long as somebody waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from pilotfish.store.tables.connection import Connection, clean


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuestion:
    """A question of a turn, as JSON. `resolution` is how it was answered; None while it waits."""

    id: str
    body: Mapping[str, Any]
    resolution: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """What another process asks of the one that runs a turn. `sender` is its user of the database; empty where a
    database has one user."""

    id: str
    kind: str
    body: Mapping[str, Any]
    sender: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlState:
    """How far a request has come. `reply` is None until there is one."""

    taken: bool
    reply: Mapping[str, Any] | None


class ControlTables:
    """`key_of` finds a session's key, `touch` reports a change of it to the other processes."""

    def __init__(self, db: Connection, key_of: Callable[[str], int], touch: Callable[[str], None]) -> None:
        self._db = db
        self._key_of = key_of
        self._touch = touch

    def put_question(self, session_id: str, question_id: str, body: Mapping[str, Any]) -> None:
        self._db.execute(
            "INSERT INTO questions (id, session, body) VALUES (?, ?, ?) RETURNING place",
            (question_id, self._key_of(session_id), _json(body)),
        ).fetchone()  # an error belongs to this job, not to the commit of its batch
        self._touch(session_id)

    def resolve_question(self, session_id: str, question_id: str, resolution: Mapping[str, Any]) -> None:
        self._db.execute("UPDATE questions SET resolution = ? WHERE id = ?", (_json(resolution), question_id))
        self._touch(session_id)

    def clear_questions(self, session_id: str) -> None:
        """Delete the questions of a session: its turn has ended."""
        self._db.execute("DELETE FROM questions WHERE session = ?", (self._key_of(session_id),))
        self._touch(session_id)

    def questions(self, session_id: str) -> list[StoredQuestion]:
        """The questions of the turn that runs, oldest first, with those that were answered. None of a session that this
        database does not have: it may be in one that cannot be written."""
        rows = self._db.execute(
            "SELECT id, body, resolution FROM questions"
            " WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY place",
            (clean(session_id),),
        )
        return [
            StoredQuestion(id=id_, body=orjson.loads(body), resolution=orjson.loads(done) if done else None)
            for id_, body, done in rows
        ]

    def send(self, session_id: str, request: ControlRequest) -> None:
        self._db.execute(
            "INSERT INTO controls (id, session, kind, body) VALUES (?, ?, ?, ?) RETURNING place",
            (request.id, self._key_of(session_id), request.kind, _json(request.body)),
        ).fetchone()  # an error belongs to this job, not to the commit of its batch
        self._touch(session_id)

    def has_requests(self, session_id: str) -> bool:
        """Whether a request waits that nobody has taken."""
        row = self._db.execute(
            "SELECT 1 FROM controls WHERE session = (SELECT key FROM sessions WHERE id = ?) AND taken = 0 LIMIT 1",
            (clean(session_id),),
        ).fetchone()
        return row is not None

    def take(self, session_id: str) -> list[ControlRequest]:
        """The requests that nobody has taken, in the order in which they were sent. They are taken now."""
        key = self._key_of(session_id)
        rows = self._db.execute(
            "SELECT place, id, kind, body, sender FROM controls WHERE session = ? AND taken = 0 ORDER BY place", (key,)
        ).fetchall()
        for place, *_ in rows:
            self._db.execute("UPDATE controls SET taken = 1 WHERE place = ?", (place,))
        return [
            ControlRequest(id=id_, kind=kind, body=orjson.loads(body), sender=sender)
            for _, id_, kind, body, sender in rows
        ]

    def reply(self, session_id: str, request_id: str, reply: Mapping[str, Any]) -> None:
        self._db.execute("UPDATE controls SET reply = ? WHERE id = ?", (_json(reply), request_id))
        self._touch(session_id)

    def state(self, request_id: str) -> ControlState | None:
        """None if the request was withdrawn, or its session was deleted."""
        row = self._db.execute("SELECT taken, reply FROM controls WHERE id = ?", (request_id,)).fetchone()
        return None if row is None else ControlState(taken=row[0] == 1, reply=orjson.loads(row[1]) if row[1] else None)

    def withdraw(self, request_id: str) -> ControlState | None:
        """Delete a request, and return how far it had come. Nobody takes it afterwards."""
        row = self._db.execute("DELETE FROM controls WHERE id = ? RETURNING taken, reply", (request_id,)).fetchone()
        return None if row is None else ControlState(taken=row[0] == 1, reply=orjson.loads(row[1]) if row[1] else None)

    def forget(self, key: int) -> None:
        """Delete what belongs to a session that is being deleted."""
        for table in ("questions", "controls"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ?", (key,))  # noqa: S608 -- names of our own


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()
