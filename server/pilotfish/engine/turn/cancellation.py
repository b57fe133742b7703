"""The stop of a turn: asked for once, it ends whatever the turn waits for.

Hides: the library's cancellation token, and the wait before a retry.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from pydantic_ai import CancellationToken


class Cancellation:
    """Of one turn, or of a summary between two turns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.at: float | None = None
        """when it was asked for"""
        self.token = CancellationToken()
        """cancels the runs of the library"""
        self._clock = clock
        self._no_more_waiting = asyncio.Event()

    @property
    def asked(self) -> bool:
        return self.at is not None

    def ask(self) -> None:
        """Stop: the model's stream, its calls, its questions."""
        if self.at is None:
            self.at = self._clock()
            self.token.cancel()
            self._no_more_waiting.set()

    def skip_backoff(self) -> None:
        """Do not stop; if the next try is being waited for, it begins now."""
        self._no_more_waiting.set()

    async def pause(self, seconds: float) -> bool:
        """Wait, or until someone is in a hurry. Returns False if the turn was stopped meanwhile."""
        if not self.asked:
            self._no_more_waiting.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._no_more_waiting.wait(), seconds)
        return not self.asked
