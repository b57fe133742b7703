"""Reports commits to a SQLite database: each process has a named pipe beside it, into which the others write topics.

A pipe whose process has ended is removed by the next one that finds nobody reads it. Where there are no named pipes
(Windows, some network disks), everything is reported as changed twice a second.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import stat
import time
import uuid
from pathlib import Path
from typing import Final

from pilotfish.store.locks import make_private

POLL_SECONDS: Final = 0.5
"""how often changes are looked for where there are no named pipes"""

PIPE_BYTES: Final = 16_384
"""a pipe that holds more may have lost topics; every system's pipes hold that much"""


class ChangePipe:
    """The pipe of one process, and the way to those of the others. `directory` is for pipes only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._topics: frozenset[str] = frozenset()
        self._reader: int | None = None
        self._wake = os.pipe()
        os.set_blocking(self._wake[1], False)
        self._others: tuple[int, tuple[Path, ...]] = (-1, ())
        """the other pipes, and the time of the directory when they were listed"""

    # For the listener's thread

    def open(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: Windows has no mkfifo
            make_private(self._directory)
            os.mkfifo(self._path, 0o600)
            # Open for writing too: otherwise the pipe is at its end whenever no other process writes.
            self._reader = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)

    def select(self, topics: frozenset[str]) -> None:
        self._topics = topics

    def wait(self, seconds: float) -> frozenset[str] | None:
        if self._reader is None:
            return self._poll(min(seconds, POLL_SECONDS))
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            selector.register(self._wake[0], selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(seconds)}
        if self._wake[0] in ready:
            os.read(self._wake[0], 4096)
        if not ready:
            return None
        if self._reader not in ready:
            return frozenset()
        text = os.read(self._reader, 1 << 20)
        if len(text) >= PIPE_BYTES:
            return None
        return frozenset(text.decode("utf-8", "replace").split("\n")[:-1]) & self._topics

    def interrupt(self) -> None:
        with contextlib.suppress(OSError):  # full: it is interrupted already
            os.write(self._wake[1], b".")

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(reader)

    def dispose(self) -> None:
        for fd in self._wake:
            os.close(fd)

    def _poll(self, seconds: float) -> frozenset[str] | None:
        time.sleep(seconds)
        return None

    # For the writer's thread

    def send(self, topics: frozenset[str]) -> None:
        """Report a commit to the other processes. Never blocks."""
        text = "".join(f"{topic}\n" for topic in topics).encode("utf-8", "replace")
        for path in self._pipes():
            if path != self._path:
                self._write(path, text)

    def _pipes(self) -> tuple[Path, ...]:
        try:
            changed = self._directory.stat().st_mtime_ns
            if changed != self._others[0]:
                self._others = changed, tuple(self._directory.iterdir())
        except OSError:  # no process watches
            return ()
        return self._others[1]

    def _write(self, path: Path, text: bytes) -> None:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody reads it: its process has ended
                with contextlib.suppress(OSError):
                    path.unlink()
            return
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, text)
        except OSError:
            pass  # full: its process reports everything as changed
        finally:
            os.close(fd)
