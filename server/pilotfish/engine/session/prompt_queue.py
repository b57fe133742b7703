"""The line of prompts of one session: whose turn it is, and what waits.

Hides: the task that runs one turn after the other, that a prompt may be about to begin. Promises: one turn at a time,
in the order of the line; every prompt is answered exactly once; what waits when a turn is stopped waits for the user.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pilotfish.conversation.records import Usage
from pilotfish.engine.frontend import Outcome
from pilotfish.errors import PilotfishError

log = logging.getLogger(__name__)

WhenBusy = Literal["reject", "queue", "steer"]

WITHDRAWN = Outcome(turn_id="", stop_reason="cancelled", usage=Usage())


@dataclass(eq=False, slots=True)
class WaitingPrompt:
    """A prompt, and the answer it will get."""

    prompt_id: str
    blocks: tuple[Mapping[str, Any], ...]
    kind: Literal["queue", "steer"]
    answer: asyncio.Future[Outcome]
    take_back: Callable[[], bool] | None = None
    """for words given to a running turn: so that it does not read them any more"""
    resumes: str | None = None
    """not a prompt: the turn that a crash interrupted while its question waited"""


class PromptQueue:
    """`run` is one turn; `ended` comes after its answer, before the next."""

    def __init__(
        self,
        name: str,
        run: Callable[[WaitingPrompt], Awaitable[Outcome]],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        self.waiting: list[WaitingPrompt] = []
        self.current: WaitingPrompt | None = None
        """whose turn it is"""
        self.stopping = False
        """the current turn is to stop, even before it has begun"""
        self._name = name
        self._run = run
        self._ended = ended
        self._driver: asyncio.Task[None] | None = None
        self._taken = asyncio.Event()
        """set while a turn is current, and once the driver is gone"""
        self._read: list[WaitingPrompt] = []
        self._paused = False
        self._closed = False

    @property
    def busy(self) -> bool:
        return self.current is not None or (bool(self.waiting) and not self._paused)

    def submit(self, waiting: WaitingPrompt) -> None:
        """Put a prompt in the line; it runs when its turn comes."""
        self.waiting.append(waiting)
        self.go_on()

    def slip_in(self, waiting: WaitingPrompt) -> None:
        """Put words for the running turn in the line, behind those that wait for it already."""
        steers = sum(1 for other in self.waiting if other.kind == "steer")
        self.waiting.insert(steers, waiting)

    def go_on(self) -> None:
        """Run what waits, also what a stop has left waiting."""
        self.unpause()
        if self._closed:
            self._withdraw_all()
        elif self._driver is None:
            self._taken.clear()
            self._driver = asyncio.get_running_loop().create_task(self._drive(), name=self._name)

    def unpause(self) -> None:
        """What a stop has left waiting need not wait for the user."""
        self._paused = False

    def was_read(self, waiting: WaitingPrompt) -> None:
        """The running turn has taken these words in: its end is their answer."""
        if waiting in self.waiting:
            self.waiting.remove(waiting)
            self._read.append(waiting)

    def withdraw(self, waiting: WaitingPrompt) -> bool:
        """Take a prompt out of the line; it is answered with `cancelled`. False: it is not waiting any more."""
        if waiting not in self.waiting or (waiting.take_back is not None and not waiting.take_back()):
            return False
        self.waiting.remove(waiting)
        _answer(waiting, WITHDRAWN)
        return True

    async def stop(self, cut_short: Callable[[], None]) -> Outcome | None:
        """Stop the current turn and wait for its end, or that of the one that is about to begin. What waits behind it
        stays there. None: there is none, or it came to nothing."""
        while self.current is None and self.waiting and self._driver is not None and not self._paused:
            await self._taken.wait()
        current = self.current
        if current is None:
            return None
        self.stopping = True
        self._paused = bool(self.waiting)
        cut_short()
        try:
            return await asyncio.shield(current.answer)
        except Exception:  # who sent the prompt is told
            return None

    async def aclose(self, cut_short: Callable[[], None]) -> None:
        """Nothing waits and nothing runs any more, nor what comes later."""
        self._closed = True
        self._withdraw_all()
        if self.current is not None:
            await self.stop(cut_short)
        if self._driver is not None:
            await asyncio.wait((self._driver,))
        self._withdraw_all()

    def _withdraw_all(self) -> None:
        for waiting in tuple(self.waiting):
            self.withdraw(waiting)

    async def _drive(self) -> None:
        try:
            while self.waiting and not self._paused and not self._closed:
                await self._one(self.waiting.pop(0))
        finally:
            self._driver = None
            self._taken.set()

    async def _one(self, waiting: WaitingPrompt) -> None:
        self.current = waiting
        self.stopping = False
        self._read.clear()
        self._taken.set()
        try:
            outcome = await self._run(waiting)
        except MemoryError:
            # The ledger is whole, what is in memory may not be: the next server ends the turn from the ledger.
            log.critical("out of memory: the server ends")
            os._exit(1)
        except Exception as error:
            if not isinstance(error, PilotfishError):
                log.exception("a turn could not be run")
            for answered in (waiting, *self._read):
                if not answered.answer.done():
                    answered.answer.set_exception(error)
        else:
            self._over()
            for answered in (waiting, *self._read):
                _answer(answered, outcome)
            await self._ended()
        finally:
            self._over()

    def _over(self) -> None:
        self.current = None
        self._taken.clear()


def _answer(waiting: WaitingPrompt, outcome: Outcome) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(outcome)
