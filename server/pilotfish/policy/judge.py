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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, assert_never

from pilotfish.conversation.messages import Category
from pilotfish.policy import hosts, places, taint
from pilotfish.policy.rule_suggestions import describe, examples, narrowest_rule, refusing_rule
from pilotfish.policy.rules import (
    COMMAND_TOOLS,
    EVERYTHING,
    MCP_DIGEST,
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
    relative_path,
)
from pilotfish.policy.shell import analysis
from pilotfish.policy.shell.effects import READS, Effect, Finding, worst
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
    """Edits inside the workspace run too, and commands that stay inside it."""
    AUTO = "auto"
    """Every call runs that no rule forbids, that touches nothing sensitive and that can be taken back."""


TRIED_EFFECTS = frozenset({Effect.CHANGES, Effect.HIDDEN, Effect.DELETES, Effect.DESTROYS})
"""What a command that is asked about may do to be tried out first."""


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
    once: bool = False
    """The user may allow it this time only: no rule may be made from the answer."""
    offline: bool = False
    """A command must run without network."""
    network: bool = False
    """Once approved, a command may use the network."""
    can_be_tried: bool = False
    """A command may be run in a throwaway view of the workspace before the question, which then shows its effects."""

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
        self.finding = READS if self.study is None else self._finding(self.study)

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
        if self.facts.hook is not None:
            return replace(self._verdict("ask", f"a hook requires approval: {one_line(self.facts.hook)}"), once=True)
        if why := taint.objection(self.facts, only_reads=self._only_reads() and self.facts.walled):
            return replace(self._verdict("ask", why), once=True)
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
        offline = decision == "allow" and self.facts.taint is not None and self.study is not None
        return Verdict(
            decision=decision,
            reason=reason,
            rule=rule,
            commands=shown,
            wall=self._wall(decision, rule),
            offline=offline,
            network=self._opens_network(decision, rule),
            can_be_tried=decision == "ask" and rule is None and self._changes_only_the_workspace(),
        )

    def _changes_only_the_workspace(self) -> bool:
        """Whether all that a command does is likely to be seen in a view of the workspace: not what it does to git, to
        another place or over the network, and not what keeps running."""
        study, facts = self.study, self.facts
        if study is None or not facts.confined or not self.trusted or facts.for_real or facts.background:
            return False
        if self.finding.effect not in TRIED_EFFECTS or self._needs_network():
            return False
        runs_git = any(words[0].rpartition("/")[2] == "git" for words in study.found)
        return not runs_git and all(fact.inside or places.is_installed(fact.path) for fact in facts.paths)

    def _opens_network(self, decision: Decision, rule: Rule | None) -> bool:
        """Whether the call gets the network: the user is asked about it, or a rule allows a command that uses it.
        `for_real` is the model's word, so with it a rule opens nothing more."""
        if decision == "ask":
            return self.facts.for_real or self._needs_network()
        return decision == "allow" and rule is not None and self._needs_network()

    def _needs_network(self) -> bool:
        """Whether a command is asked about because it needs the network, so that the answer opens it."""
        study = self.study
        if study is None:
            return False
        known = any(finding.effect is Effect.NETWORK for finding in study.findings)
        return known or taint.uses_network(study.text) is not None

    def _wall(self, decision: Decision, rule: Rule | None) -> Wall:
        if not self.facts.walled:
            return "workspace"
        if self._allows_no_changes():
            return "read_only"
        if decision == "ask" or (rule is not None and rule.tool in COMMAND_TOOLS):
            return "workspace"
        return self._free_wall() or ("workspace" if self.mode is Mode.AUTO else "read_only")

    def _free_wall(self) -> Wall | None:
        """Return the sandbox in which a command runs without a question. None if the mode does not let it."""
        study, facts = self.study, self.facts
        if study is None or facts.for_real:
            return None
        if not facts.walled:
            return "workspace" if study.is_plain else None
        effect = self.finding.effect
        limit = {Mode.EDIT: Effect.CHANGES, Mode.AUTO: Effect.DELETES}.get(self.mode)
        if facts.confined and self.trusted and limit is not None and effect <= limit:
            # Only the workspace sandbox has the /tmp of the session.
            return "workspace" if effect is not Effect.READS or any(map(_is_scratch, facts.paths)) else "read_only"
        # In an untrusted folder none of its code runs, in no sandbox.
        return "read_only" if effect is Effect.READS or (effect is Effect.RUNS and self.trusted) else None

    def _finding(self, study: analysis.Study) -> Finding:
        """Return the most harmful finding about a command. What is deleted in the sandbox's own /tmp does not count."""
        scratch = {fact.written for fact in self.facts.paths if self.facts.confined and _is_scratch(fact)}
        found = [finding for finding in study.findings if not (finding.deletes and set(finding.deletes) <= scratch)]
        finding = worst(found)
        if finding.effect is Effect.RUNS and any(one.here for one in found) and self._moves(study):
            return Finding(Effect.CHANGES, "it runs the scripts of another folder than the one of this session")
        return finding

    def _moves(self, study: analysis.Study) -> bool:
        """Whether a command runs in another directory than the root of the workspace."""
        roots = {fact.written for fact in self.facts.paths if relative_path(fact) == "."}
        entered = [words[-1] for words in study.found if words[0] in {"cd", "pushd"}]
        return bool(self.facts.folder) or any(folder not in roots for folder in entered)

    def _only_reads(self) -> bool:
        """Whether a command can only read, because of the sandbox in which it would run."""
        wall = self._free_wall()
        return wall == "read_only" or (wall is not None and not self.facts.walled)

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
            return mcp_matches(MCP_DIGEST.sub("", rule.pattern), facts.mcp or "")
        # The access of an unknown command to a path is not known, so a rule about writing the path applies too.
        return any(
            path_matches(rule, fact) for fact in facts.paths if self.study is not None or about(rule, fact.access)
        )

    def _allowed_by(self, rules: Sequence[Rule]) -> Rule | None:
        """Return the rule that allows the whole call. Each part of a call must be allowed."""
        facts = self.facts
        if facts.mcp is not None:
            own = [rule for rule in rules if rule.tool == "mcp"]
            return most_specific(r for r in own if mcp_matches(r.pattern, facts.mcp or "", facts.mcp_digest))
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
        start = self.facts.folder
        own = [rule for rule in rules if rule.tool in COMMAND_TOOLS]
        if whole := most_specific(rule for rule in own if _allows_line(rule, study, start)):
            return whole
        here = analysis.seen_from(start, analysis.start_folder(study)) if analysis.start_folder(study) else start
        local = [rule for rule in own if rule.folder == here]
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
            rule = most_specific(rule for rule in local if command_covers(rule.pattern, part.words))
            if rule is None or part.fed:
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
            if study is not None and self._is_harmless(fact):
                continue
            verb = {"read": "reads", "write": "changes", "delete": "deletes"}[fact.access]
            if not fact.inside:
                yield f"it {verb} {one_line(fact.path)}, which is outside the workspace", _Naming(fact)
            elif fact.sensitive is not None and (fact.secret or fact.access != "read" or self._may_write(fact)):
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
        for url in analysis.addresses(study.text) if not (facts.walled and self._free_wall()) else ():
            yield from _local(url)  # from a sandbox this machine's services cannot be reached
        if name := analysis.mention(study):
            yield f"it mentions {one_line(name)}", _Naming(line=study, folder=facts.folder)
        if self.finding.effect is not Effect.READS or self.mode is Mode.AUTO:
            return
        # The list of plain commands assumes the programs of the system, and every reading the user's own git settings.
        for words in (part.words for part in study.parts) if study.parts else study.found:
            if words[0] in facts.own_programs:
                yield (
                    f"{words[0]} is a program in this workspace, not the one of the system",
                    _Naming(line=study, words=words, folder=facts.folder),
                )
        if facts.git_programs:
            programs = ", ".join(map(one_line, facts.git_programs))
            yield (
                f"the git settings of this repository run programs ({programs})",
                _Naming(line=study, folder=facts.folder),
            )

    def _is_harmless(self, fact: PathFact) -> bool:
        """Whether the sandbox makes the access to a path harmless, so that the path is no reason to ask."""
        if not self.facts.walled:
            return False
        wall = self._free_wall()
        if fact.sensitive is not None and fact.secret and not fact.below:
            return False
        if _is_scratch(fact):
            return wall == "workspace"
        if fact.access != "read":
            return False
        if wall is not None and (fact.below or fact.missing):
            return True  # it is empty in the sandbox; it does not exist and cannot be made
        return not fact.inside and places.is_installed(fact.path)

    def _may_write(self, fact: PathFact) -> bool:
        """Whether a program that is not known to only read is given the name of a file."""
        study = self.study
        if study is None or self._only_reads():
            return False
        return any(touch.path == fact.written and not touch.sure for touch in study.touched)

    # -- modes -------------------------------------------------------------------------------------------------

    def _allows_no_changes(self) -> bool:
        return self.mode is Mode.PLAN or not self.trusted

    def _may_change(self) -> str | None:
        """Return why the call may change something. None if it only reads."""
        if self.study is not None:
            return None if self._only_reads() else f"this command may change something: {self._doubt()}"
        if self.facts.category in {Category.WRITE, Category.EXECUTE} and not self.facts.mcp_reads:
            return "this may change something"
        changes = any(fact.access != "read" for fact in self.facts.paths)
        return "this changes files" if changes else None

    def _by_mode(self) -> tuple[Decision, str]:
        facts = self.facts
        final = self.study is not None and self.finding.effect is Effect.DESTROYS
        if self.mode is Mode.AUTO and self.trusted and not final and not facts.for_real:
            return "allow", "auto mode: no rule forbids it"
        if facts.mcp_reads:
            return "allow", f"{one_line(facts.mcp or '')} only reads, says a server that you trust"
        if facts.mcp is not None:
            allowed = [rule.pattern for rule in self.rules if rule.tool == "mcp" and rule.decision == "allow"]
            if facts.mcp in {MCP_DIGEST.sub("", pattern) for pattern in allowed}:
                return "ask", f"the definition of {one_line(facts.mcp)} has changed since it was allowed"
            return "ask", "the effects of an MCP tool are unknown"
        if self.study is not None:
            match self._free_wall():
                case None:
                    return "ask", self._doubt() + self._near_miss(self.study)
                case "workspace" if facts.walled:
                    return "allow", "it runs in a sandbox that can change only the workspace, without network"
                case _:
                    reads = self.finding.effect is Effect.READS
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
                if self.mode is Mode.EDIT and edits:
                    return "allow", "edit mode: edits inside the workspace run"
                return "ask", "it changes files" if edits else "it may delete or change something"
            case Category.EXECUTE:
                return "ask", "it may change something"
            case _:
                assert_never(facts.category)

    def _near_miss(self, study: analysis.Study) -> str:
        """Return why a rule of the user does not allow a command for which it seems to be made. Empty if none does."""
        own = [rule for rule in self.rules if rule.tool in COMMAND_TOOLS and rule.decision == "allow"]
        for part in study.parts:
            for rule in own:
                if not command_matches(rule.pattern, part.words) or rule.pattern == EVERYTHING:
                    continue
                if not command_covers(rule.pattern, part.words):
                    return f"; your rule `{one_line(rule.pattern)}` does not cover these arguments"
                where = f"in {one_line(rule.folder)}" if rule.folder else "in the root of the workspace"
                return f"; your rule `{one_line(rule.pattern)}` holds only {where}, and for this command alone"
        return ""

    def _doubt(self) -> str:
        if self.facts.for_real:
            writes = self.facts.confined and self.mode in {Mode.EDIT, Mode.AUTO}
            return "it would have the network" + ("" if writes else ", and could write to the workspace")
        if self.finding.reason:
            return one_line(self.finding.reason)
        return "there is no sandbox on this machine in which it could run without a question"


@dataclass(frozen=True, slots=True)
class _Naming:
    """Tests whether an allow rule names a sensitive thing. Without any field no rule does."""

    fact: PathFact | None = None
    host: str | None = None
    line: analysis.Study | None = None
    words: tuple[str, ...] = ()
    folder: str = ""

    def __call__(self, rule: Rule) -> bool:
        """Whether the rule names the thing."""
        if rule.tool in COMMAND_TOOLS:
            if self.host is not None:
                return any(hosts.host_of(url) == self.host for url in analysis.addresses(rule.pattern))
            if self.line is None or rule.pattern == EVERYTHING:
                return False
            whole = _is_whole(rule.pattern, self.line) and rule.folder == self.folder
            return whole or bool(self.words and command_covers(rule.pattern, self.words))
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


def _allows_line(rule: Rule, study: analysis.Study, folder: str) -> bool:
    return rule.pattern == EVERYTHING or (rule.folder == folder and _is_whole(rule.pattern, study))


def _allows_path(rule: Rule, fact: PathFact) -> bool:
    if rule.tool in COMMAND_TOOLS | URL_TOOLS | {"mcp"} or not about(rule, fact.access):
        return False
    return names_it(rule, fact) if fact.access == "delete" else path_matches(rule, fact)


def _is_scratch(fact: PathFact) -> bool:
    return not fact.inside and places.is_scratch(fact.path)


def _local(url: str) -> Iterator[tuple[str, _Naming]]:
    host = hosts.host_of(url)
    if host is None:
        yield f"the host of {one_line(url)} cannot be determined", _Naming()
    elif why := hosts.local_address(host):
        yield one_line(why), _Naming(host=host)
