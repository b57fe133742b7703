"""Runs one call from start to end: register → approve (`approvals.py`) → run, with retries → record.

Hides: ordering, retries, output limits, masking, before-images. Promises:
- a call runs only with the approved arguments and document versions; if they change, it is approved again;
- every announced call reaches a final status;
- an exception in a tool is a failed result for the model and does not end the turn.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from pilotfish.conversation.messages import FINAL_STATUSES, CallResult, CallStatus, CanonicalToolCall, Category
from pilotfish.conversation.repeated_calls import Repeats
from pilotfish.engine.turn.approvals import Allowed, CallApprovals, Denied, argument_errors
from pilotfish.engine.turn.call_order import Order
from pilotfish.engine.turn.context import TurnContext
from pilotfish.engine.turn.subagents import research
from pilotfish.errors import PilotfishError, ToolError
from pilotfish.policy.hosts import host_of, local_address
from pilotfish.policy.judge import CallFacts
from pilotfish.policy.secrets import mask
from pilotfish.tools import BY_NAME
from pilotfish.tools.tool import Args, Context, Network, Result, Tool
from pilotfish.workspace.process.processes import READ_ONLY_LEAVE, Leave

log = logging.getLogger(__name__)

RETRYABLE_ERRORS = (TimeoutError, ConnectionError, BlockingIOError, InterruptedError)
FIRST_BACKOFF = 0.2  # seconds; doubles with each try, with jitter


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call, for the model."""

    text: str
    outcome: Literal["success", "failed", "denied", "retry"]


class ToolRunner:
    """The calls of one turn."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._order = Order()
        self._slots = asyncio.Semaphore(turn.settings.max_parallel_tools)
        self._tasks: dict[str, asyncio.Task[ToolOutcome]] = {}
        self._stopped: set[str] = set()
        self._approvals = CallApprovals(turn, self._context)
        self._repeats = Repeats()

    async def stop(self, call_id: str) -> bool:
        """Stop one call and wait for its end; the turn continues. Returns False if the call is not running."""
        task = self._tasks.get(call_id)
        if task is None or task.done():
            return False
        self._stopped.add(call_id)
        task.cancel()
        await asyncio.wait((task,))
        return True

    async def run_without_asking(self, name: str, args: Mapping[str, Any]) -> str | None:
        """Run a reading tool for the research subagent. Returns None if policy would ask the user or deny the call."""
        tool = BY_NAME[name]
        try:
            parsed = tool.args.model_validate(dict(args))
        except ValidationError as error:
            raise ToolError(argument_errors(error)) from error
        if self._turn.ports.judge(await self._approvals.facts(tool, parsed)).decision != "allow":
            return None
        async with self._slots:
            result = await self._run_with_retries(tool, self._context("", url=tool.subject(parsed).url), parsed)
        return cut_middle(result.text, self._turn.settings.max_tool_output)[0]

    async def execute(self, call_id: str, name: str, tool: Tool[Any] | None, args: Mapping[str, Any]) -> ToolOutcome:
        """Run one call to its end. Cancelling this cancels the call and waits for its end. A call that ended before a
        crash does not run again; its stored result is returned."""
        self._turn.stream.ensure(call_id, name)
        if (call := self._turn.registry.get(call_id)).status in FINAL_STATUSES:
            return ToolOutcome(call.result.text if call.result else call.error or "", _outcome(call))
        task = asyncio.get_running_loop().create_task(
            self._approve_and_run(call_id, tool, args), name=f"call {call_id}"
        )
        self._tasks[call_id] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if call_id in self._stopped and not _task_is_cancelled():
                self._close(call_id, CallStatus.CANCELLED, "stopped by the user")
                return ToolOutcome("The user stopped this call. Ask the user, or continue without it.", "failed")
            self._close(call_id, CallStatus.CANCELLED, "aborted by user")
            raise
        finally:
            self._tasks.pop(call_id, None)

    def answered(self, call_id: str, content: str) -> None:
        """Handle a result: close a call that never reached `execute` (unknown tool, invalid JSON)."""
        registry = self._turn.registry
        if call_id in registry and registry.get(call_id).status not in FINAL_STATUSES:
            registry.move(call_id, CallStatus.FAILED, error=content[:2000])

    async def _approve_and_run(self, call_id: str, tool: Tool[Any] | None, args: Mapping[str, Any]) -> ToolOutcome:
        if tool is None:
            self._close(call_id, CallStatus.FAILED, "no such tool")
            return ToolOutcome("There is no tool with this name.", "failed")
        try:
            parsed = tool.args.model_validate(args)  # may be any JSON value, such as a list or a number
        except ValidationError as error:
            text = argument_errors(error)
            self._close(call_id, CallStatus.FAILED, text)
            return ToolOutcome(f"{text}\nCorrect the arguments and call again.", "retry")
        # Enter before the first await, so that the order is the order of the calls.
        ticket = self._order.enter(None) if tool.category is Category.EXECUTE else None
        try:
            facts = await self._approvals.facts(tool, parsed)
            self._approvals.describe(call_id, tool, parsed)
            if tool.category is Category.WRITE:
                ticket = self._order.enter(_written_paths(facts))
                async with self._order.turn(ticket):  # the preview must include earlier writes
                    return await self._run(call_id, tool, await self._approvals.allow(call_id, tool, parsed, facts))
            allowed = await self._approvals.allow(call_id, tool, parsed, facts)
            if ticket is None:
                return await self._run(call_id, tool, allowed)
            async with self._order.turn(ticket):
                # Earlier commands may have changed the directory or the files that the command names.
                facts = await self._approvals.facts(tool, allowed.args)
                if facts != allowed.facts:
                    allowed = await self._approvals.allow(call_id, tool, allowed.args, facts)
                return await self._run(call_id, tool, allowed)
        except Denied as denied:
            self._turn.registry.move(call_id, CallStatus.DENIED, approval=denied.approval, error=denied.why)
            return ToolOutcome(denied.text, "denied")
        except PilotfishError as error:
            return self._failed(call_id, str(error))
        except Exception as error:
            log.exception("tool %s crashed", tool.name)
            return self._failed(call_id, f"{tool.name} failed: {type(error).__name__}: {error}")
        finally:
            if ticket is not None:
                self._order.leave(ticket)

    # -- run ---------------------------------------------------------------------------------------------------

    async def _run(self, call_id: str, tool: Tool[Any], allowed: Allowed) -> ToolOutcome:
        turn = self._turn
        async with self._slots:
            turn.registry.move(call_id, CallStatus.IN_PROGRESS, approval=allowed.approval)
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
            )
            result = await self._run_with_retries(tool, context, allowed.args)
            for change in result.changes:
                await turn.recording.record_change(call_id, change)
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
        status = CallStatus.FAILED if result.failed else CallStatus.COMPLETED
        turn.registry.move(call_id, status, result=stored, diff=result.diff)
        await self._check_repeats(call, text)
        text = self._with_changes(call, text)
        if allowed.approval.amended:
            args = allowed.args.model_dump_json(exclude_unset=True)
            text = f"The user amended the arguments. The call ran with: {args}\n{text}"
        return ToolOutcome(text, "failed" if result.failed else "success")

    async def _check_repeats(self, call: CanonicalToolCall, text: str) -> None:
        """If the same call repeats with the same result, ask the user whether to continue, else stop the turn."""
        question = self._repeats.note(call.name, call.args, text)
        if question is None:
            return
        turn = self._turn
        if await turn.ask_user(question, ("Go on", "Stop")) != "Go on":
            message = "The turn was stopped: it repeated the same call."
            turn.recording.notice("warning", message, "Tell the model what to do differently.")
            turn.stop.ask()

    def _with_changes(self, call: CanonicalToolCall, text: str) -> str:
        """Append the names of files that changed since the model read them."""
        workspace = self._turn.workspace
        if call.category in ("write", "execute") and (changed := workspace.changed_since_read()):
            names = ", ".join(workspace.relative(path) for path in changed[:20])
            text = f"{text}\n[changed since you read them: {names}]"
        return text

    def _failed(self, call_id: str, message: str) -> ToolOutcome:
        masked, _ = mask(message)
        self._turn.registry.move(call_id, CallStatus.FAILED, error=masked)
        return ToolOutcome(masked, "failed")

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
    ) -> Context:
        turn = self._turn
        return Context(
            workspace=turn.workspace,
            call_id=call_id,
            progress=lambda text: turn.stream.progress(call_id, text),
            ask_user=turn.ask_user,
            research=self._research,
            show_plan=turn.recording.show_plan,
            read_output=turn.ports.read_output,
            max_output=turn.settings.max_tool_output,
            timeout=turn.settings.tool_timeout,
            network=_network(url) if turn.settings.network else "none",
            approved=approved or {},
            judged=judged or {},
            leave=leave,
        )

    async def _research(self, question: str, progress: Callable[[str], None]) -> str:
        turn = self._turn
        return await research(
            question, model=turn.model(), meter=turn.meter, run_tool=self.run_without_asking, progress=progress
        )


def cut_middle(text: str, limit: int, call_id: str = "") -> tuple[str, bool]:
    """Cut text to `limit` bytes of UTF-8: head, a hint how to read the rest, tail. Also returns whether it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    head, tail = data[: limit * 2 // 3], data[len(data) - limit // 3 :]
    missing = len(data) - len(head) - len(tail)
    line = head.count(b"\n") + 1
    more = f'; read_output(call_id="{call_id}", line={line}) reads on' if call_id else ""
    middle = f"\n[… {missing:,} bytes cut{more} …]\n"
    return head.decode("utf-8", "ignore") + middle + tail.decode("utf-8", "ignore"), True


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
