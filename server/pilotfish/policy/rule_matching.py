"""Decides which of a user's rules match a call, and which allow the whole of it."""

from __future__ import annotations

from collections.abc import Sequence

from pilotfish.conversation.messages import Category
from pilotfish.policy import hosts
from pilotfish.policy.case import Case
from pilotfish.policy.rules import (
    COMMAND_TOOLS,
    EVERYTHING,
    MCP_DIGEST,
    URL_TOOLS,
    PathFact,
    Rule,
    about,
    command_covers,
    command_matches,
    command_pattern,
    host_matches,
    mcp_matches,
    most_specific,
    names_it,
    path_matches,
)
from pilotfish.policy.shell import analysis
from pilotfish.policy.verdict import Mode
from pilotfish.text.display_safe import one_line


def hits(case: Case, rule: Rule) -> bool:
    """Whether a deny or ask rule matches any part of the call."""
    facts = case.facts
    if rule.tool == "write" and case.only_reads():
        return False
    if rule.pattern == EVERYTHING:
        return True
    if rule.tool in COMMAND_TOOLS:
        return case.study is not None and _hits_command(rule.pattern, case.study)
    if rule.tool in URL_TOOLS:
        host = hosts.host_of(facts.url or "")
        return host is None or host_matches(rule.pattern, host)
    if rule.tool == "mcp":
        return mcp_matches(MCP_DIGEST.sub("", rule.pattern), facts.mcp or "")
    # The access of an unknown command to a path is not known, so a rule about writing the path applies too.
    return any(path_matches(rule, fact) for fact in facts.paths if case.study is not None or about(rule, fact.access))


def allowed_by(case: Case, rules: Sequence[Rule]) -> Rule | None:
    """Return the rule that allows the whole call. Each part of a call must be allowed."""
    facts = case.facts
    if facts.mcp is not None:
        own = [rule for rule in rules if rule.tool == "mcp"]
        return most_specific(r for r in own if mcp_matches(r.pattern, facts.mcp or "", facts.mcp_digest))
    if case.study is not None:
        return _command_allowed_by(case, case.study, rules)
    if facts.url is not None:
        host = hosts.host_of(facts.url)
        if host is None:
            return None
        return most_specific(rule for rule in rules if rule.tool in URL_TOOLS and host_matches(rule.pattern, host))
    if facts.category is Category.EXECUTE or not facts.paths:
        return most_specific(rule for rule in rules if rule.pattern == EVERYTHING and rule.tool == facts.tool)
    used = [most_specific(rule for rule in rules if _allows_path(rule, fact)) for fact in facts.paths]
    return None if None in used else most_specific(rule for rule in used if rule is not None)


def near_miss(case: Case, study: analysis.Study) -> str:
    """Return why a rule of the user does not allow a command for which it seems to be made. Empty if none does."""
    own = [rule for rule in case.rules if rule.tool in COMMAND_TOOLS and rule.decision == "allow"]
    for part in study.parts:
        for rule in own:
            if not command_matches(rule.pattern, part.words) or rule.pattern == EVERYTHING:
                continue
            if not command_covers(rule.pattern, part.words):
                return f"; your rule `{one_line(rule.pattern)}` does not cover these arguments"
            where = f"in {one_line(rule.folder)}" if rule.folder else "in the root of the workspace"
            return f"; your rule `{one_line(rule.pattern)}` holds only {where}, and for this command alone"
    return ""


def is_whole(pattern: str, study: analysis.Study) -> bool:
    """Whether a rule matches this whole line, or every line."""
    return pattern == EVERYTHING or (pattern == study.text.strip() and not pattern.endswith(" *"))


def _command_allowed_by(case: Case, study: analysis.Study, rules: Sequence[Rule]) -> Rule | None:
    start = case.facts.folder
    own = [rule for rule in rules if rule.tool in COMMAND_TOOLS]
    if whole := most_specific(rule for rule in own if _allows_line(rule, study, start)):
        return whole
    here = analysis.seen_from(start, analysis.start_folder(study)) if analysis.start_folder(study) else start
    local = [rule for rule in own if rule.folder == here]
    used: list[Rule] = []
    for part in study.parts:
        for touch in part.writes:
            fact = next((fact for fact in case.facts.paths if fact.written == touch.path), None)
            rule = most_specific(rule for rule in rules if fact is not None and _allows_path(rule, fact))
            if rule is None and case.mode not in {Mode.EDIT, Mode.AUTO}:
                return None
            used += [rule] if rule is not None else []
        if part.doubt is None:
            continue
        rule = most_specific(rule for rule in local if command_covers(rule.pattern, part.words))
        if rule is None or part.fed:
            return None
        used.append(rule)
    return most_specific(used)


def _hits_command(pattern: str, study: analysis.Study) -> bool:
    if study.cut:
        return True  # the rule may match the part that was not analysed
    found = (*study.found, *(part.words for part in study.parts))
    if pattern == study.text.strip() or any(command_matches(pattern, words) for words in found):
        return True
    # A pattern that is not a plain command is searched as text.
    return not command_pattern(pattern)[0] and pattern.removesuffix(" *") in study.text


def _allows_line(rule: Rule, study: analysis.Study, folder: str) -> bool:
    return rule.pattern == EVERYTHING or (rule.folder == folder and is_whole(rule.pattern, study))


def _allows_path(rule: Rule, fact: PathFact) -> bool:
    if rule.tool in COMMAND_TOOLS | URL_TOOLS | {"mcp"} or not about(rule, fact.access):
        return False
    return names_it(rule, fact) if fact.access == "delete" else path_matches(rule, fact)
