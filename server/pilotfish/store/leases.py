"""Leases on sessions: one process at a time may write to a session, through any number of callers in that process.

A lease is a lock that ends with the last `release` or with the process: on a file beside a SQLite database
(`FileLocks`), or on the connection to a PostgreSQL database (`postgres.locks`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

import orjson

from pilotfish.errors import SessionBusy
from pilotfish.store.locks import lock_alone, make_private, open_lock_file

REMOVING_SECONDS: Final = 0.2
"""time limit for removing lock files when the ledger is closed; a remaining file does no harm"""


class Lease:
    """A session leased by this process. `release` may be called twice."""

    __slots__ = ("_release", "session_id")

    def __init__(self, session_id: str, release: Callable[[str], None]) -> None:
        self.session_id = session_id
        self._release: Callable[[str], None] | None = release

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release(self.session_id)


class SessionLocks(Protocol):
    """Locks on sessions that exclude other processes, and end with this one."""

    def lock(self, session_id: str) -> None:
        """Lock a session. Raises `SessionBusy` that names the process that has the lock. May block."""
        ...

    def unlock(self, session_id: str) -> None:
        """Unlock a session. Does not block."""
        ...

    def close(self) -> None: ...


class SessionLeases:
    """The leases of one ledger.

    A session with `unsaved` records stays locked after the last release: another process would reuse their numbers.
    """

    def __init__(self, locks: SessionLocks, unsaved: Callable[[str], bool] = lambda _: False) -> None:
        self._locks = locks
        self._unsaved = unsaved
        self._leases: dict[str, int] = {}
        """the number of leases of each locked session"""
        self._taking = threading.Lock()
        """held while a lease is taken: that happens on several threads"""
        self._counting = threading.Lock()
        """guards `_leases`; held only briefly"""

    def has(self, session_id: str) -> bool:
        return session_id in self._leases

    def take(self, session_id: str) -> Lease:
        """Lease a session. Raises `SessionBusy` that names the process that has the lease."""
        with self._taking:
            if not self._join(session_id):
                self._locks.lock(session_id)
                self._leases[session_id] = 1
        return Lease(session_id, self._release)

    def release_all(self) -> None:
        for session_id in list(self._leases):
            del self._leases[session_id]
            self._locks.unlock(session_id)
        self._locks.close()

    def _join(self, session_id: str) -> bool:
        """Add a lease if this process has already locked the session. Returns whether it has."""
        with self._counting:
            if session_id not in self._leases:
                return False
            self._leases[session_id] += 1
            return True

    def _release(self, session_id: str) -> None:
        with self._counting:
            if session_id not in self._leases:
                return
            self._leases[session_id] -= 1
        self._unlock_if_unwanted(session_id)

    def release_unwanted(self) -> None:
        """Unlock sessions that were released while they had unsaved records. Called on the writer's thread."""
        for session_id in list(self._leases):
            self._unlock_if_unwanted(session_id)

    def _unlock_if_unwanted(self, session_id: str) -> None:
        with self._counting:
            if self._leases.get(session_id) != 0 or self._unsaved(session_id):
                return
            del self._leases[session_id]
        self._locks.unlock(session_id)


class FileLocks:
    """A lock file for each session. Its text names the owner: `label` and the process.

    A file is removed when the ledger is closed, not at the end of each turn, because removing a file can be slow.
    """

    def __init__(self, directory: Path, label: str) -> None:
        self._directory = directory
        self._label = label
        self._files: dict[str, int] = {}
        """the open lock file of each locked session"""
        self._leftover_files: dict[str, None] = {}
        """sessions that are not locked any more, whose lock files still exist"""

    def lock(self, session_id: str) -> None:
        # An error: the directory cannot be written, so no other process can write to the session either.
        with contextlib.suppress(OSError):
            self._files[session_id] = self._lock(self._path(session_id))

    def unlock(self, session_id: str) -> None:
        fd = self._files.pop(session_id, None)
        if fd is not None:
            self._leftover_files[session_id] = None
            os.close(fd)

    def close(self) -> None:
        until = time.monotonic() + REMOVING_SECONDS
        while self._leftover_files and time.monotonic() < until:
            _remove(self._path(self._leftover_files.popitem()[0]))

    def _lock(self, path: Path) -> int:
        while True:
            try:
                fd = open_lock_file(path)
            except FileNotFoundError:
                make_private(self._directory)
                fd = open_lock_file(path)
            try:
                if not lock_alone(fd):
                    raise SessionBusy(_busy(path))
                if _is_at(fd, path):
                    self._sign(fd)
                    return fd
            except BaseException:
                os.close(fd)
                raise
            # The previous owner removed the file after we opened it and before we locked it.
            os.close(fd)

    def _sign(self, fd: int) -> None:
        """Write the owner into the file. If that fails (a full disk), the lock is still held, without a name."""
        owner = orjson.dumps({"pid": os.getpid(), "since": time.time(), "label": self._label})
        try:
            # Truncated after the write, not before: ext4 flushes a file that was truncated to zero when it is closed.
            os.ftruncate(fd, os.write(fd, owner))
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)

    def _path(self, session_id: str) -> Path:
        return _file_of(session_id, self._directory)


@lru_cache(maxsize=256)
def _file_of(session_id: str, directory: Path) -> Path:
    name = blake2b(session_id.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return directory / f"{name}.lock"


def _busy(path: Path) -> str:
    try:
        owner = orjson.loads(path.read_bytes())
        since = time.strftime("%H:%M", time.localtime(owner["since"]))
        return f"The session is in use elsewhere: {owner['label']} (process {owner['pid']}, since {since})."
    except (OSError, ValueError, KeyError, TypeError):
        return "The session is in use by another Pilotfish process."


def _remove(path: Path) -> None:
    """Remove the lock file of a session that is not leased. Windows cannot remove an open file, so it stays there."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR)
        try:
            # Removed while locked: a process that has opened it meanwhile then notices that it is gone.
            if lock_alone(fd) and _is_at(fd, path):
                path.unlink()
        finally:
            os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
