"""One call, from announcement to end: register → judge → ask → run (retry) → record. The only place where this is.

Hides: approval, ordering, retries, output limits, masking, before-images. Promises:
- a call runs only as it was judged: same arguments, same document versions, or it is asked again;
- every call that was announced reaches a final status, whatever happens;
- a tool's crash is an answer to the model, never the end of the turn.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from pilotfish.core.approvals import digest
from pilotfish.core.hosts import host_of, local_address
from pilotfish.core.messages import CallApproval, CallResult, CallStatus, CanonicalToolCall, Category
from pilotfish.core.policy import CallFacts, Verdict, describe
from pilotfish.core.secrets import mask
from pilotfish.engine.facts import collect
from pilotfish.engine.order import Order
from pilotfish.engine.ports import Answer
from pilotfish.errors import PilotfishError, ToolError
from pilotfish.tools.tool import Args, Context, Network, Preview, Result, Tool

if TYPE_CHECKING:
    from pilotfish.engine.orchestrator import RequestOrchestrator

log = logging.getLogger(__name__)

PASSING_ERRORS = (TimeoutError, ConnectionError, BlockingIOError, InterruptedError)
FIRST_BACKOFF = 0.2  # seconds; doubles with each try, with jitter
MAX_ASKS = 5  # how often one call is asked again because its documents moved on


@dataclass(frozen=True, slots=True)
class Returned:
    """What the model hears of a call."""

    text: str
    outcome: Literal["success", "failed", "denied", "retry"]


@dataclass(frozen=True, slots=True)
class _Allowed:
    args: Args
    facts: CallFacts
    approval: CallApproval
    preview: Preview | None = None
    """what the person saw"""


class _Denied(Exception):
    def __init__(self, text: str, approval: CallApproval) -> None:
        super().__init__(text)
        self.text = text
        self.approval = approval


class Calls:
    """The calls of one turn."""

    def __init__(self, turn: RequestOrchestrator) -> None:
        self._turn = turn
        self._order = Order()
        self._slots = asyncio.Semaphore(turn.settings.max_parallel_tools)
        self._tasks: dict[str, asyncio.Task[Returned]] = {}
        self._stopped: set[str] = set()

    async def stop(self, call_id: str) -> bool:
        """Stop one call and wait for its end; the turn goes on. False: it is not running."""
        task = self._tasks.get(call_id)
        if task is None or task.done():
            return False
        self._stopped.add(call_id)
        task.cancel()
        await asyncio.wait((task,))
        return True

    async def read_quietly(self, name: str, args: Mapping[str, Any]) -> str | None:
        """A read for the subagent: judged like any call, never asked. None: it would need a question."""
        from pilotfish.engine.agent import tools_by_name

        tool = tools_by_name()[name]
        try:
            parsed = tool.args.model_validate(dict(args))
        except ValidationError as error:
            raise ToolError(_argument_errors(error)) from error
        if self._turn.judge(await self._facts(tool, parsed)).decision != "allow":
            return None
        async with self._slots:
            result = await self._attempts(tool, self._context("", url=tool.subject(parsed).url), parsed)
        return cut_middle(result.text, self._turn.settings.max_tool_output)[0]

    async def execute(
        self,
        call_id: str,
        tool: Tool[Any] | None,
        args: Mapping[str, Any],
    ) -> Returned:
        """Run one call to its end. Cancelling this cancels the call, and waits until it is over."""
        task = asyncio.get_running_loop().create_task(self._whole(call_id, tool, args), name=f"call {call_id}")
        self._tasks[call_id] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if call_id in self._stopped and not _being_cancelled():
                self._close(call_id, CallStatus.CANCELLED, "stopped by the user")
                return Returned("The user stopped this call. Ask, or go on without it.", "failed")
            self._close(call_id, CallStatus.CANCELLED, "aborted by user")
            raise
        finally:
            self._tasks.pop(call_id, None)

    async def _whole(self, call_id: str, tool: Tool[Any] | None, args: Mapping[str, Any]) -> Returned:
        if tool is None:
            self._close(call_id, CallStatus.FAILED, "no such tool")
            return Returned("There is no tool of this name.", "failed")
        try:
            parsed = tool.args.model_validate(args)  # whatever the model wrote: a list, a number
        except ValidationError as error:
            text = _argument_errors(error)
            self._close(call_id, CallStatus.FAILED, text)
            return Returned(f"{text}\nCorrect the arguments and call again.", "retry")
        # Places in the line are taken before anything is awaited, so they are in the order of the calls.
        ticket = self._order.enter(None) if tool.category is Category.EXECUTE else None
        try:
            facts = await self._facts(tool, parsed)
            self._describe(call_id, tool, parsed)
            if tool.category is Category.WRITE:
                ticket = self._order.enter(_written(facts))
                async with self._order.turn(ticket):  # the preview must show the file as earlier writes left it
                    return await self._run(call_id, tool, await self._allow(call_id, tool, parsed, facts))
            allowed = await self._allow(call_id, tool, parsed, facts)
            if ticket is None:
                return await self._run(call_id, tool, allowed)
            async with self._order.turn(ticket):
                # Commands before this one may have changed directory, or what its words stand for.
                facts = await self._facts(tool, allowed.args)
                if facts != allowed.facts:
                    allowed = await self._allow(call_id, tool, allowed.args, facts)
                return await self._run(call_id, tool, allowed)
        except _Denied as denied:
            self._turn.registry.move(call_id, CallStatus.DENIED, approval=denied.approval, error=_why_denied(denied))
            return Returned(denied.text, "denied")
        except PilotfishError as error:
            return self._failed(call_id, str(error))
        except Exception as error:
            log.exception("tool %s crashed", tool.name)
            return self._failed(call_id, f"{tool.name} failed: {type(error).__name__}: {error}")
        finally:
            if ticket is not None:
                self._order.leave(ticket)

    # -- may it run? -------------------------------------------------------------------------------------------

    async def _allow(self, call_id: str, tool: Tool[Any], args: Args, facts: CallFacts) -> _Allowed:
        turn = self._turn
        asked: CallApproval | None = None
        for _ in range(MAX_ASKS):
            verdict = turn.judge(facts)
            if verdict.decision == "deny" and await turn.ports.gains_trust(facts):
                verdict = turn.judge(facts)
            preview = await self._preview(tool, args) if verdict.decision == "ask" or asked else None
            mark = digest(tool.name, args.model_dump(mode="json"), _versions(preview))
            if verdict.decision == "deny":
                approval = CallApproval(
                    decision="deny", by="rule", reason=verdict.reason, rule=_rule(verdict), digest=mark
                )
                turn.audit(call_id, tool.name, approval)
                raise _Denied(f"Not allowed: {verdict.reason}", approval)
            if asked is not None and asked.digest == mark:
                return _Allowed(args, facts, asked, preview)
            if verdict.decision == "allow" and asked is None:
                by: Literal["rule", "mode"] = "rule" if verdict.rule is not None else "mode"
                approval = CallApproval(
                    decision="allow", by=by, reason=verdict.reason, rule=_rule(verdict), digest=mark
                )
                turn.audit(call_id, tool.name, approval)
                return _Allowed(args, facts, approval)
            answer, question = await turn.question(call_id, tool, facts, verdict, preview, mark)
            if answer is None:
                approval = CallApproval(decision="deny", by="nobody", reason="nobody was there to answer", digest=mark)
                turn.audit(call_id, tool.name, approval)
                raise _Denied("Not allowed: nobody was there to answer the question.", approval)
            approval = CallApproval(
                decision="allow" if answer.option_id.startswith("allow") else "deny",
                by="user",
                reason=verdict.reason,
                approval_id=question.approval_id,
                option_id=answer.option_id,
                digest=mark,
                feedback=answer.feedback,
                amended=answer.args is not None,
            )
            if approval.decision == "deny":
                turn.audit(call_id, tool.name, approval)
                raise _Denied(_refusal(answer), approval)
            if answer.args is not None:
                args, facts = await self._amend(call_id, tool, answer.args)
                # The person wrote these arguments: their own answer is for them, at the versions they now meet.
                preview = await self._preview(tool, args)
                approval = replace(approval, digest=digest(tool.name, args.model_dump(mode="json"), _versions(preview)))
            turn.audit(call_id, tool.name, approval)
            asked = approval
        raise ToolError("the documents kept changing while the question was open; read them again and retry")

    async def _amend(self, call_id: str, tool: Tool[Any], args: Mapping[str, Any]) -> tuple[Args, CallFacts]:
        try:
            parsed: Args = tool.args.model_validate(dict(args))
        except ValidationError as error:
            raise ToolError(f"the amended arguments do not fit: {_argument_errors(error)}") from error
        self._turn.registry.amend(call_id, args=parsed.model_dump(mode="json", exclude_unset=True))
        self._describe(call_id, tool, parsed)
        return parsed, await self._facts(tool, parsed)

    async def _preview(self, tool: Tool[Any], args: Args) -> Preview | None:
        return None if tool.preview is None else await tool.preview(self._context(""), args)

    async def _facts(self, tool: Tool[Any], args: Args) -> CallFacts:
        """What policy is told. A command's words are looked up on the disk, which may take a while."""
        workspace, subject = self._turn.workspace, tool.subject(args)

        def gather() -> CallFacts:
            return collect(
                tool.name,
                tool.category,
                subject,
                resolve=workspace.resolve,
                directory=workspace.processes.cwd,
                args=args.model_dump(mode="json"),
            )

        return gather() if subject.command is None else await asyncio.to_thread(gather)

    def _describe(self, call_id: str, tool: Tool[Any], args: Args) -> None:
        self._turn.registry.amend(
            call_id,
            title=tool.title(args),
            category=tool.category,
            locations=tool.locations(self._context(call_id), args),
        )

    # -- run ---------------------------------------------------------------------------------------------------

    async def _run(self, call_id: str, tool: Tool[Any], allowed: _Allowed) -> Returned:
        turn = self._turn
        async with self._slots:
            turn.registry.move(call_id, CallStatus.IN_PROGRESS, approval=allowed.approval)
            await turn.settled()  # what is about to happen is on disk before it happens
            judged = {
                touch.path: Path(fact.path)
                for touch, fact in zip(tool.subject(allowed.args).touches, allowed.facts.paths, strict=False)
            }
            context = self._context(
                call_id, approved=_versions(allowed.preview), judged=judged, url=tool.subject(allowed.args).url
            )
            result = await self._attempts(tool, context, allowed.args)
            for change in result.changes:
                await turn.changed(call_id, change)
            return await self._completed(call_id, result, allowed)

    async def _attempts(self, tool: Tool[Any], context: Context, args: Args) -> Result:
        retries = self._turn.settings.tool_retries if tool.repeatable else 0
        for attempt in range(retries + 1):
            try:
                return await tool.run(context, args)
            except PASSING_ERRORS:
                if attempt == retries:
                    raise
                pause = FIRST_BACKOFF * 2**attempt
                await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 -- jitter, not a secret
        raise AssertionError("unreachable")

    async def _completed(self, call_id: str, result: Result, allowed: _Allowed) -> Returned:
        turn = self._turn
        masked, found = mask(result.text)
        if found:
            turn.notice("warning", f"{len(found)} secret(s) in the output of a call were hidden from the model.")
        if not masked.strip():
            masked = "[no output]"  # some providers refuse a blank result
        text, truncated = cut_middle(masked, turn.settings.max_tool_output, call_id)
        whole = masked.encode("utf-8", "replace")
        call = turn.registry.get(call_id)
        kept = CallResult(
            text=text,
            truncated=truncated,
            bytes=len(whole),
            blob=await turn.keep(whole) if truncated else None,
        )
        status = CallStatus.FAILED if result.failed else CallStatus.COMPLETED
        turn.registry.move(call_id, status, result=kept, diff=result.diff)
        await turn.check_repeats(call, text)
        text = await turn.after_call(call, text)
        if allowed.approval.amended:
            text = (
                f"The user amended the arguments; what ran: {allowed.args.model_dump_json(exclude_unset=True)}\n{text}"
            )
        return Returned(text, "failed" if result.failed else "success")

    def _failed(self, call_id: str, message: str) -> Returned:
        masked, _ = mask(message)
        self._turn.registry.move(call_id, CallStatus.FAILED, error=masked)
        return Returned(masked, "failed")

    def _close(self, call_id: str, status: CallStatus, error: str) -> None:
        call = self._turn.registry.get(call_id)
        if call.status not in (CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.DENIED, CallStatus.CANCELLED):
            self._turn.registry.move(call_id, status, error=error)

    def _context(
        self,
        call_id: str,
        approved: Mapping[str, str] | None = None,
        judged: Mapping[str, Path] | None = None,
        url: str | None = None,
    ) -> Context:
        turn = self._turn
        return Context(
            workspace=turn.workspace,
            call_id=call_id,
            progress=lambda text: turn.progress(call_id, text),
            ask_user=turn.ask_user,
            research=turn.research,
            show_plan=turn.show_plan,
            read_output=turn.read_output,
            max_output=turn.settings.max_tool_output,
            timeout=turn.settings.tool_timeout,
            network=_network(url) if turn.settings.network else "none",
            approved=approved or {},
            judged=judged or {},
        )


def cut_middle(text: str, limit: int, call_id: str = "") -> tuple[str, bool]:
    """The head and the tail, `limit` bytes of UTF-8, and between them what is missing and how to read it."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    head, tail = data[: limit * 2 // 3], data[len(data) - limit // 3 :]
    missing = len(data) - len(head) - len(tail)
    line = head.count(b"\n") + 1
    more = f'; read_output(call_id="{call_id}", line={line}) reads on' if call_id else ""
    middle = f"\n[… {missing:,} bytes cut{more} …]\n"
    return head.decode("utf-8", "ignore") + middle + tail.decode("utf-8", "ignore"), True


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _written(facts: CallFacts) -> frozenset[str]:
    return frozenset(fact.path for fact in facts.paths if fact.access != "read")


def _versions(preview: Preview | None) -> dict[str, str]:
    return {} if preview is None else {str(file.path): file.version for file in preview.files}


def _network(url: str | None) -> Network:
    """What a call may reach. Policy asks about every local address by name: one that runs was allowed."""
    host = host_of(url or "")
    return "local" if host is not None and local_address(host) is not None else "public"


def _rule(verdict: Verdict) -> str | None:
    return None if verdict.rule is None else describe(verdict.rule)


def _why_denied(denied: _Denied) -> str:
    approval = denied.approval
    if approval.by != "user":
        return denied.text
    return f"denied by the user: {approval.feedback}" if approval.feedback else "denied by the user"


def _refusal(answer: Answer) -> str:
    if answer.feedback:
        return f"The user denied this call and says: {answer.feedback}"
    return "The user denied this call. Do not try it another way; ask what they want, or go on without it."


def _argument_errors(error: ValidationError) -> str:
    lines = [
        f"{'.'.join(str(step) for step in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "The arguments do not fit. " + "; ".join(lines)


def is_open(call: CanonicalToolCall) -> bool:
    return call.status in (CallStatus.PENDING, CallStatus.AWAITING_APPROVAL, CallStatus.IN_PROGRESS)
