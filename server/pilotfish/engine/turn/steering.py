"""Steering: content that the user sends to the model while a turn runs.

Promises: content goes to the model once, with the next request, in the order of sending; a callback reports when it is
recorded; until then it can be withdrawn; content that a run received and did not send goes to the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai import AgentRun
from pydantic_ai.messages import UserContent


@dataclass(frozen=True, slots=True, eq=False)
class _Steer:
    content: Sequence[UserContent]
    recorded: Callable[[], None]


class Steering:
    """The steering content of one turn."""

    def __init__(self) -> None:
        self._waiting: list[_Steer] = []
        self._given: list[_Steer] = []

    def steer(self, content: Sequence[UserContent], recorded: Callable[[], None]) -> Callable[[], bool]:
        """Send content with the next request. `recorded` is called right before its message is recorded. Returns a
        function that withdraws the content; it returns False when a run already has it."""
        steer = _Steer(content, recorded)
        self._waiting.append(steer)

        def withdraw() -> bool:
            if steer not in self._waiting:
                return False
            self._waiting.remove(steer)
            return True

        return withdraw

    def give(self, run: AgentRun[Any, Any]) -> None:
        """Add the waiting content to the next request of the run."""
        while self._waiting:
            steer = self._waiting.pop(0)
            run.enqueue(*steer.content)
            self._given.append(steer)

    def run_ended(self) -> None:
        """Keep content that the run did not send, for the next run."""
        self._waiting[:0] = self._given
        self._given.clear()

    def recording(self, count: int) -> None:
        """Report the first `count` steers as recorded."""
        for steer in self._given[:count]:
            self._given.remove(steer)
            steer.recorded()
