"""The pydantic-ai agent of all turns. It is built once; a run reaches its turn through `ctx.deps`.

Hides: the library's hooks. They call the phases of the loop (`loop.py`) and run each call (`tool_runner.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

import pydantic_ai
from pydantic_ai import Agent, RunContext, Tool, ToolDenied, ToolFailed
from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import ToolDefinition

from pilotfish.engine.mcp import foreign_tool
from pilotfish.engine.turn.tool_runner import ToolRunner
from pilotfish.tools import BY_NAME, TOOLS
from pilotfish.tools.tool import Tool as PilotfishTool
from pilotfish.tools.tool import parameters

pydantic_ai.BANNER_ENABLED = False  # no library banner in the terminal or in a pipe

TOOL_RETRIES = 3  # consecutive invalid calls of one tool
OUTPUT_RETRIES = 2  # empty responses in one run


class RequestPhases(Protocol):
    """What happens before and after each request to the model. `loop.Loop` implements it."""

    async def before_request(
        self, run_messages: Sequence[ModelMessage], messages: Sequence[ModelMessage]
    ) -> list[ModelMessage]: ...
    def after_response(self, response: ModelResponse, window: int | None) -> ModelResponse: ...


@dataclass(frozen=True, slots=True)
class AgentDeps:
    """The turn that a run of the agent belongs to."""

    phases: RequestPhases
    calls: ToolRunner
    instructions: Callable[[], str]


Context = RunContext[AgentDeps]


@cache
def main_agent() -> Agent[AgentDeps, str]:
    """The agent with every tool. The functions of its tools never run: `Hooks.wrap_tool_execute` runs the call."""
    return Agent(
        None,
        deps_type=AgentDeps,
        name="pilotfish",
        retries={"tools": TOOL_RETRIES, "output": OUTPUT_RETRIES},
        tools=[_tool(tool) for tool in TOOLS],
        capabilities=[Hooks()],
        instructions=_instructions,
    )


class Hooks(AbstractCapability[AgentDeps]):
    """Calls the turn at each step of a run. Stateless."""

    async def before_model_request(self, ctx: Context, request_context: ModelRequestContext) -> ModelRequestContext:
        request_context.messages = await ctx.deps.phases.before_request(ctx.messages, request_context.messages)
        return request_context

    async def after_model_request(
        self, ctx: Context, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        del request_context
        return ctx.deps.phases.after_response(response, ctx.model.context_window)

    async def wrap_tool_execute(
        self, ctx: Context, *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: WrapToolExecuteHandler
    ) -> Any:
        tool = BY_NAME.get(call.tool_name) or foreign_tool(tool_def, handler)
        returned = await ctx.deps.calls.execute(
            call.tool_call_id, call.tool_name, tool, cast("Mapping[str, Any]", args)
        )
        match returned.outcome:
            case "success":
                return returned.text
            case "denied":
                return ToolDenied(returned.text)
            case "retry":
                raise ModelRetry(returned.text)
            case "failed":
                raise ToolFailed(returned.text)


def _instructions(ctx: Context) -> str:
    return ctx.deps.instructions()


def _tool(tool: PilotfishTool[Any]) -> Tool[AgentDeps]:
    async def runs_in_hooks(**_: Any) -> str:
        raise AssertionError(f"{tool.name} runs in Hooks.wrap_tool_execute")

    return Tool[AgentDeps].from_schema(
        runs_in_hooks, name=tool.name, description=tool.description, json_schema=parameters(tool.args)
    )
