"""The memory of this process: how much it holds, and when what is left over in it is collected."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable
from pathlib import Path

TIDY_AFTER = 2.0  # seconds without a turn, before what is left of the last one is collected


class Leftovers:
    """What turns and sessions leave behind, collected once nothing runs. That may be a hundred megabytes, and the
    collector by itself comes when much is made, not when much is there."""

    def __init__(self, is_running: Callable[[], bool]) -> None:
        self._is_running = is_running
        self._collecting: asyncio.TimerHandle | None = None
        self._frozen_too = False

    def of_turn(self) -> None:
        """A turn has ended."""
        if self._collecting is None:
            self._collecting = asyncio.get_running_loop().call_later(TIDY_AFTER, self._collect)

    def of_session(self) -> None:
        """A session is gone, and with it what was frozen while it was open (`lsp/loading.py`)."""
        self._frozen_too = True
        self.of_turn()

    def _collect(self) -> None:
        self._collecting = None
        if self._is_running():
            return  # the end of that turn calls
        if self._frozen_too:
            gc.unfreeze()
        gc.collect()
        if self._frozen_too:
            gc.freeze()
            self._frozen_too = False


def resident_bytes() -> int | None:
    """What the process holds; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
