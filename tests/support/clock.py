"""A clock whose time passes only when somebody sleeps on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pilotfish.workspace.clock import Clock


class FakeClock(Clock):
    def __init__(self) -> None:
        self.passed = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.passed

    def wall(self) -> float:
        return time.time() + self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds
        for moment, happen in [entry for entry in self._due if entry[0] <= self.passed]:
            self._due.remove((moment, happen))
            happen()
        await asyncio.sleep(0)

    def later(self, seconds: float, happen: Callable[[], None]) -> None:
        """Something happens when this much time has been slept away."""
        self._due.append((self.passed + seconds, happen))
