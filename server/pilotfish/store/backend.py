"""The interface of a database to the two threads of the store. SQLite and PostgreSQL implement it.

Above it everything is shared: the ledger, the catalog, the writer with its fallback to memory, the reader. Below it a
backend opens connections, commits, and says what its errors mean.
"""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from pilotfish.store.changes import ChangeSource
from pilotfish.store.rows import StoreNotice
from pilotfish.store.tables.tables import Tables
from pilotfish.store.worker import StoreJob


class Database(Protocol):
    """One database. Except where noted, its methods are called on the writer's thread."""

    fallback: ClassVar[str] = "in memory"
    """where records are kept while the database cannot be written"""

    @property
    @abstractmethod
    def description(self) -> str:
        """Where the sessions are, for the user. Contains no password. Called on any thread."""

    @abstractmethod
    def open(self) -> tuple[Tables, list[StoreNotice]]:
        """Open the database for writing at this program's schema version. The notices report what was repaired."""

    @abstractmethod
    def open_reader(self) -> Tables:
        """Open a second connection that only reads. Called on the reader's thread."""

    @abstractmethod
    def open_read_only(self) -> Tables | None:
        """What can be read while the database cannot be written. None if nothing can."""

    def open_overlay(self) -> sqlite3.Connection:
        """An empty SQLite database for what cannot be written now."""
        return sqlite3.connect(":memory:", isolation_level=None)

    def discard_overlay(self) -> None:
        """Called when everything in it has been written, and its connection is closed."""

    @abstractmethod
    def commit(self, tables: Tables, jobs: Sequence[StoreJob], *, durable: bool) -> None:
        """Run jobs in one transaction, as `worker.commit` does. If `durable`, it survives a power cut."""

    @abstractmethod
    def replay(self, tables: Tables, jobs: Sequence[StoreJob]) -> None:
        """Commit jobs that were kept in memory because an earlier commit failed. Those that it had committed
        nevertheless are not run again."""

    @abstractmethod
    def make_durable(self, tables: Tables) -> None:
        """The work of a job whose commit makes everything before it durable."""

    @abstractmethod
    def carry_over(self, previous: Tables, tables: Tables, sessions: Iterable[str]) -> None:
        """Called after the database was opened again: copy what is missing of these sessions, which have unsaved
        records, and close the previous tables."""

    def before_delete(self) -> None:
        """Called before a session is deleted."""

    def idle_seconds(self) -> float | None:
        """Seconds until `work_while_idle` is to be called. None if there is nothing to do."""
        return None

    def work_while_idle(self, tables: Tables) -> None:
        """Do a small part of the work that can wait."""

    def mark_damaged(self) -> None:
        """Called when damage was found: the next `open` checks the whole database."""

    @abstractmethod
    def changes(self) -> ChangeSource:
        """Reports the commits of other processes. Called once."""

    def leave(self) -> None:
        """Called when the last connection is closed."""
