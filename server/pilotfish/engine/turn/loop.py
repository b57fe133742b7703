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

from pilotfish.conversation.answer_text.text_calls import TextCall, find_calls, without_calls
from pilotfish.conversation.records import AgentState, StateRecord, StopReason
from pilotfish.engine.model.request_settings import session_settings
from pilotfish.engine.model.resolve import broke_off, failure
from pilotfish.engine.model.text_tools import writes_calls_as_text
from pilotfish.engine.prompting.named_files import named_files
from pilotfish.engine.turn.agent import AgentDeps, main_agent, tool_tokens
from pilotfish.engine.turn.answered_files import answered_files
from pilotfish.engine.turn.calls.tool_runner import ToolRunner
from pilotfish.engine.turn.checks.claim_check import ClaimCheck
from pilotfish.engine.turn.checks.end_checks import EndChecks
from pilotfish.engine.turn.context import TurnContext
from pilotfish.engine.turn.response_stream import tools_by_args
from pilotfish.errors import TurnError
from pilotfish.policy.taint import user_words
from pilotfish.tools.families import family_of

log = logging.getLogger(__name__)

MAX_SHOWN = 6  # responses of a turn whose code blocks are written: a small model can rewrite a file forever


class Loop:
    """The loop of one turn. After a retryable error, call `run` again."""

    def __init__(self, turn: TurnContext, calls: ToolRunner, *, resumed: bool) -> None:
        self.iteration = 0
        """number of requests of the turn itself, without those of subagents"""
        self.answers = 0
        """number of responses to them"""
        self._turn = turn
        self._calls = calls
        self._deps = AgentDeps(self, calls)
        self._claims = ClaimCheck(turn)
        self._end_checks = EndChecks(turn, calls)
        self._resumed = resumed
        self._state = ResponseState(self._state_changed)
        self._last: ModelResponse | None = None
        self._broken = 0
        self._shown = 0
        """responses that showed files"""
        self.full_at = -1
        """`answers` when the context was full; the next request is then sent as it is"""

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
        instructions = turn.ports.instructions()
        turn.ports.window.fixed = tool_tokens() + len(instructions) // 4
        with capture_run_messages() as run_messages:
            try:
                async with main_agent().iter(
                    message_history=history,
                    model=model,
                    model_settings=session_settings(turn.ports.session_id),
                    instructions=instructions,
                    deps=self._deps,
                    usage=turn.meter.run,
                    usage_limits=turn.meter.limits,
                    cancellation_token=turn.stop.token,
                    toolsets=turn.ports.toolsets(),
                ) as run:
                    async for node in run:
                        if Agent.is_model_request_node(node):
                            if news := turn.ports.news():
                                turn.steering.steer([news], lambda: None)
                            turn.steering.give(run)
                            async with node.stream(run.ctx) as events:  # phases 1 to 7
                                async for event in events:
                                    turn.stream.show(event)
                                    await turn.ports.backpressure()
                        elif Agent.is_call_tools_node(node):
                            if not node.model_response.tool_calls:
                                await self._before_end(node.model_response)
                                turn.steering.give(run)  # the run continues with the new content instead of ending
                            async with node.stream(run.ctx) as results:  # the calls of phase 5
                                async for result in results:
                                    if isinstance(result, FunctionToolResultEvent):
                                        await self._calls.answered(result.part)
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
            except ContextFull:
                raise  # everything is recorded
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
        self, run_messages: Sequence[ModelMessage], messages: Sequence[ModelMessage], window: int | None
    ) -> list[ModelMessage]:
        """Phases 1 and 2. Records the new ones of `run_messages`; returns those of `messages` that are sent. Raises
        `ContextFull`, once for each request, if they would not fit into the model's window."""
        turn = self._turn
        await turn.ports.fairness_gate()
        if self._state.can_transition_to("response"):
            self._state.transition_to("response")
        turn.recording.record_new(run_messages, keep_partial=True)
        limit = turn.settings.max_iterations
        if limit is not None and self.iteration >= limit:
            raise _TooManyIterations("the turn has made the maximum number of requests")
        sent = turn.recording.choose(messages, turn.ports.window.update(turn.settings.context_window, window))
        if turn.recording.size.is_full and self.full_at != self.answers:
            raise ContextFull
        turn.meter.request_begins()
        self.iteration += 1
        self._state.transition_to("assistant")
        turn.note_outside_texts()
        turn.recording.begin_response()
        await turn.ports.wait_written()
        await turn.ports.wait_for_client()  # do not produce more updates for a client that does not read
        return sent

    async def after_response(self, response: ModelResponse, window: int | None) -> ModelResponse:
        """Phases 3 to 7, for a complete response. Returns the response that the run continues with. Raises `ModelRetry`
        for an empty response."""
        turn = self._turn
        self._check_whole(response)
        original = response
        response = self._with_refusal(response)
        files = await self._shown_files(response)
        response = turn.stream.with_own_ids(self._with_recovered_calls(response, files))
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

    async def _before_end(self, response: ModelResponse) -> None:
        """What is said to the model before a final answer ends the turn: it continues the run."""
        turn = self._turn
        if response.finish_reason in ("length", "content_filter") or not _has_content(response):
            return
        text = "\n".join(part.content for part in response.parts if isinstance(part, TextPart))
        words = self._claims.check(text, self.iteration)
        words = words or await turn.stop.run(self._end_checks.check(text, self.iteration))
        if words:
            turn.steering.steer([words], lambda: None)

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

    async def _shown_files(self, response: ModelResponse) -> Sequence[TextCall]:
        """The files that the answer of a very small model shows in code blocks, as calls that write them."""
        turn, family = self._turn, family_of(self._turn.model().model_name)
        is_whole = response.finish_reason != "length" and not response.tool_calls
        if not family.works_in_text or not is_whole or turn.ports.mode == "plan" or self._shown > MAX_SHOWN:
            return ()
        prompt = "\n".join(user_words(turn.ports.prompts[-1:]))
        known = map(turn.workspace.relative, turn.workspace.known_files)
        named = [*(await named_files(prompt, turn.workspace)).named, *known]
        found = await answered_files(
            response.text or "", turn.workspace, candidates=named, may_create="?" not in prompt
        )
        self._shown += bool(found)
        return found

    def _with_recovered_calls(self, response: ModelResponse, files: Sequence[TextCall]) -> ModelResponse:
        """Turn calls that the model wrote as text into calls, marked as recovered, and cut them out of the text.
        `files` are what the answer shows in code blocks, if it has no call."""
        texts = {index: part for index, part in enumerate(response.parts) if isinstance(part, TextPart)}
        whole = "".join(part.content for part in texts.values())
        found: Sequence[TextCall] = ()
        # A response that was cut off may lack the end of its arguments.
        if not any(isinstance(part, ToolCallPart) for part in response.parts) and response.finish_reason != "length":
            found = find_calls(whole, tools_by_args())
        is_call = bool(found)
        found = found or files
        parts = list(response.parts)
        position = 0
        for index, part in texts.items():
            here = [call.within(position, position + len(part.content)) for call in found]
            text = without_calls(part.content, here)
            position += len(part.content)
            self._turn.stream.show_rest(index, text)
            parts[index] = part if text == part.content else replace(part, content=text)
        if not found:
            return response
        for call in found:
            parts.append(self._turn.stream.recovered(len(parts), call.name, call.args))
        model = self._turn.model()
        if is_call and not writes_calls_as_text(model) and not family_of(model.model_name).works_in_text:
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
        if self._last is not None and self._last.finish_reason == "length":
            message = "The model reached its token limit before it answered; its thinking counts."
            remedy = "Set thinking to a lower level, or switch to a model with a higher limit."
            return TurnError(message, remedy=remedy, kind="empty")
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


class ContextFull(Exception):
    """The next request would not fit into the model's context window; the conversation needs a summary first."""


class _TooManyIterations(UsageLimitExceeded):
    """The turn needs more requests than `maxIterations`."""


def _has_content(response: ModelResponse) -> bool:
    return any(not isinstance(part, TextPart) or part.content.strip() for part in response.parts) and any(
        part.part_kind != "thinking" for part in response.parts
    )


def _without_blanks(parts: Sequence[ModelResponsePart]) -> Sequence[ModelResponsePart]:
    """Drop blank text parts: some providers produce them and reject them when they are sent back."""
    return [part for part in parts if not isinstance(part, TextPart) or part.provider_details or part.content.strip()]
