"""Requests of one session are taken up in the order they came.

A client that sends a prompt and, right behind it, a cancel or a look at the queue means that prompt; and a prompt right
behind another mode, rule or key means to run with it. Opening a session and writing things down take a moment, so
without this the later request would find nothing to stop, or the old mode.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

Table = dict[str | None, asyncio.Event]


class Arrivals:
    """Which prompts and changes are on their way into a session; what changes every session has none."""

    def __init__(self) -> None:
        self._prompts: Table = {}
        self._changes: Table = {}

    async def before(self, session_id: str | None, *, changes: bool = True) -> None:
        """Returns when every prompt that came sooner is in the session's line, or will never be; and, with `changes`,
        when those that came sooner are made."""
        for event in self._earlier(session_id, changes=changes):
            await event.wait()

    def prompt(self, session_id: str) -> contextlib.AbstractAsyncContextManager[Callable[[], None]]:
        """A prompt comes in; call what this gives once it is in line. Nothing may be awaited before this."""
        return self._coming(self._prompts, session_id)

    def change(self, session_id: str | None) -> contextlib.AbstractAsyncContextManager[object]:
        """A change is made, to a session or to all. Nothing may be awaited before this."""
        return self._coming(self._changes, session_id)

    @contextlib.asynccontextmanager
    async def _coming(self, table: Table, session_id: str | None) -> AsyncGenerator[Callable[[], None]]:
        earlier, here = self._earlier(session_id), asyncio.Event()
        table[session_id] = here

        def arrived() -> None:
            here.set()
            if table.get(session_id) is here:
                del table[session_id]

        try:
            for event in earlier:
                await event.wait()
            yield arrived
        finally:
            arrived()

    def _earlier(self, session_id: str | None, *, changes: bool = True) -> list[asyncio.Event]:
        found = [self._prompts.get(session_id)]
        if changes:
            found += [self._changes.get(session_id), self._changes.get(None)]
        return [event for event in found if event is not None]
