"""How much memory this process holds."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def resident_bytes() -> int | None:
    """What the process holds; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
