"""The pydantic-ai agent of all turns. It is built once; a run reaches its turn through `ctx.deps`.

Hides: the library's hooks. They call the phases of the loop (`loop.py`) and run each call (`calls/tool_runner.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NoReturn, Protocol, cast

import pydantic_ai
from pydantic_ai import Agent, RunContext, ToolDenied, ToolFailed
from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler, WrapToolValidateHandler
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import SchemaValidator, core_schema

from pilotfish.engine.mcp.tools import foreign_tool
from pilotfish.engine.turn.calls.tool_runner import ToolOutcome
from pilotfish.tools import BY_NAME, TOOLS
from pilotfish.tools.families import offered
from pilotfish.tools.incoming.aliases import spellings
from pilotfish.tools.tool import Tool as PilotfishTool
from pilotfish.tools.tool import parameters

pydantic_ai.BANNER_ENABLED = False  # no library banner in the terminal or in a pipe

TOOL_RETRIES = 1_000_000  # invalid calls never end a turn by their count: `ToolRunner` notices calls that repeat
OUTPUT_RETRIES = 2  # empty responses in one run


class RequestPhases(Protocol):
    """What happens before and after each request to the model. `loop.Loop` implements it."""

    async def before_request(
        self, run_messages: Sequence[ModelMessage], messages: Sequence[ModelMessage], window: int | None
    ) -> list[ModelMessage]: ...
    async def after_response(self, response: ModelResponse, window: int | None) -> ModelResponse: ...


class Calls(Protocol):
    """Runs the calls of a run of the agent. `ToolRunner` implements it."""

    def offered(self, names: Sequence[str]) -> None: ...
    def works(self, name: str) -> bool: ...
    def owns(self, name: str) -> bool: ...
    async def execute(self, call_id: str, name: str, args: object) -> ToolOutcome: ...
    async def execute_foreign(self, call_id: str, tool: PilotfishTool[Any], args: Mapping[str, Any]) -> ToolOutcome: ...


@dataclass(frozen=True, slots=True)
class AgentDeps:
    """The turn, or the subagent, that a run of the agent belongs to."""

    phases: RequestPhases
    calls: Calls


Context = RunContext[AgentDeps]


@cache
def main_agent() -> Agent[AgentDeps, str]:
    """The agent with every tool."""
    return Agent(
        None,
        deps_type=AgentDeps,
        name="pilotfish",
        retries={"tools": TOOL_RETRIES, "output": OUTPUT_RETRIES},
        toolsets=[_OwnTools()],
        capabilities=[Hooks()],
    )


class _OwnTools(AbstractToolset[AgentDeps]):
    """Our tools, whose definitions never change: a `FunctionToolset` would prepare each again for every request."""

    def __init__(self) -> None:
        self._tools = {tool.name: self._described(tool) for tool in TOOLS}

    @property
    def id(self) -> str | None:
        return None

    async def get_tools(self, ctx: Context) -> dict[str, ToolsetTool[AgentDeps]]:
        del ctx
        return self._tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: Context, tool: ToolsetTool[AgentDeps]
    ) -> NoReturn:
        del tool_args, ctx, tool
        raise AssertionError(f"{name} runs in Hooks.wrap_tool_execute")

    def _described(self, tool: PilotfishTool[Any]) -> ToolsetTool[AgentDeps]:
        definition = ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=parameters(tool.args)
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=TOOL_RETRIES, args_validator=_ANY_ARGUMENTS)


_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())  # `ToolRunner` reads the arguments


class _WithOtherNames(WrapperToolset[AgentDeps]):
    """The tools of a run, and ours under the names that other agents give them. `Hooks` offers none of these names; a
    call by one of them is found, and stays in the history as the model wrote it."""

    async def get_tools(self, ctx: Context) -> dict[str, ToolsetTool[AgentDeps]]:
        tools = await super().get_tools(ctx)
        return {**{name: tools[ours] for name, ours in _SPELLINGS.items() if ours in tools}, **tools}


_SPELLINGS = spellings()


class Hooks(AbstractCapability[AgentDeps]):
    """Calls the turn at each step of a run. Stateless."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDeps]) -> AbstractToolset[AgentDeps]:
        return _WithOtherNames(toolset)

    async def before_model_request(self, ctx: Context, request_context: ModelRequestContext) -> ModelRequestContext:
        parameters = request_context.model_request_parameters
        by_name = {tool.name: tool for tool in parameters.function_tools}  # ours are there once for each of their names
        ctx.deps.calls.offered([*by_name])
        own = [name for name in offered(request_context.model.model_name, BY_NAME) if ctx.deps.calls.works(name)]
        tools = [tool for name, tool in by_name.items() if name in own or name not in BY_NAME]
        request_context.model_request_parameters = replace(parameters, function_tools=tools)
        request_context.messages = await ctx.deps.phases.before_request(
            ctx.messages, request_context.messages, ctx.model.context_window
        )
        return request_context

    async def after_model_request(
        self, ctx: Context, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        del request_context
        return await ctx.deps.phases.after_response(response, ctx.model.context_window)

    async def wrap_tool_validate(
        self,
        ctx: Context,
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: WrapToolValidateHandler,
    ) -> dict[str, Any]:
        """Leave the arguments of our tools to `ToolRunner`, which reads what models send and says what is wrong."""
        del tool_def
        return {} if ctx.deps.calls.owns(call.tool_name) else await handler(args)

    async def wrap_tool_execute(
        self, ctx: Context, *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: WrapToolExecuteHandler
    ) -> Any:
        calls, call_id, name = ctx.deps.calls, call.tool_call_id, call.tool_name
        if calls.owns(name):
            returned = await calls.execute(call_id, name, call.args)
        else:
            foreign = foreign_tool(tool_def, handler)
            returned = await calls.execute_foreign(call_id, foreign, cast("Mapping[str, Any]", args))
        match returned.outcome:
            case "success":
                return returned.text
            case "denied":
                return ToolDenied(returned.text)
            case "failed":
                raise ToolFailed(returned.text)


@cache
def tool_tokens() -> int:
    """An estimate of the tokens of the tools' definitions."""
    return sum(len(tool.description) + len(json.dumps(parameters(tool.args))) for tool in TOOLS) // 4
