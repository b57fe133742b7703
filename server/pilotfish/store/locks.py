"""Private directories, and locks on files that the system takes back when their process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

LOCK_BYTE: Final = 1 << 30
"""where the lock lies on Windows, beyond any text: a locked byte cannot be read there"""


def make_private(directory: Path) -> None:
    """Make a directory, and those above it that are missing, for the user alone. One that exists is left as it is."""
    if not directory.is_dir():
        if directory.parent != directory:
            make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def open_lock_file(path: Path) -> int:
    """Open or make it. Children do not inherit it (PEP 446), so no child keeps a lock alive."""
    return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)


if sys.platform == "win32":
    import msvcrt

    def lock_alone(fd: int) -> bool:
        """Take the lock, or say that somebody has it."""
        position = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, LOCK_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, position, os.SEEK_SET)
        return True

    def lock_shared(fd: int) -> None:
        """Windows has no shared lock here, and needs none: a file that another process has open cannot be moved."""

else:
    import fcntl

    # flock, not lockf: the lock belongs to the open file, so that two ledgers in one process exclude each other too.

    def lock_alone(fd: int) -> bool:
        """Take the lock, or say that somebody has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_shared(fd: int) -> None:
        """Share the lock; waits while another process has it alone."""
        fcntl.flock(fd, fcntl.LOCK_SH)
