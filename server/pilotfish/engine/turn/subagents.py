"""The two subagents: one runs `research_codebase`, one summarises a conversation.

Promises: their requests count towards the usage and the budget of the turn (`usage.py`); research only reads; when
research reaches its step limit, it still returns a result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic_ai import Agent, CancellationToken, RunContext, Tool, ToolFailed
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import FunctionToolCallEvent
from pydantic_ai.models import Model

from pilotfish.conversation.messages import CanonicalMessage
from pilotfish.conversation.records import RequestOrigin
from pilotfish.engine.model.resolve import failure
from pilotfish.engine.turn.compaction import readable
from pilotfish.engine.turn.usage import Meter
from pilotfish.errors import PilotfishError, ToolError
from pilotfish.policy.secrets import mask
from pilotfish.tools import BY_NAME
from pilotfish.tools.tool import parameters

RunReadingTool = Callable[[str, Mapping[str, Any]], Awaitable[str | None]]
"""Runs a tool by its name and arguments. Returns None if policy does not allow the call without a question."""

MAX_STEPS = 12  # requests of one research
READING = frozenset({"read_file", "list_dir", "glob", "grep"})
MAX_SOURCE_CHARS = 120_000  # of a conversation that is summarised

RESEARCH = """You investigate a code base for another agent. Search and read; change nothing.
Answer the question with what you found: files and lines, how things hang together, what you are unsure of. Be brief."""

SUMMARY = """Summarise this conversation between a user and a coding agent, so that the agent can go on with it.
Use these headings. What the user wants: every wish, rule and limit, in their words. Done so far: files changed and
how. Known facts: paths, names, errors, decisions. Plan and next step. Leave out politeness and detours."""


async def research(
    question: str, *, model: Model, meter: Meter, run_tool: RunReadingTool, progress: Callable[[str], None]
) -> str:
    """Answer a question about the code. If the steps run out, the answer is the list of the steps made until then."""
    state = _Research(run_tool, progress)
    try:
        return await _ask(_research_agent(), question, model=model, meter=meter, origin="research", deps=state)
    except _OutOfSteps:
        return "The research ran out of steps. It made these calls:\n" + "\n".join(state.steps)
    except UsageLimitExceeded as error:
        raise ToolError("the budget of this turn is used up") from error
    except UnexpectedModelBehavior as error:
        raise ToolError("the research returned no usable answer; search the code directly") from error
    except PilotfishError:
        raise
    except Exception as error:
        raise ToolError(f"the research failed: {failure(error)}") from error


async def summarise(messages: Sequence[CanonicalMessage], model: Model, meter: Meter, token: CancellationToken) -> str:
    """Summarise a conversation. Raises `UsageLimitExceeded`, `RunCancelled`, and what the provider's library raises."""
    text = "\n\n".join(readable(message) for message in messages)
    if len(text) > MAX_SOURCE_CHARS:
        half = MAX_SOURCE_CHARS // 2
        text = f"{text[:half]}\n[… cut …]\n{text[-half:]}"
    return (
        await _ask(_summary_agent(), text, model=model, meter=meter, origin="compaction", deps=None, token=token)
    ).strip()


@dataclass(slots=True)
class _Research:
    run_tool: RunReadingTool
    progress: Callable[[str], None]
    steps: list[str] = field(default_factory=list[str])


class _OutOfSteps(Exception):
    """The agent needs more than MAX_STEPS requests."""


async def _ask(
    agent: Agent[_Research | None, str],
    prompt: str,
    *,
    model: Model,
    meter: Meter,
    origin: RequestOrigin,
    deps: _Research | None,
    token: CancellationToken | None = None,
) -> str:
    """Run an agent to its answer and count every request."""
    requests = 0
    async with agent.iter(
        prompt,
        model=model,
        deps=deps,
        usage=meter.run,
        usage_limits=meter.limits,
        cancellation_token=token,
    ) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                requests += 1
                if requests > MAX_STEPS:
                    raise _OutOfSteps
                meter.request_begins()
                try:
                    async with node.stream(run.ctx) as events:
                        async for _ in events:
                            pass
                finally:
                    meter.report(origin)
            elif deps is not None and Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as events:
                    async for event in events:
                        if isinstance(event, FunctionToolCallEvent):
                            step = f"{event.part.tool_name} {event.part.args_as_json_str()}"[:200]
                            deps.steps.append(step)
                            deps.progress(step + "\n")
    if run.result is None:
        raise UnexpectedModelBehavior("the run ended without an answer")
    return run.result.output


@cache
def _summary_agent() -> Agent[_Research | None, str]:
    return Agent(None, deps_type=_Research | None, name="summary", instructions=SUMMARY)


@cache
def _research_agent() -> Agent[_Research | None, str]:
    tools = [
        Tool[_Research | None].from_schema(
            _runner(name), name=name, description=tool.description, json_schema=parameters(tool.args), takes_ctx=True
        )
        for name, tool in BY_NAME.items()
        if name in READING
    ]
    return Agent(None, deps_type=_Research | None, name="research", instructions=RESEARCH, tools=tools)


def _runner(name: str) -> Callable[..., Any]:
    async def run(ctx: RunContext[_Research], **args: Any) -> str:
        try:
            text = await ctx.deps.run_tool(name, args)
        except (PilotfishError, OSError) as error:
            raise ToolFailed(str(error)) from error
        if text is None:
            raise ToolFailed("The research may not read this file. Continue without it.")
        return mask(text)[0]

    return run
