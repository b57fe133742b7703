"""The language server: pygls' `LanguageServer`, its parts, and its lifecycle.

`features.py` registers what it serves, `connection/` has the protocol and the streams.

Promises: whatever ends it (`exit`, the end of stdin, the client's process gone, a signal, a client that cannot be
written to), running tools are killed, the store is closed, and the process is gone within two seconds (law 8).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Coroutine
from typing import Any, NoReturn, cast

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.exceptions import JsonRpcException

from pilotfish import __version__
from pilotfish.errors import PilotfishError
from pilotfish.lsp import command_names
from pilotfish.lsp.client import Client, read_client
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.parent_process import gone
from pilotfish.lsp.connection.protocol import ClientError, Connection, ConnectionServer, make_converter
from pilotfish.lsp.connection.request_order import RequestOrder
from pilotfish.lsp.connection.stdio import FrameReader, Outbox, read_from
from pilotfish.lsp.editor.actions import Actions
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.choices import Choices
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.lsp.engine_loader import Loader, Parts, World
from pilotfish.lsp.generic_client.progress import Progresses
from pilotfish.lsp.process_exit import leave
from pilotfish.protocol import wire
from pilotfish.protocol.wire import ERROR_CODES
from pilotfish.telemetry.lsp_log import keep_log, start_log

log = logging.getLogger(__name__)

LEAVE_SECONDS = 0.5  # for the last words of turns that run
CLOSE_SECONDS = 1.5  # for tools and the store; law 8 gives two
REFRESH_SECONDS = 5.0


class PilotfishServer(ConnectionServer):
    """One connection and its parts. `start` creates the parts that depend on the client."""

    protocol: Connection  # pyright: ignore[reportIncompatibleVariableOverride]  # pygls names the base class
    client: Client
    documents: Documents
    world: World
    approvals: Approvals
    actions: Actions
    loader: Loader

    def __init__(self, sink: int) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  # pygls does not type it
            "pilotfish",
            __version__,
            types.TextDocumentSyncKind.Incremental,
            protocol_cls=Connection,
            converter_factory=make_converter,
            max_workers=1,  # the thread that reads stdin
        )
        self.outbox = Outbox(sink, self._lost)
        self.order = RequestOrder()
        self.serving = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lenses_due = False

    # -- start ----------------------------------------------------------------------------------------------------

    def run(self, source: int) -> NoReturn:
        """Serve a client that writes to this descriptor until it is done."""
        start_log()
        self.start_io(cast("Any", FrameReader(read_from(source))), cast("Any", self.outbox))
        self.shutdown()

    def start(self) -> None:
        """Make everything that needs no engine, and load the engine in the background."""
        connection = self.protocol
        chosen = ServerCapabilitiesBuilder.choose_position_encoding(self.client_capabilities)
        encoding = types.PositionEncodingKind(chosen).value
        self.client = client = read_client(connection.hello or {}, encoding)
        hello = client.hello
        self.documents = connection.documents = Documents(encoding)
        self.world = World(hello.settings, client.roots, hello.trusted, client.problems)
        editor = LspEditor(
            connection, self.documents, hello.client, can_edit=client.apply_edit, annotates=client.annotates_changes
        )
        self.choices = Choices(connection)
        self.approvals = Approvals(connection, client, editor, self.choices, self.refresh_lenses)
        self.actions = Actions(client, self.documents, self.approvals, self.choices, connection.converter)
        self.progresses = progresses = Progresses(connection, client)
        parts = Parts(
            connection, client, self.documents, editor, self.approvals, self.choices, progresses, self.refresh_lenses
        )
        self.loader = Loader(parts, self.world)
        self.loader.start().add_done_callback(lambda _: keep_log())
        self._loop = loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(name, lambda: self.in_background(self.end(1)))
        if client.process_id is not None:
            self.in_background(self._end_with(client.process_id))

    def add_capabilities(self, capabilities: types.ServerCapabilities) -> None:
        """Add to the answer to `initialize` what pygls cannot know."""
        methods = tuple(name for name, row in wire.METHODS.items() if row.sender == "client")
        hello = wire.HelloResult(protocol_version=wire.PROTOCOL_VERSION, version=__version__, methods=methods)
        capabilities.experimental = {"pilotfish": hello.model_dump(mode="json", by_alias=True)}
        if self.client.ours:
            capabilities.hover_provider = None  # it says itself where the user is
        if self.client.completes_inline and not self.client.registers_completion:
            capabilities.inline_completion_provider = self._completes_inline() or None
        plain = () if self.client.ours else command_names.PLAIN_COMMANDS
        capabilities.execute_command_provider = types.ExecuteCommandOptions((*command_names.SHARED_COMMANDS, *plain))

    def _completes_inline(self) -> bool:
        """Whether a model is set for inline completion. Read here for clients to which it cannot be offered later."""
        from pilotfish.config.settings import load_user

        return bool(load_user(self.client.hello.settings).settings.completion_model)

    # -- end ------------------------------------------------------------------------------------------------------

    async def end(self, code: int) -> NoReturn:
        """End the process, with everything it has started."""
        # If anything hangs here, the process ends all the same.
        timer = threading.Timer(CLOSE_SECONDS + 0.3, leave, (code,))
        timer.daemon = True
        timer.start()
        self.stopping = True
        await self.wind_down()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.outbox.flushed(), CLOSE_SECONDS)
        leave(code)

    async def wind_down(self) -> None:
        """Cancel and answer every request apart from the current one, and close the engine. Turns that run are not
        stopped: the next process goes on with them."""
        if (loaded := self.loader.now()) is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(loaded.engine.leave_turns_open(), LEAVE_SECONDS)
        current = asyncio.current_task()
        unanswered = [task for task in self.serving.values() if task is not None and task is not current]
        for task in unanswered:
            task.cancel()
        closing = [asyncio.ensure_future(self.loader.aclose())] if self.protocol.hello is not None else []
        if closing or unanswered:
            await asyncio.wait((*closing, *unanswered), timeout=CLOSE_SECONDS)

    def shutdown(self) -> NoReturn:
        """Called by pygls when `start_io` is over; threads that still wait must not keep the process."""
        leave(1)

    async def _end_with(self, process_id: int) -> None:
        await gone(process_id)
        await self.end(1)

    def _lost(self) -> None:
        """The client no longer reads. Called in the writer thread."""
        if self._loop is None:
            leave(1)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(lambda: self.in_background(self.end(1)))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error; a request it belongs to has been answered."""
        if isinstance(error, RecursionError):
            self.protocol.refuse(None, JsonRpcException("the message is nested too deeply", ERROR_CODES["parse_error"]))
        elif isinstance(error, asyncio.InvalidStateError):
            log.info("an answer came after its request was cancelled")
        elif not isinstance(error, JsonRpcException) or error.code == ERROR_CODES["internal"]:
            data = as_object(error.data) if isinstance(error, JsonRpcException) else None
            traceback = "".join((data or {}).get("traceback", ()))
            log.error("%s: %s\n%s", getattr(source, "__name__", source), error, traceback)

    # -- in the background ------------------------------------------------------------------------------------------

    def refresh_lenses(self) -> None:
        """Ask the client to fetch lenses again, once for all changes of one loop iteration."""
        if self.client.lens_refresh and not self._lenses_due:
            self._lenses_due = True
            self.in_background(self._refresh())

    async def _refresh(self) -> None:
        self._lenses_due = False
        with contextlib.suppress(ClientError, TimeoutError):
            await self.protocol.request(types.WORKSPACE_CODE_LENS_REFRESH, None, REFRESH_SECONDS)

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something that nobody waits for; a failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(_log_failure)


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("%s: %s", task.get_name(), error, exc_info=None if isinstance(error, PilotfishError) else error)
