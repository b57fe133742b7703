"""Decides whether a call may run: policy judges it, the user is asked where policy requires it.

Hides: how facts are collected, that a document may change while its question is open, that the user may amend the
arguments. Promises: an approval holds for one digest, that is for exact arguments and for the versions of the documents
they touch; every decision is in the audit trail.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from pilotfish.conversation.messages import CallApproval, CallStatus, CanonicalToolCall
from pilotfish.engine.frontend import Answer, Question
from pilotfish.engine.pending_approvals import options
from pilotfish.engine.turn.call_facts import collect
from pilotfish.engine.turn.context import TurnContext
from pilotfish.errors import ToolError
from pilotfish.policy.audit_chain import digest
from pilotfish.policy.judge import CallFacts, Verdict, Wall, describe
from pilotfish.tools.tool import Args, Context, Preview, Tool
from pilotfish.workspace.process.processes import Leave

MAX_ASKS = 5  # questions about one call whose documents change meanwhile
AMENDABLE = frozenset({"bash", "write_file", "update_file"})


@dataclass(frozen=True, slots=True)
class Allowed:
    """A call that may run, with the approved arguments."""

    args: Args
    facts: CallFacts
    approval: CallApproval
    wall: Wall
    """the sandbox that it must run in"""
    preview: Preview | None = None
    """what the user saw"""

    @property
    def leave(self) -> Leave:
        """What the sandbox permits the command: paths that the user or a rule approved are not hidden or protected."""
        asked = self.approval.by == "user" or self.approval.rule is not None
        return Leave(wall=self.wall, paths=tuple(Path(fact.path) for fact in self.facts.paths) if asked else ())

    @property
    def versions(self) -> dict[str, str]:
        """path → the approved version of the document"""
        return _versions(self.preview)


class Denied(Exception):
    """The call may not run. `text` is the result for the model, `why` the reason in the transcript."""

    def __init__(self, text: str, approval: CallApproval) -> None:
        super().__init__(text)
        self.text = text
        self.approval = approval

    @property
    def why(self) -> str:
        if self.approval.by != "user":
            return self.text
        return f"denied by the user: {self.approval.feedback}" if self.approval.feedback else "denied by the user"


class CallApprovals:
    """Approvals of the calls of one turn. `context` returns the tool context of a call id."""

    def __init__(self, turn: TurnContext, context: Callable[[str], Context]) -> None:
        self._turn = turn
        self._ports = turn.ports
        self._context = context

    async def facts(self, tool: Tool[Any], args: Args) -> CallFacts:
        """Collect the facts for policy. For a command this reads the disk, so it runs in a thread."""
        workspace, subject = self._turn.workspace, tool.subject(args)

        def gather() -> CallFacts:
            return collect(
                tool.name,
                tool.category,
                subject,
                resolve=workspace.resolve,
                directory=workspace.processes.cwd,
                walled=subject.command is not None and workspace.processes.sandbox.read_only.stands,
                args=args.model_dump(mode="json"),
            )

        return gather() if subject.command is None else await asyncio.to_thread(gather)

    def describe(self, call_id: str, tool: Tool[Any], args: Args) -> None:
        """Set title, category and locations of a call from its parsed arguments."""
        self._turn.registry.amend(
            call_id,
            title=tool.title(args),
            category=tool.category,
            locations=tool.locations(self._context(call_id), args),
        )

    async def allow(self, call_id: str, tool: Tool[Any], args: Args, facts: CallFacts) -> Allowed:
        """Return the approved call. Raises `Denied` if it may not run."""
        asked: CallApproval | None = None
        for _ in range(MAX_ASKS):
            verdict = self._ports.judge(facts)
            if verdict.decision == "deny" and await self._ports.ask_for_trust(facts):
                verdict = self._ports.judge(facts)
            preview = await self._preview(tool, args) if verdict.decision == "ask" or asked else None
            mark = _digest(tool, args, preview)
            if verdict.decision == "deny":
                approval = CallApproval(
                    decision="deny", by="rule", reason=verdict.reason, rule=_rule(verdict), digest=mark
                )
                self._audit(call_id, tool, approval)
                raise Denied(f"Not allowed: {verdict.reason}", approval)
            if asked is not None and asked.digest == mark:
                return Allowed(args, facts, asked, verdict.wall, preview)
            if verdict.decision == "allow" and asked is None:
                by: Literal["rule", "mode"] = "rule" if verdict.rule is not None else "mode"
                approval = CallApproval(
                    decision="allow", by=by, reason=verdict.reason, rule=_rule(verdict), digest=mark
                )
                self._audit(call_id, tool, approval)
                return Allowed(args, facts, approval, verdict.wall)
            question = await self._question(call_id, tool, facts, verdict, preview, mark)
            answer = await self._ports.ask(question)
            if answer is None:
                approval = CallApproval(decision="deny", by="nobody", reason="no client could answer", digest=mark)
                self._audit(call_id, tool, approval)
                raise Denied("Not allowed: no client could answer the question.", approval)
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
                self._audit(call_id, tool, approval)
                raise Denied(_refusal(answer), approval)
            if answer.args is not None:
                args, facts = await self._amend(call_id, tool, answer.args)
                # The user wrote these arguments, so the approval holds for them, at the current document versions.
                approval = replace(approval, digest=_digest(tool, args, await self._preview(tool, args)))
            self._audit(call_id, tool, approval)
            asked = approval
        raise ToolError("the files kept changing while the question was open; read them again and retry")

    async def _question(
        self,
        call_id: str,
        tool: Tool[Any],
        facts: CallFacts,
        verdict: Verdict,
        preview: Preview | None,
        mark: str,
    ) -> Question:
        registry = self._turn.registry
        if registry.get(call_id).status is not CallStatus.AWAITING_APPROVAL:
            registry.move(call_id, CallStatus.AWAITING_APPROVAL)
        await self._ports.wait_written()
        call = registry.get(call_id)
        return Question(
            approval_id=self._ports.new_id("apr"),
            session_id=self._ports.session_id,
            turn_id=self._turn.turn_id,
            call=call,
            reason=verdict.reason,
            digest=mark,
            preview=preview or Preview(kind="text", text=_as_text(call)),
            parsed=verdict.commands,
            options=options(facts),
            amendable=tool.name in AMENDABLE,
        )

    async def _amend(self, call_id: str, tool: Tool[Any], args: Mapping[str, Any]) -> tuple[Args, CallFacts]:
        try:
            parsed: Args = tool.args.model_validate(dict(args))
        except ValidationError as error:
            raise ToolError(f"the amended arguments are invalid: {argument_errors(error)}") from error
        self._turn.registry.amend(call_id, args=parsed.model_dump(mode="json", exclude_unset=True))
        self.describe(call_id, tool, parsed)
        return parsed, await self.facts(tool, parsed)

    async def _preview(self, tool: Tool[Any], args: Args) -> Preview | None:
        return None if tool.preview is None else await tool.preview(self._context(""), args)

    def _audit(self, call_id: str, tool: Tool[Any], approval: CallApproval) -> None:
        self._ports.audit(self._turn.turn_id, call_id, tool.name, approval)


def argument_errors(error: ValidationError) -> str:
    """Describe the validation errors of a call's arguments, for the model."""
    lines = [
        f"{'.'.join(str(step) for step in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "The arguments are invalid. " + "; ".join(lines)


def _digest(tool: Tool[Any], args: Args, preview: Preview | None) -> str:
    return digest(tool.name, args.model_dump(mode="json"), _versions(preview))


def _versions(preview: Preview | None) -> dict[str, str]:
    return {} if preview is None else {str(file.path): file.version for file in preview.files}


def _as_text(call: CanonicalToolCall) -> str:
    """The preview of a call whose tool has no preview of its own."""
    return f"{call.title}\n{json.dumps(call.args, indent=2, ensure_ascii=False)}" if call.args else call.title


def _rule(verdict: Verdict) -> str | None:
    return None if verdict.rule is None else describe(verdict.rule)


def _refusal(answer: Answer) -> str:
    if answer.feedback:
        return f"The user denied this call with this comment: {answer.feedback}"
    return "The user denied this call. Do not try the same thing in another way. Ask the user, or continue without it."
