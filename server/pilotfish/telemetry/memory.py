"""The memory usage of this process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def resident_bytes() -> int | None:
    """The resident memory of this process. None if the system does not report it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
