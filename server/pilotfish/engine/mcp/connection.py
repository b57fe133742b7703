"""One connection to an MCP server: what the library needs to make it, and what the server may ask in return.

A server may report progress and ask the user (elicitation) while one of its tools runs; both go to the call that runs.
It may ask for the folders of the workspace (roots).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pilotfish import __version__
from pilotfish.engine.frontend import ANSWERED_BY_PROMPT
from pilotfish.engine.mcp.config import ServerDefinition
from pilotfish.tools.tool import Context

# FastMCP reads its settings, when it is imported, from a file: by default from `.env` of the current folder, which is
# often the workspace. It reads none if this names no regular file.
os.environ.setdefault("FASTMCP_ENV_FILE", os.devnull)

from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import McpError
from mcp import types
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

if TYPE_CHECKING:
    from pydantic_ai.tools import RunContext
    from pydantic_ai.toolsets import AbstractToolset

PING_SECONDS = 5.0  # between two looks whether the server is still there
PING_LIMIT = 5.0  # a server that is busy may answer later

RUNNING: ContextVar[Context | None] = ContextVar("RUNNING", default=None)
"""the call in whose task a tool of a server runs"""


class Connection:
    """A server that is used: its tools for the model, and what only we ask it."""

    def __init__(self, definition: ServerDefinition, roots: Callable[[], Sequence[Path]], seconds: float) -> None:
        self.definition = definition
        self._calls: list[Context] = []
        self._look_now = asyncio.Event()
        self.server: MCPToolset[Any] = MCPToolset(
            _transport(definition),
            id=definition.name,
            init_timeout=seconds,
            elicitation_handler=self._elicit,
            progress_handler=self._progress,
            roots=lambda _context: [root.as_uri() for root in roots()],
            client_info=types.Implementation(name="pilotfish", version=__version__),
        )
        named = self.server.prefixed(definition.prefix)
        marks = {"server": definition.name, "prefix": definition.prefix, "trusted": definition.trusted}
        self.tools: AbstractToolset[Any] = _WithCall(named.with_metadata(**marks), self)

    async def lost(self, stop: asyncio.Event) -> bool:
        """Return True when the server is gone, False when `stop` is set."""
        while not stop.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (stop, self._look_now)]
            try:
                await asyncio.wait(waits, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            self._look_now.clear()
            if not stop.is_set() and await self._is_gone():
                return True
        return False

    @contextmanager
    def call(self) -> Generator[None]:
        """A tool runs; afterwards, if it fails, look whether the server is still there."""
        context = RUNNING.get()
        if context is not None:
            self._calls.append(context)
        try:
            yield
        except Exception:
            self._look_now.set()
            raise
        finally:
            if context is not None:
                self._calls.remove(context)

    async def _is_gone(self) -> bool:
        try:
            async with asyncio.timeout(PING_LIMIT):
                await self.server.client.ping()
        except TimeoutError:
            return False
        except McpError as error:
            return error.error.code == types.CONNECTION_CLOSED
        except Exception:
            return True
        return False

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._calls:
            done = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            self._calls[-1].progress(f"{done}{f': {message}' if message else ''}\n")

    async def _elicit(self, message: str, _type: Any, params: Any, _context: Any) -> ElicitResult[dict[str, Any]]:
        """Ask the user for each field that the server wants. Any field that is not answered declines all."""
        if not self._calls:
            return ElicitResult(action="decline")
        asked = f"The MCP server {self.definition.name} asks: {message}"
        ask = self._calls[-1].ask_user
        if isinstance(params, types.ElicitRequestURLParams):
            answer = await ask(f"{asked}\nOpen {params.url} in your browser.", ("Done", "Decline"))
            return ElicitResult(action="accept" if answer == "Done" else "decline")
        schema = cast("Mapping[str, Any]", params.requested_schema)
        fields = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
        if not fields:
            answer = await ask(asked, ("Accept", "Decline"))
            return ElicitResult(action="accept" if answer == "Accept" else "decline", content={})
        content: dict[str, Any] = {}
        for name, about in fields.items():
            needed = name in cast("Sequence[str]", schema.get("required") or ())
            words = str(about.get("description") or about.get("title") or name)
            answer = await ask(f"{asked}\n{words}{'' if needed else ' (optional)'}", _choices(about))
            value = None if answer in (None, ANSWERED_BY_PROMPT) else _value(answer, about)
            if value is not None:
                content[name] = value
            elif needed:
                return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=content)


class _WithCall(WrapperToolset[Any]):
    """Tells the connection which call runs."""

    def __init__(self, wrapped: AbstractToolset[Any], connection: Connection) -> None:
        super().__init__(wrapped)
        self._connection = connection

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        with self._connection.call():
            return await super().call_tool(name, tool_args, ctx, tool)


def _transport(definition: ServerDefinition) -> StdioTransport | SSETransport | StreamableHttpTransport:
    headers = dict(definition.headers)
    match definition.transport:
        case "stdio":
            return StdioTransport(
                definition.command,
                list(definition.args),
                env=dict(definition.env),
                cwd=definition.cwd,
                keep_alive=False,
            )
        case "sse":
            return SSETransport(definition.url, headers=headers)
        case "http":
            return StreamableHttpTransport(definition.url, headers=headers)


def _choices(about: Mapping[str, Any]) -> tuple[str, ...]:
    if about.get("type") == "boolean":
        return ("Yes", "No")
    titled = cast("Sequence[Mapping[str, Any]]", about.get("oneOf") or ())
    return tuple(str(value) for value in about.get("enum") or [option.get("const") for option in titled])


def _value(answer: str | None, about: Mapping[str, Any]) -> Any:
    """The answer as the type that the server wants, or None if it is none."""
    if answer is None:
        return None
    try:
        match about.get("type"):
            case "boolean":
                return answer.strip().casefold() in ("yes", "true", "y", "1")
            case "integer":
                return int(answer)
            case "number":
                return float(answer)
            case "array":
                return [word.strip() for word in answer.split(",") if word.strip()]
            case _:
                return answer
    except ValueError:
        return None
