"""What may be done on the event loop: something short, for as long as it is.

To a thread and back takes longer than to read a row or to lock a file, so small things are done at once. A disk that
was slow is left to the threads for a hundred times as long: a hundredth of the loop's time is what it may cost. Once
is chance, though: a thread that loads a module, or another process, can hold us up as well. Nor may many small things
make a long one: who awaits what is done already gives way to nobody (`tired`).
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

QUICK_SECONDS: Final = 0.005
"""what it may take, and all that is done in a row"""

SLOW_SHARE: Final = 100

CHANCE_SECONDS: Final = 0.03
"""of slow things that are let pass, and again as much for every hundred times as long"""


class Quick:
    """Whether the disk has been quick lately."""

    def __init__(self) -> None:
        self._paid_until = 0.0
        self._spent = 0.0

    def __bool__(self) -> bool:
        return time.monotonic() >= self._paid_until - CHANCE_SECONDS * SLOW_SHARE

    @property
    def tired(self) -> bool:
        """Whether so much was done since the last `rest` that the next thing is one for a thread."""
        return self._spent > QUICK_SECONDS

    def rest(self) -> None:
        self._spent = 0.0

    @contextmanager
    def measured(self) -> Generator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            self._spent += took
            if took > QUICK_SECONDS:
                self._paid_until = max(self._paid_until, began) + took * SLOW_SHARE
