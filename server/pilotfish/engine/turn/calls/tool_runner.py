"""Runs one call from start to end: read (`tools/incoming`) → approve (`approvals.py`) → run, with retries → record.

Hides: ordering, retries, output limits, masking, before-images. Promises:
- a call runs only with the approved arguments and document versions; if they change, it is approved again;
- every announced call reaches a final status;
- an exception in a tool is a failed result for the model and does not end the turn;
- a wrong call does not end the turn; if the same one fails again and again, the model is told, then the user is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import ValidationError
from pydantic_ai.messages import BinaryContent, ToolReturnPart

from pilotfish.conversation.messages import (
    FINAL_STATUSES,
    CallResult,
    CallStatus,
    CanonicalToolCall,
    Category,
    as_news,
)
from pilotfish.conversation.provenance import Source, fenced
from pilotfish.conversation.repeated_calls import Repeats
from pilotfish.engine.extensions.hooks import Event, HookOutcome
from pilotfish.engine.turn.calls.approvals import Allowed, CallApprovals, Denied, argument_errors
from pilotfish.engine.turn.calls.order import Order
from pilotfish.engine.turn.context import TurnContext
from pilotfish.engine.turn.web_search import can_search, search_web
from pilotfish.errors import PilotfishError
from pilotfish.policy.hosts import host_of, local_address
from pilotfish.policy.rules import CallFacts
from pilotfish.policy.secrets import mask
from pilotfish.policy.taint import source_of
from pilotfish.text.cutting import cut_middle
from pilotfish.tools import BY_NAME
from pilotfish.tools.commands.bash_output import BashOutput
from pilotfish.tools.commands.read_output import ReadOutput
from pilotfish.tools.incoming.calls import ReadCall, read_call
from pilotfish.tools.tool import Args, Context, Network, Result, SubagentKind, Tool
from pilotfish.tools.web import web_search
from pilotfish.workspace.effects import Effects
from pilotfish.workspace.process.launcher import READ_ONLY_LEAVE, Leave

log = logging.getLogger(__name__)

STOPPED = "the user stopped this call"

RETRYABLE_ERRORS = (TimeoutError, ConnectionError, BlockingIOError, InterruptedError)
FIRST_BACKOFF = 0.2  # seconds; doubles with each try, with jitter


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call, for the model."""

    text: str
    outcome: Literal["success", "failed", "denied"]
    changed: bool = False
    """a file was changed"""


class SubagentRunner(Protocol):
    """Runs a subagent for a call and returns its answer. `subagents.Subagents` implements it."""

    async def run(self, calls: ToolRunner, call_id: str, kind: SubagentKind, prompt: str) -> str: ...


class ToolRunner:
    """The calls of one turn, those of its subagents included."""

    def __init__(self, turn: TurnContext, subagents: SubagentRunner) -> None:
        self._turn = turn
        self._subagents = subagents
        self._order = Order()
        self._slots = asyncio.Semaphore(turn.settings.max_parallel_tools)
        self._tasks: dict[str, asyncio.Task[ToolOutcome]] = {}
        self._stopped: set[str] = set()
        self._approvals = CallApprovals(turn, self._context)
        self._repeats: dict[str | None, Repeats] = {}
        """parent call → the calls of its subagent; None: of the turn itself"""

    async def stop(self, call_id: str) -> bool:
        """Stop one call and wait for its end; the turn continues. Returns False if the call is not running."""
        task = self._tasks.get(call_id)
        if task is None or task.done():
            return False
        self._stopped.add(call_id)
        task.cancel()
        await asyncio.wait((task,))
        return True

    def offered(self, names: Sequence[str]) -> None:
        """Remember which tools the model is offered, so that a foreign tool's name is never read as one of ours."""
        self._turn.stream.foreign_tools = frozenset(names) - BY_NAME.keys()

    def works(self, name: str) -> bool:
        """Whether a tool of ours can answer here: some need language servers, skills, or a provider that searches."""
        queries = BY_NAME[name].queries
        answered = queries is None or self._turn.workspace.answerer(queries).can_answer(queries)
        if name == web_search.TOOL.name and not (self._turn.settings.network and can_search(self._turn.model())):
            return False
        return answered and name not in self._turn.ports.unused_tools()

    def owns(self, name: str) -> bool:
        """Whether a name means a tool of ours."""
        return self._turn.stream.own_name(name) is not None

    async def execute(self, call_id: str, name: str, args: object) -> ToolOutcome:
        """Run one call of a tool of ours to its end, from its arguments as the model sent them. Cancelling this cancels
        the call and waits for its end. A call that ended before a crash does not run again; its stored result is
        returned."""
        return await self._execute(call_id, read_call(BY_NAME, name, args), None)

    def refuse(self, call_id: str, why: str) -> ToolOutcome:
        """End a call that cannot run."""
        return self._failed(call_id, why)

    async def execute_foreign(self, call_id: str, tool: Tool[Any], args: Mapping[str, Any]) -> ToolOutcome:
        """Run one call of a tool of an MCP server, like `execute`."""
        return await self._execute(call_id, ReadCall(tool.name, args), tool)

    async def _execute(self, call_id: str, read: ReadCall, foreign: Tool[Any] | None) -> ToolOutcome:
        self._turn.stream.ensure(call_id, read.name)
        if (call := self._turn.registry.get(call_id)).status in FINAL_STATUSES:
            text = call.result.text if call.result else call.error or ""
            return ToolOutcome(self._marked(call, text), _outcome(call))
        tool = foreign or BY_NAME.get(read.name)
        task = asyncio.get_running_loop().create_task(self._run_and_count(call_id, tool, read), name=f"call {call_id}")
        self._tasks[call_id] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if call_id in self._stopped and not _task_is_cancelled():
                self._stopped_by_user(call_id)
                result = self._turn.registry.get(call_id).result
                said = "The user stopped this call. Ask the user, or continue without it."
                call = self._turn.registry.get(call_id)
                return ToolOutcome(f"{self._marked(call, result.text)}\n{said}" if result else said, "failed")
            self._stopped_by_user(call_id)
            raise
        finally:
            self._tasks.pop(call_id, None)

    async def answered(self, part: ToolReturnPart) -> None:
        """Handle a result that goes into the next request: close a call that never reached `execute` (an unknown tool,
        invalid arguments of a foreign one), and add to its error what helps the model."""
        registry = self._turn.registry
        call = registry.find(part.tool_call_id)
        if call is None or call.status in FINAL_STATUSES:
            return
        error = str(part.content)
        if part.tool_name not in self._turn.stream.foreign_tools:
            known = f"There is no tool {part.tool_name!r}; it is called {call.name}."
            names = ", ".join((*BY_NAME, *sorted(self._turn.stream.foreign_tools)))
            error = f"{read_call(BY_NAME, part.tool_name, {}).problem or known} The tools are: {names}."
        registry.move(call.id, CallStatus.FAILED, error=error[:2000])
        part.content = (await self._counted(call, ToolOutcome(error, "failed"))).text

    async def _run_and_count(self, call_id: str, tool: Tool[Any] | None, read: ReadCall) -> ToolOutcome:
        hook_words: list[str] = []
        outcome = await self._approve_and_run(call_id, tool, read, hook_words)
        call = self._turn.registry.get(call_id)
        if call.started_at is not None:
            response = {"status": call.status.value, "text": outcome.text}
            hooks = await self._hooks("PostToolUse", call_id, tool_response=response)
            hook_words += (*hooks.context, *filter(None, (hooks.block,)))
        notes = "".join((*(f"\n[note: {note}]" for note in read.notes), *(f"\n[hook: {word}]" for word in hook_words)))
        return await self._counted(call, replace(outcome, text=outcome.text + notes))

    async def _counted(self, call: CanonicalToolCall, outcome: ToolOutcome) -> ToolOutcome:
        """If the same call repeats with the same result, tell the model, and ask the user whether to continue."""
        repeats = self._repeats.setdefault(call.parent_id, Repeats())
        if outcome.outcome == "success":
            repeat = repeats.succeeded(call.name, call.args, outcome.text, changed=outcome.changed)
        else:
            repeat = repeats.failed(call.name, call.args, outcome.text)
        turn = self._turn
        if repeat.question is not None and await turn.ask_user(repeat.question, ("Go on", "Stop")) != "Go on":
            message = "The turn was stopped: it repeated the same call."
            turn.recording.notice("warning", message, "Tell the model what to do differently.")
            turn.stop.ask()
        return outcome if repeat.warning is None else replace(outcome, text=f"{outcome.text}\n{repeat.warning}")

    async def _hooks(self, event: Event, call_id: str, **fields: Any) -> HookOutcome:
        call = self._turn.registry.get(call_id)
        about = {"tool_name": call.name, "tool_input": dict(call.args), "tool_use_id": call.id}
        return await self._turn.ports.run_hooks(event, call.name, about | fields)

    async def _approve_and_run(
        self, call_id: str, tool: Tool[Any] | None, read: ReadCall, hook_words: list[str]
    ) -> ToolOutcome:
        """Run the call if it may. What hooks say before it is added to `hook_words`."""
        if tool is None or read.problem is not None:
            return self._failed(call_id, read.problem or "There is no tool with this name.")
        call = self._turn.registry.get(call_id)
        if (call.name, call.args) != (read.name, read.args):
            self._turn.registry.amend(call_id, name=read.name, args=read.args)
        try:
            parsed = tool.args.model_validate(read.args)
        except ValidationError as error:
            return self._failed(call_id, f"{argument_errors(error)}\nCorrect the arguments and call again.")
        # Enter before the first await, so that the order is the order of the calls.
        questions = self._approvals.question_order
        questions.enter(call_id)
        ticket = self._order.enter(None) if tool.category is Category.EXECUTE else None
        try:
            facts = await self._approvals.facts(tool, parsed)
            self._approvals.describe(call_id, tool, parsed)
            if tool.category is Category.WRITE:
                ticket = self._order.enter(_written_paths(facts))
            hooks = await self._hooks("PreToolUse", call_id)
            hook_words += hooks.context
            if hooks.block is not None:
                raise self._approvals.denied(call_id, tool, parsed, f"blocked by a hook: {hooks.block}")
            facts = replace(facts, hook=hooks.ask)
            if not call.may_ask and self._turn.ports.judge(facts).decision != "allow":
                raise self._approvals.denied(call_id, tool, parsed, "this would need approval; continue without it")
            if ticket is not None and (
                tool.category is Category.WRITE or self._approvals.tries(tool, self._turn.ports.judge(facts))
            ):
                if self._order.before(ticket):
                    questions.leave(call_id)  # it asks when an earlier call has ended; the later ones need not wait
                async with self._order.turn(ticket):  # the preview must include earlier writes
                    if tool.category is Category.WRITE:
                        return await self._run(call_id, tool, await self._approvals.allow(call_id, tool, parsed, facts))
                    facts = replace(await self._approvals.facts(tool, parsed), hook=hooks.ask)
                    allowed = await self._approvals.allow(call_id, tool, parsed, facts)
                    return await self._run(call_id, tool, await self._allow_if_changed(call_id, tool, allowed))
            allowed = await self._approvals.allow(call_id, tool, parsed, facts)
            if ticket is None:
                return await self._run(call_id, tool, allowed)
            async with self._order.turn(ticket):
                return await self._run(call_id, tool, await self._allow_if_changed(call_id, tool, allowed))
        except Denied as denied:
            self._turn.registry.move(call_id, CallStatus.DENIED, approval=denied.approval, error=denied.why)
            return ToolOutcome(denied.text, "denied")
        except PilotfishError as error:
            return self._failed(call_id, str(error))
        except Exception as error:
            log.exception("tool %s crashed", tool.name)
            return self._failed(call_id, f"{tool.name} failed: {type(error).__name__}: {error}")
        finally:
            questions.leave(call_id)
            if ticket is not None:
                self._order.leave(ticket)

    async def _allow_if_changed(self, call_id: str, tool: Tool[Any], allowed: Allowed) -> Allowed:
        """Approve a command again if the directory, or a file that it names, has changed since."""
        facts = replace(await self._approvals.facts(tool, allowed.args), hook=allowed.facts.hook)
        return allowed if facts == allowed.facts else await self._approvals.allow(call_id, tool, allowed.args, facts)

    # -- run ---------------------------------------------------------------------------------------------------

    async def _run(self, call_id: str, tool: Tool[Any], allowed: Allowed) -> ToolOutcome:
        turn = self._turn
        async with contextlib.nullcontext() if tool.delegates else self._slots:  # its calls take places of their own
            source = None if tool.own_words else self._source(tool, allowed.args, allowed.facts, allowed.leave)
            turn.registry.move(
                call_id,
                CallStatus.IN_PROGRESS,
                approval=allowed.approval,
                source=source,
                unrecorded=allowed.can_change_files,
            )
            # The ledger has the call before it takes effect.
            changes = tool.category in (Category.WRITE, Category.EXECUTE)
            await (turn.ports.wait_durable() if changes else turn.ports.wait_written())
            judged = {
                touch.path: Path(fact.path)
                for touch, fact in zip(tool.subject(allowed.args).touches, allowed.facts.paths, strict=False)
            }
            context = self._context(
                call_id,
                approved=allowed.versions,
                judged=judged,
                url=tool.subject(allowed.args).url,
                leave=allowed.leave,
                effects=allowed.effects,
            )
            result = await self._run_with_retries(tool, context, allowed.args)
            for change in result.changes:
                await turn.recording.record_change(call_id, change)
            if result.changes:
                await turn.ports.files_changed()
            return await self._completed(call_id, result, allowed)

    async def _run_with_retries(self, tool: Tool[Any], context: Context, args: Args) -> Result:
        retries = self._turn.settings.tool_retries if tool.repeatable else 0
        for attempt in range(retries + 1):
            try:
                return await tool.run(context, args)
            except RETRYABLE_ERRORS:
                if attempt == retries:
                    raise
                pause = FIRST_BACKOFF * 2**attempt
                await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 -- jitter, not a secret
        raise AssertionError("unreachable")

    async def _completed(self, call_id: str, result: Result, allowed: Allowed) -> ToolOutcome:
        turn = self._turn
        masked, found = mask(result.text)
        if found:
            turn.recording.notice(
                "warning", f"{len(found)} secret(s) in the output of a call were hidden from the model."
            )
        if not masked.strip():
            masked = "[no output]"  # some providers reject a blank result
        text, truncated = cut_middle(masked, turn.settings.max_tool_output, call_id)
        full = masked.encode("utf-8", "replace")
        call = turn.registry.get(call_id)
        stored = CallResult(
            text=text,
            truncated=truncated,
            bytes=len(full),
            blob=await turn.ports.store_blob(full) if truncated else None,
        )
        for image in result.images:
            content = [as_news(f"{call.title}:"), BinaryContent(image.data, media_type=image.media_type)]
            turn.steering.steer(content, lambda: None)
        status = CallStatus.FAILED if result.failed else CallStatus.COMPLETED
        turn.registry.move(call_id, status, result=stored, diff=result.diff)
        text = self._with_changes(call, self._marked(call, text))
        if allowed.approval.amended:
            args = allowed.args.model_dump_json(exclude_unset=True)
            text = f"The user amended the arguments. The call ran with: {args}\n{text}"
        outcome = "failed" if result.failed else "success"
        return ToolOutcome(text, outcome, changed=bool(result.changes))

    def _with_changes(self, call: CanonicalToolCall, text: str) -> str:
        """Append the names of files that changed since the model read them."""
        workspace = self._turn.workspace
        if call.category in ("write", "execute") and (changed := workspace.changed_since_read()):
            names = ", ".join(workspace.relative(path) for path in changed[:20])
            text = f"{text}\n[changed since you read them: {names}]"
        return text

    def _failed(self, call_id: str, message: str) -> ToolOutcome:
        masked, _ = mask(message)
        call = self._turn.registry.move(call_id, CallStatus.FAILED, error=masked)
        # A server or a page may have written the message. Errors of other tools are ours.
        strange = call.source is not None and call.source.kind in ("mcp", "web")
        return ToolOutcome(self._marked(call, masked) if strange else masked, "failed")

    def _marked(self, call: CanonicalToolCall, text: str) -> str:
        """The text as the model gets it: fenced, if others wrote some of it."""
        return text if call.source is None else fenced(text, call.source, self._turn.turn_id)

    def _source(self, tool: Tool[Any], args: Args, facts: CallFacts, leave: Leave) -> Source:
        """Where the result of a call comes from. More of an older output has the source of that output."""
        if isinstance(args, ReadOutput) and (older := self._turn.registry.find(args.call_id)) and older.source:
            return older.source
        if isinstance(args, BashOutput):
            downloads = any(call.name == "bash" and call.source and call.source.outside for call in self._turn.registry)
            return Source(kind="command", name=args.id or tool.name, outside=downloads)
        name = " ".join((tool.name, *(self._turn.workspace.relative(Path(fact.path)) for fact in facts.paths[:1])))
        without_network = leave.wall == "read_only" or leave.offline
        if facts.command is not None and not without_network:
            sandbox = self._turn.workspace.processes.sandbox
            without_network = sandbox.bwrap is not None and not sandbox.reach(leave.hosts)
        return source_of(facts, name, read_only=without_network)

    def _stopped_by_user(self, call_id: str) -> None:
        """Close a call with the output that it had until the user stopped it."""
        registry = self._turn.registry
        if registry.get(call_id).status in FINAL_STATUSES:
            return
        output, _ = mask(self._turn.stream.output_of(call_id))
        text, truncated = cut_middle(output, self._turn.settings.max_tool_output)
        result = CallResult(text=text, truncated=truncated, bytes=len(output.encode("utf-8", "replace")))
        registry.move(call_id, CallStatus.CANCELLED, error=STOPPED, result=result if text.strip() else None)

    def _close(self, call_id: str, status: CallStatus, error: str) -> None:
        if self._turn.registry.get(call_id).status not in FINAL_STATUSES:
            self._turn.registry.move(call_id, status, error=error)

    def _context(
        self,
        call_id: str,
        approved: Mapping[str, str] | None = None,
        judged: Mapping[str, Path] | None = None,
        url: str | None = None,
        leave: Leave = READ_ONLY_LEAVE,
        effects: Effects | None = None,
    ) -> Context:
        turn, call = self._turn, self._turn.registry.find(call_id)
        return Context(
            workspace=turn.workspace,
            call_id=call_id,
            progress=lambda text: turn.stream.progress(call_id, text),
            ask_user=turn.ask_user,
            search_web=partial(search_web, turn),
            delegate=partial(self._subagents.run, self, call_id),
            show_plan=turn.recording.show_plan,
            read_output=turn.ports.read_output,
            read_skill=turn.ports.read_skill,
            max_output=turn.settings.max_tool_output,
            timeout=turn.settings.tool_timeout,
            # A subagent has no steering.
            takes_images=call is not None and call.parent_id is None and turn.ports.takes_images(),
            network=_network(url) if turn.settings.network else "none",
            approved=approved or {},
            judged=judged or {},
            leave=leave,
            effects=effects,
        )


def _task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _written_paths(facts: CallFacts) -> frozenset[str]:
    return frozenset(fact.path for fact in facts.paths if fact.access != "read")


def _network(url: str | None) -> Network:
    """The network that a call may reach. Policy asks about every local address, so a call to one was approved."""
    host = host_of(url or "")
    return "local" if host is not None and local_address(host) is not None else "public"


def _outcome(call: CanonicalToolCall) -> Literal["success", "failed", "denied"]:
    if call.status is CallStatus.COMPLETED:
        return "success"
    return "denied" if call.status is CallStatus.DENIED else "failed"
