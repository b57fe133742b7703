"""Holding a session: one process at a time may write to it, and in that process as many as want to.

A hold is a lock on a file, so it ends with the last `release` or with the process. The file's text names the holder.
The file stays for the next time, until the ledger is closed: to remove it can take longer than all else at the end of
a turn.
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
"""held in this process only: there is no directory to lock in"""

REMOVING_SECONDS: Final = 0.2
"""for the files that are left at the end; a file that stays does no harm"""


class Hold:
    """A session held by this process. `release` may be called twice."""

    __slots__ = ("_release", "session_id")

    def __init__(self, session_id: str, release: Callable[[str], None]) -> None:
        self.session_id = session_id
        self._release: Callable[[str], None] | None = release

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release(self.session_id)


@dataclass(slots=True)
class _Held:
    fd: int
    """the open lock file"""
    holders: int = 1


class Holds:
    """The holds of one ledger. `label` says to others which program this is. A session of which something is `unsaved`
    stays held when all have released it: what another process wrote meanwhile would take the place of that."""

    def __init__(self, directory: Path, label: str, unsaved: Callable[[str], bool] = lambda _: False) -> None:
        self._directory = directory
        self._label = label
        self._unsaved = unsaved
        self._held: dict[str, _Held] = {}
        self._left: dict[str, None] = {}
        """sessions that were held: their files are still there"""
        self._taking = threading.Lock()
        """holds are taken on the event loop, or on a thread while the disk is slow: one at a time"""
        self._counting = threading.Lock()
        """for moments only"""

    def has(self, session_id: str) -> bool:
        return session_id in self._held

    def take(self, session_id: str) -> Hold:
        """Hold a session, or raise `SessionBusy` with which other process does."""
        with self._taking:
            if not self._join(session_id):
                try:
                    fd = self._lock(self._path(session_id))
                except OSError:
                    # The directory cannot be written, so no other process can store into the session either.
                    fd = NO_FILE
                self._held[session_id] = _Held(fd)
        return Hold(session_id, self._release)

    def release_all(self) -> None:
        for session_id in list(self._held):
            self._let_go(self._held.pop(session_id), session_id)
        until = time.monotonic() + REMOVING_SECONDS
        while self._left and time.monotonic() < until:
            _remove(self._path(self._left.popitem()[0]))

    def _join(self, session_id: str) -> bool:
        """One more holder of what this process holds."""
        with self._counting:
            held = self._held.get(session_id)
            if held is not None:
                held.holders += 1
        return held is not None

    def _release(self, session_id: str) -> None:
        with self._counting:
            held = self._held.get(session_id)
            if held is None:
                return
            held.holders -= 1
        self._let_go_if_unwanted(session_id)

    def saved(self) -> None:
        """Nothing is unsaved any more. Called on the thread that saved it."""
        for session_id in list(self._held):
            self._let_go_if_unwanted(session_id)

    def _let_go_if_unwanted(self, session_id: str) -> None:
        with self._counting:
            held = self._held.get(session_id)
            if held is None or held.holders or self._unsaved(session_id):
                return
            del self._held[session_id]
        self._let_go(held, session_id)

    def _let_go(self, held: _Held, session_id: str) -> None:
        if held.fd != NO_FILE:
            self._left[session_id] = None
            os.close(held.fd)

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
            # The holder before us removed the file between our opening and our locking it.
            os.close(fd)

    def _sign(self, fd: int) -> None:
        """Write who holds it. Where that is not possible (a full disk) it is locked all the same, by nobody known."""
        said = orjson.dumps({"pid": os.getpid(), "since": time.time(), "label": self._label})
        try:
            # Not emptied first: ext4 writes a file that was emptied to the disk when it is closed.
            os.ftruncate(fd, os.write(fd, said))
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
        holder = orjson.loads(path.read_bytes())
        since = time.strftime("%H:%M", time.localtime(holder["since"]))
        return f"The session is in use elsewhere: {holder['label']} (process {holder['pid']}, since {since})."
    except (OSError, ValueError, KeyError, TypeError):
        return "The session is in use by another Pilotfish."


def _remove(path: Path) -> None:
    """Remove the file of a session that nobody holds by now. Windows removes no open file, so there it stays."""
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
