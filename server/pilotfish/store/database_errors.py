"""Maps SQLite and OS errors to `StorageError` with a message the user can act on.

PostgreSQL's errors are mapped where they are raised, to `DatabaseUnavailable`: only its package knows its driver.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
from typing import Final

from pilotfish.errors import StorageError

log = logging.getLogger(__name__)


class DamagedDatabase(Exception):
    """The file is not a database, or its pages are inconsistent."""


class DatabaseGone(StorageError):
    """The open database file was deleted or replaced."""

    def __init__(self) -> None:
        super().__init__(
            "The session database was deleted or replaced while Pilotfish was running.",
            remedy="Sessions that you continue are saved to a new database at the same path. Other sessions are lost "
            "if the file was deleted: close Pilotfish and restore the file from a backup.",
        )


class DatabaseUnavailable(StorageError):
    """A database server cannot be reached or refuses work now. The job that met the error is not to blame."""

    def __init__(self, message: str, *, remedy: str, connected: bool, again: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.connected = connected
        """whether the connection can still be used"""
        self.again = again
        """whether the same transaction may succeed at once"""


_PRIMARY_CODE: Final = 0xFF
"""mask of the primary code in SQLite's extended error codes"""

_FULL: Final = (
    "The disk with the session database is full.",
    "Free some space. Until then sessions are kept in memory only; they are saved as soon as there is space.",
)
_READ_ONLY: Final = (
    "The session database cannot be written: its directory is read-only for this user, or not accessible.",
    "Make the directory writable, or set `storage` to another. Until then sessions are kept in memory only.",
)
_LOCKED: Final = (
    "Another program keeps the session database locked.",
    "Close programs that have it open. Until then sessions are kept in memory only; they are saved afterwards.",
)
_FAULTY: Final = (
    "The disk reports errors when the session database is read or written.",
    "Check the disk. Until it works again, sessions are kept in memory only.",
)

_BY_CODE: Final[dict[int, tuple[str, str]]] = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_AUTH: _READ_ONLY,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_IOERR: _FAULTY,
    sqlite3.SQLITE_NOLFS: _FAULTY,
    sqlite3.SQLITE_NOMEM: _FAULTY,
}

_BY_ERRNO: Final[dict[int, tuple[str, str]]] = {
    errno.ENOSPC: _FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _FULL,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EROFS: _READ_ONLY,
    errno.ENOTDIR: _READ_ONLY,
    errno.EEXIST: _READ_ONLY,
    errno.ENOENT: _READ_ONLY,
}


def is_damage(error: BaseException) -> bool:
    """Whether the database is damaged, as opposed to a disk error."""
    return isinstance(error, DamagedDatabase) or (
        isinstance(error, sqlite3.Error) and _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    )


def damage() -> StorageError:
    return StorageError(
        "The session database is damaged.",
        remedy="Close all Pilotfish windows and open one again. Pilotfish then repairs the database and keeps the "
        "damaged file.",
    )


def is_passing(error: BaseException) -> bool:
    """Whether the connection is still usable: the same commit may succeed on it later."""
    if isinstance(error, DatabaseUnavailable):
        return error.connected
    return isinstance(error, sqlite3.Error) and _BY_CODE.get(_code(error)) in (_FULL, _LOCKED)


def is_disconnected(error: BaseException) -> bool:
    """Whether the connection to a database server has ended."""
    return isinstance(error, DatabaseUnavailable) and not error.connected


def disk_error_of(error: BaseException) -> StorageError | None:
    """The `StorageError` for a disk error. None if the statement or the program is wrong, not the disk."""
    match error:
        case StorageError():
            return error
        case sqlite3.Error():
            found = _BY_CODE.get(_code(error))
        case OSError():
            found = _BY_ERRNO.get(error.errno or 0, _FAULTY)
        case _:
            found = None
    return StorageError(found[0], remedy=found[1]) if found else None


def storage_error(error: BaseException) -> StorageError:
    """The `StorageError` for any error. An unexpected one is logged."""
    if is_damage(error):
        return damage()
    disk_error = disk_error_of(error)
    if disk_error is None:
        log.error("the session database failed", exc_info=error)
        disk_error = StorageError("The session database failed unexpectedly.", remedy="See the log file for details.")
    return disk_error


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
