"""Who goes first among calls that change things.

Reads pass freely. Writes to one file go in the order the model made them. A command may touch anything, so it
waits for every change before it, and every change after it waits for the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Ticket:
    """A call's place in the line."""

    paths: frozenset[str] | None
    """what it writes; None: anything"""
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Order:
    def __init__(self) -> None:
        self._line: list[Ticket] = []

    def enter(self, paths: frozenset[str] | None) -> Ticket:
        """Take a place; must be called in the order of the calls."""
        ticket = Ticket(paths)
        self._line.append(ticket)
        return ticket

    @asynccontextmanager
    async def turn(self, ticket: Ticket) -> AsyncGenerator[None]:
        """Wait for those before that could touch the same things."""
        try:
            for earlier in self._line[: self._line.index(ticket)]:
                if earlier.paths is None or ticket.paths is None or earlier.paths & ticket.paths:
                    await earlier.done.wait()
            yield
        finally:
            self.leave(ticket)

    def leave(self, ticket: Ticket) -> None:
        ticket.done.set()
        if ticket in self._line:
            self._line.remove(ticket)
