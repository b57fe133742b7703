"""Describes rules for users, and suggests the narrowest rule for a call."""

from __future__ import annotations

from pilotfish.conversation.messages import Category
from pilotfish.policy import hosts
from pilotfish.policy.rules import (
    COMMAND_TOOLS,
    EVERYTHING,
    MCP_DIGEST,
    URL_TOOLS,
    CallFacts,
    Rule,
    Scope,
    command_pattern,
    relative_path,
)
from pilotfish.policy.shell.analysis import quoted, seen_from, start_folder, study
from pilotfish.policy.unsafe_arguments import breaks_out, harmless_flag, is_final, is_open, known_prefix
from pilotfish.text.display_safe import one_line


def describe(rule: Rule) -> str:
    """Return the rule as a text for the user."""
    verb = {"allow": "Allow", "ask": "Ask before", "deny": "Deny"}[rule.decision]
    where = {
        "session": "in this session",
        "workspace": "in this workspace",
        "user": "everywhere",
        "repository": "set by this repository",
        "managed": "set by your organisation",
    }[rule.scope]
    folder = f" in the folder {one_line(rule.folder)}" if rule.folder else ""
    return f"{verb} {_subject(rule)}{folder}, {where}"


def examples(rule: Rule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return examples that a rule matches, and similar ones that it does not match."""
    if rule.pattern == EVERYTHING:
        return (), ()
    if rule.tool in COMMAND_TOOLS:
        words, more = command_pattern(rule.pattern)
        text = rule.pattern[:-2] if more else rule.pattern
        if more and words:
            flag = harmless_flag(words)
            return (text, *([f"{text} {flag}"] if flag else [])), (f"{text} && rm x", f"{text} > file", f"env {text}")
        return (text,), (f"{text} --verbose", f"{text} && rm x")
    if rule.tool in URL_TOOLS:
        host = rule.pattern.removeprefix("*.")
        if rule.pattern.startswith("*."):
            return (f"https://www.{host}/",), (f"https://{host}/", f"https://www.{host}.example.com/")
        return (f"https://{host}/",), (f"https://www.{host}/", f"https://{host}.example.com/")
    if rule.tool == "mcp":
        return (), ()
    if rule.pattern.startswith("./") and not set("*?[") & set(rule.pattern):
        name = rule.pattern[2:]
        return (name,), (f"{name}.bak", f"sub/{name}")
    return (), ()


def suggest_rule(facts: CallFacts, scope: Scope) -> Rule | None:
    """Return the narrowest useful rule that would allow this call in future.

    None if "always allow" is not offered: for deletes, pushes, paths that are sensitive or outside the workspace, and
    lines that the strict parser rejects.
    """
    if any(
        not fact.inside or fact.access == "delete" or _guarded(fact.sensitive, fact.access, fact.secret)
        for fact in facts.paths
    ):
        return None
    if facts.masked:
        return None
    return _rule(facts, scope)


def refusing_rule(facts: CallFacts, scope: Scope) -> Rule | None:
    """Return the narrowest rule that would deny this call in future."""
    if facts.command is not None:
        return Rule(decision="deny", tool=facts.tool, pattern=facts.command.strip(), scope=scope)
    if facts.mcp is None and facts.url is None and facts.paths:
        fact = facts.paths[0]
        relative = relative_path(fact)
        pattern = fact.path if relative is None else f"./{relative}"
        return Rule(decision="deny", tool=facts.tool, pattern=_literal(pattern), scope=scope)
    rule = _rule(facts, scope)
    if rule is None:
        return None
    return Rule(decision="deny", tool=rule.tool, pattern=MCP_DIGEST.sub("", rule.pattern), scope=scope)


def _guarded(sensitive: str | None, access: str, secret: bool) -> bool:
    return sensitive is not None and (secret or access != "read")


def _rule(facts: CallFacts, scope: Scope) -> Rule | None:
    if facts.mcp is not None:
        bound = f"{facts.mcp}@{facts.mcp_digest}" if facts.mcp_digest else facts.mcp
        return Rule(decision="allow", tool="mcp", pattern=bound, scope=scope)
    if facts.command is not None:
        return _command_rule(facts, facts.command, scope)
    if facts.url is not None:
        host = hosts.host_of(facts.url)
        if host is None or hosts.local_address(host):
            return None
        return Rule(decision="allow", tool=facts.tool, pattern=host, scope=scope)
    changed = [fact for fact in facts.paths if fact.access == "write"] or list(facts.paths)
    relative = relative_path(changed[0]) if len(changed) == 1 else None
    if relative is None or relative == ".":
        return None
    tool = "write" if facts.category is Category.WRITE else facts.tool
    return Rule(decision="allow", tool=tool, pattern=_literal(f"./{relative}"), scope=scope)


def _command_rule(facts: CallFacts, command: str, scope: Scope) -> Rule | None:
    seen = study(command)
    if not seen.parts or seen.destroys or any(is_final(words) or is_open(words) for words in seen.found):
        return None
    doubtful = [part for part in seen.parts if part.doubt is not None or part.writes]
    pattern, folder = command.strip(), facts.folder
    if len(doubtful) == 1 and not doubtful[0].writes and not doubtful[0].fed:
        words = doubtful[0].words
        prefix = known_prefix(words)
        pattern = f"{quoted(prefix)} *" if prefix and not breaks_out(words, len(prefix)) else quoted(words)
        folder = seen_from(folder, start_folder(seen)) if start_folder(seen) else folder
    return Rule(decision="allow", tool=facts.tool, pattern=pattern, scope=scope, folder=folder)


def _literal(path: str) -> str:
    """Return a glob that matches only this path."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)


def _subject(rule: Rule) -> str:
    pattern = one_line(rule.pattern)
    if rule.tool in COMMAND_TOOLS:
        if rule.pattern == EVERYTHING:
            return "running any command"
        words, more = command_pattern(rule.pattern)
        return (
            f"running commands that start with `{pattern[:-2]}`" if more and words else f"running exactly `{pattern}`"
        )
    if rule.tool in URL_TOOLS:
        if rule.pattern == EVERYTHING:
            return "fetching from any site"
        return f"fetching from {'any subdomain of ' + pattern[2:] if pattern.startswith('*.') else pattern}"
    if rule.tool == "mcp":
        if rule.pattern == EVERYTHING:
            return "using any MCP tool"
        name = MCP_DIGEST.sub("", pattern)
        return f"using the MCP tool {name}" + (" as it is described now" if name != pattern else "")
    what = {EVERYTHING: "accessing", "write": "changing", "read_only": "reading"}.get(rule.tool)
    thing = "anything" if rule.pattern in {EVERYTHING, "**"} else pattern.removeprefix("./")
    if what is None:
        kind = {"execute": "running anything", "research": "using research tools"}.get(
            rule.tool, f"using the tool {one_line(rule.tool)}"
        )
        return kind if thing == "anything" else f"{kind} on {thing}"
    return f"{what} {thing}"
