"""The clock of the workspace. It is passed in, so that tests do not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Clock:
    """Seconds, and waiting for them to pass."""

    def now(self) -> float:
        """monotonic seconds, for durations"""
        return time.monotonic()

    def wall(self) -> float:
        """seconds since the epoch, comparable with the time stamps of files"""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, done: Callable[[], Awaitable[bool]], seconds: float, every: float = 0.02) -> bool:
        """Polls `done` until it is true. False on timeout."""
        deadline = self.now() + seconds
        while not await done():
            if self.now() >= deadline:
                return False
            await self.sleep(every)
        return True
