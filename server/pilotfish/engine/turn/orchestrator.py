"""A turn, from prompt to outcome.

    user_input ──► assistant ──► tool_execution ──► response ──► assistant … ──► the end

`run` reads top to bottom: record the prompt, run the loop until the model is done, close the open calls, end the turn.
The loop of requests and calls, with its seven phases, is in `loop.py`. A response is streamed to the client
(`response_stream.py`) and recorded when it is complete (`recording.py`). Then its calls run (`calls/tool_runner.py`).

Promises: however a turn ends, every announced call is closed, every message is in the ledger, and the history can be
sent again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import RunCancelled, UsageLimitExceeded
from pydantic_ai.messages import UserContent

from pilotfish.config.settings import Settings
from pilotfish.conversation.messages import CallStatus, as_news
from pilotfish.conversation.model_history import closing_of
from pilotfish.conversation.records import Failure, KilledProcess, Receipt, StopReason, TurnEndRecord, TurnStartRecord
from pilotfish.engine.frontend import Outcome
from pilotfish.engine.model.failures.errors import ToolsRefused
from pilotfish.engine.model.failures.retry import Retries
from pilotfish.engine.model.resolve import failure
from pilotfish.engine.prompting.prompt import PreparedPrompt, plain_text
from pilotfish.engine.turn.calls.tool_runner import STOPPED, ToolRunner
from pilotfish.engine.turn.context import TurnContext
from pilotfish.engine.turn.loop import ContextFull, Loop
from pilotfish.engine.turn.recovery import NOT_STARTED, STARTED
from pilotfish.engine.turn.services import Ports
from pilotfish.engine.turn.subagents import Subagents
from pilotfish.errors import TurnError
from pilotfish.telemetry.logs import request_id
from pilotfish.text.display_safe import one_line
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

log = logging.getLogger(__name__)


class RequestOrchestrator:
    """One turn."""

    def __init__(
        self,
        *,
        ports: Ports,
        turn_id: str,
        settings: Settings,
        workspace: Workspace,
        model: Callable[[], Model],
        blocks: Sequence[Mapping[str, Any]],
        prompt_id: str | None,
        prepared: PreparedPrompt,
        resumed: bool = False,
    ) -> None:
        self._turn = turn = TurnContext(
            ports=ports, turn_id=turn_id, settings=settings, workspace=workspace, model=model
        )
        self.turn_id = turn_id
        self.stream = turn.stream
        self.recording = turn.recording
        self._ports = ports
        self._registry = turn.registry
        self._workspace = workspace
        self._meter = turn.meter
        self._stop = turn.stop
        self._request = turn.request
        self._calls = ToolRunner(turn, Subagents(turn))
        self.ended = False
        """whether its end is recorded: nothing of the turn follows it"""
        self.loop = Loop(turn, self._calls, resumed=resumed)
        self._resumed = resumed
        self._clock = ports.clock
        self._blocks = tuple(blocks)
        self._prompt_id = prompt_id
        self._prepared = prepared
        self._jobs_before = workspace.processes.jobs
        workspace.processes.take_killed()  # processes of earlier turns do not belong in this turn's receipt

    # -- the turn, top to bottom -------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Run the turn to its end. Errors inside the turn are part of the outcome and are not raised."""
        request_id.set(self._request.request_id)
        began = self._clock()
        if self._resumed:
            self._resume()
        else:
            self._start()
            await self._ports.prompt_emitted(self.turn_id)
        stop: StopReason = "failed"
        error: Failure | None = None
        try:
            if not self._resumed:
                await self._stop.run(self._start_hooks())
            stop = "cancelled" if self._stop.asked else await self._run_loop()
        except UsageLimitExceeded:  # raised by a summary; the loop handles its own
            stop = "budget"
        except RunCancelled:
            stop = "cancelled"
        except TurnError as problem:
            error = Failure.of(problem)
        except Exception:
            log.exception("turn %s failed", self._request.request_id)
            error = Failure(
                message="An internal error occurred in Pilotfish.",
                remedy="Try again. If the error occurs again, report it and attach the log.",
                retryable=True,
            )
        if self._stop.asked:
            stop, error = "cancelled", None
        outcome = await self._end(stop, error)
        self._request.metrics |= {
            "seconds": round(self._clock() - began, 3),
            "iterations": self.loop.iteration,
            "calls": len(self.stream.own_calls),
            "input_tokens": outcome.usage.input_tokens,
            "output_tokens": outcome.usage.output_tokens,
        }
        log.info("turn ended: %s", stop, extra={"metrics": self._request.metrics})
        return outcome

    def _start(self) -> None:
        self._ports.emit(
            TurnStartRecord(
                turn_id=self.turn_id,
                prompt=self._blocks,
                prompt_id=self._prompt_id,
                outside=tuple(self._prepared.outside),
                timestamp=self._clock(),
            )
        )
        self.loop.begin()
        self.recording.record_prompt(self._prepared, self._blocks)

    async def _start_hooks(self) -> None:
        """Run the hooks of a prompt. Raises `TurnError` if one blocks it."""
        fields = {"prompt": plain_text(self._blocks)}
        hooks = await self._ports.run_hooks("UserPromptSubmit", "", fields)
        if hooks.block is not None:
            remedy = "Change the prompt, or the hook in hooks.json."
            raise TurnError(f"A hook blocked the prompt: {hooks.block}", remedy=remedy, kind="configuration")
        if hooks.text:
            self._turn.steering.steer([as_news(f"A hook says: {hooks.text}")], lambda: None)

    def _resume(self) -> None:
        """Continue after a crash. Started calls do not run again; calls that awaited approval await it again."""
        for call in self._registry.open_calls():
            self.stream.own_calls[call.id] = None
            if call.status is CallStatus.IN_PROGRESS:
                self._registry.move(call.id, CallStatus.CANCELLED, error=STARTED)
            elif call.parent_id is not None:
                self._registry.move(call.id, CallStatus.CANCELLED, error=NOT_STARTED)
        self._turn.note_outside_texts()
        self.loop.begin_at_open_calls()

    async def _run_loop(self) -> StopReason:
        """Run the loop until the model is done. After a retryable error, run it again from the recorded history."""
        retries = Retries(random.random)
        overflowed = -1
        while True:
            try:
                return await self.loop.run()
            except ContextFull:
                self.loop.full_at = self.loop.answers
                await self._compact_early()
            except TurnError as problem:
                if self._stop.asked:
                    return "cancelled"
                if problem.kind == "context" and overflowed != self.loop.answers:
                    overflowed = self.loop.full_at = self.loop.answers
                    self._ports.window.refused(self.recording.size.tokens)
                    has_calls = any(message.calls for message in self._ports.history)
                    if await self._compact() or has_calls:  # results are cut to fit the window that is known now
                        continue
                if isinstance(problem, ToolsRefused) and self._ports.use_text_calls():
                    message = "This model cannot call tools. It now writes its calls as text, which works less well."
                    self.recording.notice("warning", message, "Switch to a model that can call tools, if you can.")
                    continue
                if problem.kind == "bad_request" and self.recording.use_plain_ids():
                    self._registry.close_open("the provider rejected the request")
                    continue
                wait = retries.wait_after(problem, self.loop.answers)
                if wait is None:
                    raise
                message = f"{problem} Retrying in {wait:.0f} s."
                self.recording.notice(
                    "warning", message, problem.remedy, cause=problem.kind, retry_after=round(wait, 1)
                )
                self._registry.close_open("the provider's response ended early")
                if not await self._stop.pause(wait):
                    return "cancelled"

    async def _compact_early(self) -> None:
        """Summarise before the context window overflows: some servers drop the start silently instead of refusing. If
        that fails, the request is sent as it is."""
        try:
            await self._compact()
        except Exception as problem:
            log.warning("turn %s: the summary failed: %s", self._request.request_id, failure(problem))

    async def _compact(self) -> bool:
        """Summarise the older messages. Returns False if there is nothing to summarise."""
        return await self._ports.compact(self.turn_id, self._meter, self._stop.token)

    async def _end(self, stop: StopReason, error: Failure | None) -> Outcome:
        await self.recording.record_partial_messages()
        self._registry.close_open(STOPPED if stop == "cancelled" else "the turn ended")
        # The model is told what a restarted process would tell it.
        calls = [self._registry.get(call_id) for call_id in self.stream.own_calls]
        self.recording.close_calls({call.id: closing_of(call, self.turn_id) for call in calls})
        for change in self._workspace.take_unclaimed():
            await self.recording.record_change("", change)
        receipt = await self._receipt() if stop == "cancelled" else None
        self.loop.end()
        usage = self._meter.total
        self.ended = self.stream.ended = True
        self._ports.emit(
            TurnEndRecord(
                turn_id=self.turn_id,
                stop_reason=stop,
                usage=usage,
                timestamp=self._clock(),
                error=error,
                receipt=receipt,
            )
        )
        await self._ports.wait_durable()
        return Outcome(turn_id=self.turn_id, stop_reason=stop, usage=usage, error=error, receipt=receipt)

    async def _receipt(self) -> Receipt:
        """What the cancellation stopped: calls, processes, and the files changed until then."""
        killed = await self._kill_processes()
        started = self._stop.at if self._stop.at is not None else self._clock()
        cancelled = [
            call_id for call_id in self.stream.own_calls if self._registry.get(call_id).status is CallStatus.CANCELLED
        ]
        return Receipt(
            turn_id=self.turn_id,
            took_ms=round((self._clock() - started) * 1000),
            cancelled_calls=tuple(cancelled),
            killed_processes=killed,
            changed_files=tuple(self.recording.changed_files),
        )

    async def _kill_processes(self) -> tuple[KilledProcess, ...]:
        """Kill the commands of this turn. Background commands (a dev server) keep running; a notice lists them."""
        processes = self._workspace.processes
        killed = await processes.kill_running(spare=self._jobs_before)
        if alive := processes.alive:
            names = ", ".join(f"{job.id} ({one_line(job.command)})" for job in alive)
            message = f"Still running in the background: {names}."
            self.recording.notice("info", message, f"Ask to “Stop {alive[0].id}” to end it.")
        return killed

    # -- control from outside -----------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop and has not recorded its end."""
        return self._stop.asked and not self.ended

    def cancel(self) -> None:
        """Stop the turn: the model's stream, its calls, its questions."""
        self._stop.ask()

    def skip_backoff(self) -> None:
        """If the turn waits before a retry, retry now."""
        self._stop.skip_backoff()

    def steer(self, content: Sequence[UserContent], recorded: Callable[[], None]) -> Callable[[], bool]:
        """Send content to the model with the next request. `recorded` is called right before its message is recorded.
        Returns a function that withdraws the content; it returns False when the content was already sent."""
        return self._turn.steering.steer(content, recorded)

    async def stop_call(self, call_id: str) -> bool:
        """Stop one call and wait for its end; the turn continues. Returns False if the call is not running."""
        return await self._calls.stop(call_id)
