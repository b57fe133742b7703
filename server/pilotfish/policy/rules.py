"""Defines the facts about a call that policy needs, and the approval rules of a user.

A rule has a decision, a tool, a pattern and a scope. The tool determines the meaning of the pattern:

    tool            pattern
    bash            a command: `npm test` is exactly these words, `npm test *` is these words and further arguments;
                    an allow rule holds in one directory, `folder`
    web_fetch       a host: `docs.rs` is that host, `*.rs` is any subdomain of `rs`
    mcp             an MCP tool: `github/search`, `github/*`; `github/search@3f…` only with the definition of that hash
    anything else   a path glob: `./x` and `a/b` start at the root, `x` is a name anywhere, `/x` and `~/x` are absolute
    *               any tool; the pattern is a path glob, and `*` is every call

In place of a tool name, `write`, `read_only`, `research` and `execute` stand for every tool of that category. `write`
and `read_only` also cover the paths that commands write and read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from pilotfish.conversation.messages import Category
from pilotfish.conversation.provenance import Taint
from pilotfish.policy.shell import parser
from pilotfish.policy.unsafe_arguments import breaks_out
from pilotfish.text.display_safe import display_safe, exact

Decision = Literal["allow", "ask", "deny"]
Scope = Literal["session", "workspace", "user", "repository", "managed"]
Access = Literal["read", "write", "delete"]

EVERYTHING = "*"
COMMAND_TOOLS = frozenset({"bash"})
URL_TOOLS = frozenset({"web_fetch"})
CATEGORIES = frozenset(category.value for category in Category)
MAX_PATTERN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFact:
    """A path that a call would access, resolved: without symlinks and `..`."""

    path: str
    access: Access = "read"
    inside: bool = True
    """Whether it is under one of the workspace roots."""
    sensitive: str | None = None
    """Why the workspace considers it sensitive. None if it is not."""
    secret: bool = True
    """If sensitive: True if reading it reveals a secret, False if only changing it is dangerous."""
    root: str | None = None
    """The root it is under. Rules with relative patterns need it."""
    written: str | None = None
    """The path as it is written in the command."""
    recursive: bool = False
    """Everything below it is accessed too."""
    missing: bool = False
    """Outside the workspace; there is no such file, and the command cannot make one."""
    below: bool = False
    """A secret below a directory that is read recursively. It appears empty in a sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """Everything that policy needs to know about a call."""

    tool: str
    category: Category
    paths: tuple[PathFact, ...] = ()
    command: str | None = None
    cwd: str | None = None
    url: str | None = None
    search: str | None = None
    """What a search of the web asks for."""
    mcp: str | None = None
    """`server/tool` for a tool of an MCP server."""
    mcp_digest: str | None = None
    """The hash of the definition of the MCP tool: its description and its schema."""
    mcp_reads: bool = False
    """The MCP server says that the tool only reads."""
    git_programs: tuple[str, ...] = ()
    """Git settings that name a program, in the repositories in which the command runs git."""
    own_programs: tuple[str, ...] = ()
    """Names in a command that resolve to a program inside the workspace instead of the system's program."""
    masked: bool = False
    """The arguments contain the placeholder of a masked secret."""
    walled: bool = False
    """A read-only sandbox is available, in which a command can change nothing."""
    confined: bool = False
    """A workspace sandbox is available, in which a command can change only the workspace and reaches no network."""
    scripts: tuple[tuple[str, str], ...] = ()
    """Workspace files that a command would run, each with the hash of its content. A changed file is another call."""
    folder: str = ""
    """Where the command starts, relative to the workspace root. Empty if it is the root."""
    for_real: bool = False
    """The model says that the command must write or access the network."""
    background: bool = False
    """The command keeps running after the call."""
    taint: Taint | None = None
    """What the call loses because text from outside the workspace was read. None if none was read."""
    hook: str | None = None
    """Why a hook wants the user to be asked. None if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A stored decision. Deny overrides ask, and ask overrides allow, whatever the scopes."""

    decision: Decision
    tool: str
    pattern: str = EVERYTHING
    scope: Scope = "session"
    folder: str = ""
    """An allow rule for a command holds only in this directory, relative to the workspace root."""


def fault_of(rule: Rule) -> str | None:
    """Return what is wrong with a rule. None if it is valid."""
    if not rule.tool or not rule.pattern:
        return "its tool and pattern must not be empty"
    if len(rule.pattern) > MAX_PATTERN or len(rule.tool) > 200 or len(rule.folder) > MAX_PATTERN:
        return "it is too long"
    text = rule.tool + rule.pattern + rule.folder
    if (exact(text) if rule.decision == "allow" else display_safe(text)) != text:
        return "it contains invisible characters"
    if rule.decision == "allow" and rule.tool == EVERYTHING and rule.pattern in {EVERYTHING, "**"}:
        return "it would allow everything; use auto mode instead"
    return None


def applies(rule: Rule, facts: CallFacts) -> bool:
    """Whether the tool of the rule includes the tool of the call."""
    if rule.tool in {EVERYTHING, facts.tool}:
        return True
    if rule.tool == "mcp":
        return facts.mcp is not None
    if facts.command is not None and rule.tool in {"write", "read_only"}:
        return True  # a command may do both; its paths are matched later
    return rule.tool in CATEGORIES and rule.tool == facts.category.value


def about(rule: Rule, access: Access) -> bool:
    """Whether a rule for a category covers this access to a path."""
    return {"write": access != "read", "read_only": access == "read"}.get(rule.tool, True)


def most_specific(rules: Iterable[Rule]) -> Rule | None:
    """Return the most specific rule. None if there are no rules."""
    return max(rules, key=_specificity, default=None)


def _specificity(rule: Rule) -> tuple[int, int, int]:
    literal = sum(1 for char in rule.pattern if char not in "*?[]")
    tool = 0 if rule.tool == EVERYTHING else 1 if rule.tool in CATEGORIES or rule.tool == "mcp" else 2
    return (literal, 0 if "*" in rule.pattern else 1, tool)


# ---------------------------------------------------------------- paths


def path_matches(rule: Rule, fact: PathFact) -> bool:
    """Whether a path glob matches.

    A deny or ask rule also matches other spellings of the name (case, Unicode form), which some file systems treat as
    the same, and everything in a directory that it names.
    """
    pattern, allows = rule.pattern, rule.decision == "allow"
    if pattern in {EVERYTHING, "**"}:
        return True
    candidates = _candidates(pattern, fact)
    if allows:
        candidates = candidates[:1]
    else:
        pattern, candidates = _folded(pattern), [_folded(candidate) for candidate in candidates]
    pattern = pattern.removeprefix("./")
    return any(_glob_matches(pattern, candidate) for candidate in candidates)


def names_it(rule: Rule, fact: PathFact) -> bool:
    """Whether an allow rule names a sensitive path: the last part of its pattern does not start with a wildcard."""
    last = rule.pattern.rsplit("/", 1)[-1]
    return bool(last) and last[0] not in "*?[" and path_matches(rule, fact)


def relative_path(fact: PathFact) -> str | None:
    """Return the path relative to its root. None if it is outside the workspace or the root is unknown."""
    if fact.root is None or not fact.inside:
        return None
    prefix = fact.root.rstrip("/") + "/"
    if fact.path == fact.root:
        return "."
    return fact.path[len(prefix) :] if fact.path.startswith(prefix) else None


def _candidates(pattern: str, fact: PathFact) -> list[str]:
    """Return the texts that a pattern is matched with: first the path itself, then its parent directories."""
    relative = relative_path(fact)
    if pattern.startswith("/"):
        whole = fact.path
    elif pattern.startswith("~"):
        whole = fact.written if fact.written is not None and fact.written.startswith("~") else fact.path
    elif "/" in pattern:
        if relative is None:
            parts = fact.path.strip("/").split("/")
            return [] if not fact.inside else ["", *("/".join(parts[start:]) for start in range(len(parts)))]
        whole = relative
    else:
        names = (relative or fact.path).strip("/").split("/")
        return names[::-1]
    parts = whole.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _glob_matches(pattern: str, path: str) -> bool:
    """Match a glob: `**` is any number of names; `*`, `?` and `[…]` match within one name. No pattern is slow."""
    names = path.split("/")
    reached = [True, *[False] * len(names)]
    for part in pattern.split("/"):
        if part == "**":
            first = reached.index(True) if True in reached else len(reached)
            reached = [at >= first for at in range(len(reached))]
        else:
            reached = [False, *(was and fnmatchcase(name, part) for was, name in zip(reached, names, strict=False))]
    return reached[-1]


# ---------------------------------------------------------------- commands, hosts, MCP tools


@lru_cache(maxsize=1024)
def command_pattern(pattern: str) -> tuple[tuple[str, ...], bool]:
    """Return the words of a command pattern, and whether more may follow. No words if it is not one plain command."""
    text, more = (pattern[:-2], True) if pattern.endswith(" *") else (pattern, False)
    line = parser.parse(text)
    if isinstance(line, parser.Unreadable) or len(line.commands) != 1 or line.commands[0].redirects:
        return (), more
    return line.commands[0].words, more


def command_matches(pattern: str, words: Sequence[str]) -> bool:
    """Whether a command pattern matches one simple command, word by word."""
    if pattern == EVERYTHING:
        return True
    wanted, more = command_pattern(pattern)
    if not wanted or tuple(words[: len(wanted)]) != wanted:
        return False
    return more or len(words) == len(wanted)


def command_covers(pattern: str, words: Sequence[str]) -> bool:
    """Whether an allow rule covers one simple command: it matches, and the further arguments are known to be safe."""
    wanted, more = command_pattern(pattern)
    return command_matches(pattern, words) and not (more and breaks_out(words, len(wanted)))


def host_matches(pattern: str, host: str) -> bool:
    """Match a host: `docs.rs` is exactly that host; `*.docs.rs` is any subdomain of it, but not the host itself."""
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) >= len(pattern)
    return pattern in {EVERYTHING, host}


MCP_DIGEST = re.compile(r"@[0-9a-f]{12}$")
"""At the end of the pattern of a stored rule: the definition of the MCP tool when it was allowed."""


def mcp_matches(pattern: str, name: str, digest: str | None = None) -> bool:
    """Match an MCP tool. A pattern with a digest matches only the definition that it was made for."""
    if bound := MCP_DIGEST.search(pattern):
        return pattern[: bound.start()] == name and digest is not None and bound.group() == f"@{digest}"
    return name.startswith(pattern[:-1]) if pattern.endswith("/*") else pattern in {EVERYTHING, name}
