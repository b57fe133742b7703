"""The stop of a turn: asked for once, felt by whatever the turn waits for.

Hides: the library's cancellation token, our own loop's task, the wait before a retry. Promises: what runs under `run`
is over when it returns; nobody waits longer than until the stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic_ai import CancellationToken


class Stop:
    """Of one turn."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.at: float | None = None
        """when it was asked for"""
        self.token = CancellationToken()
        """what the library looks at"""
        self._clock = clock
        self._running: asyncio.Task[None] | None = None
        self._no_more_waiting = asyncio.Event()

    @property
    def asked(self) -> bool:
        return self.at is not None

    def ask(self) -> None:
        """Stop the turn: the model's stream, its calls, its questions."""
        if self.at is None:
            self.at = self._clock()
            self.token.cancel()
            self._no_more_waiting.set()
            if self._running is not None:
                self._running.cancel()

    def hurry(self) -> None:
        """No stop: the next try is now, if it is being waited for."""
        self._no_more_waiting.set()

    async def run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run to the end, or until the stop: then this is cancelled once the work is over."""
        self._running = running = asyncio.get_running_loop().create_task(work, name=name)
        if self.asked:
            running.cancel()
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait((running,))
            raise
        finally:
            self._running = None
        running.result()

    async def pause(self, seconds: float) -> bool:
        """Wait, or until someone is in a hurry; False when the turn was stopped meanwhile."""
        if not self.asked:
            self._no_more_waiting.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._no_more_waiting.wait(), seconds)
        return not self.asked
