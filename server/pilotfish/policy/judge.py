"""May this call run? Modes, rules, and what is asked or refused whatever they say.

`judge` is pure: `engine/turn/call_facts.py` gathers what must be looked up, and whoever runs the call judges again when
it changes. The order of the questions is the policy:

1. the destructive few are refused, in every mode, whatever the rules
2. a deny rule refuses
3. where nothing may change (`plan`, an untrusted folder), what may change something is refused
4. an ask rule asks
5. sensitive things ask, unless a rule names them
6. an allow rule allows
7. the mode decides

The verdict names the wall that the run needs. A command that is allowed because it only reads, and every command where
nothing may change, runs in the read-only sandbox: the wall makes sure, not the reading of its words. Where no such
sandbox stands, only the list of `plain_commands.py` counts as reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, assert_never

from pilotfish.conversation.messages import Category
from pilotfish.policy import hosts
from pilotfish.policy.rule_suggestions import describe, examples, narrowest_rule, refusing_rule
from pilotfish.policy.rules import (
    COMMAND_TOOLS,
    EVERYTHING,
    URL_TOOLS,
    Access,
    CallFacts,
    Decision,
    PathFact,
    Rule,
    Scope,
    about,
    applies,
    command_covers,
    command_matches,
    command_pattern,
    fault_of,
    host_matches,
    mcp_matches,
    most_specific,
    names_it,
    path_matches,
)
from pilotfish.policy.shell import analysis
from pilotfish.text.display_safe import display_safe, one_line

__all__ = [
    "Access",
    "CallFacts",
    "Decision",
    "Mode",
    "PathFact",
    "Rule",
    "Scope",
    "Verdict",
    "Wall",
    "describe",
    "display_safe",
    "examples",
    "fault_of",
    "judge",
    "narrowest_rule",
    "refusing_rule",
]


Wall = Literal["read_only", "workspace"]
"""the sandbox in which nothing changes, or the one for what was approved"""


class Mode(StrEnum):
    """How much runs without a question."""

    ASK = "ask"
    """reading runs; changing and running ask"""
    PLAN = "plan"
    """nothing changes anything"""
    EDIT = "edit"
    """edits inside the workspace run too; commands ask"""
    AUTO = "auto"
    """everything runs that no rule forbids"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What policy says of a call, and why."""

    decision: Decision
    reason: str
    rule: Rule | None = None
    """the most specific rule that decided"""
    commands: tuple[str, ...] = ()
    """for a command: what would run, one line each, fit to be shown"""
    wall: Wall = "read_only"
    """where the call must run when it runs by this verdict"""

    @property
    def by(self) -> Literal["mode", "rule"]:
        return "mode" if self.rule is None else "rule"


def judge(facts: CallFacts, mode: Mode | str, rules: Sequence[Rule] = (), trusted: bool = True) -> Verdict:
    """The verdict on a call. An untrusted folder's own rules are ignored; a repository's rules can only tighten."""
    return _Case(facts, Mode(mode), rules, trusted).verdict()


class _Case:
    """One call, with what has been found out about it."""

    def __init__(self, facts: CallFacts, mode: Mode, rules: Sequence[Rule], trusted: bool) -> None:
        self.facts = facts
        self.mode = mode
        self.trusted = trusted
        self.rules = [rule for rule in rules if _counts(rule, trusted) and applies(rule, facts)]
        self.study = analysis.study(facts.command) if facts.command is not None else None

    def verdict(self) -> Verdict:
        if self.study is not None and self.study.destroys:
            return self._say("deny", f"refused in every mode: {one_line(self.study.destroys)}")
        if rule := most_specific(rule for rule in self.rules if rule.decision == "deny" and self._hits(rule)):
            return self._say("deny", f"a rule forbids it: {describe(rule)}", rule)
        if self._frozen() and (why := self._may_change()):
            where = "plan mode" if self.trusted else "the folder is not trusted"
            return self._say("deny", f"{where}: nothing may be changed, and {why}")
        if rule := most_specific(rule for rule in self.rules if rule.decision == "ask" and self._hits(rule)):
            return self._say("ask", f"a rule asks: {describe(rule)}", rule)
        allows = [rule for rule in self.rules if rule.decision == "allow"]
        naming: list[Rule] = []
        for why, named_by in self._sensitive():
            named = [rule for rule in allows if named_by(rule)]
            if not named:
                return self._say("ask", why)
            naming += named
        if rule := self._allowed_by(allows):
            return self._say("allow", f"a rule allows it: {describe(rule)}", rule)
        decision, why = self._by_mode()
        if decision == "allow" and (rule := most_specific(naming)):
            return self._say("allow", f"a rule names it: {describe(rule)}", rule)
        return self._say(decision, why)

    def _say(self, decision: Decision, reason: str, rule: Rule | None = None) -> Verdict:
        shown = analysis.explain(self.study) if self.study is not None else ()
        return Verdict(decision=decision, reason=reason, rule=rule, commands=shown, wall=self._wall(decision, rule))

    def _wall(self, decision: Decision, rule: Rule | None) -> Wall:
        if not self.facts.walled:
            return "workspace"
        if self._frozen():
            return "read_only"
        approved = decision == "ask" or self.mode is Mode.AUTO or (rule is not None and rule.tool in COMMAND_TOOLS)
        return "workspace" if approved else "read_only"

    def _only_reads(self) -> bool:
        """Whether a command can do no more than read where it would run."""
        study = self.study
        if study is None or self.facts.for_real:
            return False
        return study.only_reads or study.worth_a_try if self.facts.walled else study.is_plain

    # -- rules -------------------------------------------------------------------------------------------------

    def _hits(self, rule: Rule) -> bool:
        """Whether a deny or ask rule is about any part of the call."""
        facts = self.facts
        if rule.tool == "write" and self._only_reads():
            return False
        if rule.pattern == EVERYTHING:
            return True
        if rule.tool in COMMAND_TOOLS:
            return self.study is not None and _hits_command(rule.pattern, self.study)
        if rule.tool in URL_TOOLS:
            host = hosts.host_of(facts.url or "")
            return host is None or host_matches(rule.pattern, host)
        if rule.tool == "mcp":
            return mcp_matches(rule.pattern, facts.mcp or "")
        # What an unknown command does with a path cannot be told: a rule about changing it is about it.
        return any(
            path_matches(rule, fact) for fact in facts.paths if self.study is not None or about(rule, fact.access)
        )

    def _allowed_by(self, rules: Sequence[Rule]) -> Rule | None:
        """The rule that allows the whole call; a call of several parts needs each part allowed."""
        facts = self.facts
        if facts.mcp is not None:
            name = facts.mcp
            return most_specific(rule for rule in rules if rule.tool == "mcp" and mcp_matches(rule.pattern, name))
        if self.study is not None:
            return self._command_allowed_by(self.study, rules)
        if facts.url is not None:
            host = hosts.host_of(facts.url)
            if host is None:
                return None
            return most_specific(rule for rule in rules if rule.tool in URL_TOOLS and host_matches(rule.pattern, host))
        if facts.category is Category.EXECUTE or not facts.paths:
            return most_specific(rule for rule in rules if rule.pattern == EVERYTHING and rule.tool == facts.tool)
        used = [most_specific(rule for rule in rules if _allows_path(rule, fact)) for fact in facts.paths]
        return None if None in used else most_specific(rule for rule in used if rule is not None)

    def _command_allowed_by(self, study: analysis.Study, rules: Sequence[Rule]) -> Rule | None:
        own = [rule for rule in rules if rule.tool in COMMAND_TOOLS]
        if whole := most_specific(rule for rule in own if _is_whole(rule.pattern, study)):
            return whole
        used: list[Rule] = []
        for part in study.parts:
            for touch in part.writes:
                fact = next((fact for fact in self.facts.paths if fact.written == touch.path), None)
                rule = most_specific(rule for rule in rules if fact is not None and _allows_path(rule, fact))
                if rule is None and self.mode not in {Mode.EDIT, Mode.AUTO}:
                    return None
                used += [rule] if rule is not None else []
            if part.doubt is None:
                continue
            rule = most_specific(rule for rule in own if command_covers(rule.pattern, part.words))
            if rule is None or part.fed or analysis.start_folder(study) or self.facts.elsewhere:
                return None
            used.append(rule)
        return most_specific(used)

    # -- sensitive things --------------------------------------------------------------------------------------

    def _sensitive(self) -> Iterator[tuple[str, _Naming]]:
        """What asks in every mode, each with the test of whether a rule names it."""
        facts, study = self.facts, self.study
        if facts.masked:
            yield "it would write the mark of a hidden secret in place of the secret", _Naming()
        for fact in facts.paths:
            if fact.below and self._only_reads() and facts.walled and self.mode is not Mode.AUTO:
                continue
            verb = {"read": "reads", "write": "changes", "delete": "deletes"}[fact.access]
            if not fact.inside:
                yield f"it {verb} {one_line(fact.path)}, which is outside the workspace", _Naming(fact)
            elif fact.sensitive is not None and (fact.secret or fact.access != "read"):
                yield f"it {verb} {one_line(fact.path)} ({one_line(fact.sensitive)})", _Naming(fact)
        if facts.url is not None:
            yield from _local(facts.url)
        if study is None:
            return
        if study.cut:
            yield "it is too long to check", _Naming()
        bound = {fact.written for fact in facts.paths}
        for touch in study.touched:
            if touch.path not in bound:
                yield f"where {one_line(touch.path)} leads is not known", _Naming()
        for url in analysis.addresses(study.text):
            yield from _local(url)
        if name := analysis.mention(study):
            yield f"it mentions {one_line(name)}", _Naming(line=study)
        if not (study.only_reads or study.worth_a_try) or self.mode is Mode.AUTO:
            return
        # The table speaks of the system's programs, and of git as the user has set it.
        for words in (part.words for part in study.parts) if study.parts else study.found:
            if words[0] in facts.own_programs:
                yield f"{words[0]} leads to a program of this workspace", _Naming(line=study, words=words)
        if facts.git_programs:
            programs = ", ".join(map(one_line, facts.git_programs))
            yield f"this repository's own git settings run programs ({programs})", _Naming(line=study)

    # -- modes -------------------------------------------------------------------------------------------------

    def _frozen(self) -> bool:
        return self.mode is Mode.PLAN or not self.trusted

    def _may_change(self) -> str | None:
        """Why the call may change something; None: it only reads."""
        if self.study is not None:
            return None if self._only_reads() else f"this is not shown to only read: {self._doubt(self.study)}"
        if self.facts.category in {Category.WRITE, Category.EXECUTE}:
            return "this may change something"
        changes = any(fact.access != "read" for fact in self.facts.paths)
        return "this changes files" if changes else None

    def _by_mode(self) -> tuple[Decision, str]:
        facts = self.facts
        if self.mode is Mode.AUTO and self.trusted:
            return "allow", "auto mode: no rule forbids it"
        if facts.mcp is not None:
            return "ask", "what an MCP tool does cannot be known here"
        if self.study is not None:
            if not self._only_reads():
                return "ask", self._doubt(self.study)
            return "allow", "it only reads" if self.study.only_reads else "it is tried where nothing can be changed"
        if facts.url is not None:
            return "ask", "it would reach the network"
        match facts.category:
            case Category.READ_ONLY | Category.RESEARCH:
                return "allow", "it only reads"
            case Category.WRITE:
                edits = bool(facts.paths) and all(fact.access != "delete" for fact in facts.paths)
                if self.mode is Mode.EDIT and edits:
                    return "allow", "edit mode: edits inside the workspace run"
                return "ask", "it changes files" if edits else "it may delete or change something"
            case Category.EXECUTE:
                return "ask", "it may change something"
            case _:
                assert_never(facts.category)

    def _doubt(self, study: analysis.Study) -> str:
        if self.facts.for_real:
            return "it is to run outside the read-only sandbox"
        if study.doubt:
            return study.doubt
        return "no sandbox stands here that would keep it from changing anything"


@dataclass(frozen=True, slots=True)
class _Naming:
    """How a rule can be explicit about a sensitive thing; without anything, none can."""

    fact: PathFact | None = None
    host: str | None = None
    line: analysis.Study | None = None
    words: tuple[str, ...] = ()

    def __call__(self, rule: Rule) -> bool:
        """Whether an allow rule names the thing."""
        if rule.tool in COMMAND_TOOLS:
            if self.host is not None:
                return any(hosts.host_of(url) == self.host for url in analysis.addresses(rule.pattern))
            if self.line is None or rule.pattern == EVERYTHING:
                return False
            return _is_whole(rule.pattern, self.line) or bool(self.words and command_covers(rule.pattern, self.words))
        if rule.tool in URL_TOOLS:
            return self.host is not None and rule.pattern != EVERYTHING and host_matches(rule.pattern, self.host)
        fact = self.fact
        return fact is not None and rule.tool != "mcp" and about(rule, fact.access) and names_it(rule, fact)


def _counts(rule: Rule, trusted: bool) -> bool:
    return rule.scope != "repository" or (trusted and rule.decision != "allow")


def _hits_command(pattern: str, study: analysis.Study) -> bool:
    if study.cut:
        return True  # what was not looked at may be what the rule is about
    found = (*study.found, *(part.words for part in study.parts))
    if pattern == study.text.strip() or any(command_matches(pattern, words) for words in found):
        return True
    # A pattern that is no plain command is looked for as it stands.
    return not command_pattern(pattern)[0] and pattern.removesuffix(" *") in study.text


def _is_whole(pattern: str, study: analysis.Study) -> bool:
    """Whether a rule is for this whole line, or for every line."""
    return pattern == EVERYTHING or (pattern == study.text.strip() and not pattern.endswith(" *"))


def _allows_path(rule: Rule, fact: PathFact) -> bool:
    if rule.tool in COMMAND_TOOLS | URL_TOOLS | {"mcp"} or not about(rule, fact.access):
        return False
    return names_it(rule, fact) if fact.access == "delete" else path_matches(rule, fact)


def _local(url: str) -> Iterator[tuple[str, _Naming]]:
    host = hosts.host_of(url)
    if host is None:
        yield f"where {one_line(url)} leads cannot be told", _Naming()
    elif why := hosts.local_address(host):
        yield one_line(why), _Naming(host=host)
