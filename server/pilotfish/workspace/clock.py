"""Time as the workspace sees it: passed in, so that tests need not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Clock:
    """Seconds, and waiting for them to pass."""

    def now(self) -> float:
        """for measuring how long something takes"""
        return time.monotonic()

    def wall(self) -> float:
        """since the epoch, to be compared with the time stamps of files"""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, done: Callable[[], Awaitable[bool]], seconds: float, every: float = 0.02) -> bool:
        """Wait for something that nobody announces; False when it did not come in time."""
        deadline = self.now() + seconds
        while not await done():
            if self.now() >= deadline:
                return False
            await self.sleep(every)
        return True
