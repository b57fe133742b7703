"""The language server: methods → what serves them, and its life from `initialize` to the end.

Promises: whatever ends it (`exit`, the end of stdin, the client's process gone, a signal, a client that cannot be
written to), running tools are killed, the store is closed, and the process is gone within two seconds (law 8).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pilotfish import __version__
from pilotfish.errors import BadRequest, PilotfishError, RequestError
from pilotfish.lsp import commands
from pilotfish.lsp.approvals import Approvals, option_of
from pilotfish.lsp.arrivals import Arrivals
from pilotfish.lsp.boot import STARTED, Boot, memory_bytes
from pilotfish.lsp.client import Client, read_client
from pilotfish.lsp.documents import Documents, path_of
from pilotfish.lsp.editor import LspEditor
from pilotfish.lsp.framing import as_list, as_object, as_objects
from pilotfish.lsp.loading import Loader, Parts, World
from pilotfish.lsp.log import keep_log, start_log
from pilotfish.lsp.outbox import Outbox
from pilotfish.lsp.params import parse
from pilotfish.lsp.peer import Call, ClientError, Hear, Inbox, Message, Peer, Serve, loads
from pilotfish.lsp.progress import Progresses
from pilotfish.protocol import wire

if TYPE_CHECKING:
    from pilotfish.lsp.standard import Standard

log = logging.getLogger(__name__)

CLOSE_SECONDS = 1.5  # for tools and the store; law 8 gives two
AT_ONCE = (wire.CancelParams, wire.ApprovalAnswerParams)  # what waits for no settings and for no change
CHANGES = (
    wire.SessionConfigureParams,
    wire.SessionRenameParams,
    wire.UndoParams,
    wire.RuleAddParams,
    wire.RuleRemoveParams,
    wire.SecretSetParams,
)
"""what is done before anything that comes behind it is taken up"""
STANDARD = ("textDocument/codeAction", "codeAction/resolve", "textDocument/codeLens")


def serve(boot: Boot) -> NoReturn:
    """Serve the connection that `boot` has opened; never returns to a process with threads that may hang."""
    start_log()
    boot.feed.loads = loads
    _leave(asyncio.run(Server(boot).run()))


class Server:
    """One connection, and everything behind it."""

    def __init__(self, boot: Boot) -> None:
        self._boot = boot
        self.client: Client = read_client(boot.hello, boot.encoding)
        self._documents = Documents(boot.encoding)
        hello = self.client.hello
        self._world = World(hello.settings, self.client.roots, hello.trusted, self.client.problems)
        self._arrivals = Arrivals()
        self._standard: asyncio.Task[Standard] | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self._lenses_due = False
        self._expects_standard = False

    async def run(self) -> int:
        """Until the end; the exit code."""
        loop = asyncio.get_running_loop()
        self._done: asyncio.Future[int] = loop.create_future()
        outbox = Outbox(self._boot.sink, on_gone=lambda: self._stop(1))
        self._peer = Peer(outbox, self._requests(), self._notifications(), frozenset({"pilotfish/session/prompt"}))
        abilities = self.client.hello.client
        self._editor = LspEditor(self._peer, self._documents, abilities, can_edit=self.client.apply_edit)
        self._approvals = Approvals(self._peer, self.client, self._editor, self._refresh_lenses)
        self._progresses = Progresses(self._peer, self.client)
        parts = Parts(self._peer, self.client, self._documents, self._editor, self._approvals, self._progresses)
        self._loader = Loader(parts, self._world)
        self._watch_for_the_end()
        inbox = Inbox(self._receive)
        for message in self._boot.hand_over(inbox.put, inbox.take_over):
            self._receive(message)
        self._loader.start().add_done_callback(lambda _: keep_log())
        code = await self._done
        await self._close()
        return code

    # -- the tables -----------------------------------------------------------------------------------------------

    def _requests(self) -> Mapping[str, Serve]:
        ours: dict[str, Serve] = {
            name: self._serve_ours
            for name, row in wire.METHODS.items()
            if row.sender == "client" and row.result is not None
        }
        return {
            **ours,
            **dict.fromkeys(STANDARD, self._serve_standard),
            "pilotfish/status": self._status,
            "workspace/executeCommand": self._execute,
            "initialize": self._initialize_again,
            "shutdown": self._shutdown,
        }

    def _notifications(self) -> Mapping[str, Hear]:
        return {
            "initialized": self._initialized,
            "exit": lambda _: self._stop(0 if self._peer.stopping else 1),
            "textDocument/didOpen": self._opened,
            "textDocument/didChange": lambda params: self._editor.moved(self._documents.changed(params)),
            "textDocument/didClose": lambda params: self._editor.moved(self._documents.closed(params)),
            "workspace/didChangeConfiguration": lambda params: self._loader.settle(self._said(params)),
            "workspace/didChangeWorkspaceFolders": self._folders_changed,
            "workspace/didChangeWatchedFiles": lambda _: self._loader.files_changed(),
            "window/workDoneProgress/cancel": lambda params: self._progresses.cancel(
                (as_object(params) or {}).get("token")
            ),
            "pilotfish/trust/changed": self._trust_changed,
        }

    # -- requests -------------------------------------------------------------------------------------------------

    async def _serve_ours(self, call: Call) -> wire.Wire:
        params = parse(call.method, call.params)
        if isinstance(params, wire.PromptParams):
            return await self._prompt(params, call)
        session_id, at_once = getattr(params, "session_id", None), isinstance(params, AT_ONCE)
        if isinstance(params, CHANGES):
            async with self._arrivals.change(session_id):
                return await (await self._loader.engine()).handlers.serve(params, call)
        await self._arrivals.before(session_id, changes=not at_once)
        return await (await self._loader.engine(at_once=at_once)).handlers.serve(params, call)

    async def _prompt(self, params: wire.PromptParams, call: Call) -> wire.PromptResult:
        async with self._arrivals.prompt(params.session_id) as in_line:
            engine = await self._loader.engine_unless(call.cancelled)
            if engine is None:
                return wire.PromptResult(turn_id="", stop_reason="cancelled", usage=wire.Usage())
            return await engine.handlers.prompt(params, call.cancelled, in_line)

    async def _serve_standard(self, call: Call) -> Any:
        standard = await asyncio.shield(self._loading_standard())
        return await standard.serve(call.method, call.params)

    def _loading_standard(self) -> asyncio.Task[Standard]:
        if self._standard is None:
            self._standard = asyncio.get_running_loop().create_task(asyncio.to_thread(self._load_standard))
        return self._standard

    async def _execute(self, call: Call) -> Any:
        params = as_object(call.params) or {}
        command, arguments = params.get("command"), params.get("arguments")
        if not isinstance(command, str):
            raise BadRequest("command: a name is needed", field="command")
        given = as_list(arguments)
        if given is None:
            raise BadRequest("arguments: a list is needed", field="arguments")
        match command:
            case commands.APPROVE if not given:
                self._approvals.ask_again()
                return None
            case commands.APPROVE:
                return {"accepted": self._approvals.answer(option_of(given), "command")}
            case commands.PREVIEW:
                approval_id = (as_object(given[0]) or {}).get("approvalId") if given else None
                return {"shown": await self._approvals.show_preview(str(approval_id))}
            case _ if command in commands.PLAIN_COMMANDS:
                engine = await self._loader.engine()
                return await engine.plain.run(command, given, params.get("workDoneToken"))
            case _:
                raise BadRequest(f"command: there is no command {command!r}", field="command")

    async def _status(self, call: Call) -> wire.Status:
        parse(call.method, call.params)
        engine, failure = self._loader.now(), self._loader.failure()
        live = engine.live if engine else None
        status: Mapping[str, Any] = live.status() if live else {}
        store = as_object(status.get("store")) or {}
        return wire.Status(
            version=__version__,
            state="ready" if live else "failed" if failure else "loading",
            uptime_ms=round((time.monotonic() - STARTED) * 1000),
            memory_bytes=memory_bytes(),
            error=failure,
            model=live.settings.model if live else None,
            mode=live.settings.mode if live else None,
            trusted=self._world.trusted,
            store=_store_status(store) if store else None,
            mcp_servers=tuple(_mcp_status(server) for server in as_objects(status.get("mcp"))),
            sandbox=await live.sandbox_words() if live else None,
            running_turns=status.get("runningTurns", 0),
            pending_approvals=len(self._approvals.open()),
            problems=(*self._world.problems, *filter(None, (store.get("unsaved"),))),
        )

    async def _initialize_again(self, _: Call) -> None:
        raise RequestError("the server is initialized already")

    async def _shutdown(self, _call: Call) -> None:
        self._peer.stopping = True
        self._peer.cancel_all()
        ended = asyncio.ensure_future(self._loader.aclose())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._peer.idle()
                await ended

    def _load_standard(self) -> Standard:
        from pilotfish.lsp.actions import Actions
        from pilotfish.lsp.standard import Standard

        actions = Actions(self.client, self._documents, self._approvals)
        return Standard(dict(zip(STANDARD, (actions.code_actions, actions.resolve, actions.lenses), strict=True)))

    # -- notifications --------------------------------------------------------------------------------------------

    def _opened(self, params: Any) -> None:
        self._editor.moved(self._documents.opened(params))
        if self._standard is None and not self._expects_standard:
            self._expects_standard = True
            self._in_background(self._prepare_standard())

    async def _prepare_standard(self) -> None:
        """An editor that shows a document asks for its actions soon, and should not wait for modules then. What is
        needed for a prompt comes first."""
        with contextlib.suppress(PilotfishError):
            engine = await self._loader.engine()
            await engine.live.warm()
        await asyncio.shield(self._loading_standard())

    def _initialized(self, _: Any) -> None:
        if self.client.watch_configuration:
            self._in_background(self._watch_configuration())
        if self.client.configuration:
            self._loader.settle(self._said(None))
        for problem in self.client.problems:
            self._peer.notify("window/logMessage", {"type": 2, "message": f"Pilotfish: {problem}"})

    async def _watch_configuration(self) -> None:
        registration = {"id": "pilotfish-settings", "method": "workspace/didChangeConfiguration"}
        with contextlib.suppress(ClientError, TimeoutError):
            await self._peer.request(
                "client/registerCapability",
                {"registrations": [{**registration, "registerOptions": {"section": "pilotfish"}}]},
                5.0,
            )

    async def _said(self, params: Any) -> Mapping[str, Any] | None:
        """The client's settings, sent along or fetched. None: it has said nothing."""
        sent = as_object((as_object((as_object(params) or {}).get("settings")) or {}).get("pilotfish"))
        if sent is None and self.client.configuration:
            with contextlib.suppress(ClientError, TimeoutError):
                answer = await self._peer.request("workspace/configuration", {"items": [{"section": "pilotfish"}]}, 5.0)
                sent = (as_objects(answer) or [{}])[0]  # null: nothing is set there any more
        return sent

    def _folders_changed(self, params: Any) -> None:
        event = as_object((as_object(params) or {}).get("event")) or {}
        removed = {path_of(str(folder.get("uri"))) for folder in as_objects(event.get("removed"))}
        added = [path_of(str(folder.get("uri"))) for folder in as_objects(event.get("added"))]
        kept = [root for root in self._world.roots if root not in removed]
        self._world.roots = [*kept, *(path for path in added if path is not None and path not in kept)]
        self._loader.renew_world()

    def _trust_changed(self, params: Any) -> None:
        said: wire.TrustParams = parse("pilotfish/trust/changed", params)
        self._world.trusted = said.trusted
        self._loader.renew_world()

    def _refresh_lenses(self) -> None:
        """Once for everything that changes in one turn of the loop."""
        if self.client.lens_refresh and not self._lenses_due:
            self._lenses_due = True
            self._in_background(self._send_refresh())

    async def _send_refresh(self) -> None:
        self._lenses_due = False
        with contextlib.suppress(ClientError, TimeoutError):
            await self._peer.request("workspace/codeLens/refresh", None, 5.0)

    # -- the end --------------------------------------------------------------------------------------------------

    def _receive(self, message: Message | None) -> None:
        if message is None:
            self._stop(0 if self._peer.stopping else 1)
        else:
            self._peer.receive(message)

    def _watch_for_the_end(self) -> None:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(name, lambda: self._stop(1))
        if self.client.process_id is not None:
            self._in_background(_gone(self.client.process_id, lambda: self._stop(1)))

    def _stop(self, code: int) -> None:
        if self._done.done():
            return
        self._done.set_result(code)
        # Should anything hang on the way out, the process ends all the same.
        timer = threading.Timer(CLOSE_SECONDS + 0.3, _leave, (code,))
        timer.daemon = True
        timer.start()

    async def _close(self) -> None:
        self._peer.stopping = True
        self._peer.cancel_all()
        for task in self._background:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._loader.aclose()
                await self._peer.outbox.flushed()

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(_seen)


def _store_status(store: Mapping[str, Any]) -> wire.StoreStatus:
    return wire.StoreStatus(location=str(store.get("directory")), state="unsaved" if store.get("unsaved") else "ok")


def _mcp_status(server: Mapping[str, Any]) -> wire.McpServer:
    available = server.get("available") is True
    return wire.McpServer(
        name=str(server.get("name")),
        state="ready" if available else "failed",
        tools=server.get("tools", 0),
        error=None if available else server.get("reason") or None,
    )


def _leave(code: int) -> NoReturn:
    """End the process now, and whatever commands are left."""
    processes = sys.modules.get("pilotfish.workspace.processes")
    if processes is not None:
        processes.kill_everything()
    os._exit(code)


async def _gone(process_id: int, stop: Callable[[], None]) -> None:
    """Call `stop` when the process is gone, also when nobody has buried it yet."""
    try:
        handle = os.pidfd_open(process_id)
    except ProcessLookupError:
        stop()
        return
    except (AttributeError, OSError):  # not Linux, or not allowed
        while _alive(process_id):  # noqa: ASYNC110 (there is nothing to wait for but time)
            await asyncio.sleep(0.5)
        stop()
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
        stop()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _seen(task: asyncio.Task[Any]) -> None:
    """A failure that nobody waits for is logged, not lost."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("%s: %s", task.get_name(), error, exc_info=None if isinstance(error, PilotfishError) else error)
