"""Acts on the turn of a session, wherever it runs: here, or in another process.

Promises: what another process did not do because it has ended is done here; a prompt runs once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pilotfish.conversation.records import Receipt
from pilotfish.engine.context import EngineContext
from pilotfish.engine.frontend import Outcome
from pilotfish.engine.questions.question_json import from_json
from pilotfish.engine.session.prompt_queue import PromptQueue, WaitingPrompt, WhenBusy
from pilotfish.engine.session.session_history import SessionHistory
from pilotfish.errors import UnknownCall
from pilotfish.store.catalog import SessionRow
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pilotfish.engine.turn.orchestrator import RequestOrchestrator


class OtherProcesses(Protocol):
    """The way to the process that runs a turn. `shared.SharedSession` implements it."""

    async def request(
        self, kind: str, body: Mapping[str, Any], sent: Callable[[], None] = ...
    ) -> Mapping[str, Any] | None: ...
    async def next_look(self) -> None: ...


class ControlledSession(Protocol):
    """The session whose turn is controlled. `session.LiveSession` implements it."""

    row: SessionRow
    turn: RequestOrchestrator | None
    line: PromptQueue
    conversation: SessionHistory
    workspace: Workspace
    holds_lease: bool

    @property
    def engine(self) -> EngineContext: ...
    @property
    def shared(self) -> OtherProcesses: ...
    @property
    def control(self) -> TurnControl: ...
    @property
    def running_turn(self) -> str | None: ...
    @property
    def turn_id(self) -> str | None: ...

    async def open(self) -> None: ...
    async def catch_up(self) -> bool: ...
    async def resume(self) -> None: ...
    async def stop(self) -> Outcome | None: ...
    async def prompt(
        self,
        blocks: Sequence[Mapping[str, Any]],
        prompt_id: str | None,
        when_busy: WhenBusy,
        queued: Callable[[], None],
        context: Mapping[str, Any],
    ) -> Outcome: ...


class TurnControl:
    """What a user does to the running turn and to the prompts that wait."""

    def __init__(self, session: ControlledSession) -> None:
        self._session = session
        self._sent: set[str] = set()
        """prompts that another process has"""
        self._dropping: set[asyncio.Task[object]] = set()

    @property
    def _is_elsewhere(self) -> bool:
        return self._session.conversation.elsewhere is not None

    async def prompt_elsewhere(self, waiting: WaitingPrompt, queued: Callable[[], None]) -> Outcome | None:
        """Give a prompt to the process that runs a turn, and wait for its outcome. Cancelling this withdraws the prompt
        or stops its turn, and still returns. None if the other process has ended without it."""
        session = self._session
        body = {
            "promptId": waiting.prompt_id,
            "blocks": list(waiting.blocks),
            "whenBusy": waiting.when_busy,
            "context": dict(waiting.context),
        }
        self._sent.add(waiting.prompt_id)
        sent = asyncio.ensure_future(session.shared.request("prompt", body, queued))
        try:
            reply = await asyncio.shield(sent)
        except asyncio.CancelledError:
            await self._drop_elsewhere(waiting.prompt_id)
            reply = await sent
        finally:
            self._sent.discard(waiting.prompt_id)
        if reply is not None:
            return from_json(Outcome, reply["outcome"])
        await session.open()
        prompts = session.conversation.prompts
        begun = next((record for record in prompts if record.prompt_id == waiting.prompt_id), None)
        if begun is None:
            return None
        await session.resume()
        while session.running_turn == begun.turn_id:  # here, or in a third process
            await session.shared.next_look()
        return await session.conversation.outcome_of(begun.turn_id)

    async def cancel(self, call_id: str | None = None) -> Receipt:
        """Stop the turn, or one call of it."""
        session = self._session
        if (turn_id := session.conversation.elsewhere) is not None:
            reply = await session.shared.request("cancel", {"turnId": turn_id, "callId": call_id})
            if reply is not None:
                return from_json(Receipt, reply["receipt"])
            await session.open()
        clock = session.engine.clock
        began = clock()
        if call_id is not None:
            turn = session.turn
            if turn is None or not await turn.stop_call(call_id):
                raise UnknownCall(f"No running call has the id {call_id!r}.")
            return Receipt(
                turn_id=turn.turn_id,
                took_ms=round((clock() - began) * 1000),
                cancelled_calls=(call_id,),
                killed_processes=session.workspace.processes.take_killed(),
            )
        outcome = await session.stop()
        if outcome is None or outcome.receipt is None:
            return Receipt(took_ms=round((clock() - began) * 1000))
        return outcome.receipt

    async def retry(self) -> None:
        """If the turn waits before a retry, retry now."""
        if self._is_elsewhere:
            await self._session.shared.request("retry", {})
        elif self._session.turn is not None:
            self._session.turn.skip_backoff()

    async def queue(self) -> Sequence[WaitingPrompt]:
        """The prompts that wait for the turn, and after it those that wait here."""
        reply = await self._session.shared.request("queue", {}) if self._is_elsewhere else None
        loop = asyncio.get_running_loop()
        elsewhere = () if reply is None else reply["prompts"]
        return (
            *(
                WaitingPrompt(one["promptId"], tuple(one["blocks"]), one["kind"], loop.create_future())
                for one in elsewhere
            ),
            *self._session.line.waiting,
        )

    async def withdraw(self, prompt_id: str) -> None:
        """Withdraw a waiting prompt."""
        if self._withdraw_here(prompt_id):
            return
        body = {"promptId": prompt_id}
        if not self._is_elsewhere or await self._session.shared.request("withdraw", body) is None:
            raise UnknownCall(f"No waiting prompt has the id {prompt_id!r}.")

    async def drop(self, prompt_id: str) -> None:
        """Withdraw a prompt, or stop its turn."""
        current = self._session.line.current
        if not self._withdraw_here(prompt_id) and current is not None and current.prompt_id == prompt_id:
            await self._session.stop()

    def drop_sent(self) -> None:
        """Drop the prompts that another process has. Does not wait; their outcomes say when it is done."""
        for prompt_id in self._sent:
            task: asyncio.Task[object] = asyncio.get_running_loop().create_task(self._drop_elsewhere(prompt_id))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)

    async def _drop_elsewhere(self, prompt_id: str) -> None:
        await self._session.shared.request("drop_prompt", {"promptId": prompt_id})

    def _withdraw_here(self, prompt_id: str) -> bool:
        line = self._session.line
        return any(one.prompt_id == prompt_id and line.withdraw(one) for one in tuple(line.waiting))
