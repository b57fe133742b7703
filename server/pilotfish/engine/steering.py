"""Words that reach the model while its turn runs.

Promises: they are given at the next step, once; who gave them hears when they were read; until then they can be taken
back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import UserContent


class Steering:
    def __init__(self) -> None:
        self._context: RunContext[Any] | None = None
        self._waiting: list[tuple[Sequence[UserContent], Callable[[], None]]] = []
        self._undelivered: dict[str, Callable[[], None]] = {}

    def steer(self, content: Sequence[UserContent], was_read: Callable[[], None]) -> Callable[[], None]:
        """Take words up. `was_read` is called when the model has them. Gives what takes them back."""
        words = (content, was_read)
        self._waiting.append(words)
        if self._context is not None:
            self.give(self._context)

        def take_back() -> None:
            if words in self._waiting:
                self._waiting.remove(words)
            pending = self._context.pending_messages if self._context is not None else None
            for message in list(pending or ()):
                if self._undelivered.get(message.enqueue_id) is was_read and pending is not None:
                    pending.remove(message)
                    del self._undelivered[message.enqueue_id]

        return take_back

    def give(self, context: RunContext[Any]) -> None:
        """Hand what waits, and from now on what comes, to this run."""
        self._context = context
        for content, was_read in self._waiting:
            if enqueue_id := context.enqueue(*content):
                self._undelivered[enqueue_id] = was_read
        self._waiting.clear()

    def pause(self) -> None:
        """The run is over: what comes now waits for the next one."""
        self._context = None

    def delivered(self, enqueue_id: str) -> None:
        """Words have reached the model."""
        if was_read := self._undelivered.pop(enqueue_id, None):
            was_read()
