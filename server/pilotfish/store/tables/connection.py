"""What the tables need from a database: a connection that runs SQL, and a full-text index.

Statements have `?` for parameters. `sqlite3.Connection` is a `Connection`; PostgreSQL has a small adapter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from pilotfish.store.rows import Snippet


class Cursor(Protocol):
    """The rows that a statement returned."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection without implicit transactions."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object: ...


class TextIndex(Protocol):
    """Full-text search over titles and messages. The terms are those of `search_terms.terms_of`."""

    def add_text(self, key: int, n: int, text: str) -> None: ...

    def set_title(self, key: int, title: str) -> None: ...

    def copy(self, key: int, new_key: int, upto_n: int) -> None:
        """Copy the texts up to record `upto_n` to another session."""
        ...

    def forget(self, key: int) -> None: ...

    def condition_of(self, terms: list[str]) -> tuple[str, list[Any]]:
        """The SQL condition that selects the rows of `sessions` that match these terms, and its parameters."""
        ...

    def snippet(self, key: int, terms: list[str]) -> Snippet | None:
        """The best match in a session's messages. None if only its title matches."""
        ...


def clean(text: str) -> str:
    """Text that a database can store: lone surrogates, which UTF-8 cannot encode, are replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
