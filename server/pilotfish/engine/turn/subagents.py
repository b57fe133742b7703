"""Subagents: runs of the agent with a context of their own, behind the calls `research_codebase` and `task`.

A subagent is the agent of the turn with fewer tools. Its calls are calls of the turn under the call that started it
(`parent_id`): the same policy, approvals, hooks and records. Promises: its requests count towards the usage and the
budget of the turn (`usage.py`); research only reads and never asks; when it reaches its step limit, it still returns a
result; a subagent starts no subagent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.exceptions import RunCancelled, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import FunctionToolResultEvent, ModelMessage, ModelResponse, TextPart, ToolCallPart

from pilotfish.conversation.history.sanitizer import sendable_name
from pilotfish.conversation.records import RequestOrigin
from pilotfish.engine.model.resolve import failure
from pilotfish.engine.turn.agent import AgentDeps, main_agent
from pilotfish.engine.turn.calls.tool_runner import ToolOutcome, ToolRunner
from pilotfish.engine.turn.context import TurnContext
from pilotfish.errors import PilotfishError, ToolError
from pilotfish.tools import BY_NAME
from pilotfish.tools.tool import SubagentKind, Tool

AT_ONCE = 4  # subagents of one turn that run at the same time

RESEARCH = """You investigate a code base for another agent. Search and read; change nothing.
Answer the question with what you found: files and lines, how things hang together, what you are unsure of. Be brief."""

TASK = """You do one part of a larger piece of work for another agent, which sees only your last message.
Do the whole of it and check it; do not ask whether to go on. If a call is denied, do without it.
End with a short report: what you did and where (files and lines), what you checked and how, what is left or unsure."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a subagent may do."""

    words: str
    origin: RequestOrigin
    max_requests: int
    without: frozenset[str]
    """tools that it does not have"""
    reads_only: bool
    """it never asks the user, and has no tools of MCP servers"""


_READING = frozenset({"read_file", "list_dir", "glob", "grep"})
_KINDS: Mapping[SubagentKind, _Kind] = {
    "research": _Kind(RESEARCH, "research", 12, frozenset(BY_NAME) - _READING, reads_only=True),
    "task": _Kind(
        TASK,
        "task",
        60,
        frozenset({"task", "research_codebase", "ask_user", "update_plan", "remember"}),
        reads_only=False,
    ),
}


class Subagents:
    """The subagents of one turn."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self, calls: ToolRunner, call_id: str, kind: SubagentKind, prompt: str) -> str:
        """Run a subagent for a call. If its requests run out, the result is the list of its steps until then."""
        async with self._places:
            subagent = _Subagent(self._turn, calls, call_id, _KINDS[kind])
            try:
                answer = await subagent.run(prompt)
            except _OutOfRequests:
                steps = "\n".join(subagent.steps)
                answer = f"The {kind} ran out of steps. It made these calls:\n{steps}"
            except UsageLimitExceeded as error:
                raise ToolError("the budget of this turn is used up") from error
            except UnexpectedModelBehavior as error:
                raise ToolError(f"the {kind} returned no usable answer; do it without one") from error
            except (PilotfishError, RunCancelled):
                raise
            except Exception as error:
                raise ToolError(f"the {kind} failed: {failure(error)}") from error
        return f"{answer}\n[{subagent.usage}]"


class _OutOfRequests(Exception):
    """The subagent needs more requests than it may make."""


class _Subagent:
    """One run. It is its own `RequestPhases`, and the `Calls` of the agent."""

    def __init__(self, turn: TurnContext, calls: ToolRunner, call_id: str, kind: _Kind) -> None:
        self._turn = turn
        self._calls = calls
        self._call_id = call_id
        self._kind = kind
        self._requests = 0
        self._tokens = 0
        self.steps: list[str] = []

    @property
    def usage(self) -> str:
        """What the run has used, in words."""
        return f"{self._requests} request(s), {len(self.steps)} call(s), {self._tokens:,} tokens"

    async def run(self, prompt: str) -> str:
        turn, kind = self._turn, self._kind
        words = kind.words if kind.reads_only else f"{turn.ports.instructions()}\n\n{kind.words}"
        async with main_agent().iter(
            prompt,
            model=turn.model(),
            instructions=words,
            deps=AgentDeps(self, self),
            usage=turn.meter.run,
            usage_limits=turn.meter.limits,
            cancellation_token=turn.stop.token,
            toolsets=() if kind.reads_only else turn.ports.toolsets(),
        ) as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    async with node.stream(run.ctx) as events:
                        async for _ in events:
                            pass
                elif Agent.is_call_tools_node(node):
                    async with node.stream(run.ctx) as results:
                        async for result in results:
                            if isinstance(result, FunctionToolResultEvent):
                                await self._calls.answered(result.part)
        if run.result is None:
            raise UnexpectedModelBehavior("the run ended without an answer")
        return run.result.output

    # -- RequestPhases --------------------------------------------------------------------------------------------

    async def before_request(
        self, run_messages: Sequence[ModelMessage], messages: Sequence[ModelMessage], window: int | None
    ) -> list[ModelMessage]:
        del run_messages, window
        if self._requests >= self._kind.max_requests:
            raise _OutOfRequests
        await self._turn.ports.fairness_gate()
        self._turn.meter.request_begins()
        self._requests += 1
        self._turn.note_outside_texts()
        await self._turn.ports.wait_written()
        return list(messages)

    async def after_response(self, response: ModelResponse, window: int | None) -> ModelResponse:
        """Count the response and register its calls, under ids that are unique in the session."""
        del window
        turn = self._turn
        turn.meter.report(self._kind.origin)
        self._tokens += response.usage.input_tokens + response.usage.output_tokens
        parts = list(response.parts)
        for index, part in enumerate(parts):
            if isinstance(part, TextPart) and part.content.strip():
                turn.stream.progress(self._call_id, part.content.strip() + "\n")
            elif isinstance(part, ToolCallPart):
                own = replace(part, tool_call_id=turn.ports.new_id("call"), tool_name=sendable_name(part.tool_name))
                parts[index] = own
                self.steps.append(f"{own.tool_name} {own.args_as_json_str()}"[:200])
                turn.stream.progress(self._call_id, self.steps[-1] + "\n")
                turn.stream.child(own, self._call_id, may_ask=not self._kind.reads_only)
        return replace(response, parts=parts)

    # -- Calls ----------------------------------------------------------------------------------------------------

    def offered(self, names: Sequence[str]) -> None:
        """The turn has noted the tools of MCP servers."""

    def works(self, name: str) -> bool:
        return name not in self._kind.without and self._calls.works(name)

    def owns(self, name: str) -> bool:
        return self._calls.owns(name)

    async def execute(self, call_id: str, name: str, args: object) -> ToolOutcome:
        if self._turn.stream.own_name(name) in self._kind.without:
            return self._calls.refuse(call_id, f"You have no tool {name}. Continue without it.")
        return await self._calls.execute(call_id, name, args)

    async def execute_foreign(self, call_id: str, tool: Tool[Any], args: Mapping[str, Any]) -> ToolOutcome:
        return await self._calls.execute_foreign(call_id, tool, args)
