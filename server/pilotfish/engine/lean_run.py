"""The lean path of the agent's loop: request, answer, calls, and round again, with nothing in between.

pydantic-ai's `Agent.run` builds a graph, capabilities, toolsets and several contexts for every step, and walks the
whole history about twenty times: most of what a round costs. A turn uses little of that, and this is it. The model
classes, their messages, their errors, their usage limits and their queue of enqueued words stay the library's own, and
so do the words that a failed call is answered with.

Same interface as `Agent.run` for what a turn needs of it: the same hooks of the turn are called in the same order, the
same messages are left behind, the same exceptions are raised. `tests/engine/test_lean_run.py` compares the two. Off
with the setting `lean`, or `PILOTFISH_LEAN=0`; MCP servers, a fallback model, tracing and a turn that a crash
interrupted go the library's way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError
from pydantic_ai import RunContext, UsageLimits
from pydantic_ai._enqueue import PendingMessageQueue
from pydantic_ai._genai_prices import fill_response_cost
from pydantic_ai._output import build_retried_tool_return
from pydantic_ai._run_context import set_current_run_context
from pydantic_ai._utils import now_utc
from pydantic_ai.exceptions import ContentFilterError, ModelRetry, UnexpectedModelBehavior
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    RetryFeedbackPart,
    RetryInfo,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.usage import RunUsage
from pydantic_core import SchemaValidator, core_schema

from pilotfish.engine.agent import OUTPUT_RETRIES, TOOL_RETRIES, definitions, hear
from pilotfish.engine.lean_repair import Repair
from pilotfish.engine.observe import is_tracing
from pilotfish.settings import Settings
from pilotfish.tools import BY_NAME

if TYPE_CHECKING:
    from pilotfish.engine.orchestrator import RequestOrchestrator

FRAME = 0.016  # seconds: nobody sees words come faster than a screen shows them


def fits(settings: Settings, model: Model[Any], history: Sequence[ModelMessage], toolsets: Sequence[object]) -> bool:
    """Whether a run can go this way."""
    return (
        settings.lean
        and os.environ.get("PILOTFISH_LEAN") != "0"
        and not toolsets
        and not is_tracing()
        and settings.fallback_model is None
        and bool(history)
        and isinstance(history[-1], ModelRequest)
        and not any(isinstance(message, ModelResponse) and message.state == "suspended" for message in history[-2:])
        and type(model).__name__ != "FallbackModel"
    )


class LeanRun:
    """One run of the agent: from the conversation, whose end is a request, to an answer without calls."""

    def __init__(
        self,
        turn: RequestOrchestrator,
        model: Model[Any],
        history: Sequence[ModelMessage],
        usage: RunUsage,
        limits: UsageLimits,
    ) -> None:
        self.messages: list[ModelMessage] = list(history[:-1])
        """everything said, as the library would leave it behind"""
        self._turn = turn
        self._model = model
        self._usage = usage
        self._limits = limits
        self._has_token_limit = limits.has_token_limits()
        self._next = _again(history[-1])
        turn.recording.begin_with(self._next, history[-1])
        self._clean = False
        self._show_from = 0.0
        self._output_retries = 0
        self._tool_retries: dict[str, int] = {}
        self._queue = PendingMessageQueue()
        self._context: RunContext[RequestOrchestrator] = RunContext(
            deps=turn,
            model=model,
            usage=usage,
            usage_limits=limits,
            messages=self.messages,
            pending_messages=self._queue,
        )

    async def run(self) -> None:
        """Ends normally with an answer. Cancelling it leaves what was said so far in `messages`."""
        try:
            while True:
                try:
                    response = await self._request(self._next)
                except ModelRetry as retry:
                    self._next = ModelRequest(parts=[self._feedback(retry)])
                    continue
                calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
                if calls:
                    self._next = ModelRequest(parts=await self._call_all(calls))
                elif (steered := self._last_words()) is not None:
                    self._next = steered
                else:
                    _check_said(response)
                    return
        finally:
            self._queue.close()

    # -- one request -----------------------------------------------------------------------------------------------

    async def _request(self, request: ModelRequest) -> ModelResponse:
        turn, context = self._turn, self._context
        await turn.ports.one_by_one()
        request.timestamp = now_utc()
        self.messages.append(request)
        context.run_step += 1
        self._deliver()
        instructions = turn.instructions()
        request.instructions = instructions or None
        self._limits.check_before_request(self._usage)
        sent = turn.before_request(context, self.messages)
        if not self._clean:
            sent = turn.recording.repaired(sent)
        parameters = _asked_for(instructions)
        prepared = self._model.prepare_messages(sent, parameters)
        if prepared is not sent:
            prepared = Repair()(prepared)
        # What a run adds is an answer and the results of all its calls, in order: nothing is to be repaired there.
        self._clean = prepared is sent and len(sent) == len(self.messages)
        response = await self._stream(prepared, parameters)
        try:
            answer = turn.after_response(context, response)
        except ModelRetry:
            self._commit(response)
            raise
        self._commit(answer)
        return answer

    async def _stream(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> ModelResponse:
        settings = self._model.settings
        await self._turn.may_send()
        opened = self._model.request_stream(messages, settings and {**settings}, parameters, self._context)
        with set_current_run_context(self._context):
            async with opened as stream:
                counted = False
                try:
                    async for event in _events(stream):
                        if self._has_token_limit:
                            self._limits.check_tokens(self._usage + stream.usage)
                        hear(self._turn, event)
                        if _is_words(event):
                            await self._show()
                    response = self._count(stream.get())
                    counted = True
                    self._limits.check_tokens(self._usage)
                    self._limits.check_cost(self._usage, warn_if_cost_unavailable=False)
                except BaseException:
                    partial = replace(stream.get(), state="interrupted", model_id=self._model.model_id)
                    self.messages.append(partial if counted else self._count(partial))
                    self._usage.requests += bool(partial.parts)
                    raise
        if response.state == "suspended":
            raise UnexpectedModelBehavior("the provider paused its answer, which was not asked for")
        return response

    async def _show(self) -> None:
        """Words that come after a pause are shown before what came with them is looked at: that takes longer than
        writing them down. In a flood they are not waited for."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._show_from:
            await self._turn.ports.shown()
            self._show_from = loop.time() + FRAME

    def _count(self, response: ModelResponse) -> ModelResponse:
        sold = (response.provider_url, response.provider_name, response.model_name)
        if sold not in _WITHOUT_PRICE:
            fill_response_cost(response)
            if response.usage.cost is None and not response.usage.unmeasured_requests:
                _WITHOUT_PRICE.add(sold)
        self._usage.incr(response.usage)
        return response

    def _commit(self, response: ModelResponse) -> None:
        response.model_id = response.model_id or self._model.model_id
        self._usage.requests += 1
        self.messages.append(response)

    def _feedback(self, retry: ModelRetry) -> RetryFeedbackPart:
        self._output_retries += 1
        if self._output_retries > OUTPUT_RETRIES:
            raise UnexpectedModelBehavior(f"Exceeded maximum output retries ({OUTPUT_RETRIES})") from retry
        part = RetryFeedbackPart(content=retry.message, retry=RetryInfo(cause="model_retry"))
        part.retry = replace(part.retry, attempt=self._output_retries, max_retries=OUTPUT_RETRIES)
        return part

    # -- words that come while it runs -------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """What was enqueued goes behind the request that is about to be sent."""
        for pending in self._queue.pop_priority("asap"):
            self._clean = False
            self._add(pending.messages)
            self._turn.delivered(pending.enqueue_id)

    def _last_words(self) -> ModelRequest | None:
        """What was enqueued during the last answer is the next request. None: the run is over, and takes no more."""
        asap, when_idle = self._queue.drain_at_end()
        if not asap and not when_idle:
            return None
        self._clean = False
        for pending in (*asap, *when_idle):
            self._add(pending.messages)
            self._turn.delivered(pending.enqueue_id)
        last = self.messages.pop()
        if not isinstance(last, ModelRequest):
            raise UnexpectedModelBehavior("what was enqueued does not end in a request")
        return last

    def _add(self, messages: Sequence[ModelMessage]) -> None:
        for message in messages:
            message.timestamp = message.timestamp or now_utc()
            self.messages.append(message)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def _call_all(self, calls: Sequence[ToolCallPart]) -> list[ModelRequestPart]:
        """Run the calls of an answer side by side; their returns, in the order of the calls."""
        step = _Step(self._tool_retries)
        returns: dict[str, ToolReturnPart] = {}
        running: dict[str, asyncio.Future[ToolReturnPart]] = {}
        try:
            arguments = {call.tool_call_id: _arguments(call, step) for call in calls}
            for call in calls:
                args = arguments[call.tool_call_id]
                if isinstance(args, ToolReturnPart):
                    returns[call.tool_call_id] = args
                    self._turn.answered(call.tool_call_id, str(args.content))
                else:
                    running[call.tool_call_id] = asyncio.ensure_future(self._call(call, args, step))
            if running:
                done, _ = await asyncio.wait(running.values(), return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
        except BaseException:
            await _stop(running.values())
            returns |= {key: task.result() for key, task in running.items() if _succeeded(task)}
            parts = _in_order(calls, returns)
            self.messages.append(ModelRequest(parts=parts, timestamp=now_utc(), state="interrupted"))
            raise
        self._tool_retries = step.carried()
        return _in_order(calls, returns | {key: task.result() for key, task in running.items()})

    async def _call(self, call: ToolCallPart, args: Any, step: _Step) -> ToolReturnPart:
        name, key = call.tool_name, call.tool_call_id
        returned = await self._turn.execute(key, name, BY_NAME[name], args)
        match returned.outcome:
            case "retry":
                part = step.refuse(call, ModelRetry(returned.text))
            case "success":
                step.succeeded.add(name)
                part = ToolReturnPart(name, returned.text, tool_call_id=key)
            case "denied" | "failed":
                if returned.outcome == "denied":
                    step.succeeded.add(name)  # the library takes a denial for a result
                part = ToolReturnPart(name, returned.text, tool_call_id=key, outcome=returned.outcome)
        self._turn.answered(key, str(part.content))
        return part


def _events(stream: StreamedResponse) -> AsyncIterator[ModelResponseStreamEvent]:
    """What is said; of a lean stream, nothing else."""
    plain: Callable[[], AsyncIterator[ModelResponseStreamEvent]] | None = getattr(stream, "plain_events", None)
    return aiter(stream) if plain is None else plain()


@lru_cache(maxsize=8)  # one for each of the sessions that speak in turns
def _asked_for(instructions: str) -> ModelRequestParameters:
    """The same object as long as the same is said: what it comes to is remembered for it (`schemas.py`)."""
    return ModelRequestParameters(
        function_tools=definitions(),
        instruction_parts=[InstructionPart(instructions, dynamic=True)] if instructions else None,
    )


_WITHOUT_PRICE: set[tuple[str | None, str | None, str | None]] = set()
"""models that no price list knows: looking through all of them for every answer costs more than counting it"""


class _Step:
    """The calls of one answer, and how often each tool has been called wrongly in a row."""

    def __init__(self, retries: Mapping[str, int]) -> None:
        self.failed: set[str] = set()
        self.succeeded: set[str] = set()
        self._retries = retries

    def refuse(
        self, call: ToolCallPart, error: ValidationError | ModelRetry, cause: Literal["unknown_tool"] | None = None
    ) -> ToolReturnPart:
        """The return that asks for a better call; too many of them in a row end the run."""
        name = call.tool_name
        used = self._retries.get(name, 0)
        if used >= TOOL_RETRIES:
            raise UnexpectedModelBehavior(f"Tool {name!r} exceeded max retries count of {TOOL_RETRIES}") from error
        self.failed.add(name)
        part = build_retried_tool_return(error, tool_name=name, tool_call_id=call.tool_call_id, cause=cause)
        if part.retry is not None:
            part.retry = replace(part.retry, attempt=used + 1, max_retries=TOOL_RETRIES)
        return part

    def carried(self) -> dict[str, int]:
        kept = {name: count for name, count in self._retries.items() if name not in self.succeeded}
        return kept | {name: self._retries.get(name, 0) + 1 for name in self.failed}


def _arguments(call: ToolCallPart, step: _Step) -> Any:
    """The arguments of a call, as JSON has them; or the return that refuses it."""
    if call.tool_name not in BY_NAME:
        known = ", ".join(map(repr, sorted(BY_NAME)))
        error = ModelRetry(f"Unknown tool name: {call.tool_name!r}. Available tools: {known}")
        return step.refuse(call, error, "unknown_tool")
    if not isinstance(call.args, str):
        return call.args or {}
    try:
        return _ANYTHING.validate_json(call.args or "{}")
    except ValidationError as error:
        return step.refuse(call, error)


_ANYTHING = SchemaValidator(core_schema.any_schema())


async def _stop(tasks: Iterable[asyncio.Future[ToolReturnPart]]) -> None:
    """Stop calls, and wait until they are over."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)


def _succeeded(task: asyncio.Future[ToolReturnPart]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _in_order(calls: Sequence[ToolCallPart], returns: Mapping[str, ToolReturnPart]) -> list[ModelRequestPart]:
    return [returns[call.tool_call_id] for call in calls if call.tool_call_id in returns]


def _again(request: ModelMessage) -> ModelRequest:
    """The request that ends a history, as one of our own: what is in the history stays as it is."""
    if not isinstance(request, ModelRequest):
        raise TypeError("the conversation must end in a request")
    return ModelRequest(parts=request.parts, metadata=request.metadata)


def _is_words(event: ModelResponseStreamEvent) -> bool:
    match event:
        case PartStartEvent(part=TextPart() | ThinkingPart()):
            return True
        case PartDeltaEvent(delta=TextPartDelta() | ThinkingPartDelta()):
            return True
        case _:
            return False


def _check_said(response: ModelResponse) -> None:
    """An answer without a word is none. (One that is merely empty was refused before, in the turn.)"""
    if any(part.part_kind == "text" and part.content for part in response.parts):
        return
    if response.finish_reason == "content_filter":
        raise ContentFilterError("the provider refused to answer")
    if response.finish_reason == "length":
        raise UnexpectedModelBehavior("the token limit was reached before any word of an answer")
