"""Decides whether a call may run: policy judges it, the user is asked where policy requires it.

Hides: how facts are collected, that a document may change while its question is open, that the user may amend the
arguments, that a command may be tried out first. Promises: an approval holds for one digest, that is for exact
arguments and for the versions of the documents they touch, or for the exact effects of a command that was tried out;
every decision is in the audit trail.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from pilotfish.conversation.messages import CallApproval, CallStatus, CanonicalToolCall
from pilotfish.engine.frontend import Answer, Question
from pilotfish.engine.questions.pending_approvals import options
from pilotfish.engine.turn.calls.facts import collect, fact_of
from pilotfish.engine.turn.calls.order import QuestionOrder
from pilotfish.engine.turn.context import TurnContext
from pilotfish.errors import PilotfishError, StaleEdit, ToolError
from pilotfish.policy.audit_chain import digest
from pilotfish.policy.places import is_installed
from pilotfish.policy.rule_suggestions import describe
from pilotfish.policy.rules import COMMAND_TOOLS, CallFacts
from pilotfish.policy.shell.analysis import study
from pilotfish.policy.shell.effects import Effect
from pilotfish.policy.taint import taint_of, user_words
from pilotfish.policy.verdict import Verdict, Wall
from pilotfish.text.display_safe import exact, mixed_scripts, one_line
from pilotfish.tools.tool import Args, Context, Preview, Tool
from pilotfish.workspace.edits.drafts import Delete
from pilotfish.workspace.effects import Effects, NotApplicable, preview_effects
from pilotfish.workspace.impact import impact_of
from pilotfish.workspace.process.launcher import Leave
from pilotfish.workspace.sandbox.proxy import EVERY_HOST

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
    offline: bool = False
    """a command runs without network: it was allowed without a question after text from outside was read"""
    network: bool = False
    """a command may use the network: that was asked about"""
    approves_command: bool = False
    """the user or a rule approved the command itself, not only a file that it uses"""
    preview: Preview | None = None
    """what the user saw"""
    effects: Effects | None = None
    """what the user saw of a command: these are applied, it does not run again"""

    @property
    def leave(self) -> Leave:
        """What the sandbox permits the command: what the user or a rule approved. Its paths are not hidden or
        protected, those outside the workspace can be written, and the network is open if that was asked about."""
        asked = self.approval.by == "user" or self.approval.rule is not None
        if not asked:
            return Leave(wall=self.wall, offline=self.offline, hides_secrets=True)
        outside = [fact.path for fact in self.facts.paths if not fact.inside and not is_installed(fact.path)]
        return Leave(
            wall=self.wall,
            paths=tuple(Path(fact.path) for fact in self.facts.paths if not fact.below),
            offline=self.offline or self.effects is not None,
            hosts=(EVERY_HOST,) if self.network else (),
            writable=tuple(map(Path, outside)),
            hides_secrets=not self.approves_command,
        )

    @property
    def can_change_files(self) -> bool:
        """Whether it is a command that may change files without a record of what it changes."""
        command = self.facts.command
        if command is None or self.wall == "read_only" or self.effects is not None:
            return False
        return study(command).effect is not Effect.READS

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
        self.question_order = QuestionOrder()

    async def facts(self, tool: Tool[Any], args: Args) -> CallFacts:
        """Collect the facts for policy. For a command this reads the disk, so it runs in a thread."""
        workspace, subject = self._turn.workspace, tool.subject(args)
        values = args.model_dump(mode="json")

        def gather() -> CallFacts:
            sandbox = None if subject.command is None else workspace.processes.sandbox
            facts = collect(
                tool.name,
                tool.category,
                subject,
                resolve=workspace.resolve,
                directory=workspace.processes.cwd,
                walled=sandbox is not None and sandbox.read_only.stands,
                confined=sandbox is not None and sandbox.bwrap is not None,
                args=values,
            )
            outside = self._turn.outside
            if not outside:
                return facts
            cuts = sandbox is not None and sandbox.bwrap is not None
            words = user_words(self._ports.prompts)
            return replace(facts, taint=taint_of(facts, values, outside, words, can_cut_network=cuts))

        return gather() if subject.command is None else await asyncio.to_thread(gather)

    def describe(self, call_id: str, tool: Tool[Any], args: Args) -> None:
        """Set title, category and locations of a call from its parsed arguments."""
        self._turn.registry.amend(
            call_id,
            title=tool.title(args),
            category=tool.category,
            locations=tool.locations(self._context(call_id), args),
        )

    def denied(self, call_id: str, tool: Tool[Any], args: Args, reason: str) -> Denied:
        """The error to raise for a call that something other than policy denies."""
        approval = CallApproval(decision="deny", by="rule", reason=reason, digest=_digest(tool, args, None))
        self._audit(call_id, tool, approval)
        return Denied(f"Not allowed: {reason}", approval)

    async def allow(self, call_id: str, tool: Tool[Any], args: Args, facts: CallFacts) -> Allowed:
        """Return the approved call. Raises `Denied` if it may not run."""
        try:
            return await self._allow(call_id, tool, args, facts)
        finally:
            self.question_order.leave(call_id)

    async def _allow(self, call_id: str, tool: Tool[Any], args: Args, facts: CallFacts) -> Allowed:
        asked: CallApproval | None = None
        effects: Effects | None = None
        may_try, untried = True, ""
        for _ in range(MAX_ASKS):
            verdict = self._ports.judge(facts)
            if verdict.decision == "deny" and await self._ports.ask_for_trust(facts):
                verdict = self._ports.judge(facts)
            if may_try and (effects is not None or self.tries(tool, verdict)):
                effects, untried = await self._try(tool, args, effects)
                may_try = effects is not None
                if effects is not None:
                    verdict = self._ports.judge(self._with_effects(facts, effects))
            try:
                preview = await self._preview(tool, args, effects) if verdict.decision == "ask" or asked else None
            except StaleEdit:
                if effects is None:
                    raise
                continue  # a file has just changed: try it again
            mark = _digest(tool, args, preview)
            if verdict.decision == "deny":
                approval = CallApproval(
                    decision="deny", by="rule", reason=verdict.reason, rule=_rule(verdict), digest=mark
                )
                self._audit(call_id, tool, approval)
                raise Denied(f"Not allowed: {verdict.reason}", approval)
            if asked is not None and asked.digest == mark:
                return Allowed(
                    args,
                    facts,
                    asked,
                    verdict.wall,
                    network=verdict.network,
                    preview=preview,
                    approves_command=True,
                    effects=effects,
                )
            if verdict.decision == "allow" and asked is None:
                by: Literal["rule", "mode"] = "rule" if verdict.rule is not None else "mode"
                approval = CallApproval(
                    decision="allow", by=by, reason=verdict.reason, rule=_rule(verdict), digest=mark
                )
                self._audit(call_id, tool, approval)
                return Allowed(
                    args,
                    facts,
                    approval,
                    verdict.wall,
                    offline=verdict.offline,
                    network=verdict.network,
                    approves_command=verdict.rule is not None and verdict.rule.tool in COMMAND_TOOLS,
                )
            question = await self._question(call_id, tool, facts, verdict, preview, mark, untried)
            await self.question_order.turn(call_id)
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
            if answer.args is not None or answer.option_id == "allow_real":
                # The user wrote these arguments, or wants the command to run, so the approval holds for that, at the
                # current document versions.
                effects, may_try = None, False
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
        untried: str,
    ) -> Question:
        registry = self._turn.registry
        if registry.get(call_id).status is not CallStatus.AWAITING_APPROVAL:
            registry.move(call_id, CallStatus.AWAITING_APPROVAL)
        await self._ports.wait_written()
        if preview is not None and preview.files:
            preview = replace(preview, impact=await impact_of(self._turn.workspace, preview.files))
        call = registry.get(call_id)
        return Question(
            approval_id=self._ports.new_id("apr"),
            session_id=self._ports.session_id,
            turn_id=self._turn.turn_id,
            call=call,
            reason=verdict.reason + _disguises(call),
            digest=mark,
            preview=preview or Preview(kind="text", text=_as_text(call)),
            parsed=(*verdict.commands, *_stays(preview), *_trial(preview, untried)),
            options=options(facts, once=verdict.once, tried=preview is not None and preview.tried is not None),
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

    async def _preview(self, tool: Tool[Any], args: Args, effects: Effects | None = None) -> Preview | None:
        context = replace(self._context(""), effects=effects)
        return None if tool.preview is None else await tool.preview(context, args)

    # -- trials ------------------------------------------------------------------------------------------------

    def tries(self, tool: Tool[Any], verdict: Verdict) -> bool:
        """Whether a call is tried out before its question."""
        return tool.try_out is not None and verdict.can_be_tried and self._turn.settings.try_commands

    async def _try(self, tool: Tool[Any], args: Args, known: Effects | None) -> tuple[Effects | None, str]:
        """The effects of the call: those known, if the files are still as they were. None with the reason if they
        cannot be shown and applied exactly."""
        with contextlib.suppress(PilotfishError):
            if known is not None:
                await preview_effects(self._turn.workspace, known)
                return known, ""
        if tool.try_out is None:
            return None, ""
        try:
            return await tool.try_out(self._context(""), args), ""
        except NotApplicable as error:
            return None, str(error)

    def _with_effects(self, facts: CallFacts, effects: Effects) -> CallFacts:
        """The facts with every file that the command changes, so that rules and sensitive names apply to them."""
        resolve = self._turn.workspace.resolve
        touched = [
            fact_of("delete" if isinstance(intent, Delete) else "write", resolve(str(path)))
            for path, intent in effects.intents.items()
        ]
        return replace(facts, paths=(*facts.paths, *touched))

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
    """The preview of a call whose tool has no preview of its own: the whole of its arguments, nothing invisible."""
    return exact(f"{call.title}\n{json.dumps(call.args, indent=2, ensure_ascii=False)}" if call.args else call.title)


def _stays(preview: Preview | None) -> tuple[str, ...]:
    return ("keeps running in the background",) if preview is not None and preview.background else ()


def _trial(preview: Preview | None, untried: str) -> tuple[str, ...]:
    """What was tried, for clients that show no effects."""
    if untried:
        return (f"was tried in a copy of the workspace, without a result to show: {one_line(untried)}",)
    if preview is None or preview.tried is None:
        return ()
    changed = f"changes {len(preview.files)} file{'s' if len(preview.files) != 1 else ''}"
    return (f"was tried in a copy of the workspace: it {changed}; allowed, exactly that is applied",)


def _disguises(call: CanonicalToolCall) -> str:
    """A warning about words that look like others, for the reason of the question, which every client shows."""
    found = mixed_scripts(json.dumps(call.args, ensure_ascii=False))
    return f". Warning: it has letters of another script: {one_line('; '.join(found[:3]))}" if found else ""


def _rule(verdict: Verdict) -> str | None:
    return None if verdict.rule is None else describe(verdict.rule)


def _refusal(answer: Answer) -> str:
    if answer.feedback:
        return f"The user denied this call with this comment: {answer.feedback}"
    return "The user denied this call. Do not try the same thing in another way. Ask the user, or continue without it."
