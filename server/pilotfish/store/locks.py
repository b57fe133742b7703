"""Private directories, and file locks that the system releases when their process ends for any reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

LOCK_BYTE: Final = 1 << 30
"""offset of the locked byte on Windows. It lies beyond any text, because a locked byte cannot be read there."""


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, accessible to the user only. An existing one is left unchanged."""
    if not directory.is_dir():
        if directory.parent != directory:
            make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def open_lock_file(path: Path) -> int:
    """Open or create a lock file. Child processes do not inherit it (PEP 446), so none keeps a lock alive."""
    return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)


if sys.platform == "win32":
    import msvcrt

    def lock_alone(fd: int) -> bool:
        """Take the lock. Returns False if another owner has it."""
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
        """Take the lock. Returns False if another owner has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_shared(fd: int) -> None:
        """Take a shared lock. Waits while another process has an exclusive one."""
        fcntl.flock(fd, fcntl.LOCK_SH)
