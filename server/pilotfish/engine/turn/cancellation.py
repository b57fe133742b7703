"""Cancels a turn: ends its requests, its calls and its wait before a retry.

Hides: the library's cancellation token.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pydantic_ai import CancellationToken

T = TypeVar("T")


class Cancellation:
    """The cancellation of one turn, or of a summary between two turns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.at: float | None = None
        """when it was requested; None if it was not"""
        self.token = CancellationToken()
        """cancels the runs of the library"""
        self._clock = clock
        self._end_pause = asyncio.Event()
        self._was_asked = asyncio.Event()

    @property
    def asked(self) -> bool:
        return self.at is not None

    def ask(self) -> None:
        """Request the cancellation. Idempotent."""
        if self.at is None:
            self.at = self._clock()
            self.token.cancel()
            self._end_pause.set()
            self._was_asked.set()

    def skip_backoff(self) -> None:
        """End a running `pause` without a cancellation."""
        self._end_pause.set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`. A cancellation cancels it and waits for its end; the result is None then."""
        task, asked = asyncio.ensure_future(work), asyncio.ensure_future(self._was_asked.wait())
        try:
            await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            asked.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))

    async def pause(self, seconds: float) -> bool:
        """Wait, at most until `skip_backoff` or a cancellation. Returns False if the turn was cancelled."""
        if not self.asked:
            self._end_pause.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._end_pause.wait(), seconds)
        return not self.asked
