"""Orders the calls of a turn: those that change files, and the questions about them.

Reads are not ordered. Writes to one file run in the order of the calls. A command may touch any file, so it waits for
every earlier write and command, and every later one waits for it. The user is asked in the order of the calls.
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
            for earlier in self.before(ticket):
                await earlier.done.wait()
            yield
        finally:
            self.leave(ticket)

    def before(self, ticket: Ticket) -> list[Ticket]:
        """The earlier calls that may touch the same files."""
        return [
            earlier
            for earlier in self._queue[: self._queue.index(ticket)]
            if earlier.paths is None or ticket.paths is None or earlier.paths & ticket.paths
        ]

    def leave(self, ticket: Ticket) -> None:
        ticket.done.set()
        if ticket in self._queue:
            self._queue.remove(ticket)


class QuestionOrder:
    """Lets the calls of a turn ask in their order, however long each takes to find out whether it has to."""

    def __init__(self) -> None:
        self._undecided: dict[str, asyncio.Event] = {}

    def enter(self, call_id: str) -> None:
        """Add a call. Must be called in the order of the calls."""
        self._undecided[call_id] = asyncio.Event()

    async def turn(self, call_id: str) -> None:
        """Wait until every earlier call has asked, or will not ask. Then this one has to ask before it waits."""
        if call_id not in self._undecided:
            return
        for earlier, decided in tuple(self._undecided.items()):
            if earlier == call_id:
                break
            await decided.wait()
        self.leave(call_id)

    def leave(self, call_id: str) -> None:
        """The call has asked, or will not."""
        if (decided := self._undecided.pop(call_id, None)) is not None:
            decided.set()
