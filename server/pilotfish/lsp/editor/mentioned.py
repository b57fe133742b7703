"""Finds the mentions in a draft and says what each of them would cost, for chips in the text."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass

from pilotfish.engine.prompting.prompt import MAX_RESOURCE_CHARS
from pilotfish.engine.prompting.special_mentions import SPECIAL, folder_text
from pilotfish.engine.session.mentioned_text import MAX_TRANSCRIPT, SESSION_PREFIX
from pilotfish.errors import PilotfishError
from pilotfish.protocol import wire
from pilotfish.text.mention_syntax import Mention, is_url, mention_spans
from pilotfish.text.positions import Text
from pilotfish.workspace.workspace import Workspace

MAX_TEXT = 200_000  # characters of a draft that are searched
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class MentionScope:
    """What mentions of a draft can name."""

    workspace: Workspace
    servers: Container[str]
    """the names of connected MCP servers"""
    sessions: Container[str]


async def find_mentions(text: str, scope: MentionScope) -> tuple[wire.MentionInText, ...]:
    """The mentions that name something, in the order of the text. Names of nothing are ordinary text."""
    counted = Text(text[:MAX_TEXT], "utf-16")
    found: list[wire.MentionInText] = []
    for mention, start, end in mention_spans(counted.value):
        known = await _known(mention, scope)
        if known is not None:
            kind, tokens, problem = known
            begin = counted.units(counted.value[:start])
            found.append(
                wire.MentionInText(
                    kind=kind,
                    name=mention.name,
                    start=begin,
                    end=begin + counted.units(counted.value[start:end]),
                    tokens=tokens,
                    problem=problem,
                )
            )
    return tuple(found)


async def _known(mention: Mention, scope: MentionScope) -> tuple[wire.MentionKind, int | None, str | None] | None:
    """(kind, tokens, why it is not attached) of a mention, None if it names nothing. Nothing is fetched or run."""
    name, workspace = mention.name, scope.workspace
    if is_url(name):
        return "url", None, None
    if name.startswith(SESSION_PREFIX):
        return ("session", MAX_TRANSCRIPT // CHARS_PER_TOKEN, None) if name in scope.sessions else None
    try:
        place = workspace.resolve(name)
    except PilotfishError:
        return None
    is_file = await asyncio.to_thread(place.path.is_file)
    if is_file or await asyncio.to_thread(place.path.is_dir):
        kind: wire.MentionKind = "file" if is_file else "folder"
        problem = place.sensitive or (None if place.inside else "it is outside the workspace")
        if problem:
            return kind, None, problem
        if not is_file:
            return kind, len(await folder_text(place.path, workspace)) // CHARS_PER_TOKEN, None
        try:
            text = (await workspace.look(place.path)).text
        except PilotfishError as error:
            return kind, None, str(error)
        if mention.lines is not None:
            first, last = mention.lines
            text = "\n".join(text.split("\n")[max(0, first - 1) : last])
        return kind, min(len(text), MAX_RESOURCE_CHARS) // CHARS_PER_TOKEN, None
    if name in SPECIAL:
        return "context", None, None
    return ("resource", None, None) if name.partition(":")[0] in scope.servers and ":" in name else None
