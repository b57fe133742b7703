"""Requests of one session are taken up in the order they came.

A client that sends a prompt and, right behind it, a cancel or a look at the queue means that prompt. Opening a session
and reading a command's file take a moment, so without this the later request would find nothing to stop or to list.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable


class Arrivals:
    """Which prompts are on their way into a session's line."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Event] = {}

    async def before(self, session_id: str | None) -> None:
        """Returns when every prompt that came sooner is in the session's line, or will never be."""
        if session_id is not None and (earlier := self._last.get(session_id)) is not None:
            await earlier.wait()

    @contextlib.asynccontextmanager
    async def prompt(self, session_id: str) -> AsyncGenerator[Callable[[], None]]:
        """A prompt comes in; call what this gives once it is in line. Nothing may be awaited before this."""
        earlier, here = self._last.get(session_id), asyncio.Event()
        self._last[session_id] = here

        def in_line() -> None:
            here.set()
            if self._last.get(session_id) is here:
                del self._last[session_id]

        try:
            if earlier is not None:
                await earlier.wait()
            yield in_line
        finally:
            in_line()
