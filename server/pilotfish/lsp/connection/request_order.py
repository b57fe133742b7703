"""The requests of one session are served in the order they arrived.

pygls starts handlers in the order of their requests, but opening a session and writing records take a moment. Without
this, a cancel sent right after a prompt would find nothing to stop, and a prompt sent right after a change of mode
would run in the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

Table = dict[str | None, asyncio.Event]


class RequestOrder:
    """The prompts and changes that are on their way into a session. A change without a session changes all of them."""

    def __init__(self) -> None:
        self._prompts: Table = {}
        self._changes: Table = {}

    async def before(self, session_id: str | None, *, changes: bool = True) -> None:
        """Returns when every earlier prompt is in the session's queue or has failed; with `changes`, when every
        earlier change is made, too."""
        for event in self._earlier(session_id, changes=changes):
            await event.wait()

    def prompt(self, session_id: str) -> contextlib.AbstractAsyncContextManager[Callable[[], None]]:
        """A prompt arrives; call the returned function once it is in the queue. Await nothing before this."""
        return self._arriving(self._prompts, session_id)

    def change(self, session_id: str | None) -> contextlib.AbstractAsyncContextManager[object]:
        """A change arrives, to one session or to all. Await nothing before this."""
        return self._arriving(self._changes, session_id)

    @contextlib.asynccontextmanager
    async def _arriving(self, table: Table, session_id: str | None) -> AsyncGenerator[Callable[[], None]]:
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
