"""The subagent behind `research_codebase`: read-only tools, its own limits, its steps shown as progress."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, RunContext, Tool, ToolFailed, UsageLimits
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import AgentStreamEvent, FunctionToolCallEvent

from pilotfish.core.secrets import mask
from pilotfish.engine.models import failure
from pilotfish.errors import PilotfishError, ToolError
from pilotfish.tools import BY_NAME
from pilotfish.tools.tool import parameters

if TYPE_CHECKING:
    from pilotfish.engine.orchestrator import RequestOrchestrator

MAX_STEPS = 12
READING = frozenset({"read_file", "list_dir", "glob", "grep"})

INSTRUCTIONS = """You investigate a code base for another agent. Search and read; change nothing.
Answer the question with what you found: files and lines, how things hang together, what you are unsure of. Be brief."""


@dataclass(slots=True)
class _Search:
    turn: RequestOrchestrator
    progress: Callable[[str], None]
    steps: list[str] = field(default_factory=list[str])


async def research(turn: RequestOrchestrator, question: str, progress: Callable[[str], None]) -> str:
    """Answer a question about the code. Runs out of steps gracefully: what is known by then is said."""
    agent: Agent[_Search, str] = Agent(
        turn.model(),
        deps_type=_Search,
        instructions=INSTRUCTIONS,
        tools=[
            Tool.from_schema(
                _runner(name),
                name=name,
                description=tool.description,
                json_schema=parameters(tool.args),
                takes_ctx=True,
            )
            for name, tool in BY_NAME.items()
            if name in READING
        ],
    )
    search = _Search(turn, progress)
    try:
        run = await agent.run(
            question,
            deps=search,
            usage_limits=UsageLimits(request_limit=MAX_STEPS),
            event_stream_handler=_show,
        )
    except UsageLimitExceeded:
        return "The search ran out of steps. What it looked at:\n" + "\n".join(search.steps)
    except UnexpectedModelBehavior as error:
        raise ToolError("the research gave no usable answer; search yourself") from error
    except PilotfishError:
        raise
    except Exception as error:
        raise ToolError(f"the research failed: {failure(error)}") from error
    return run.output


async def _show(ctx: RunContext[_Search], events: AsyncIterable[AgentStreamEvent]) -> None:
    async for event in events:
        if isinstance(event, FunctionToolCallEvent):
            step = f"{event.part.tool_name} {event.part.args_as_json_str()}"[:200]
            ctx.deps.steps.append(step)
            ctx.deps.progress(step + "\n")


def _runner(name: str) -> Callable[..., Any]:
    async def run(ctx: RunContext[_Search], **args: Any) -> str:
        try:
            text = await ctx.deps.turn.calls.read_quietly(name, args)
        except (PilotfishError, OSError) as error:
            raise ToolFailed(str(error)) from error
        if text is None:
            raise ToolFailed("Not allowed here: this file is not for the research. Leave it out.")
        return mask(text)[0]

    return run
