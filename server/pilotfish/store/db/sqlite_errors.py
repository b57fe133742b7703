"""Maps SQLite and OS errors to `StorageError` with a message the user can act on."""

from __future__ import annotations

import errno
import logging
import sqlite3
from typing import Final

from pilotfish.errors import StorageError

log = logging.getLogger(__name__)


class DamagedDatabase(Exception):
    """The file is not a database, or its pages contradict each other."""


class DatabaseGone(StorageError):
    """The open database file is not the one at its path any more."""

    def __init__(self) -> None:
        super().__init__(
            "The session database was deleted or replaced while Pilotfish was running.",
            remedy="Sessions you go on with are saved into a new database at the same place. Others are lost if the "
            "file was deleted: restore it from a backup with Pilotfish closed.",
        )


_PRIMARY_CODE: Final = 0xFF
"""SQLite's extended codes carry the primary one in their low byte"""

_FULL: Final = (
    "The disk with the session database is full.",
    "Free some space. Until then sessions are kept in memory only, and saved as soon as there is room.",
)
_READ_ONLY: Final = (
    "The session database cannot be written: its directory is read-only for this user, or not accessible.",
    "Make the directory writable, or set `storage` to another. Until then sessions are kept in memory only.",
)
_LOCKED: Final = (
    "Another program keeps the session database locked.",
    "Close programs that have it open. Until then sessions are kept in memory only, and saved afterwards.",
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
    """Whether the database itself is broken, not the disk under it."""
    return isinstance(error, DamagedDatabase) or (
        isinstance(error, sqlite3.Error) and _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    )


def damage() -> StorageError:
    return StorageError(
        "The session database is damaged.",
        remedy="Close all Pilotfish windows and open one again: it is then repaired, and the damaged file is kept.",
    )


def is_passing(error: BaseException) -> bool:
    """Whether the connection is still good: the same commit may succeed on it later."""
    return isinstance(error, sqlite3.Error) and _BY_CODE.get(_code(error)) in (_FULL, _LOCKED)


def trouble_of(error: BaseException) -> StorageError | None:
    """The error of the disk behind an error. None if it is not the disk: the statement or the program is wrong."""
    match error:
        case StorageError():
            return error
        case sqlite3.Error():
            words = _BY_CODE.get(_code(error))
        case OSError():
            words = _BY_ERRNO.get(error.errno or 0, _FAULTY)
        case _:
            words = None
    return StorageError(words[0], remedy=words[1]) if words else None


def storage_error(error: BaseException) -> StorageError:
    """The `StorageError` for any error. An unexpected one is logged."""
    if is_damage(error):
        return damage()
    trouble = trouble_of(error)
    if trouble is None:
        log.error("the session database failed", exc_info=error)
        trouble = StorageError("The session database failed unexpectedly.", remedy="Look into the log.")
    return trouble


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
