"""Decides whether a call is allowed, needs approval or is denied.

`judge` is a pure function. `engine/turn/call_facts.py` collects the facts, and the call is judged again if they change.
The first of these steps that applies decides:

1. A destructive command is denied, in every mode and whatever the rules say.
2. A deny rule denies.
3. In plan mode and in an untrusted folder, a call that may change something is denied.
4. An ask rule asks.
5. A call that touches something sensitive asks, unless an allow rule names that thing.
6. An allow rule allows.
7. The mode decides.

The verdict names the sandbox in which the call must run. A command that is allowed because it only reads runs in the
read-only sandbox, and so does every command in plan mode and in an untrusted folder. The sandbox enforces this; the
analysis of the text only predicts it. Where no read-only sandbox is available, only the commands of `plain_commands.py`
count as reading.
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
"""The read-only sandbox, or the sandbox for approved commands."""


class Mode(StrEnum):
    """Which calls run without a question."""

    ASK = "ask"
    """Calls that only read run; edits and commands ask."""
    PLAN = "plan"
    """Only calls that read run."""
    EDIT = "edit"
    """Edits inside the workspace run too; commands ask."""
    AUTO = "auto"
    """Every call runs that no rule forbids and that touches nothing sensitive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision on a call, and its reason."""

    decision: Decision
    reason: str
    rule: Rule | None = None
    """The most specific rule that decided. None if the mode decided."""
    commands: tuple[str, ...] = ()
    """For a command: what would run, as display-safe lines."""
    wall: Wall = "read_only"
    """The sandbox in which the call must run."""

    @property
    def by(self) -> Literal["mode", "rule"]:
        return "mode" if self.rule is None else "rule"


def judge(facts: CallFacts, mode: Mode | str, rules: Sequence[Rule] = (), trusted: bool = True) -> Verdict:
    """Judge a call. A repository's rules can only restrict, and those of an untrusted folder are ignored."""
    return _Case(facts, Mode(mode), rules, trusted).verdict()


class _Case:
    """One call, with the rules that apply and the analysis of its command."""

    def __init__(self, facts: CallFacts, mode: Mode, rules: Sequence[Rule], trusted: bool) -> None:
        self.facts = facts
        self.mode = mode
        self.trusted = trusted
        self.rules = [rule for rule in rules if _counts(rule, trusted) and applies(rule, facts)]
        self.study = analysis.study(facts.command) if facts.command is not None else None

    def verdict(self) -> Verdict:
        if self.study is not None and self.study.destroys:
            return self._verdict("deny", f"refused in every mode: {one_line(self.study.destroys)}")
        if rule := most_specific(rule for rule in self.rules if rule.decision == "deny" and self._hits(rule)):
            return self._verdict("deny", f"a rule forbids it: {describe(rule)}", rule)
        if self._allows_no_changes() and (why := self._may_change()):
            where = "plan mode allows no changes" if self.trusted else "the folder is not trusted"
            return self._verdict("deny", f"{where}, and {why}")
        if rule := most_specific(rule for rule in self.rules if rule.decision == "ask" and self._hits(rule)):
            return self._verdict("ask", f"a rule requires approval: {describe(rule)}", rule)
        allows = [rule for rule in self.rules if rule.decision == "allow"]
        naming: list[Rule] = []
        for why, named_by in self._sensitive():
            named = [rule for rule in allows if named_by(rule)]
            if not named:
                return self._verdict("ask", why)
            naming += named
        if rule := self._allowed_by(allows):
            return self._verdict("allow", f"a rule allows it: {describe(rule)}", rule)
        decision, why = self._by_mode()
        if decision == "allow" and (rule := most_specific(naming)):
            return self._verdict("allow", f"a rule allows it: {describe(rule)}", rule)
        return self._verdict(decision, why)

    def _verdict(self, decision: Decision, reason: str, rule: Rule | None = None) -> Verdict:
        shown = analysis.explain(self.study) if self.study is not None else ()
        return Verdict(decision=decision, reason=reason, rule=rule, commands=shown, wall=self._wall(decision, rule))

    def _wall(self, decision: Decision, rule: Rule | None) -> Wall:
        if not self.facts.walled:
            return "workspace"
        if self._allows_no_changes():
            return "read_only"
        approved = decision == "ask" or self.mode is Mode.AUTO or (rule is not None and rule.tool in COMMAND_TOOLS)
        return "workspace" if approved else "read_only"

    def _only_reads(self) -> bool:
        """Whether a command can only read in the sandbox in which it would run."""
        study = self.study
        if study is None or self.facts.for_real:
            return False
        return study.only_reads or study.worth_a_try if self.facts.walled else study.is_plain

    # -- rules -------------------------------------------------------------------------------------------------

    def _hits(self, rule: Rule) -> bool:
        """Whether a deny or ask rule matches any part of the call."""
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
        # The access of an unknown command to a path is not known, so a rule about writing the path applies too.
        return any(
            path_matches(rule, fact) for fact in facts.paths if self.study is not None or about(rule, fact.access)
        )

    def _allowed_by(self, rules: Sequence[Rule]) -> Rule | None:
        """Return the rule that allows the whole call. Each part of a call must be allowed."""
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
        """Return what asks in every mode, each with a test of whether an allow rule names it."""
        facts, study = self.facts, self.study
        if facts.masked:
            yield "it would overwrite a secret with its masked placeholder", _Naming()
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
                yield f"the path {one_line(touch.path)} could not be resolved", _Naming()
        for url in analysis.addresses(study.text):
            yield from _local(url)
        if name := analysis.mention(study):
            yield f"it mentions {one_line(name)}", _Naming(line=study)
        if not (study.only_reads or study.worth_a_try) or self.mode is Mode.AUTO:
            return
        # The table of read-only commands assumes the programs of the system and the user's own git settings.
        for words in (part.words for part in study.parts) if study.parts else study.found:
            if words[0] in facts.own_programs:
                yield (
                    f"{words[0]} is a program in this workspace, not the one of the system",
                    _Naming(line=study, words=words),
                )
        if facts.git_programs:
            programs = ", ".join(map(one_line, facts.git_programs))
            yield f"the git settings of this repository run programs ({programs})", _Naming(line=study)

    # -- modes -------------------------------------------------------------------------------------------------

    def _allows_no_changes(self) -> bool:
        return self.mode is Mode.PLAN or not self.trusted

    def _may_change(self) -> str | None:
        """Return why the call may change something. None if it only reads."""
        if self.study is not None:
            return None if self._only_reads() else f"this command may change something: {self._doubt(self.study)}"
        if self.facts.category in {Category.WRITE, Category.EXECUTE}:
            return "this may change something"
        changes = any(fact.access != "read" for fact in self.facts.paths)
        return "this changes files" if changes else None

    def _by_mode(self) -> tuple[Decision, str]:
        facts = self.facts
        if self.mode is Mode.AUTO and self.trusted:
            return "allow", "auto mode: no rule forbids it"
        if facts.mcp is not None:
            return "ask", "the effects of an MCP tool are unknown"
        if self.study is not None:
            if not self._only_reads():
                return "ask", self._doubt(self.study)
            return "allow", "it only reads" if self.study.only_reads else "it runs in a read-only sandbox"
        if facts.url is not None:
            return "ask", "it would access the network"
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
            return "it would run outside the read-only sandbox"
        if study.doubt:
            return study.doubt
        return "no read-only sandbox is available here"


@dataclass(frozen=True, slots=True)
class _Naming:
    """Tests whether an allow rule names a sensitive thing. Without any field no rule does."""

    fact: PathFact | None = None
    host: str | None = None
    line: analysis.Study | None = None
    words: tuple[str, ...] = ()

    def __call__(self, rule: Rule) -> bool:
        """Whether the rule names the thing."""
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
        return True  # the rule may match the part that was not analysed
    found = (*study.found, *(part.words for part in study.parts))
    if pattern == study.text.strip() or any(command_matches(pattern, words) for words in found):
        return True
    # A pattern that is not a plain command is searched as text.
    return not command_pattern(pattern)[0] and pattern.removesuffix(" *") in study.text


def _is_whole(pattern: str, study: analysis.Study) -> bool:
    """Whether a rule matches this whole line, or every line."""
    return pattern == EVERYTHING or (pattern == study.text.strip() and not pattern.endswith(" *"))


def _allows_path(rule: Rule, fact: PathFact) -> bool:
    if rule.tool in COMMAND_TOOLS | URL_TOOLS | {"mcp"} or not about(rule, fact.access):
        return False
    return names_it(rule, fact) if fact.access == "delete" else path_matches(rule, fact)


def _local(url: str) -> Iterator[tuple[str, _Naming]]:
    host = hosts.host_of(url)
    if host is None:
        yield f"the host of {one_line(url)} cannot be determined", _Naming()
    elif why := hosts.local_address(host):
        yield one_line(why), _Naming(host=host)
