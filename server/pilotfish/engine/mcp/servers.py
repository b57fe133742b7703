"""The MCP servers that are used: connected in the background, and again after a crash.

A server that does not connect is left out, and `found` has the reason. A turn that begins while servers connect waits
for them, at most START_SECONDS. A failed start is tried again, each time after a longer pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pilotfish.engine.library_imports import import_library
from pilotfish.engine.mcp.config import ServerDefinition, read_config
from pilotfish.errors import BadRequest

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

    from pilotfish.engine.mcp.connection import Connection

log = logging.getLogger(__name__)

CONNECTING = "connecting"
START_SECONDS = 10.0  # time limit to connect; the first turn waits this long at most
FIRST_PAUSE = 1.0  # seconds before the second attempt; the pause doubles each time
ATTEMPTS = 6
INSTALL = "Install it: pip install 'pilotfish[mcp]'"


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    available: bool
    reason: str = ""
    tools: int = 0

    @property
    def connecting(self) -> bool:
        return not self.available and self.reason == CONNECTING


@dataclass(frozen=True, slots=True)
class _Running:
    """A server that is connected, or being connected, until `stop` is set."""

    definition: ServerDefinition
    stop: asyncio.Event


class Servers:
    """A set of servers. Each has a task of its own, so a slow server does not delay another."""

    def __init__(
        self,
        roots: Callable[[], Sequence[Path]] = tuple,
        inputs: Callable[[], Mapping[str, str]] = dict[str, str],
        fault_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """`fault_of` says why a server of a name may not be used."""
        self.found: dict[str, Server] = {}
        self.changed: list[Callable[[], None]] = []
        """called when a server was connected, lost or reconfigured"""
        self.connections: dict[str, Connection] = {}
        self._roots = roots
        self._fault_of = fault_of
        self._inputs = inputs
        self._used: Path | tuple[ServerDefinition, ...] | None = None
        self._running: dict[str, _Running] = {}
        self._readings = 0
        """grows with each reading of the configuration, so that an older one is not applied"""
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def toolsets(self) -> dict[str, AbstractToolset[Any]]:
        """The tools of the servers that are connected, by the name of the server."""
        return {name: connection.tools for name, connection in self.connections.items()}

    def use(self, used: Path | tuple[ServerDefinition, ...] | None) -> None:
        """Connect to the servers of a configuration file, or to these, in the background, and disconnect the previous
        ones. Does nothing if they are the same."""
        if used == self._used:
            return
        self._used = used
        for name in [*self.found]:
            self._drop(name)
        self._read()

    def reload(self, *again: str) -> None:
        """Read the configuration file again. Servers whose definition is the same stay connected, except those of
        `again`, which are connected anew."""
        for name in again:
            self._drop(name)
        self._read()

    async def settled(self) -> None:
        """Return when every server is connected or has failed once."""
        await self._settled.wait()

    def hurry(self) -> None:
        """End all waits in `settled`."""
        self._settled.set()

    async def aclose(self) -> None:
        self._readings += 1
        for running in self._running.values():
            running.stop.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1)
            for task in late:
                task.cancel()

    def _read(self) -> None:
        self._readings += 1
        if self._used:
            self._settled.clear()
            self._spawn(self._start(self._used, self._readings))
        else:
            self._tell()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="mcp")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _drop(self, name: str) -> None:
        if (running := self._running.pop(name, None)) is not None:
            running.stop.set()
        self.found.pop(name, None)
        self.connections.pop(name, None)

    def _is_current(self, name: str, stop: asyncio.Event) -> bool:
        running = self._running.get(name)
        return running is not None and running.stop is stop

    def _note(self, server: Server, stop: asyncio.Event) -> None:
        if self._is_current(server.name, stop):
            self.found[server.name] = server
            self._tell()

    def _tell(self) -> None:
        if not any(known.connecting for known in self.found.values()):
            self._settled.set()
        for tell in self.changed:
            tell()

    async def _start(self, used: Path | tuple[ServerDefinition, ...], reading: int) -> None:
        definitions: Sequence[ServerDefinition] = ()
        try:
            await asyncio.to_thread(import_library, "pilotfish.engine.mcp.connection")
            if isinstance(used, Path):
                definitions = await asyncio.to_thread(read_config, used, self._roots(), self._inputs())
            else:
                definitions = used
        except ImportError as error:
            log.warning("cannot load the MCP library: %s", error)
            problem = f"needs a package that cannot be loaded ({error}). {INSTALL}"
        except (OSError, BadRequest) as error:
            log.warning("cannot read the MCP configuration: %s", error)
            problem = f"could not be read: {error}"
        else:
            problem = None
        if reading != self._readings:
            return
        wanted = {definition.name: definition for definition in definitions}
        for name in [*self.found]:
            if name not in self._running or self._running[name].definition != wanted.get(name):
                self._drop(name)
        if problem is not None:
            name = used.name if isinstance(used, Path) else "MCP"
            self.found[name] = Server(name, available=False, reason=problem)
        for definition in wanted.values():
            if definition.name not in self._running:
                self._begin(definition)
        self._tell()

    def _begin(self, definition: ServerDefinition) -> None:
        stop = asyncio.Event()
        self._running[definition.name] = _Running(definition, stop)
        problem = definition.problem or self._fault_of(definition.name)
        self.found[definition.name] = Server(definition.name, available=False, reason=problem or CONNECTING)
        if not problem:
            self._spawn(self._keep_connected(definition, stop))

    async def _keep_connected(self, definition: ServerDefinition, stop: asyncio.Event) -> None:
        attempt = 0
        while not stop.is_set():
            connected, reason, again = await self._connect(definition, stop)
            attempt = 1 if connected else attempt + 1
            if stop.is_set():
                return
            log.warning("MCP server %s: %s", definition.name, reason)
            self._note(Server(definition.name, available=False, reason=reason), stop)
            if not again or attempt >= ATTEMPTS:
                return
            try:
                async with asyncio.timeout(FIRST_PAUSE * 2 ** (attempt - 1)):
                    await stop.wait()
            except TimeoutError:
                continue

    async def _connect(self, definition: ServerDefinition, stop: asyncio.Event) -> tuple[bool, str, bool]:
        """Connect and stay connected until `stop` or until the server is gone. Returns whether it was connected, why it
        is not any more, and whether another attempt may help. One task enters and leaves, as the library requires."""
        from pilotfish.engine.mcp.connection import Connection

        connection = None
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_SECONDS):
                    made = Connection(definition, self._roots, START_SECONDS)
                    await stack.enter_async_context(made.server)
                    tools = await made.server.list_tools()
                connection = made
                if self._is_current(definition.name, stop):
                    self.connections[definition.name] = connection
                self._note(Server(definition.name, available=True, tools=len(tools)), stop)
                await connection.lost(stop)
            return True, "the connection was lost", True
        except Exception as error:
            if connection is not None:  # leaving the connection to a dead server may fail
                return True, "the connection was lost", True
            return False, _reason(error), not isinstance(_innermost(error), FileNotFoundError)
        finally:
            if connection is not None and self.connections.get(definition.name) is connection:
                del self.connections[definition.name]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    description: str | None


async def try_server(
    definition: ServerDefinition, roots: Callable[[], Sequence[Path]]
) -> tuple[Sequence[OfferedTool], str]:
    """Connect to a server once. Returns its tools, and the reason if it cannot be used."""
    if definition.problem:
        return (), definition.problem
    try:
        await asyncio.to_thread(import_library, "pilotfish.engine.mcp.connection")
        from pilotfish.engine.mcp.connection import Connection

        async with asyncio.timeout(START_SECONDS):
            made = Connection(definition, roots, START_SECONDS)
            async with made.server:
                return [OfferedTool(tool.name, tool.description) for tool in await made.server.list_tools()], ""
    except ImportError as error:
        return (), f"it needs a package that cannot be loaded ({error}). {INSTALL}"
    except Exception as error:
        return (), _reason(error)


def _reason(error: Exception) -> str:
    cause = _innermost(error)
    if isinstance(cause, TimeoutError):
        return f"no answer in {START_SECONDS:g} seconds"
    return f"{type(cause).__name__}: {cause}"


def _innermost(error: BaseException) -> BaseException:
    """The first error of a group, or the one that another was raised from."""
    if isinstance(error, BaseExceptionGroup):
        return _innermost(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error if error.__cause__ is None else _innermost(error.__cause__)
