"""Finds what in a call asks in every mode: secrets, places outside the workspace, this machine's services.

An allow rule lifts such a question only if it names the thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pilotfish.policy import hosts, places
from pilotfish.policy.case import Case, is_scratch
from pilotfish.policy.rule_matching import is_whole
from pilotfish.policy.rules import (
    COMMAND_TOOLS,
    EVERYTHING,
    URL_TOOLS,
    PathFact,
    Rule,
    about,
    command_covers,
    host_matches,
    names_it,
)
from pilotfish.policy.shell import analysis
from pilotfish.policy.shell.effects import Effect
from pilotfish.policy.verdict import Mode
from pilotfish.text.display_safe import one_line


def sensitive(case: Case) -> Iterator[tuple[str, Naming]]:
    """Return what asks in every mode, each with a test of whether an allow rule names it."""
    facts, study = case.facts, case.study
    if facts.masked:
        yield "it would overwrite a secret with its masked placeholder", Naming()
    for fact in facts.paths:
        if study is not None and _is_harmless(case, fact):
            continue
        verb = {"read": "reads", "write": "changes", "delete": "deletes"}[fact.access]
        if not fact.inside:
            yield f"it {verb} {one_line(fact.path)}, which is outside the workspace", Naming(fact)
        elif fact.sensitive is not None and (fact.secret or fact.access != "read" or _may_write(case, fact)):
            yield f"it {verb} {one_line(fact.path)} ({one_line(fact.sensitive)})", Naming(fact)
    if facts.url is not None:
        yield from _local(facts.url)
    if study is None:
        return
    if study.cut:
        yield "it is too long to check", Naming()
    bound = {fact.written for fact in facts.paths}
    for touch in study.touched:
        if touch.path not in bound:
            yield f"the path {one_line(touch.path)} could not be resolved", Naming()
    for url in analysis.addresses(study.text) if not (facts.walled and case.free_wall()) else ():
        yield from _local(url)  # from a sandbox this machine's services cannot be reached
    if name := analysis.mention(study):
        yield f"it mentions {one_line(name)}", Naming(line=study, folder=facts.folder)
    if case.finding.effect is not Effect.READS or case.mode is Mode.AUTO:
        return
    # The list of plain commands assumes the programs of the system, and every reading the user's own git settings.
    for words in (part.words for part in study.parts) if study.parts else study.found:
        if words[0] in facts.own_programs:
            yield (
                f"{words[0]} is a program in this workspace, not the one of the system",
                Naming(line=study, words=words, folder=facts.folder),
            )
    if facts.git_programs:
        programs = ", ".join(map(one_line, facts.git_programs))
        yield (
            f"the git settings of this repository run programs ({programs})",
            Naming(line=study, folder=facts.folder),
        )


@dataclass(frozen=True, slots=True)
class Naming:
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
            whole = is_whole(rule.pattern, self.line) and rule.folder == self.folder
            return whole or bool(self.words and command_covers(rule.pattern, self.words))
        if rule.tool in URL_TOOLS:
            return self.host is not None and rule.pattern != EVERYTHING and host_matches(rule.pattern, self.host)
        fact = self.fact
        return fact is not None and rule.tool != "mcp" and about(rule, fact.access) and names_it(rule, fact)


def _is_harmless(case: Case, fact: PathFact) -> bool:
    """Whether the sandbox makes the access to a path harmless, so that the path is no reason to ask."""
    if not case.facts.walled:
        return False
    wall = case.free_wall()
    if fact.sensitive is not None and fact.secret and not fact.below:
        return False
    if is_scratch(fact):
        return wall == "workspace"
    if fact.access != "read":
        return False
    if wall is not None and (fact.below or fact.missing):
        return True  # it is empty in the sandbox; it does not exist and cannot be made
    return not fact.inside and places.is_installed(fact.path)


def _may_write(case: Case, fact: PathFact) -> bool:
    """Whether a command gives the name of a file to a program that may write it."""
    study = case.study
    if study is None or case.only_reads():
        return False
    return any(touch.path == fact.written and not touch.sure for touch in study.touched)


def _local(url: str) -> Iterator[tuple[str, Naming]]:
    host = hosts.host_of(url)
    if host is None:
        yield f"the host of {one_line(url)} cannot be determined", Naming()
    elif why := hosts.local_address(host):
        yield one_line(why), Naming(host=host)
