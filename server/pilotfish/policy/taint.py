"""Decides what a call loses after the conversation has read text from outside the workspace.

Such text may contain instructions, and a model may follow them. So from then on a call needs approval, whatever the
mode and the rules say, and only for this one time, if it

- copies that text into a command, a file or the arguments of an MCP tool, or
- could send data out: a web page that the user did not name, an MCP tool that does more than read, a command that
  uses the network, or
- changes a file that runs by itself later.

A command that a mode or a rule allows still runs without a question if a sandbox can take the network away from it.
The text stays in the conversation, so all of this holds until the end of the session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pilotfish.conversation.messages import CanonicalToolCall, Category
from pilotfish.conversation.provenance import COMMAND_QUOTE, FILE_QUOTE, Source, Taint, quoted_source
from pilotfish.conversation.records import SteerRecord, TurnStartRecord
from pilotfish.policy import hosts
from pilotfish.policy.rules import CallFacts
from pilotfish.policy.shell import analysis
from pilotfish.policy.shell.effects import NETWORK
from pilotfish.text.display_safe import one_line

MAX_NAMED = 3  # sources that a question names
MAX_NAME = 200  # characters of the name of a source
MAX_TEXTS = 40  # results that a call is compared with, newest first

NETWORK_COMMANDS = frozenset({
    ("git", "push"), ("git", "fetch"), ("git", "pull"), ("git", "clone"), ("git", "ls-remote"), ("git", "submodule"),
    ("git", "send-email"), ("git", "remote"), ("npm", "publish"), ("pnpm", "publish"), ("yarn", "publish"),
    ("cargo", "publish"), ("twine", "upload"), ("uv", "publish"), ("poetry", "publish"), ("gem", "push"),
    ("docker", "push"), ("docker", "pull"), ("podman", "push"), ("podman", "pull"),
})  # fmt: skip

_SYSTEM = re.compile(r"/(?:usr|bin|sbin|lib\w*|etc|opt|nix|dev|proc|sys|System|Library)(?:/|$)")
"""Places that belong to the system: no stranger writes there."""


@dataclass(frozen=True, slots=True)
class OutsideText:
    """A text from outside that the model has been given."""

    source: Source
    text: str
    own: bool
    """It was read in the running turn."""


def source_of(facts: CallFacts, name: str, *, read_only: bool) -> Source:
    """Return where the result of a call comes from. `name` is used for tools that read files; `read_only` says that a
    command runs without network."""
    if facts.search is not None:
        return Source(kind="web", name="the results of a web search", outside=True)
    if facts.mcp is not None:
        return Source(kind="mcp", name=facts.mcp, outside=True)
    if facts.url is not None:
        return Source(kind="web", name=facts.url, outside=True)
    strange = any(
        fact.access == "read" and not fact.inside and not _SYSTEM.match(fact.path) and not fact.below
        for fact in facts.paths
    )
    if facts.command is not None:
        downloads = not read_only and uses_network(facts.command) is not None
        return Source(kind="command", name=one_line(facts.command)[:80], outside=downloads or strange)
    return Source(kind="file", name=name, outside=strange)


def uses_network(command: str) -> str | None:
    """Return the program or host through which a command line would use the network, as far as its text shows it."""
    study = analysis.study(command)
    for url in analysis.addresses(command):
        host = hosts.host_of(url)
        if host is None or not hosts.local_address(host):
            return host or url
    for words in (*(part.words for part in study.parts), *study.found):
        name = words[0].rsplit("/", 1)[-1]
        if name in NETWORK:
            return name
        operands = [word for word in words[1:] if not word.startswith("-")]
        if any((name, operand) in NETWORK_COMMANDS for operand in operands[:3]):
            return next(f"{name} {operand}" for operand in operands if (name, operand) in NETWORK_COMMANDS)
    return None


def attached_texts(prompts: Iterable[TurnStartRecord | SteerRecord], turn_id: str) -> tuple[OutsideText, ...]:
    """Return the texts from outside that came with these prompts. `turn_id` is the running turn."""
    return tuple(
        OutsideText(attached.source, attached.text, own=prompt.turn_id == turn_id)
        for prompt in prompts
        for attached in prompt.outside
    )


def attached_from(source: Source) -> str:
    """Return the attribute that marks an attachment of a prompt as text from outside."""
    name = one_line(source.name).replace('"', "'")[:MAX_NAME]
    return f' from="{source.kind} {name}"'


def outside_texts(
    calls: Iterable[CanonicalToolCall], own: Mapping[str, None], *, imported: bool = False
) -> tuple[OutsideText, ...]:
    """Return the texts from outside among the results of these calls. A call that has started counts: it may have
    read something before a crash. A session that was imported is a text from outside as a whole."""
    whole = (OutsideText(Source(kind="session", name="imported", outside=True), "", own=False),) if imported else ()
    return whole + tuple(
        OutsideText(call.source, (call.result.text if call.result else call.error) or "", call.id in own)
        for call in calls
        if call.source is not None and call.source.outside and call.started_at is not None
    )


def taint_of(
    facts: CallFacts,
    args: Mapping[str, Any],
    texts: Sequence[OutsideText],
    words: Sequence[str],
    *,
    can_cut_network: bool,
) -> Taint | None:
    """Return what the texts mean for a call. `words` is what the user wrote. None if nothing from outside was read."""
    if not texts:
        return None
    size = FILE_QUOTE if facts.category is Category.WRITE else COMMAND_QUOTE
    quotes = None
    if facts.category in {Category.WRITE, Category.EXECUTE}:
        known = [(text.source, text.text) for text in texts[-MAX_TEXTS:]]
        found = (quoted_source(value, known, words, size=size) for value in _strings(args))
        quotes = next((source for source in found if source is not None), None)
    return Taint(
        reason=_reason(texts),
        quotes=None if quotes is None else _name(quotes),
        own_url=facts.url is not None and _wrote(facts.url, words),
        can_cut_network=can_cut_network,
    )


def objection(facts: CallFacts, *, only_reads: bool) -> str | None:
    """Return why a call needs approval after text from outside was read. None if it does not, or nothing was read.
    `only_reads` says that a command runs in the read-only sandbox, which has no network."""
    taint = facts.taint
    if taint is None or (facts.command is not None and only_reads):
        return None
    if taint.quotes is not None:
        return f"it copies text from {taint.quotes}"
    why = _sends(facts, taint)
    if why is None and facts.category is Category.WRITE:
        why = next((_changes(fact.path, fact.sensitive) for fact in facts.paths if fact.sensitive), None)
    return None if why is None else f"{why}, and {taint.reason}"


def user_words(prompts: Iterable[TurnStartRecord | SteerRecord]) -> tuple[str, ...]:
    """Return what the user typed: the prompts without attachments and without prompts of MCP servers."""
    return tuple(
        str(block.get("text", ""))
        for prompt in prompts
        for block in prompt.prompt
        if block.get("type") == "text" and not block.get("source")
    )


def _sends(facts: CallFacts, taint: Taint) -> str | None:
    if facts.url is not None:
        return None if taint.own_url else "it could send data to a page that you did not name"
    if facts.search is not None:
        return "it could send data out in the words of a search"
    if facts.mcp is not None:
        return None if facts.mcp_reads else "it could send data out"
    if facts.command is None:
        return None
    if through := uses_network(facts.command):
        return f"it could send data out ({one_line(through)})"
    if facts.for_real:
        return "it would run with network access"
    if facts.background:
        return "it would keep running with network access"
    return None if taint.can_cut_network else "no sandbox here can take the network away from it"


def _changes(path: str, why: str | None) -> str:
    return f"it changes {one_line(path)} ({one_line(why or '')})"


def _reason(texts: Sequence[OutsideText]) -> str:
    own = [text for text in texts if text.own]
    names = list(dict.fromkeys(_name(text.source) for text in reversed(own or texts)))
    shown = ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
    return f"this {'turn' if own else 'conversation'} has read {shown}"


def _name(source: Source) -> str:
    match source.kind:
        case "web":
            return one_line(hosts.host_of(source.name) or source.name)
        case "mcp":
            return f"the MCP server {one_line(source.name.partition('/')[0])}"
        case "command":
            return f"what `{one_line(source.name)}` brought"
        case "session":
            return "an imported conversation"
        case "file":
            return one_line(source.name)


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[object, object]", value).values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            yield from _strings(item)


_WRITTEN_URL = re.compile(r"(?:https?://)?[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:/[^\s<>\"'`)\]]*)?", re.IGNORECASE)


def _wrote(url: str, words: Sequence[str]) -> bool:
    """Whether the user wrote this URL, whole; the scheme, a final slash and the fragment do not matter."""
    wanted = _bare(url)
    written = (match.group().rstrip(".,;:!?") for text in words for match in _WRITTEN_URL.finditer(text))
    return any(_bare(found) == wanted for found in written)


def _bare(url: str) -> str:
    return re.sub(r"^https?://", "", url.partition("#")[0], flags=re.IGNORECASE).rstrip("/")
