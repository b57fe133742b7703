"""Tools of MCP servers: found in a configuration file of the user's, probed one by one, run like any other call.

A server that is slow or dead costs nothing but itself: it is left out, and `status` says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from pilotfish.core.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool

if TYPE_CHECKING:
    from pydantic_ai.capabilities.abstract import WrapToolExecuteHandler
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset

log = logging.getLogger(__name__)

PROBE_SECONDS = 10.0


class AnyArgs(Args):
    """Arguments whose schema the MCP server knows and checks."""

    model_config = ConfigDict(extra="allow", frozen=True)


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    available: bool
    reason: str = ""


class Servers:
    """The MCP servers of this process. Each is held by a task of its own, so none can hold up another."""

    def __init__(self) -> None:
        self.found: dict[str, Server] = {}
        self._toolsets: dict[str, AbstractToolset[Any]] = {}
        self._config: Path | None = None
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def toolsets(self) -> list[AbstractToolset[Any]]:
        """Those that have answered by now."""
        return list(self._toolsets.values())

    def start(self, config: Path) -> None:
        """Begin to connect to what the file names, behind everything else. The same file again changes nothing."""
        if config == self._config:
            return
        self._config = config
        self._tasks.append(asyncio.get_running_loop().create_task(self._connect(config), name="mcp"))

    async def aclose(self) -> None:
        self._stop.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1)
            for task in late:
                task.cancel()

    async def _connect(self, config: Path) -> None:
        try:
            from pydantic_ai.mcp import load_mcp_toolsets

            toolsets = await asyncio.to_thread(load_mcp_toolsets, config)
        except Exception as error:
            log.warning("the MCP configuration could not be read: %s", error)
            self.found[config.name] = Server(config.name, available=False, reason=f"could not be read: {error}")
            return
        for toolset in toolsets:
            name = toolset.id or toolset.label
            self.found[name] = Server(name, available=False, reason="connecting")
            self._tasks.append(asyncio.get_running_loop().create_task(self._hold(name, toolset), name=f"mcp {name}"))

    async def _hold(self, name: str, toolset: AbstractToolset[Any]) -> None:
        """Enter and leave a server's connection in one task, as its library wants it."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(PROBE_SECONDS):
                    await stack.enter_async_context(toolset)
                self._toolsets[name] = toolset
                self.found[name] = Server(name, available=True)
                await self._stop.wait()
        except Exception as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
            log.warning("MCP server %s: %s", name, reason)
            self.found[name] = Server(name, available=False, reason=reason)
        finally:
            self._toolsets.pop(name, None)


def foreign_tool(definition: ToolDefinition, handler: WrapToolExecuteHandler) -> Tool[AnyArgs]:
    """A tool of someone else's as one of ours: judged by policy as an execution, under `server/tool`."""

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
