"""Jobs for the store's threads, and how a group of them becomes one commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from pilotfish.errors import PilotfishError
from pilotfish.store.tables import Tables
from pilotfish.store.troubles import is_damage, trouble_of


class Job:
    """Something to do with the tables, and how it went."""

    __slots__ = ("durable", "error", "result", "session_id", "syncs", "work", "writes")

    def __init__(
        self,
        work: Callable[[Tables], Any],
        *,
        writes: bool = False,
        durable: bool = False,
        session_id: str | None = None,
    ) -> None:
        self.work = work
        self.writes = writes
        self.durable = durable
        """whether it must survive a power cut once it is acknowledged"""
        self.session_id = session_id
        """the session that records are appended to"""
        self.syncs = False
        """no work at all: what was committed before it is to survive a power cut"""
        self.result: Any = None
        self.error: Exception | None = None

    def again(self) -> Job:
        """The same work, not yet done."""
        return Job(self.work, writes=self.writes, durable=self.durable, session_id=self.session_id)


def sync() -> Job:
    """A job that is done when everything committed before it survives a power cut."""
    job = Job(_nothing)
    job.syncs = True
    return job


def commit(tables: Tables, jobs: Sequence[Job]) -> None:
    """Do all jobs in one transaction. A job that fails by its own fault leaves no trace, and the others are done
    without it. Trouble with the disk is raised: then nothing has been written."""
    while todo := [job for job in jobs if job.error is None]:
        try:
            tables.begin()
            for job in todo:
                run(job, tables)
                if job.error is not None:
                    break
            else:
                tables.commit()
                return
        except BaseException:
            tables.rollback()
            raise
        tables.rollback()


def look(job: Job, tables: Tables) -> None:
    """Do one job that only reads. It sees one state of the database."""
    tables.look()
    try:
        run(job, tables)
    finally:
        tables.end_look()


def run(job: Job, tables: Tables) -> None:
    """Do one job. Its own fault is kept in it; trouble with the disk is raised."""
    try:
        job.result = job.work(tables)
    except PilotfishError as error:
        job.error = error
    except Exception as error:
        if is_damage(error) or trouble_of(error) is not None:
            raise
        if _is_undecodable(error) and tables.db.text_factory is str:
            # A flipped bit inside a text: SQLite does not notice, Python does. One record is worth no session.
            tables.db.text_factory = _lenient
            run(job, tables)
        else:
            job.error = error


def _nothing(_: Tables) -> None: ...


def _is_undecodable(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error)


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")
