"""Words that reach the model while its turn runs.

Promises: they are given at the next step, once; who gave them hears when they were read and when they are recorded;
until then they can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import UserContent

_Words = tuple[Sequence[UserContent], Callable[[], None], Callable[[], None]]


class Steering:
    def __init__(self) -> None:
        self._context: RunContext[Any] | None = None
        self._waiting: list[_Words] = []
        self._undelivered: dict[str, Callable[[], None]] = {}
        self._unrecorded: dict[str, Callable[[], None]] = {}
        """in the order they were given, which is that of their messages"""

    def steer(
        self, content: Sequence[UserContent], was_read: Callable[[], None], tell: Callable[[], None]
    ) -> Callable[[], None]:
        """Take words up. `was_read` is called when the model has them, `tell` when they are about to be recorded. Gives
        what takes them back."""
        words = (content, was_read, tell)
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
                    self._unrecorded.pop(message.enqueue_id, None)

        return take_back

    def give(self, context: RunContext[Any]) -> None:
        """Hand what waits, and from now on what comes, to this run. When it is over already, that waits on."""
        self._context = context
        while self._waiting:
            content, was_read, tell = self._waiting[0]
            try:
                enqueue_id = context.enqueue(*content)
            except UserError:  # the run has ended, though nobody has been told yet
                return
            del self._waiting[0]
            if enqueue_id:
                self._undelivered[enqueue_id] = was_read
                self._unrecorded[enqueue_id] = tell

    def pause(self) -> None:
        """The run is over: what comes now waits for the next one, and what it did not read was never said."""
        self._context = None
        for enqueue_id in self._undelivered:
            self._unrecorded.pop(enqueue_id, None)

    def delivered(self, enqueue_id: str) -> None:
        """Words have reached the model."""
        if was_read := self._undelivered.pop(enqueue_id, None):
            was_read()

    def recorded(self, count: int) -> None:
        """So many of the user's messages are about to be recorded: those that were given first."""
        for enqueue_id in list(self._unrecorded)[:count]:
            self._unrecorded.pop(enqueue_id)()
