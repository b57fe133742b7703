"""Loads the engine after `initialize` is answered: settings, store and sessions first, then the model libraries.

Requests that need the engine wait for it, and show that they do. If loading fails, they are answered with the reason,
and the next request tries again: the user may have removed the cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotfish.errors import PilotfishError, StorageError
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.protocol import Connection
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.choices import Choices
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.lsp.generic_client.progress import Progresses
from pilotfish.protocol import wire

if TYPE_CHECKING:
    from pilotfish.config.settings import SettingProblem, Settings
    from pilotfish.engine.engine import Engine
    from pilotfish.engine.frontend import SessionUpdate
    from pilotfish.lsp.editor.language_models import LanguageModels
    from pilotfish.lsp.generic_client.generic_client import GenericClient
    from pilotfish.lsp.handlers import Handlers

log = logging.getLogger(__name__)

TERM_SECONDS = 0.5  # that commands have to end by themselves when the server does
PATIENCE = 0.7  # seconds before a request that waits for the engine shows that it does
M_MMAP_THRESHOLD = -3  # of malloc.h
LARGE_BLOCK = 1 << 20
_MODULES = (
    "pilotfish.engine.engine",
    "pilotfish.language_servers.servers",
    "pilotfish.lsp.editor.language_models",
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
    choices: Choices
    progresses: Progresses
    refresh_lenses: Callable[[], None]


@dataclass(slots=True)
class World:
    """The newest settings, folders, trust and models that the client has sent."""

    settings: Mapping[str, Any]
    roots: Sequence[Path]
    trusted: bool
    problems: tuple[str, ...]
    models: Sequence[wire.OfferedModel] = ()
    """the language models of the client"""


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """The loaded engine and the handlers that use it."""

    engine: Engine
    handlers: Handlers
    generic_client: GenericClient
    language_models: LanguageModels


class Loader:
    """Loads the engine and gives access to it."""

    def __init__(self, parts: Parts, world: World) -> None:
        self._parts = parts
        self._world = world
        self._loading: asyncio.Task[LoadedEngine] | None = None
        self._warming: asyncio.Future[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._showing: asyncio.Task[None] | None = None
        self._offering: asyncio.Future[None] | None = None
        self._initialized = False

    def start(self) -> asyncio.Task[LoadedEngine]:
        """Start to load, or retry after a failure."""
        self._loading = asyncio.get_running_loop().create_task(self._load(), name="loading")
        self._loading.add_done_callback(_log_failure)
        self._loading.add_done_callback(lambda _: self.offer_completion())
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
        loaded = self.now()
        if loaded is None:
            return
        closing = asyncio.ensure_future(loaded.handlers.aclose())
        await asyncio.wait((closing,), timeout=TERM_SECONDS)
        if not closing.done():
            from pilotfish.workspace.process.processes import kill_everything

            kill_everything()
        await closing

    def settle(self, sent: Coroutine[Any, Any, Mapping[str, Any] | None]) -> None:
        """Apply the settings that `sent` returns; None changes nothing."""
        self._settling = asyncio.get_running_loop().create_task(self._settle(sent, self._settling))
        self._settling.add_done_callback(_log_failure)

    async def _settle(
        self, sent: Coroutine[Any, Any, Mapping[str, Any] | None], earlier: asyncio.Task[None] | None
    ) -> None:
        changed = await sent
        if earlier is not None:
            await asyncio.wait((earlier,))
        if changed is None:
            return
        self._world.settings = {**self._parts.client.hello.settings, **changed}
        await self.read_again()

    async def read_again(self) -> None:
        """Apply the user's configuration file as it is now, and the newest settings of the client."""
        settings = await self._settings()
        if self._loading is not None:
            await asyncio.wait((self._loading,))
        if loaded := self.now():
            loaded.engine.set_settings(settings)
            self._use_mcp(loaded.engine)
            self.offer_completion()

    def offer_completion(self, *, initialized: bool = False) -> None:
        """Offer inline completion to the client or take it back, as the settings say. Nobody waits for it; before the
        client is initialized it may not be asked."""
        self._initialized |= initialized
        if self._initialized and (loaded := self.now()):
            self._offering = asyncio.ensure_future(loaded.handlers.completions.settings_changed())
            self._offering.add_done_callback(_log_failure)

    def files_changed(self) -> None:
        """Files were created or deleted. This is only a hint: such events can be lost or repeated."""
        if loaded := self.now():
            loaded.handlers.files_changed()

    def renew_world(self) -> None:
        """Apply the newest folders and trust to the engine."""
        if loaded := self.now():
            loaded.handlers.set_roots(self._world.roots)
            loaded.engine.set_trusted(self._world.trusted)
            self._use_mcp(loaded.engine)

    def _use_mcp(self, engine: Engine) -> None:
        """Start MCP servers, which run code, only if the editor trusts the workspace."""
        if self._world.trusted:
            engine.use_mcp()

    async def _load(self) -> LoadedEngine:
        await asyncio.to_thread(_import)
        from pilotfish.engine.engine import Engine
        from pilotfish.language_servers.servers import LanguageServers
        from pilotfish.lsp.editor.language_models import LanguageModels
        from pilotfish.lsp.frontend import LspFrontend
        from pilotfish.lsp.generic_client.generic_client import GenericClient
        from pilotfish.lsp.handlers import Handlers
        from pilotfish.store.ledger import Ledger

        parts, world = self._parts, self._world
        settings = await self._settings()
        ledger = await asyncio.to_thread(Ledger.open, settings.storage)
        frontend = LspFrontend(parts.connection, parts.client, parts.editor, parts.approvals, parts.choices)
        engine = Engine(settings, ledger, frontend, roots=world.roots, trusted=world.trusted)
        engine.language_servers = LanguageServers(engine.sandbox)
        frontend.session_of = engine.session_of
        engine.writes_titles = parts.client.hello.client.titles
        models = LanguageModels(parts.connection, lambda: world.models)
        if parts.client.hello.client.language_models:
            engine.editor_models = models
        parts.approvals.answers = engine.answer
        handlers = Handlers(engine, frontend, parts.approvals, parts.documents)
        handlers.set_roots(world.roots)
        generic_client = GenericClient(
            parts.connection, parts.client, engine, handlers, parts.progresses, parts.choices
        )
        frontend.listeners.append(generic_client.on_update)
        frontend.listeners.append(self._refresh_lenses)
        if not parts.client.ours:
            engine.ask_for_trust = generic_client.questions.ask_for_trust
            parts.editor.ask_to_write = generic_client.questions.ask_to_write
            frontend.ask_for_text = generic_client.ask_for_text
        if parts.client.hello.client.mcp:
            engine.mcp.changed.append(partial(_tell_of_servers, parts.connection, engine))
        if parts.client.hello.client.session_list:
            await engine.watch_lists(partial(parts.connection.notify, "pilotfish/session/listChanged", wire.Empty()))
        self._use_mcp(engine)
        engine.warmed = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._warming = asyncio.ensure_future(asyncio.to_thread(_load_model_libraries, engine, loop, engine.warmed))
        self._warming.add_done_callback(_log_failure)
        return LoadedEngine(engine, handlers, generic_client, models)

    def _refresh_lenses(self, update: SessionUpdate) -> None:
        """The pending changes of a file are not what they were."""
        if update.record.type in ("file_change", "review"):
            self._parts.refresh_lenses()

    async def _settings(self) -> Settings:
        from pilotfish.config.settings import load_user

        loaded = await asyncio.to_thread(load_user, self._world.settings)
        problems = tuple(_words(problem) for problem in loaded.problems)
        self._world.problems = (*self._parts.client.problems, *problems)
        return loaded.settings


def _load_model_libraries(engine: Engine, loop: asyncio.AbstractEventLoop, warmed: asyncio.Event) -> None:
    """Import what a turn with the user's provider needs, in a thread: on the event loop it would block everybody."""
    from pilotfish.engine.context import TURN
    from pilotfish.engine.library_imports import import_library, importing

    try:
        with importing:
            import_library(TURN)
            with contextlib.suppress(PilotfishError):  # no key or no such model: the turn that uses it will say so
                asyncio.run(_make_model(engine))
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(warmed.set)
    _give_back_large_blocks()
    from pilotfish.engine.turn.agent import main_agent

    main_agent()
    # The libraries stay. A full collection that looked at them too would stop every stream for more than 0.1 s.
    gc.freeze()


async def _make_model(engine: Engine) -> None:
    """Make the model and throw it away: it belongs to the loop that it is made on, and its libraries stay loaded."""
    try:
        engine.model_for(engine.settings.model)
    finally:
        await engine.close_models()


def _give_back_large_blocks() -> None:
    """Have glibc return large blocks to the system once they are free, always. By default it raises its own limit to
    the largest it has seen: after one answer of ten megabytes the process keeps a hundred for good."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # another system, another allocator
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def _tell_of_servers(connection: Connection, engine: Engine) -> None:
    from pilotfish.lsp import presentation

    servers = tuple(presentation.mcp_server(server) for server in engine.mcp.found.values())
    connection.notify("pilotfish/mcp/changed", wire.McpChanged(servers=servers))


def _words(problem: SettingProblem) -> str:
    return f"{problem.source}: {problem.message}"


def _import() -> None:
    for name in _MODULES:
        importlib.import_module(name)


def _log_failure(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        traceback = None if isinstance(error, PilotfishError) else error
        log.error("the engine could not be loaded: %s", error, exc_info=traceback)
