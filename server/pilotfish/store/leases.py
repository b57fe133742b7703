"""Leases on sessions: one process at a time may write to a session, through any number of callers in that process.

A lease is a lock on a file, so it ends with the last `release` or with the process. The file's text names the owner.
The file is removed when the ledger is closed, not at the end of each turn, because removing a file can be slow.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from pilotfish.errors import SessionBusy
from pilotfish.store.locks import lock_alone, make_private, open_lock_file

NO_FILE: Final = -1
"""the file descriptor of a lease without a lock file: the directory cannot be written"""

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


@dataclass(slots=True)
class _Lock:
    fd: int
    """the open lock file"""
    leases: int = 1


class SessionLeases:
    """The leases of one ledger. `label` names this program to other processes.

    A session with `unsaved` records stays locked after the last release: another process would reuse their numbers.
    """

    def __init__(self, directory: Path, label: str, unsaved: Callable[[str], bool] = lambda _: False) -> None:
        self._directory = directory
        self._label = label
        self._unsaved = unsaved
        self._locks: dict[str, _Lock] = {}
        self._leftover_files: dict[str, None] = {}
        """sessions that are not leased any more, whose lock files still exist"""
        self._taking = threading.Lock()
        """held while a lease is taken: that happens on several threads"""
        self._counting = threading.Lock()
        """guards `_locks`; held only briefly"""

    def has(self, session_id: str) -> bool:
        return session_id in self._locks

    def take(self, session_id: str) -> Lease:
        """Lease a session. Raises `SessionBusy` that names the process that has the lease."""
        with self._taking:
            if not self._join(session_id):
                try:
                    fd = self._lock(self._path(session_id))
                except OSError:
                    # The directory cannot be written, so no other process can write to the session either.
                    fd = NO_FILE
                self._locks[session_id] = _Lock(fd)
        return Lease(session_id, self._release)

    def release_all(self) -> None:
        for session_id in list(self._locks):
            self._unlock(self._locks.pop(session_id), session_id)
        until = time.monotonic() + REMOVING_SECONDS
        while self._leftover_files and time.monotonic() < until:
            _remove(self._path(self._leftover_files.popitem()[0]))

    def _join(self, session_id: str) -> bool:
        """Add a lease if this process has already locked the session. Returns whether it has."""
        with self._counting:
            lock = self._locks.get(session_id)
            if lock is not None:
                lock.leases += 1
        return lock is not None

    def _release(self, session_id: str) -> None:
        with self._counting:
            lock = self._locks.get(session_id)
            if lock is None:
                return
            lock.leases -= 1
        self._unlock_if_unwanted(session_id)

    def release_unwanted(self) -> None:
        """Unlock sessions that were released while they had unsaved records. Called on the writer's thread."""
        for session_id in list(self._locks):
            self._unlock_if_unwanted(session_id)

    def _unlock_if_unwanted(self, session_id: str) -> None:
        with self._counting:
            lock = self._locks.get(session_id)
            if lock is None or lock.leases or self._unsaved(session_id):
                return
            del self._locks[session_id]
        self._unlock(lock, session_id)

    def _unlock(self, lock: _Lock, session_id: str) -> None:
        if lock.fd != NO_FILE:
            self._leftover_files[session_id] = None
            os.close(lock.fd)

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
