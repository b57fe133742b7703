"""What policy is told of a call, and the standing rules a person has made.

A rule is decision × tool × pattern × scope. What its pattern means follows from its tool:

    tool            pattern
    bash            a command: `npm test` is exactly these words, `npm test *` is these words and any more
    web_fetch       a host: `docs.rs` is that host, `*.rs` any host below `rs`
    mcp             an MCP tool: `github/search`, `github/*`
    anything else   a path glob: `./x` and `a/b` from the workspace root, `x` a name anywhere, `/x` and `~/x` as is
    *               any tool; the pattern is a path glob, and `*` is every call

`write`, `read_only`, `research` and `execute` in the place of a tool name stand for every tool of that category; the
first two also for what commands write and read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from pilotfish.conversation.messages import Category
from pilotfish.policy.shell import parser
from pilotfish.policy.unsafe_arguments import breaks_out
from pilotfish.text.display_safe import display_safe, exact

Decision = Literal["allow", "ask", "deny"]
Scope = Literal["session", "workspace", "user", "repository"]
Access = Literal["read", "write", "delete"]

EVERYTHING = "*"
COMMAND_TOOLS = frozenset({"bash"})
URL_TOOLS = frozenset({"web_fetch"})
CATEGORIES = frozenset(category.value for category in Category)
MAX_PATTERN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFact:
    """A path a call would touch, resolved: symlinks followed, `..` gone."""

    path: str
    access: Access = "read"
    inside: bool = True
    """under one of the workspace roots"""
    sensitive: str | None = None
    """why the workspace calls it sensitive"""
    secret: bool = True
    """when sensitive: reading it tells a secret; else only changing it is dangerous"""
    root: str | None = None
    """the root it is under; rules with relative patterns need it"""
    written: str | None = None
    """the path as the command wrote it: binds a word of a command to its resolved place"""
    recursive: bool = False
    """everything below it is touched too"""
    below: bool = False
    """a secret that was found below what is read as a whole: empty in the read-only sandbox"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """Everything policy knows of a call."""

    tool: str
    category: Category
    paths: tuple[PathFact, ...] = ()
    command: str | None = None
    cwd: str | None = None
    url: str | None = None
    mcp: str | None = None
    """`server/tool` for a tool of an MCP server"""
    git_programs: tuple[str, ...] = ()
    """settings of the repositories this command enters that name a program git would run"""
    own_programs: tuple[str, ...] = ()
    """names of a command that lead to a program inside the workspace, not to the system's"""
    masked: bool = False
    """its arguments hold the mark that stands where a secret was hidden"""
    walled: bool = False
    """a read-only sandbox stands, in which a command can change nothing"""
    scripts: tuple[tuple[str, str], ...] = ()
    """files of the workspace that a command would run, each with the hash of its content: another content is another
    call"""
    elsewhere: bool = False
    """it would start in another directory than the root of the workspace, for which rules are given"""
    for_real: bool = False
    """the model says that the command must write or reach the network"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A standing decision. Deny beats ask beats allow, whatever the scopes."""

    decision: Decision
    tool: str
    pattern: str = EVERYTHING
    scope: Scope = "session"


def fault_of(rule: Rule) -> str | None:
    """What is wrong with a rule; None: nothing. A rule is read by a person before it holds."""
    if not rule.tool or not rule.pattern:
        return "its tool and pattern must not be empty"
    if len(rule.pattern) > MAX_PATTERN or len(rule.tool) > 200:
        return "it is too long"
    text = rule.tool + rule.pattern
    if (exact(text) if rule.decision == "allow" else display_safe(text)) != text:
        return "it has characters that cannot be seen"
    if rule.decision == "allow" and rule.tool == EVERYTHING and rule.pattern in {EVERYTHING, "**"}:
        return "it would allow everything; the mode auto is for that"
    return None


def applies(rule: Rule, facts: CallFacts) -> bool:
    """Whether the rule's tool is this call's tool."""
    if rule.tool in {EVERYTHING, facts.tool}:
        return True
    if rule.tool == "mcp":
        return facts.mcp is not None
    if facts.command is not None and rule.tool in {"write", "read_only"}:
        return True  # a command may do both; which paths it means is seen when they are matched
    return rule.tool in CATEGORIES and rule.tool == facts.category.value


def about(rule: Rule, access: Access) -> bool:
    """Whether a rule for a category is about this way of touching a path."""
    return {"write": access != "read", "read_only": access == "read"}.get(rule.tool, True)


def most_specific(rules: Iterable[Rule]) -> Rule | None:
    """The rule to name when several decide alike: the one that says most."""
    return max(rules, key=_specificity, default=None)


def _specificity(rule: Rule) -> tuple[int, int, int]:
    literal = sum(1 for char in rule.pattern if char not in "*?[]")
    tool = 0 if rule.tool == EVERYTHING else 1 if rule.tool in CATEGORIES or rule.tool == "mcp" else 2
    return (literal, 0 if "*" in rule.pattern else 1, tool)


# ---------------------------------------------------------------- paths


def path_matches(rule: Rule, fact: PathFact) -> bool:
    """Whether a path glob matches. A rule that refuses also matches other spellings of the same name (case, Unicode
    form), which some disks take for one, and what lies in a directory it names."""
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
    """Whether an allow rule is explicit about a sensitive path: its last part begins as the name does."""
    last = rule.pattern.rsplit("/", 1)[-1]
    return bool(last) and last[0] not in "*?[" and path_matches(rule, fact)


def relative_path(fact: PathFact) -> str | None:
    """The path from its root; None when it is outside or the root is not known."""
    if fact.root is None or not fact.inside:
        return None
    prefix = fact.root.rstrip("/") + "/"
    if fact.path == fact.root:
        return "."
    return fact.path[len(prefix) :] if fact.path.startswith(prefix) else None


def _candidates(pattern: str, fact: PathFact) -> list[str]:
    """The texts a pattern is held against: first the path itself, then the directories it lies in."""
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
    """`**` is any number of whole names, `*`, `?` and `[…]` are parts of one. Takes no longer for a wicked pattern."""
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
    """The words of a command pattern, and whether more may follow. No words: it is a whole line, or cannot be read."""
    text, more = (pattern[:-2], True) if pattern.endswith(" *") else (pattern, False)
    line = parser.parse(text)
    if isinstance(line, parser.Unreadable) or len(line.commands) != 1 or line.commands[0].redirects:
        return (), more
    return line.commands[0].words, more


def command_matches(pattern: str, words: Sequence[str]) -> bool:
    """Whether a command pattern is about one simple command, word by word."""
    if pattern == EVERYTHING:
        return True
    wanted, more = command_pattern(pattern)
    if not wanted or tuple(words[: len(wanted)]) != wanted:
        return False
    return more or len(words) == len(wanted)


def command_covers(pattern: str, words: Sequence[str]) -> bool:
    """Whether an allow rule covers one simple command: it matches, and what follows the words of a prefix would not
    turn the command into another one."""
    wanted, more = command_pattern(pattern)
    return command_matches(pattern, words) and not (more and breaks_out(words, len(wanted)))


def host_matches(pattern: str, host: str) -> bool:
    """`docs.rs` is exactly that host; `*.docs.rs` is any host below it, not itself."""
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) >= len(pattern)
    return pattern in {EVERYTHING, host}


def mcp_matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("/*") else pattern in {EVERYTHING, name}
