"""Leases on sessions: one process at a time may write to a session, and any number of callers inside it.

A lease is a lock on a file, so it ends with the last `release` or with the process. The file's text names the owner.
The file is removed when the ledger is closed, not at the end of each turn: removing can take long.
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
"""leased in this process only: there is no directory to lock in"""

REMOVING_SECONDS: Final = 0.2
"""for the files that are left when the ledger is closed; a file that stays does no harm"""


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
    """The leases of one ledger. `label` tells other processes which program this is. A session with `unsaved` records
    stays locked when all have released it: another process would write records with their numbers."""

    def __init__(self, directory: Path, label: str, unsaved: Callable[[str], bool] = lambda _: False) -> None:
        self._directory = directory
        self._label = label
        self._unsaved = unsaved
        self._locks: dict[str, _Lock] = {}
        self._left: dict[str, None] = {}
        """sessions that were leased: their files are still there"""
        self._taking = threading.Lock()
        """leases are taken on threads, one at a time"""
        self._counting = threading.Lock()
        """for moments only"""

    def has(self, session_id: str) -> bool:
        return session_id in self._locks

    def take(self, session_id: str) -> Lease:
        """Lease a session, or raise `SessionBusy` that names the process that has it."""
        with self._taking:
            if not self._join(session_id):
                try:
                    fd = self._lock(self._path(session_id))
                except OSError:
                    # The directory cannot be written, so no other process can store into the session either.
                    fd = NO_FILE
                self._locks[session_id] = _Lock(fd)
        return Lease(session_id, self._release)

    def release_all(self) -> None:
        for session_id in list(self._locks):
            self._unlock(self._locks.pop(session_id), session_id)
        until = time.monotonic() + REMOVING_SECONDS
        while self._left and time.monotonic() < until:
            _remove(self._path(self._left.popitem()[0]))

    def _join(self, session_id: str) -> bool:
        """One more lease of a session that this process has locked."""
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
        """Unlock what was released while it was unsaved. Called on the writer's thread."""
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
            self._left[session_id] = None
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
            # The owner before us removed the file between our opening and our locking it.
            os.close(fd)

    def _sign(self, fd: int) -> None:
        """Write who has the lease. If that is not possible (a full disk) it is locked all the same, without a name."""
        owner = orjson.dumps({"pid": os.getpid(), "since": time.time(), "label": self._label})
        try:
            # Not emptied first: ext4 writes a file that was emptied to the disk when it is closed.
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
        return "The session is in use by another Pilotfish."


def _remove(path: Path) -> None:
    """Remove the file of a session that nobody has leased. Windows removes no open file, so it stays there."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR)
        try:
            # Removed while it is locked: whoever opened it meanwhile sees that it is gone.
            if lock_alone(fd) and _is_at(fd, path):
                path.unlink()
        finally:
            os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
