"""What connected MCP servers offer the user: resources to mention (`@"server:uri"`), prompts as slash commands.

A server that fails or does not answer in time offers nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pilotfish.errors import BadRequest, ToolError

if TYPE_CHECKING:
    from pilotfish.engine.mcp.connection import Connection

log = logging.getLogger(__name__)

LIST_SECONDS = 5.0  # a menu waits for it; the list is cached after the first answer
READ_SECONDS = 30.0
_WORDS = re.compile(r"[^\w.-]+")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OfferedResource:
    """A text that a server has. Its mention is `@"server:uri"`."""

    server: str
    uri: str
    name: str
    description: str | None

    @property
    def mention(self) -> str:
        return f"{self.server}:{self.uri}"


@dataclass(frozen=True, slots=True)
class PromptCommand:
    """A prompt of a server, as the slash command `/server:name`."""

    name: str
    description: str
    argument_hint: str | None
    arguments: tuple[str, ...]
    prompt: str
    connection: Connection

    @property
    def source(self) -> Literal["mcp"]:
        return "mcp"

    async def expand(self, typed: str) -> str:
        """The text of the prompt. Words are given to its arguments in order, the last one gets the rest."""
        words = typed.split(maxsplit=max(len(self.arguments) - 1, 0)) if self.arguments else []
        given = dict(zip(self.arguments, words, strict=False))
        answer = await _in_time(self.connection.server.get_prompt(self.prompt, given), READ_SECONDS)
        if answer is None:
            hint = f"/{self.name} {self.argument_hint or ''}".rstrip()
            raise BadRequest(f"The MCP server did not give its prompt {self.prompt}. Type {hint}.", field="prompt")
        texts = [_text(message.content) for message in answer.messages]
        return "\n\n".join(filter(None, texts))


async def resources(connections: Mapping[str, Connection]) -> Sequence[OfferedResource]:
    listed = await _of_all(connections, {name: one.server.list_resources() for name, one in connections.items()})
    return [
        OfferedResource(connection.definition.name, found.uri, found.title or found.name, found.description)
        for connection, offered in listed
        for found in offered
    ]


async def prompts(connections: Mapping[str, Connection]) -> Mapping[str, PromptCommand]:
    listed = await _of_all(connections, {name: one.server.list_prompts() for name, one in connections.items()})
    found: dict[str, PromptCommand] = {}
    for connection, offered in listed:
        for prompt in offered:
            arguments = prompt.arguments or ()
            hint = " ".join(f"<{one.name}>" if one.required else f"[{one.name}]" for one in arguments)
            name = f"{connection.definition.prefix}:{_WORDS.sub('-', prompt.name)}"
            found[name] = PromptCommand(
                name=name,
                description=prompt.description or prompt.title or prompt.name,
                argument_hint=hint or None,
                arguments=tuple(one.name for one in arguments),
                prompt=prompt.name,
                connection=connection,
            )
    return found


async def read_resource(connections: Mapping[str, Connection], mention: str) -> str | None:
    """The text of a mentioned resource; None if the mention names no connected server. Raises ToolError."""
    server, colon, uri = mention.partition(":")
    connection = connections.get(server)
    if not colon or connection is None:
        return None
    content = await _in_time(connection.server.read_resource(uri), READ_SECONDS)
    if content is None:
        raise ToolError(f"the MCP server {server} did not give it")
    parts = content if isinstance(content, list) else [content]
    texts = [part for part in parts if isinstance(part, str)]
    if not texts:
        raise ToolError("it is not text")
    return "\n".join(texts)


async def _of_all(
    connections: Mapping[str, Connection], requests: Mapping[str, Awaitable[Sequence[T]]]
) -> list[tuple[Connection, Sequence[T]]]:
    """The answer of each server, by the name of which its request is."""
    answers = await asyncio.gather(*(_in_time(request, LIST_SECONDS) for request in requests.values()))
    return [(connections[name], answer or ()) for name, answer in zip(requests, answers, strict=True)]


async def _in_time(request: Awaitable[T], seconds: float) -> T | None:
    try:
        async with asyncio.timeout(seconds):
            return await request
    except Exception as error:  # of the server or of the library
        log.info("an MCP server did not answer: %s", type(error).__name__)
        return None


def _text(content: Any) -> str:
    """The text of a message: its own, or that of an embedded resource."""
    found = getattr(content, "content", content)
    return found if isinstance(found, str) else ""
