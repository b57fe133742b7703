"""The loop of a turn: send a request to the model, run the calls of its response, repeat until the model is done.

pydantic-ai runs the loop: `Loop.run` iterates over the nodes of `agent.iter`. Each request goes through the seven
phases of a turn, in this order. `agent.Hooks` calls the two methods that implement them:

    before_request    1 enter the assistant state    2 record the tool results, choose the messages to send
    (the library sends the request; `ResponseStream` shows the response while it arrives)
    after_response    3 record the response  4 count usage  5 run its calls  6 reject an empty response
                      7 enter the response state

Hides: the library's run and its exceptions, the state machine, and unusual responses: incomplete ones, refusals in a
separate field, calls written as text.
Promises: every message is in the ledger before it is sent; a response is recorded before its calls run; however a run
ends, its messages are recorded and its usage is counted; an error that the user can act on is a `TurnError`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent, capture_run_messages
from pydantic_ai.exceptions import ModelRetry, RunCancelled, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import (
    FunctionToolResultEvent,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
)

from pilotfish.conversation.records import AgentState, StateRecord, StopReason
from pilotfish.conversation.text_calls import find_calls
from pilotfish.engine.model.resolve import broke_off, failure
from pilotfish.engine.turn.agent import AgentDeps, main_agent
from pilotfish.engine.turn.context import TurnContext
from pilotfish.engine.turn.tool_runner import ToolRunner
from pilotfish.errors import TurnError
from pilotfish.tools import BY_NAME
from pilotfish.tools.tool import Tool

log = logging.getLogger(__name__)


class Loop:
    """The loop of one turn. After a retryable error, call `run` again."""

    def __init__(self, turn: TurnContext, calls: ToolRunner, instructions: Callable[[], str], *, resumed: bool) -> None:
        self.iteration = 0
        """number of requests of the turn itself, without those of subagents"""
        self.answers = 0
        """number of responses to them"""
        self._turn = turn
        self._calls = calls
        self._deps = AgentDeps(self, calls, instructions)
        self._resumed = resumed
        self._state = ResponseState(self._state_changed)
        self._last: ModelResponse | None = None
        self._broken = 0

    def begin(self) -> None:
        """Record the initial state, for a new prompt."""
        self._state_changed(self._state.current)

    def begin_at_open_calls(self) -> None:
        """Start in `tool_execution`: a crash interrupted the turn while calls of the last response were open."""
        self._state = ResponseState(self._state_changed, "tool_execution")

    async def run(self) -> StopReason:
        """Run the model until it is done, cancelled, or over a limit. Raises `TurnError` if it fails."""
        turn, recording = self._turn, self._turn.recording
        model = turn.model()
        history = recording.begin_run(model.system, resumed=self._resumed and not self.iteration)
        with capture_run_messages() as run_messages:
            try:
                async with main_agent().iter(
                    message_history=history,
                    model=model,
                    deps=self._deps,
                    usage=turn.meter.run,
                    usage_limits=turn.meter.limits,
                    cancellation_token=turn.stop.token,
                    toolsets=turn.ports.toolsets(),
                ) as run:
                    async for node in run:
                        if Agent.is_model_request_node(node):
                            turn.steering.give(run)
                            async with node.stream(run.ctx) as events:  # phases 1 to 7
                                async for event in events:
                                    turn.stream.show(event)
                                    await turn.ports.backpressure()
                        elif Agent.is_call_tools_node(node):
                            if not node.model_response.tool_calls:
                                turn.steering.give(run)  # the run continues with the new content instead of ending
                            async with node.stream(run.ctx) as results:  # the calls of phase 5
                                async for result in results:
                                    if isinstance(result, FunctionToolResultEvent):
                                        self._calls.answered(result.part.tool_call_id, str(result.part.content))
            except RunCancelled as cancelled:
                recording.record_new(cancelled.all_messages(), keep_partial=True)
                return "cancelled"
            except asyncio.CancelledError:
                recording.record_new(run_messages, keep_partial=True)
                if not turn.stop.asked:
                    raise
                return "cancelled"
            except _TooManyIterations:
                recording.record_new(run_messages, keep_partial=True)
                return "max_iterations"
            except UsageLimitExceeded:
                recording.record_new(run_messages, keep_partial=True)
                return "budget"
            except TurnError as problem:
                recording.record_new(run_messages, keep_partial=not problem.retryable)
                raise
            except UnexpectedModelBehavior as problem:
                recording.record_new(run_messages, keep_partial=True)
                if self._last is not None and self._last.finish_reason == "content_filter":
                    remedy = "Rephrase the prompt."
                    recording.notice("warning", "The provider refused this request.", remedy, cause="bad_request")
                    return "refusal"
                raise self._misbehaved(problem) from problem
            except Exception as problem:
                final = failure(problem)
                recording.record_new(run_messages, keep_partial=not final.retryable)
                raise final from problem
            finally:
                turn.steering.run_ended()
        recording.record_new(run_messages, keep_partial=True)
        return self._stop_reason()

    # -- the seven phases -----------------------------------------------------------------------------------------

    async def before_request(
        self, run_messages: Sequence[ModelMessage], messages: Sequence[ModelMessage]
    ) -> list[ModelMessage]:
        """Phases 1 and 2. Records the new ones of `run_messages`; returns those of `messages` that are sent."""
        turn = self._turn
        await turn.ports.fairness_gate()
        if self._state.can_transition_to("response"):
            self._state.transition_to("response")
        turn.recording.record_new(run_messages, keep_partial=True)
        if self.iteration >= turn.settings.max_iterations:
            raise _TooManyIterations("the turn has made the maximum number of requests")
        turn.meter.request_begins()
        self.iteration += 1
        self._state.transition_to("assistant")
        sent = turn.recording.begin_response(messages)
        await turn.ports.wait_written()
        await turn.ports.wait_for_client()  # do not produce more updates for a client that does not read
        return sent

    def after_response(self, response: ModelResponse, window: int | None) -> ModelResponse:
        """Phases 3 to 7, for a complete response. Returns the response that the run continues with. Raises `ModelRetry`
        for an empty response."""
        turn = self._turn
        self._check_whole(response)
        original = response
        response = turn.stream.with_own_ids(self._with_recovered_calls(self._with_refusal(response)))
        turn.recording.record_response(response)  # phase 3
        self.answers += 1
        self._last = response
        turn.meter.set_context(response, turn.settings.context_window or window)  # phase 4
        turn.meter.report("turn")
        if calls := [part for part in response.parts if isinstance(part, ToolCallPart)]:
            self._state.transition_to("tool_execution")  # phase 5: the library runs each through `ToolRunner.execute`
            for part in calls:
                turn.stream.written(part)
        elif response.finish_reason not in ("length", "content_filter") and not _has_content(response):
            # phase 6; a truncated or refused response does not count as empty
            original.parts = _without_blanks(original.parts)  # the library sends this object with the retry
            raise ModelRetry("Your last answer was empty. Answer the user, or call a tool.")
        else:
            self._state.transition_to("response")  # phase 7
        parts = _without_blanks(response.parts)
        return response if len(parts) == len(response.parts) else replace(response, parts=parts)

    def end(self) -> None:
        """Enter the final state: no more requests follow."""
        if self._state.can_transition_to("response"):
            self._state.transition_to("response")

    # -- helpers --------------------------------------------------------------------------------------------------

    def _state_changed(self, state: AgentState) -> None:
        self._turn.ports.emit(StateRecord(turn_id=self._turn.turn_id, state=state, iteration=self.iteration))

    def _check_whole(self, response: ModelResponse) -> None:
        """Raise for a stream that ended without a finish reason, once; accept the second one with a warning."""
        if not broke_off(response):
            return
        self._broken += 1
        if self._broken == 1:
            self._turn.recording.record_discarded(response)
            raise TurnError(
                "The provider's response ended early.",
                remedy="Send the prompt again.",
                retryable=True,
                kind="network",
            )
        self._turn.recording.notice("warning", "The provider did not mark its response as complete; it may be cut off.")

    def _with_refusal(self, response: ModelResponse) -> ModelResponse:
        """Some providers put a refusal in a separate field of an empty response. Make it the text of the response."""
        refusal = (response.provider_details or {}).get("refusal")
        if response.parts or not isinstance(refusal, str) or not refusal:
            return response
        self._turn.stream.text_chunk(0, refusal)
        return replace(response, parts=[TextPart(refusal)])

    def _with_recovered_calls(self, response: ModelResponse) -> ModelResponse:
        """Turn calls that the model wrote as text into calls, marked as recovered."""
        if any(isinstance(part, ToolCallPart) for part in response.parts):
            return response
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        found = find_calls(text, {name: _fits(tool) for name, tool in BY_NAME.items()})
        if not found:
            return response
        parts = list(response.parts)
        for call in found:
            parts.append(self._turn.stream.recovered(len(parts), call.name, call.args))
        message = f"{len(found)} tool call(s) that the model wrote as text were recovered."
        self._turn.recording.notice("info", message)
        return replace(response, parts=parts)

    def _stop_reason(self) -> StopReason:
        match self._last.finish_reason if self._last else None:
            case "length":
                self._turn.recording.notice(
                    "warning", "The response was cut off by the token limit.", "Say “continue”."
                )
                return "max_tokens"
            case "content_filter":
                return "refusal"
            case _:
                return "end_turn"

    def _misbehaved(self, problem: UnexpectedModelBehavior) -> TurnError:
        turn = self._turn
        log.warning("turn %s: %s", turn.request.request_id, problem)
        remedy = "Send the prompt again, or switch to another model."
        if not self.answers and turn.settings.base_url is not None:  # most likely an HTML page
            remedy = "Check that baseUrl is the address of an API (it often ends in /v1), or switch to another model."
        return TurnError("The model returned no usable response.", remedy=remedy, kind="empty")


class ResponseState:
    """The state machine of a turn: user_input → assistant → tool_execution → response → assistant …

    An illegal transition is a bug and raises `RuntimeError`.
    """

    MOVES: Mapping[AgentState, frozenset[AgentState]] = {
        "user_input": frozenset({"assistant"}),
        "assistant": frozenset({"tool_execution", "response"}),
        "tool_execution": frozenset({"response"}),
        "response": frozenset({"assistant"}),
    }

    def __init__(self, changed: Callable[[AgentState], None], current: AgentState = "user_input") -> None:
        self.current: AgentState = current
        self._changed = changed

    def can_transition_to(self, state: AgentState) -> bool:
        return state in self.MOVES[self.current]

    def transition_to(self, state: AgentState) -> None:
        if not self.can_transition_to(state):
            raise RuntimeError(f"a turn cannot go from {self.current} to {state}")
        self.current = state
        self._changed(state)


class _TooManyIterations(UsageLimitExceeded):
    """The turn needs more requests than `maxIterations`."""


def _has_content(response: ModelResponse) -> bool:
    return any(not isinstance(part, TextPart) or part.content.strip() for part in response.parts) and any(
        part.part_kind != "thinking" for part in response.parts
    )


def _without_blanks(parts: Sequence[ModelResponsePart]) -> Sequence[ModelResponsePart]:
    """Drop blank text parts: some providers produce them and reject them when they are sent back."""
    return [part for part in parts if not isinstance(part, TextPart) or part.provider_details or part.content.strip()]


def _fits(tool: Tool[Any]) -> Callable[[Mapping[str, Any]], bool]:
    def fits(args: Mapping[str, Any]) -> bool:
        try:
            tool.args.model_validate(dict(args))
        except ValueError:
            return False
        return True

    return fits
