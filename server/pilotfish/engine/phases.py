"""The seven phases that every response of the model passes, in their order.

    1 assistant state ─ 2 what is sent ─ (the request) ─ 3 recorded ─ 4 counted ─ 5 calls ─ 6 empty? ─ 7 response

Hides: the state machine, what a turn has used, and what providers do to an answer: broken off, refused in a field
beside it, with calls written as text. Promises: a response is recorded whole before anything of it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart

from pilotfish.core.records import AgentState, StateRecord, Usage, UsageRecord
from pilotfish.core.textcalls import find_calls
from pilotfish.engine import figures
from pilotfish.engine.models import broke_off
from pilotfish.engine.pieces import Pieces
from pilotfish.engine.ports import Ports
from pilotfish.engine.recording import Recording
from pilotfish.engine.state import ResponseState
from pilotfish.engine.steering import Steering
from pilotfish.errors import TurnError
from pilotfish.settings import Settings
from pilotfish.tools import BY_NAME
from pilotfish.tools.tool import Tool

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.usage import RunUsage


class Phases:
    """Where one turn stands, and what its responses came to."""

    def __init__(
        self, ports: Ports, turn_id: str, settings: Settings, pieces: Pieces, recording: Recording, steering: Steering
    ) -> None:
        self.iteration = 0
        """how many requests have been made"""
        self.answers = 0
        self.last: ModelResponse | None = None
        self.usage = Usage()
        self.earlier = Usage()
        """what the runs before this one have used"""
        self._ports = ports
        self._turn_id = turn_id
        self._settings = settings
        self._pieces = pieces
        self._recording = recording
        self._steering = steering
        self._state = ResponseState(self._state_changed)
        self._broken = 0

    def begin(self) -> None:
        """The user's words have come."""
        self._state_changed(self._state.current)

    def resume(self) -> None:
        """The calls of the last response are still open."""
        self._state = ResponseState(self._state_changed, "tool_execution")

    def before_request(self, ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Phases 1 and 2: enter the assistant state; record what the tools returned, and say what of it all is sent.

        It may be sent after `may_send`: nothing reaches a provider that is not in the ledger.
        """
        if self._state.can_transition_to("response"):
            self._state.transition_to("response")
        self._recording.rest(ctx.messages, keep_partial=True)
        self.iteration += 1
        self._state.transition_to("assistant")
        return self._recording.begin_response(messages)

    async def may_send(self) -> None:
        """Returns when everything so far is written, and the client keeps up."""
        await self._ports.wait_written()
        await self._ports.room()  # a client that does not read is not told of step after step

    def after_response(self, ctx: RunContext[Any], response: ModelResponse) -> ModelResponse:
        """Phases 3 to 7, with the response whole: record it before anything of it runs (`Calls` waits for that)."""
        # Not sooner: what is enqueued before a request becomes part of one that has been recorded already.
        self._steering.give(ctx)
        self._check_whole(response)
        given = response
        response = self._pieces.with_own_ids(self._with_recovered_calls(self._with_refusal(response)))
        self._recording.answer(response)  # phase 3: thoughts and text
        self.answers += 1
        self.last = response
        self._count(ctx, response)  # phase 4: usage
        if calls := [part for part in response.parts if isinstance(part, ToolCallPart)]:
            self._state.transition_to("tool_execution")  # phase 5: the run has them executed, each by `Calls.execute`
            for part in calls:
                self._pieces.written(part)
        elif response.finish_reason not in ("length", "content_filter") and not _says_anything(response):
            # phase 6: an empty answer; one that was cut off or refused is none
            given.parts = _without_blanks(given.parts)  # the library keeps this very message when it asks again
            raise ModelRetry("Your last answer was empty. Answer the user, or call a tool.")
        else:
            self._state.transition_to("response")  # phase 7
        parts = _without_blanks(response.parts)
        return response if len(parts) == len(response.parts) else replace(response, parts=parts)

    def end_run(self, used: RunUsage) -> None:
        """A run is over: what it used is the turn's for good."""
        self._tally(used)
        self.earlier = self.usage

    def end(self) -> None:
        """Nothing more will be asked for."""
        if self._state.can_transition_to("response"):
            self._state.transition_to("response")

    # -- within ---------------------------------------------------------------------------------------------------

    def _state_changed(self, state: AgentState) -> None:
        self._ports.emit(StateRecord(turn_id=self._turn_id, state=state, iteration=self.iteration))

    def _check_whole(self, response: ModelResponse) -> None:
        """A stream that ended without saying why broke off, most likely: tried again once, then taken as it is."""
        if not broke_off(response):
            return
        self._broken += 1
        if self._broken == 1:
            self._recording.shown_only(response)
            raise TurnError(
                "The provider's answer broke off.",
                remedy="Send the prompt again.",
                retryable=True,
                kind="network",
            )
        self._recording.notice("warning", "The provider did not say that its answer is complete.")

    def _with_refusal(self, response: ModelResponse) -> ModelResponse:
        """Words of refusal come beside an empty answer: they are the answer."""
        words = (response.provider_details or {}).get("refusal")
        if response.parts or not isinstance(words, str) or not words:
            return response
        self._pieces.text_piece(0, words)
        return replace(response, parts=[TextPart(words)])

    def _with_recovered_calls(self, response: ModelResponse) -> ModelResponse:
        """Calls that the model wrote as text become calls, marked."""
        if any(isinstance(part, ToolCallPart) for part in response.parts):
            return response
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        found = find_calls(text, {name: _fits(tool) for name, tool in BY_NAME.items()})
        if not found:
            return response
        parts = list(response.parts)
        for call in found:
            parts.append(self._pieces.recovered(len(parts), call.name, call.args))
        said = f"{len(found)} tool call(s) that the model wrote as text were taken as calls."
        self._recording.notice("info", said)
        return replace(response, parts=parts)

    def _count(self, ctx: RunContext[Any], response: ModelResponse) -> None:
        self._tally(ctx.usage)
        window = self._settings.context_window or ctx.model.context_window
        used = figures.context_used(response)
        self._ports.emit(UsageRecord(turn_id=self._turn_id, usage=self.usage, context_used=used, context_window=window))

    def _tally(self, run: RunUsage) -> None:
        """The turn's usage: what earlier runs used, and this one so far."""
        used = self.earlier + figures.usage(run)
        self.usage = replace(used, requests=self.iteration, tool_calls=len(self._pieces.own_calls))


def _says_anything(response: ModelResponse) -> bool:
    return any(not isinstance(part, TextPart) or part.content.strip() for part in response.parts) and any(
        part.part_kind != "thinking" for part in response.parts
    )


def _without_blanks(parts: Sequence[ModelResponsePart]) -> Sequence[ModelResponsePart]:
    """What of an answer can be sent back: some providers take no text of white space, though they write it."""
    return [part for part in parts if not isinstance(part, TextPart) or part.provider_details or part.content.strip()]


def _fits(tool: Tool[Any]) -> Callable[[Mapping[str, Any]], bool]:
    def fits(args: Mapping[str, Any]) -> bool:
        try:
            tool.args.model_validate(dict(args))
        except ValueError:
            return False
        return True

    return fits
