"""A call under judgement: the rules that apply to it, the analysis of its command, and the sandbox it would run in."""

from __future__ import annotations

from collections.abc import Sequence

from pilotfish.policy import places, taint
from pilotfish.policy.rules import COMMAND_TOOLS, CallFacts, Decision, PathFact, Rule, applies, relative_path
from pilotfish.policy.shell import analysis
from pilotfish.policy.shell.effects import READS, Effect, Finding, worst
from pilotfish.policy.verdict import Mode, Wall

TRIED_EFFECTS = frozenset({Effect.CHANGES, Effect.HIDDEN, Effect.DELETES, Effect.DESTROYS})
"""What a command that is asked about may do to be tried out first."""


class Case:
    """One call, with the rules that apply and the analysis of its command."""

    def __init__(self, facts: CallFacts, mode: Mode, rules: Sequence[Rule], trusted: bool) -> None:
        self.facts = facts
        self.mode = mode
        self.trusted = trusted
        self.rules = [rule for rule in rules if _counts(rule, trusted) and applies(rule, facts)]
        """those that apply to the call"""
        self.study = analysis.study(facts.command) if facts.command is not None else None
        self.finding = READS if self.study is None else self._finding(self.study)
        """the most harmful finding about the command"""

    def allows_no_changes(self) -> bool:
        return self.mode is Mode.PLAN or not self.trusted

    def free_wall(self) -> Wall | None:
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
            return "workspace" if effect is not Effect.READS or any(map(is_scratch, facts.paths)) else "read_only"
        if not self.trusted:  # none of its code runs, in no sandbox
            return "read_only" if effect is Effect.READS and study.runs_no_code else None
        return "read_only" if effect <= Effect.RUNS else None

    def only_reads(self) -> bool:
        """Whether a command can only read, because of the sandbox in which it would run."""
        wall = self.free_wall()
        return wall == "read_only" or (wall is not None and not self.facts.walled)

    def wall(self, decision: Decision, rule: Rule | None) -> Wall:
        if not self.facts.walled:
            return "workspace"
        if self.allows_no_changes():
            return "read_only"
        if decision == "ask" or (rule is not None and rule.tool in COMMAND_TOOLS):
            return "workspace"
        return self.free_wall() or ("workspace" if self.mode is Mode.AUTO else "read_only")

    def opens_network(self, decision: Decision, rule: Rule | None) -> bool:
        """Whether the call gets the network: the user is asked about it, or a rule allows a command that uses it.
        `for_real` is the model's word, so with it a rule opens nothing more."""
        if decision == "ask":
            return self.facts.for_real or self.needs_network()
        return decision == "allow" and rule is not None and self.needs_network()

    def needs_network(self) -> bool:
        """Whether a command is asked about because it needs the network, so that the answer opens it."""
        study = self.study
        if study is None:
            return False
        known = any(finding.effect is Effect.NETWORK for finding in study.findings)
        return known or taint.uses_network(study.text) is not None

    def changes_only_the_workspace(self) -> bool:
        """Whether all that a command does is likely to be seen in a view of the workspace: not what it does to git, to
        another place or over the network, and not what keeps running."""
        study, facts = self.study, self.facts
        if study is None or not facts.confined or not self.trusted or facts.for_real or facts.background:
            return False
        if self.finding.effect not in TRIED_EFFECTS or self.needs_network():
            return False
        runs_git = any(words[0].rpartition("/")[2] == "git" for words in study.found)
        return not runs_git and all(fact.inside or places.is_installed(fact.path) for fact in facts.paths)

    def _finding(self, study: analysis.Study) -> Finding:
        """Return the most harmful finding about a command. What is deleted in the sandbox's own /tmp does not count."""
        scratch = {fact.written for fact in self.facts.paths if self.facts.confined and is_scratch(fact)}
        found = [finding for finding in study.findings if not (finding.deletes and set(finding.deletes) <= scratch)]
        finding = worst(found)
        if finding.effect is Effect.RUNS and any(one.here for one in found) and self._moves(study):
            return Finding(Effect.CHANGES, "it runs scripts of a folder other than this session's")
        return finding

    def _moves(self, study: analysis.Study) -> bool:
        """Whether a command runs in another directory than the root of the workspace."""
        roots = {fact.written for fact in self.facts.paths if relative_path(fact) == "."}
        entered = [words[-1] for words in study.found if words[0] in {"cd", "pushd"}]
        return bool(self.facts.folder) or any(folder not in roots for folder in entered)


def is_scratch(fact: PathFact) -> bool:
    """Whether a path is in a folder for temporary files, of which each sandbox has its own."""
    return not fact.inside and places.is_scratch(fact.path)


def _counts(rule: Rule, trusted: bool) -> bool:
    return rule.scope != "repository" or (trusted and rule.decision != "allow")
