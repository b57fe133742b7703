"""Loads the engine after `initialize` is answered: settings, store and sessions first, then the model libraries.

Requests that need the engine wait for it, and show that they do. If loading fails, they are answered with the reason,
and the next request tries again: the user may have removed the cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotfish.errors import PilotfishError, StorageError
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.protocol import Connection
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.lsp.generic_client.progress import Progresses
from pilotfish.protocol import wire

if TYPE_CHECKING:
    from pilotfish.config.settings import SettingProblem, Settings
    from pilotfish.engine.engine import Engine
    from pilotfish.lsp.generic_client.generic_client import GenericClient
    from pilotfish.lsp.handlers import Handlers

log = logging.getLogger(__name__)

TERM_SECONDS = 0.5  # that commands have to end by themselves when the server does
PATIENCE = 0.7  # seconds before a request that waits for the engine shows that it does
M_MMAP_THRESHOLD = -3  # of malloc.h
LARGE_BLOCK = 1 << 20
_MODULES = (
    "pilotfish.engine.engine",
    "pilotfish.lsp.frontend",
    "pilotfish.lsp.handlers",
    "pilotfish.lsp.generic_client.generic_client",
    "pilotfish.store.ledger",
)
_BROKEN = "Pilotfish could not be started; its log says more."
_REMEDY = "Run `pilotfish doctor`."


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a connection that exist before the engine is loaded."""

    connection: Connection
    client: Client
    documents: Documents
    editor: LspEditor
    approvals: Approvals
    progresses: Progresses


@dataclass(slots=True)
class World:
    """The newest settings, folders and trust that the client has sent."""

    settings: Mapping[str, Any]
    roots: Sequence[Path]
    trusted: bool
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """The loaded engine and the handlers that use it."""

    live: Engine
    handlers: Handlers
    plain: GenericClient


class Loader:
    """Loads the engine and gives access to it."""

    def __init__(self, parts: Parts, world: World) -> None:
        self._parts = parts
        self._world = world
        self._loading: asyncio.Task[LoadedEngine] | None = None
        self._warming: asyncio.Future[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._showing: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[LoadedEngine]:
        """Start to load, or retry after a failure."""
        self._loading = asyncio.get_running_loop().create_task(self._load(), name="loading")
        self._loading.add_done_callback(_log_failure)
        return self._loading

    async def engine(self, *, at_once: bool = False) -> LoadedEngine:
        """Wait for the engine and for the settings that the client has sent or announced; with `at_once`, not for the
        settings. Raises StorageError with a remedy if the engine cannot be loaded."""
        if self.failure() and not at_once:
            await self._settled()  # new settings may remove the cause
        engine = await self._loaded()
        if not at_once:
            await self._settled()
        return engine

    async def _settled(self) -> None:
        if self._settling is not None:
            await asyncio.wait((self._settling,))

    async def _loaded(self) -> LoadedEngine:
        if (there := self.now()) is not None:
            return there
        loading = self._loading
        if loading is None or (loading.done() and loading.exception() is not None):
            loading = self.start()
        try:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(loading), PATIENCE)
            if self._showing is None:
                self._showing = asyncio.get_running_loop().create_task(self._show(loading))
            return await asyncio.shield(loading)
        except PilotfishError:
            raise
        except Exception as error:
            raise StorageError(_BROKEN, remedy=_REMEDY) from error

    async def _show(self, loading: asyncio.Task[LoadedEngine]) -> None:
        """Show one progress, however many requests wait."""
        progress = self._parts.progresses.start("Pilotfish is starting")
        await asyncio.wait((loading,))
        await self._parts.progresses.finish(progress, "ready" if self.now() else "failed")
        self._showing = None

    def now(self) -> LoadedEngine | None:
        """The engine if it is loaded."""
        loading = self._loading
        if loading is None or not loading.done() or loading.cancelled() or loading.exception():
            return None
        return loading.result()

    def failure(self) -> wire.Failure | None:
        """The reason why it could not be loaded."""
        loading = self._loading
        if loading is None or not loading.done() or loading.cancelled():
            return None
        match loading.exception():
            case None:
                return None
            case StorageError() as error:
                return wire.Failure(message=str(error), remedy=error.remedy, retryable=True, kind="storage")
            case _:
                return wire.Failure(message=_BROKEN, remedy=_REMEDY)

    async def aclose(self) -> None:
        """Close the engine. Commands that do not end in time are killed, so that the store closes cleanly."""
        engine = self.now()
        if engine is None:
            return
        closing = asyncio.ensure_future(engine.handlers.aclose())
        await asyncio.wait((closing,), timeout=TERM_SECONDS)
        if not closing.done():
            from pilotfish.workspace.process.processes import kill_everything

            kill_everything()
        await closing

    def settle(self, saying: Coroutine[Any, Any, Mapping[str, Any] | None]) -> None:
        """Apply the settings that `saying` returns; None changes nothing."""
        self._settling = asyncio.get_running_loop().create_task(self._settle(saying, self._settling))
        self._settling.add_done_callback(_log_failure)

    async def _settle(
        self, saying: Coroutine[Any, Any, Mapping[str, Any] | None], earlier: asyncio.Task[None] | None
    ) -> None:
        said = await saying
        if earlier is not None:
            await asyncio.wait((earlier,))
        if said is None:
            return
        self._world.settings = {**self._parts.client.hello.settings, **said}
        settings = await self._settings()
        if self._loading is not None:
            await asyncio.wait((self._loading,))
        if engine := self.now():
            engine.live.set_settings(settings)
            self._use_mcp(engine.live)

    def files_changed(self) -> None:
        """Files were created or deleted. This is only a hint: such events can be lost or repeated."""
        if engine := self.now():
            engine.handlers.files_changed()

    def renew_world(self) -> None:
        """Apply the newest folders and trust to the engine."""
        if engine := self.now():
            engine.handlers.set_roots(self._world.roots)
            engine.live.set_trusted(self._world.trusted)
            self._use_mcp(engine.live)

    def _use_mcp(self, live: Engine) -> None:
        """Start MCP servers, which run code, only if the editor trusts the workspace."""
        if self._world.trusted:
            live.use_mcp()

    async def _load(self) -> LoadedEngine:
        await asyncio.to_thread(_import)
        from pilotfish.engine.engine import Engine
        from pilotfish.lsp.frontend import LspFrontend
        from pilotfish.lsp.generic_client.generic_client import GenericClient
        from pilotfish.lsp.handlers import Handlers
        from pilotfish.store.ledger import Ledger

        parts, world = self._parts, self._world
        settings = await self._settings()
        ledger = await asyncio.to_thread(Ledger.open, settings.storage)
        face = LspFrontend(parts.connection, parts.client, parts.editor, parts.approvals)
        live = Engine(settings, ledger, face, roots=world.roots, trusted=world.trusted)
        face.session_of = live.session_of
        parts.approvals.answers = live.answer
        handlers = Handlers(live, face, parts.approvals, parts.documents)
        handlers.set_roots(world.roots)
        plain = GenericClient(parts.connection, parts.client, live, handlers, parts.progresses)
        face.listeners.append(plain.told)
        if not parts.client.ours:
            live.ask_for_trust = plain.ask_for_trust
        self._use_mcp(live)
        live.warmed = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._warming = asyncio.ensure_future(asyncio.to_thread(_load_model_libraries, live, loop, live.warmed))
        self._warming.add_done_callback(_log_failure)
        return LoadedEngine(live, handlers, plain)

    async def _settings(self) -> Settings:
        from pilotfish.config.settings import load_user

        loaded = await asyncio.to_thread(load_user, self._world.settings)
        told = tuple(_words(problem) for problem in loaded.problems)
        self._world.problems = (*self._parts.client.problems, *told)
        return loaded.settings


def _load_model_libraries(live: Engine, loop: asyncio.AbstractEventLoop, warmed: asyncio.Event) -> None:
    """Import what a turn with the user's provider needs, in a thread: on the event loop it would block everybody.

    The model is made on a loop of this thread, because it belongs to the loop it is made on, and thrown away.
    """
    from pilotfish.engine.model import adapter, resolve
    from pilotfish.engine.session import session
    from pilotfish.engine.turn.agent import main_agent

    del session

    async def make() -> None:
        try:
            live.model_for(live.settings.model)
        finally:
            await resolve.aclose()

    try:
        with contextlib.suppress(PilotfishError):  # no key or no such model: the turn that uses it will say so
            asyncio.run(make())
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(warmed.set)
    _give_back_large_blocks()
    adapter.make_ready()
    main_agent()


def _give_back_large_blocks() -> None:
    """Have glibc return large blocks to the system once they are free, always. By default it raises its own limit to
    the largest it has seen: after one answer of ten megabytes the process keeps a hundred for good."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # another system, another allocator
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def _words(problem: SettingProblem) -> str:
    return f"{problem.source}: {problem.message}"


def _import() -> None:
    for name in _MODULES:
        importlib.import_module(name)


def _log_failure(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        traceback = None if isinstance(error, PilotfishError) else error
        log.error("the engine could not be loaded: %s", error, exc_info=traceback)
