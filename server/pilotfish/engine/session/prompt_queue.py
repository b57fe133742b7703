"""The prompt queue of one session: the running prompt and the waiting ones.

Hides: the task that runs one turn after the other. Promises: one turn at a time, in the order of the queue; every
prompt is answered exactly once; after a stop, waiting prompts do not run until the user continues.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pilotfish.conversation.records import Usage
from pilotfish.engine.frontend import Outcome
from pilotfish.errors import PilotfishError

log = logging.getLogger(__name__)

WhenBusy = Literal["reject", "queue", "steer"]

WITHDRAWN = Outcome(turn_id="", stop_reason="cancelled", usage=Usage())


@dataclass(eq=False, slots=True)
class WaitingPrompt:
    """A prompt and the future of its outcome."""

    prompt_id: str
    blocks: tuple[Mapping[str, Any], ...]
    kind: Literal["queue", "steer"]
    answer: asyncio.Future[Outcome]
    when_busy: WhenBusy = "queue"
    """what to do if another process runs a turn"""
    take_back: Callable[[], bool] | None = None
    """for a steer: withdraws it from the running turn; returns False if that is too late"""
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what the user looks at (`ContextBlock` of the wire)"""
    resumes: str | None = None
    """the id of the interrupted turn, if this resumes a turn instead of starting one"""


class PromptQueue:
    """`run` runs one turn; `ended` is called after its answer, before the next turn."""

    def __init__(
        self,
        name: str,
        run: Callable[[WaitingPrompt], Awaitable[Outcome]],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        self.waiting: list[WaitingPrompt] = []
        self.current: WaitingPrompt | None = None
        """the prompt of the running turn"""
        self.stopping = False
        """the current turn must stop, also if it has not begun yet"""
        self._name = name
        self._run = run
        self._ended = ended
        self._driver: asyncio.Task[None] | None = None
        self._current_changed = asyncio.Event()
        """set while a turn is current, and when the driver has ended"""
        self._read: list[WaitingPrompt] = []
        self._paused = False
        self._closed = False

    @property
    def busy(self) -> bool:
        return self.current is not None or (bool(self.waiting) and not self._paused)

    def submit(self, waiting: WaitingPrompt) -> None:
        """Add a prompt to the end of the queue."""
        self.waiting.append(waiting)
        self.go_on()

    def submit_steer(self, waiting: WaitingPrompt) -> None:
        """Add a steer for the running turn: before the queued prompts, after earlier steers."""
        steers = sum(1 for other in self.waiting if other.kind == "steer")
        self.waiting.insert(steers, waiting)

    def go_on(self) -> None:
        """Run the waiting prompts, also those that a stop has paused."""
        self.unpause()
        if self._closed:
            self._withdraw_all()
        elif self._driver is None:
            self._current_changed.clear()
            self._driver = asyncio.get_running_loop().create_task(self._drive(), name=self._name)

    def unpause(self) -> None:
        """End the pause that a stop began."""
        self._paused = False

    def was_read(self, waiting: WaitingPrompt) -> None:
        """The running turn has sent this steer: the outcome of the turn is its answer."""
        if waiting in self.waiting:
            self.waiting.remove(waiting)
            self._read.append(waiting)

    def withdraw(self, waiting: WaitingPrompt) -> bool:
        """Remove a waiting prompt; its outcome is `cancelled`. Returns False if it does not wait any more."""
        if waiting not in self.waiting or (waiting.take_back is not None and not waiting.take_back()):
            return False
        self.waiting.remove(waiting)
        _answer(waiting, WITHDRAWN)
        return True

    async def stop(self, cancel_work: Callable[[], None]) -> Outcome | None:
        """Stop the current turn, or the one that is about to begin, and wait for its end. Waiting prompts stay in the
        queue. Returns None if there was no turn, or if it failed to run."""
        while self.current is None and self.waiting and self._driver is not None and not self._paused:
            await self._current_changed.wait()
        current = self.current
        if current is None:
            return None
        self.stopping = True
        self._paused = bool(self.waiting)
        cancel_work()
        try:
            return await asyncio.shield(current.answer)
        except Exception:  # the sender of the prompt receives the error
            return None

    async def idle(self) -> None:
        """Return when no turn runs and no prompt waits for one."""
        while self._driver is not None:
            await asyncio.wait((self._driver,))

    async def aclose(self, cancel_work: Callable[[], None]) -> None:
        """Stop the turn and withdraw all prompts, also those that arrive later."""
        self._closed = True
        self._withdraw_all()
        if self.current is not None:
            await self.stop(cancel_work)
        if self._driver is not None:
            await asyncio.wait((self._driver,))
        self._withdraw_all()

    def _withdraw_all(self) -> None:
        for waiting in tuple(self.waiting):
            self.withdraw(waiting)

    async def _drive(self) -> None:
        try:
            while self.waiting and not self._paused and not self._closed:
                await self._run_one(self.waiting.pop(0))
        finally:
            self._driver = None
            self._current_changed.set()

    async def _run_one(self, waiting: WaitingPrompt) -> None:
        self.current = waiting
        self.stopping = False
        self._read.clear()
        self._current_changed.set()
        try:
            outcome = await self._run(waiting)
        except MemoryError:
            # The state in memory may be inconsistent. The next server closes the turn from the ledger.
            log.critical("out of memory: the server exits")
            os._exit(1)
        except Exception as error:
            if not isinstance(error, PilotfishError):
                log.exception("a turn could not be run")
            for answered in (waiting, *self._read):
                if not answered.answer.done():
                    answered.answer.set_exception(error)
        else:
            self._clear_current()
            for answered in (waiting, *self._read):
                _answer(answered, outcome)
            await self._ended()
        finally:
            self._clear_current()

    def _clear_current(self) -> None:
        self.current = None
        self._current_changed.clear()


def _answer(waiting: WaitingPrompt, outcome: Outcome) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(outcome)
