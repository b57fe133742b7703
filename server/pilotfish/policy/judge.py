"""Decides whether a call is allowed, needs approval or is denied.

`judge` is pure. `engine/turn/calls/facts.py` collects the facts, and the call is judged again if they change.
The first of these steps that applies decides:

1. A destructive command is denied, in every mode and whatever the rules say.
2. A deny rule denies.
3. In plan mode and in an untrusted folder, a call that may change something is denied.
4. An ask rule asks.
   A call that a hook wants to be asked about asks.
   A call that loses every automatic yes because text from outside was read asks (`taint.py`).
5. A call that touches something sensitive asks, unless an allow rule names that thing.
6. An allow rule allows.
7. The mode decides.

The verdict names the sandbox in which the call must run, and the sandbox enforces what the analysis of the text only
predicts. Without a question run: in every mode, what only reads, in the read-only sandbox; in `ask` and `plan`, also
tests, linters and inline code, in the same sandbox; in `edit`, what changes only the workspace, in the workspace
sandbox without network; in `auto`, everything but what cannot be taken back, in the same sandbox. Where no read-only
sandbox is available, only the commands of `plain_commands.py` count as reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from pilotfish.conversation.messages import Category
from pilotfish.policy import taint
from pilotfish.policy.case import Case
from pilotfish.policy.rule_matching import allowed_by, hits, near_miss
from pilotfish.policy.rule_suggestions import describe
from pilotfish.policy.rules import MCP_DIGEST, CallFacts, Decision, Rule, most_specific
from pilotfish.policy.sensitive import sensitive
from pilotfish.policy.shell import analysis
from pilotfish.policy.shell.effects import Effect
from pilotfish.policy.verdict import Mode, Verdict
from pilotfish.text.display_safe import one_line


def judge(facts: CallFacts, mode: Mode | str, rules: Sequence[Rule] = (), trusted: bool = True) -> Verdict:
    """Judge a call. A repository's rules can only restrict, and those of an untrusted folder are ignored."""
    return _decide(Case(facts, Mode(mode), rules, trusted))


def _decide(case: Case) -> Verdict:
    if case.study is not None and case.study.destroys:
        return _verdict(case, "deny", f"refused in every mode: {one_line(case.study.destroys)}")
    if rule := most_specific(rule for rule in case.rules if rule.decision == "deny" and hits(case, rule)):
        return _verdict(case, "deny", f"a rule forbids it: {describe(rule)}", rule)
    if case.allows_no_changes() and (why := _may_change(case)):
        where = "plan mode allows no changes" if case.trusted else "the folder is not trusted"
        return _verdict(case, "deny", f"{where}, and {why}")
    if rule := most_specific(rule for rule in case.rules if rule.decision == "ask" and hits(case, rule)):
        return _verdict(case, "ask", f"a rule requires approval: {describe(rule)}", rule)
    if case.facts.hook is not None:
        return replace(_verdict(case, "ask", f"a hook requires approval: {one_line(case.facts.hook)}"), once=True)
    if why := taint.objection(case.facts, only_reads=case.only_reads() and case.facts.walled):
        return replace(_verdict(case, "ask", why), once=True)
    allows = [rule for rule in case.rules if rule.decision == "allow"]
    naming: list[Rule] = []
    for why, named_by in sensitive(case):
        named = [rule for rule in allows if named_by(rule)]
        if not named:
            return _verdict(case, "ask", why)
        naming += named
    if rule := allowed_by(case, allows):
        return _verdict(case, "allow", f"a rule allows it: {describe(rule)}", rule)
    decision, why = _by_mode(case)
    if decision == "allow" and (rule := most_specific(naming)):
        return _verdict(case, "allow", f"a rule allows it: {describe(rule)}", rule)
    return _verdict(case, decision, why)


def _verdict(case: Case, decision: Decision, reason: str, rule: Rule | None = None) -> Verdict:
    shown = analysis.explain(case.study) if case.study is not None else ()
    offline = decision == "allow" and case.facts.taint is not None and case.study is not None
    return Verdict(
        decision=decision,
        reason=reason,
        rule=rule,
        commands=shown,
        wall=case.wall(decision, rule),
        offline=offline,
        network=case.opens_network(decision, rule),
        can_be_tried=decision == "ask" and rule is None and case.changes_only_the_workspace(),
    )


def _may_change(case: Case) -> str | None:
    """Return why the call may change something. None if it only reads."""
    if case.study is not None:
        if case.only_reads():
            return None
        if not case.trusted and case.facts.walled and case.finding.effect <= Effect.RUNS and not case.facts.for_real:
            return "this command may run code of the folder"
        return f"this command may change something: {_doubt(case)}"
    if case.facts.category in {Category.WRITE, Category.EXECUTE} and not case.facts.mcp_reads:
        return "this may change something"
    changes = any(fact.access != "read" for fact in case.facts.paths)
    return "this changes files" if changes else None


def _by_mode(case: Case) -> tuple[Decision, str]:
    facts = case.facts
    final = case.study is not None and case.finding.effect is Effect.DESTROYS
    if case.mode is Mode.AUTO and case.trusted and not final and not facts.for_real:
        return "allow", "auto mode: no rule forbids it"
    if facts.mcp_reads:
        return "allow", f"{one_line(facts.mcp or '')} only reads, according to a server that you trust"
    if facts.mcp is not None:
        allowed = [rule.pattern for rule in case.rules if rule.tool == "mcp" and rule.decision == "allow"]
        if facts.mcp in {MCP_DIGEST.sub("", pattern) for pattern in allowed}:
            return "ask", f"the definition of {one_line(facts.mcp)} has changed since it was allowed"
        return "ask", "the effects of an MCP tool are unknown"
    if case.study is not None:
        match case.free_wall():
            case None:
                return "ask", _doubt(case) + near_miss(case, case.study)
            case "workspace" if facts.walled:
                return "allow", "it runs in a sandbox that can change only the workspace, without network"
            case _:
                reads = case.finding.effect is Effect.READS
                return "allow", "it only reads" if reads else "it runs in a sandbox that can change nothing"
    if facts.url is not None:
        return "ask", "it would access the network"
    if facts.search is not None:
        return "ask", "it would send these words to a web search"
    match facts.category:
        case Category.READ_ONLY | Category.RESEARCH:
            return "allow", "it only reads"
        case Category.WRITE:
            edits = bool(facts.paths) and all(fact.access != "delete" for fact in facts.paths)
            if case.mode is Mode.EDIT and edits:
                return "allow", "edit mode: edits inside the workspace run"
            return "ask", "it changes files" if edits else "it may delete or change something"
        case Category.EXECUTE:
            return "ask", "it may change something"
        case _:
            assert_never(facts.category)


def _doubt(case: Case) -> str:
    if case.facts.for_real:
        writes = case.facts.confined and case.mode in {Mode.EDIT, Mode.AUTO}
        return "it would have the network" + ("" if writes else ", and could write to the workspace")
    if case.finding.reason:
        return one_line(case.finding.reason)
    return "there is no sandbox on this machine in which it could run without a question"
