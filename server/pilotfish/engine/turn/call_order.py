"""Orders the calls of a turn that change files.

Reads are not ordered. Writes to one file run in the order of the calls. A command may touch any file, so it waits for
every earlier write and command, and every later one waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Ticket:
    """The place of one call in the order."""

    paths: frozenset[str] | None
    """the files that it writes; None for a command, which may write any file"""
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Order:
    def __init__(self) -> None:
        self._queue: list[Ticket] = []

    def enter(self, paths: frozenset[str] | None) -> Ticket:
        """Add a call. Must be called in the order of the calls."""
        ticket = Ticket(paths)
        self._queue.append(ticket)
        return ticket

    @asynccontextmanager
    async def turn(self, ticket: Ticket) -> AsyncGenerator[None]:
        """Wait for the earlier calls that may touch the same files."""
        try:
            for earlier in self._queue[: self._queue.index(ticket)]:
                if earlier.paths is None or ticket.paths is None or earlier.paths & ticket.paths:
                    await earlier.done.wait()
            yield
        finally:
            self.leave(ticket)

    def leave(self, ticket: Ticket) -> None:
        ticket.done.set()
        if ticket in self._queue:
            self._queue.remove(ticket)
