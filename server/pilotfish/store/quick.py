"""What may be done on the event loop: something short, for as long as it is.

To a thread and back takes longer than to read a row or to lock a file, so small things are done at once. A disk that
was slow is left to the threads for a hundred times as long: a hundredth of the loop's time is what it may cost.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

QUICK_SECONDS: Final = 0.005
"""what it may take"""

SLOW_SHARE: Final = 100


class Quick:
    """Whether the disk has been quick lately."""

    def __init__(self) -> None:
        self._slow_until = 0.0

    def __bool__(self) -> bool:
        return time.monotonic() >= self._slow_until

    @contextmanager
    def measured(self) -> Generator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            if took > QUICK_SECONDS:
                self._slow_until = began + took * SLOW_SHARE
