"""The tools of MCP servers from the user's configuration file. They run like any other call.

A server that does not connect is left out, and `status` has the reason. A turn that begins while servers connect waits
for them, at most PROBE_SECONDS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool

if TYPE_CHECKING:
    from pydantic_ai.capabilities import WrapToolExecuteHandler
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset

log = logging.getLogger(__name__)

CONNECTING = "connecting"
PROBE_SECONDS = 10.0  # time limit to connect; the first turn waits this long at most


class AnyArgs(Args):
    """Arguments that the MCP server validates."""

    model_config = ConfigDict(extra="allow", frozen=True)


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    available: bool
    reason: str = ""
    tools: int = 0


class Servers:
    """The MCP servers of this process. Each has a task of its own, so a slow server does not delay another."""

    def __init__(self) -> None:
        self.found: dict[str, Server] = {}
        self._toolsets: dict[str, AbstractToolset[Any]] = {}
        self._config: Path | None = None
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def toolsets(self) -> list[AbstractToolset[Any]]:
        """The tools of the servers that are connected."""
        return list(self._toolsets.values())

    def use(self, config: Path | None) -> None:
        """Connect to the servers of a configuration file in the background, and disconnect those of the previous file.
        Does nothing for the same file."""
        if config == self._config:
            return
        self._config = config
        self._stop.set()
        self._stop = asyncio.Event()
        self.found.clear()
        self._toolsets.clear()
        if config is not None:
            self._settled.clear()
            self._spawn(self._connect(config, self._stop))

    async def settled(self) -> None:
        """Return when every server is connected or has failed."""
        await self._settled.wait()

    def hurry(self) -> None:
        """End all waits in `settled`."""
        self._settled.set()

    async def aclose(self) -> None:
        self._stop.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1)
            for task in late:
                task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="mcp")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _found(self, server: Server, stop: asyncio.Event) -> None:
        if stop is self._stop:
            self.found[server.name] = server
            if not any(known.reason == CONNECTING for known in self.found.values()):
                self._settled.set()

    async def _connect(self, config: Path, stop: asyncio.Event) -> None:
        try:
            from pydantic_ai.mcp import load_mcp_toolsets

            toolsets = await asyncio.to_thread(load_mcp_toolsets, config)
        except Exception as error:
            log.warning("cannot read the MCP configuration: %s", error)
            self._found(Server(config.name, available=False, reason=f"could not be read: {error}"), stop)
            return
        named = {_server_of(toolset).id or toolset.label: toolset for toolset in toolsets}
        if stop is self._stop:
            self.found.update({name: Server(name, available=False, reason=CONNECTING) for name in named})
            for name, toolset in named.items():
                self._spawn(self._hold(name, toolset, stop))
        if not named:
            self._settled.set()

    async def _hold(self, name: str, toolset: AbstractToolset[Any], stop: asyncio.Event) -> None:
        """Enter and leave the connection of a server in one task, as the library requires."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(PROBE_SECONDS):
                    await stack.enter_async_context(toolset)
                    tools = await _server_of(toolset).list_tools()
                if stop is self._stop:
                    self._toolsets[name] = toolset
                self._found(Server(name, available=True, tools=len(tools)), stop)
                await stop.wait()
        except Exception as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
            log.warning("MCP server %s: %s", name, reason)
            self._found(Server(name, available=False, reason=reason), stop)
        finally:
            if self._toolsets.get(name) is toolset:
                del self._toolsets[name]


def _server_of(toolset: Any) -> Any:
    """The innermost toolset, which has the connection."""
    while hasattr(toolset, "wrapped"):
        toolset = toolset.wrapped
    return toolset


def foreign_tool(definition: ToolDefinition, handler: WrapToolExecuteHandler) -> Tool[AnyArgs]:
    """Wrap an MCP tool. Policy judges it as an execution, under the name `server/tool`."""

    async def run(context: Context, args: AnyArgs) -> Result:
        del context
        returned = await handler(args.model_dump())
        return Result(text=returned if isinstance(returned, str) else _text(returned))

    return Tool(
        name=definition.name,
        description=definition.description or "",
        args=AnyArgs,
        category=Category.EXECUTE,
        run=run,
        title=lambda _: definition.name,
        subject=lambda _: Subject(mcp=_qualified(definition)),
    )


def _qualified(definition: ToolDefinition) -> str:
    metadata: Mapping[str, Any] = definition.metadata or {}
    server = metadata.get("server") or definition.toolset_id or "mcp"
    return f"{server}/{definition.name}"


def _text(value: object) -> str:
    from pydantic_core import to_json

    return to_json(value, fallback=str).decode("utf-8")
