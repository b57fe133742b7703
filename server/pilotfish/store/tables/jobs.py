"""The jobs of a database: tasks that run in the background, at most one for a session.

A job has a state, what it needs to run (`spec`, JSON of `background.job`), and in the end its result: a commit, and a
git bundle with it if the job ran where the user's repository is not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

from pilotfish.store.tables.connection import Connection

QUEUE: Final = "a worker"
"""the place of a job that waits for a worker"""

JobState = Literal["queued", "running", "done", "failed", "cancelled", "applied", "discarded"]

UNFINISHED: Final = frozenset[JobState]({"queued", "running"})


class JobRow(NamedTuple):
    """One job, without the bundle of its result."""

    session: str
    state: JobState
    spec: str
    place: str
    """where it runs, for the user: a machine, or a queue"""
    note: str
    """the last thing the user should know: what was left behind, why it failed"""
    result: str | None
    """the commit with its changes; None before its end, and if it changed nothing"""
    created_at: float
    updated_at: float


class Jobs:
    """The jobs behind one connection."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def put(self, row: JobRow) -> None:
        """Add a job, or replace the session's finished one."""
        self._db.execute("DELETE FROM jobs WHERE session = ?", (row.session,))
        marks = ", ".join("?" * len(row))
        added = self._db.execute(f"INSERT INTO jobs ({_COLUMNS}) VALUES ({marks}) RETURNING session", row)  # noqa: S608 -- SQL of our own
        added.fetchone()  # an error belongs to this job, not to the commit of its batch

    def get(self, session_id: str) -> JobRow | None:
        return self.of([session_id]).get(session_id)

    def of(self, sessions: Sequence[str]) -> dict[str, JobRow]:
        """The jobs of these sessions."""
        if not sessions:
            return {}
        marks = ", ".join("?" * len(sessions))
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM jobs WHERE session IN ({marks})", sessions)  # noqa: S608 -- SQL of our own
        return {row[0]: JobRow._make(row) for row in rows}

    def in_state(self, states: Collection[JobState]) -> list[JobRow]:
        """The jobs in these states, oldest first."""
        marks = ", ".join("?" * len(states))
        rows = self._db.execute(
            f"SELECT {_COLUMNS} FROM jobs WHERE state IN ({marks}) ORDER BY created_at, session",  # noqa: S608 -- SQL of our own
            list(states),
        )
        return [JobRow._make(row) for row in rows]

    def change(
        self,
        session_id: str,
        state: JobState,
        among: Collection[JobState],
        *,
        now: float,
        note: str | None = None,
        place: str | None = None,
    ) -> bool:
        """Set the state if it is one of `among`. Returns whether it was."""
        marks = ", ".join("?" * len(among))
        changed = self._db.execute(
            "UPDATE jobs SET state = ?, updated_at = ?, note = coalesce(?, note), place = coalesce(?, place)"  # noqa: S608 -- SQL of our own
            f" WHERE session = ? AND state IN ({marks}) RETURNING session",
            (state, now, note, place, session_id, *among),
        )
        return changed.fetchone() is not None

    def finish(
        self, session_id: str, state: JobState, *, now: float, note: str, result: str | None, bundle: bytes | None
    ) -> None:
        """End a job with its result."""
        self._db.execute(
            "UPDATE jobs SET state = ?, updated_at = ?, note = ?, result = ?, bundle = ? WHERE session = ?",
            (state, now, note, result, bundle, session_id),
        )

    def bundle(self, session_id: str) -> bytes | None:
        """The git bundle with the result. None if the result is in the user's repository."""
        row: Any = self._db.execute("SELECT bundle FROM jobs WHERE session = ?", (session_id,)).fetchone()
        return None if row is None else cast("bytes | None", row[0])

    def forget(self, session_id: str) -> None:
        self._db.execute("DELETE FROM jobs WHERE session = ?", (session_id,))


_COLUMNS: Final = ", ".join(JobRow._fields)
