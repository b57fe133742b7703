"""The pydantic-ai agent: built once, told everything through the turn it runs (`ctx.deps`).

Hides: the library's hooks and events. The turn itself (`orchestrator.py`) sees only plain calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from functools import cache
from typing import Any, cast

import pydantic_ai
from pydantic_ai import Agent, RunContext, Tool, ToolDenied, ToolFailed
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import WrapToolExecuteHandler
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import (
    AgentStreamEvent,
    EnqueuedMessagesEvent,
    FunctionToolResultEvent,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import ToolDefinition

from pilotfish.engine.mcp import foreign_tool
from pilotfish.engine.orchestrator import RequestOrchestrator
from pilotfish.tools import BY_NAME, TOOLS
from pilotfish.tools.tool import Tool as PilotfishTool
from pilotfish.tools.tool import parameters

pydantic_ai.BANNER_ENABLED = False  # a terminal, and a coding agent's pipe, show our words and nobody else's

Context = RunContext[RequestOrchestrator]

TOOL_RETRIES = 3  # how often one tool may be called wrongly in a row
OUTPUT_RETRIES = 2  # how many empty answers a run forgives


class Hooks(AbstractCapability[RequestOrchestrator]):
    """Carries what happens in a run to the turn. Holds no state."""

    async def before_model_request(self, ctx: Context, request_context: ModelRequestContext) -> ModelRequestContext:
        request_context.messages = ctx.deps.before_request(ctx, request_context.messages)
        await ctx.deps.may_send()
        return request_context

    async def after_model_request(
        self, ctx: Context, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        del request_context
        return ctx.deps.after_response(ctx, response)

    async def wrap_tool_execute(
        self, ctx: Context, *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: WrapToolExecuteHandler
    ) -> Any:
        tool = BY_NAME.get(call.tool_name) or foreign_tool(tool_def, handler)
        returned = await ctx.deps.execute(call.tool_call_id, call.tool_name, tool, cast("Mapping[str, Any]", args))
        match returned.outcome:
            case "success":
                return returned.text
            case "denied":
                return ToolDenied(returned.text)
            case "retry":
                raise ModelRetry(returned.text)
            case "failed":
                raise ToolFailed(returned.text)


async def forward(ctx: Context, events: AsyncIterable[AgentStreamEvent]) -> None:
    """The run's events, as the turn wants them: pieces of text, thought and arguments, and odd results."""
    async for event in events:
        hear(ctx.deps, event)


def hear(turn: RequestOrchestrator, event: AgentStreamEvent) -> None:
    """Tell the turn what one event means to it."""
    match event:
        case PartStartEvent(index=index, part=TextPart(content=text)):
            turn.text_piece(index, text)
        case PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=text)):
            turn.text_piece(index, text)
        case PartStartEvent(index=index, part=ThinkingPart(content=text)):
            turn.thought_piece(index, text)
        case PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=text)):
            turn.thought_piece(index, text or "")
        case PartStartEvent(index=index, part=ToolCallPart() as part):
            turn.announce(index, part.tool_call_id, part.tool_name)
            turn.args_piece(index, part.args_as_json_str() if part.args else "")
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)):
            turn.args_piece(index, args if isinstance(args, str) else "")
        case EnqueuedMessagesEvent(enqueue_id=enqueue_id):
            turn.delivered(enqueue_id)
        case FunctionToolResultEvent(part=part):
            turn.answered(part.tool_call_id, str(part.content))
        case _:
            pass


@cache
def main_agent() -> Agent[RequestOrchestrator, str]:
    """The agent with every tool. Its tools' functions never run: `Hooks.wrap_tool_execute` runs the call."""
    return Agent(
        None,
        deps_type=RequestOrchestrator,
        name="pilotfish",
        retries={"tools": TOOL_RETRIES, "output": OUTPUT_RETRIES},
        tools=_tools(),
        capabilities=[Hooks()],
        instructions=_instructions,
    )


def _instructions(ctx: Context) -> str:
    return ctx.deps.instructions()


def definitions() -> list[ToolDefinition]:
    """Every tool, as a model is told of it."""
    return list(_definitions())


@cache
def _definitions() -> tuple[ToolDefinition, ...]:
    return tuple(tool.tool_def for tool in _tools())


@cache
def _tools() -> tuple[Tool[RequestOrchestrator], ...]:
    return tuple(_tool(tool) for tool in TOOLS)


def _tool(tool: PilotfishTool[Any]) -> Tool[RequestOrchestrator]:
    async def runs_in_hooks(**_: Any) -> str:
        raise AssertionError(f"{tool.name} runs in Hooks.wrap_tool_execute")

    return Tool.from_schema(
        runs_in_hooks, name=tool.name, description=tool.description, json_schema=parameters(tool.args)
    )
