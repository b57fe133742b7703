"""Words that the user sends to the model while its turn runs.

Promises: they are given to the model at its next step, once, in their order; whoever sent them hears when they are in
the conversation; until they are given they can be taken back; what a run was given and did not read is given to the
next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai import AgentRun
from pydantic_ai.messages import UserContent


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    content: Sequence[UserContent]
    recorded: Callable[[], None]


class Steering:
    """The words for one turn."""

    def __init__(self) -> None:
        self._waiting: list[_Words] = []
        self._given: list[_Words] = []

    def steer(self, content: Sequence[UserContent], recorded: Callable[[], None]) -> Callable[[], bool]:
        """Give the model these words at its next step; `recorded` is called right before their message is recorded.
        Returns a function that takes them back; it returns False when it is too late."""
        words = _Words(content, recorded)
        self._waiting.append(words)

        def take_back() -> bool:
            if words not in self._waiting:
                return False
            self._waiting.remove(words)
            return True

        return take_back

    def give(self, run: AgentRun[Any, Any]) -> None:
        """A step begins: the run adds the words that wait to its next request."""
        while self._waiting:
            words = self._waiting.pop(0)
            run.enqueue(*words.content)
            self._given.append(words)

    def run_ended(self) -> None:
        """What the run did not read waits for the next one."""
        self._waiting[:0] = self._given
        self._given.clear()

    def recording(self, count: int) -> None:
        """So many of the user's messages are about to be recorded: those that were given first."""
        for words in self._given[:count]:
            self._given.remove(words)
            words.recorded()
