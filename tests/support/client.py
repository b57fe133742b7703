"""pytest-lsp's client of the real server process over stdio. Checks laws 1 to 5 all the time.

    async with connect(folder) as client:
        session = await client.new_session()
        result = await client.prompt(session, "hello")

`connect` starts `python -m pilotfish serve` with its own store, config and home, so that tests share nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcMethodNotFound
from pygls.io_ import run_async
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
)
from pytest_lsp import ClientServerConfig, LanguageClient
from pytest_lsp.protocol import LanguageClientProtocol
from tests.support.laws import Laws

from pilotfish.protocol import wire

SERVER = Path(__file__).parents[2] / "server"
Answerer = Callable[[dict[str, Any]], Awaitable[Any]]

OURS: dict[str, Any] = {
    "protocolVersion": 1,
    "client": {"approvals": True, "approvalEffects": True},
    "trusted": True,
    "settings": {},
}


RpcError = JsonRpcException
"""the server answered with an error"""

ASKED = (
    *(name for name, row in wire.METHODS.items() if row.sender == "server" and row.result is not None),
    types.WORKSPACE_APPLY_EDIT,
    types.WORKSPACE_CONFIGURATION,
    types.WORKSPACE_CODE_LENS_REFRESH,
    types.WINDOW_SHOW_DOCUMENT,
    types.WINDOW_SHOW_MESSAGE_REQUEST,
    types.WINDOW_WORK_DONE_PROGRESS_CREATE,
    types.CLIENT_REGISTER_CAPABILITY,
    types.CLIENT_UNREGISTER_CAPABILITY,
)
"""what the server may ask of a client"""


class ClientProtocol(LanguageClientProtocol):
    """pytest-lsp's protocol with JSON values instead of lsprotocol's types, so that tests see what is on the wire."""

    def __init__(self, client: Client, lsp: LanguageClient, converter: Any) -> None:
        self.client = client
        super().__init__(lsp, converter)  # pyright: ignore[reportUnknownMemberType]  # pytest-lsp does not type it

    def get_message_type(self, method: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # cached there
        del method

    def get_result_type(self, method: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        del method

    def structure_message(self, data: dict[str, Any]) -> Any:
        return data

    def handle_message(self, message: Any) -> None:
        assert message.get("jsonrpc") == "2.0", message
        method, key, params = message.get("method"), message.get("id"), message.get("params")
        if not self.client.hears(message):
            return
        typed: Any
        if method == types.CANCEL_REQUEST:
            typed = JsonRPCNotification(method, "2.0", types.CancelParams(params["id"]))
        elif method is not None and "id" in message:
            typed = JsonRPCRequestMessage(message["id"], method, "2.0", params)
        elif method is not None:
            typed = JsonRPCNotification(method, "2.0", params)
        elif (error := message.get("error")) is not None:
            update = types.ResponseError(error["code"], error["message"], error.get("data"))
            typed = types.ResponseErrorMessage(id=key, error=update)
        else:
            typed = JsonRPCResponseMessage(key, "2.0", message["result"])
        super().handle_message(typed)
        self.client.tell_waiters()


class Gate:
    """A stream that is read only while `reading` is set."""

    def __init__(self, stream: asyncio.StreamReader, reading: asyncio.Event) -> None:
        self._stream = stream
        self._reading = reading

    async def readline(self) -> bytes:
        await self._reading.wait()
        return await self._stream.readline()

    async def readexactly(self, n: int) -> bytes:
        return await self._stream.readexactly(n)


class JsonClient(LanguageClient):
    """pytest-lsp's client, for a server that a test may stop reading from, or that runs already."""

    def __init__(self, client: Client) -> None:
        self.client = client
        super().__init__(protocol_cls=partial(ClientProtocol, client))  # pyright: ignore[reportUnknownMemberType]
        self.capabilities = types.ClientCapabilities()  # its checks want lsprotocol's types

    async def start_io(self, cmd: str, *args: str, **kwargs: Any) -> None:
        pipe = asyncio.subprocess.PIPE
        self.client.attach(
            await asyncio.create_subprocess_exec(cmd, *args, stdin=pipe, stdout=pipe, limit=2**26, **kwargs)
        )

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A message that the server must not send fails the test at its next request."""
        if source is JsonRpcException:
            self.client.fault = error


class Client:
    """One connection to one server process."""

    process: asyncio.subprocess.Process

    def __init__(self) -> None:
        self.lsp = JsonClient(self)
        self.fault: Exception | None = None
        self.laws = Laws()
        self.updates: list[wire.UpdateParams] = []
        self.heard: list[dict[str, Any]] = []
        """every message of the server's, as it came"""
        self.unasked: list[dict[str, Any]] = []
        """answers with no id of ours, or a second answer to one"""
        self.answers: dict[str, Answerer] = {"pilotfish/approval/request": allow}
        """method → what answers the server's request; the rest is refused with -32601"""
        self.taken_back: list[Any] = []
        """ids of the server's requests that it cancelled"""
        self.said: dict[Any, Any] = {}
        """id of the server's request → what it was answered"""
        self.reading = asyncio.Event()
        """cleared: the client does not read"""
        self.reading.set()
        self.initialized: dict[str, Any] = {}
        self._waiting: dict[int | str, asyncio.Future[Any]] = {}
        self._next = 0
        self._news = asyncio.Event()
        self._answered: set[int | str] = set()
        self._answerers: set[asyncio.Task[Any]] = set()
        self._reader: asyncio.Task[None] | None = None
        for method in ASKED:
            self.lsp.feature(method)(self._answering(method))
        self.lsp.feature("pilotfish/session/update")(partial(self._updated))

    def attach(self, process: asyncio.subprocess.Process) -> None:
        """Talk to a server that runs already."""
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.lsp.protocol.set_writer(process.stdin)
        self._reader = asyncio.create_task(self._read(Gate(process.stdout, self.reading)))

    async def _read(self, stream: Gate) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                report = self.lsp.report_server_error
                await run_async(threading.Event(), stream, self.lsp.protocol, error_handler=report)
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the server has closed the connection"))
            self.tell_waiters()

    def forget(self) -> None:
        """As if nothing had been heard yet; says yes to questions again. For tests that share a server."""
        self.laws = Laws()
        self.answers = {"pilotfish/approval/request": allow}
        for remembered in (self.updates, self.heard, self.unasked, self.taken_back):
            remembered.clear()

    # -- saying -----------------------------------------------------------------------------------------------------

    def send(self, message: Mapping[str, Any]) -> None:
        self.write(frame(message))

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def notify(self, method: str, params: Any = None) -> None:
        self.lsp.protocol.notify(method, params)

    def ask(self, method: str, params: Any = None, key: int | str | None = None) -> asyncio.Future[Any]:
        """Send a request; the answer is a future."""
        if key is None:
            self._next += 1
            key = self._next
        answer = asyncio.wrap_future(self.lsp.protocol.send_request(method, params, msg_id=key))
        self._waiting[key] = answer
        return answer

    async def request(self, method: str, params: Any = None, timeout: float = 120.0) -> Any:
        """The answer to a request; RpcError when it is an error."""
        result = await asyncio.wait_for(self.ask(method, params), timeout)
        self.laws.check()
        if self.fault is not None:
            raise self.fault
        return result

    # -- the usual things ---------------------------------------------------------------------------------------------

    async def initialize(
        self,
        *,
        hello: Mapping[str, Any] | None,
        capabilities: Mapping[str, Any],
        folders: Sequence[Path],
        process_id: int | None = None,
        client_name: str = "",
    ) -> Any:
        params: dict[str, Any] = {
            "processId": process_id,
            "rootUri": folders[0].as_uri() if folders else None,
            "capabilities": capabilities,
            "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders],
        }
        if client_name:
            params["clientInfo"] = {"name": client_name}
        if hello is not None:
            params["initializationOptions"] = {"pilotfish": hello}
        self.initialized = await self.request("initialize", params)
        self.notify("initialized", {})
        return self.initialized

    async def new_session(self, **params: Any) -> str:
        return (await self.request("pilotfish/session/new", params))["session"]["id"]

    async def prompt(self, session: str, text: str, timeout: float = 240.0, **params: Any) -> wire.PromptResult:
        return await asyncio.wait_for(self.begin(session, text, **params), timeout)

    def begin(self, session: str, text: str, **params: Any) -> asyncio.Task[wire.PromptResult]:
        """Send a prompt; its checked answer is a task."""
        sent = {"sessionId": session, "prompt": [{"type": "text", "text": text}], **params}
        answer = self.ask("pilotfish/session/prompt", sent)

        async def checked() -> wire.PromptResult:
            return self.laws.answer(await answer)

        return asyncio.create_task(checked())

    async def load(self, session: str, **params: Any) -> wire.SessionLoadResult:
        result = await self.request("pilotfish/session/load", {"sessionId": session, **params})
        return self.laws.load(session, result, newest="before" not in params)

    async def until(self, found: Callable[[], bool], timeout: float = 120.0) -> None:
        """Returns when `found` holds; asked again after every message."""
        async with asyncio.timeout(timeout):
            while not found():
                await self._news.wait()

    async def first_update(self, kind: str, session: str | None = None, timeout: float = 120.0) -> wire.UpdateParams:
        """The first update of this kind, as soon as it is here."""

        def matches() -> list[wire.UpdateParams]:
            return [
                update for update in self.updates if update.update.kind == kind and session in (None, update.session_id)
            ]

        await self.until(lambda: bool(matches()), timeout)
        return matches()[0]

    def of(self, method: str) -> list[Any]:
        """The params of every message of this method so far."""
        return [message.get("params") for message in self.heard if message.get("method") == method]

    async def stop(self, timeout: float = 10.0) -> int:
        """Shut down as an editor does; the exit code."""
        self.reading.set()
        if self.process.returncode is None:
            with contextlib.suppress(ConnectionError):
                await self.request("shutdown", timeout=timeout)
                self.notify("exit")
        return await self.ended(timeout)

    async def ended(self, timeout: float = 10.0) -> int:
        """The exit code, once the process is gone."""
        try:
            return await asyncio.wait_for(self.process.wait(), timeout)
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of the process, whatever it does."""
        if self.process.returncode is None:
            self.process.kill()
        # asyncio's wait() ends when the pipes have ended, and a pipe that nobody reads, or that a grandchild holds,
        # may never do so.
        self.reading.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 10.0)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for task in tuple(self._answerers):
            task.cancel()

    # -- hearing ------------------------------------------------------------------------------------------------------

    def hears(self, message: dict[str, Any]) -> bool:
        """Note a message; returns whether it is one to handle."""
        self.heard.append(message)
        if message.get("method") == types.CANCEL_REQUEST:
            self.taken_back.append(message["params"]["id"])
        if "method" in message:
            return True
        if (key := message["id"]) in self._waiting and key not in self._answered:
            self._answered.add(key)
            return True
        self.unasked.append(message)
        self.tell_waiters()
        return False

    def tell_waiters(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _updated(self, params: Any) -> None:
        with contextlib.suppress(AssertionError):  # raised again by the next request
            self.updates.append(self.laws.update(params))

    def _answering(self, method: str) -> Callable[[Any], Awaitable[Any]]:
        async def answer(params: Any) -> Any:
            answerer = self.answers.get(method)
            if answerer is None:
                raise JsonRpcMethodNotFound("not served here")
            key, task = self.lsp.protocol.msg_id, asyncio.current_task()
            assert task is not None
            self._answerers.add(task)
            try:
                result = self.said[key] = await answerer(params)
            finally:
                self._answerers.discard(task)
            return result

        return answer


def frame(message: Any) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def option(name: str, **more: Any) -> Answerer:
    """Answers a question with this option."""

    async def answer(_: dict[str, Any]) -> Any:
        return {"optionId": name, **more}

    return answer


allow = option("allow_once")


async def never(_: dict[str, Any]) -> Any:
    """A client that shows a question and gets no answer."""
    await asyncio.Event().wait()


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which a server keeps everything below `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PILOTFISH_", "XDG_"))}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_STATE_HOME": str(home / "state"),
        "PILOTFISH_STORAGE": str(home / "store"),
        "PILOTFISH_CONFIG": str(home / "config.toml"),
        "PILOTFISH_LANGUAGE_SERVERS": "off",  # whatever is installed on the machine
        "PYTHONPATH": str(SERVER),
        "PYTHONDONTWRITEBYTECODE": "",  # a server that compiles itself anew each time starts half a second later
        **more,
    }


async def spawn(home: Path, **more: str) -> Client:
    """A server process that has been told nothing yet."""
    command = [sys.executable, "-m", "pilotfish", "serve", "--stdio"]
    client = Client()
    await ClientServerConfig(command, lambda: client.lsp, environment(home, **more)).start()
    return client


@contextlib.asynccontextmanager
async def connect(
    folder: Path,
    *,
    home: Path | None = None,
    hello: Mapping[str, Any] | None = OURS,
    capabilities: Mapping[str, Any] | None = None,
    folders: Sequence[Path] | None = None,
    settings: Mapping[str, Any] | None = None,
    client_name: str = "",
    **more: str,
) -> AsyncGenerator[Client]:
    """A client of a fresh server in this folder, initialized; both are gone afterwards."""
    client = await spawn(home or folder.parent / f"{folder.name}-home", **more)
    if hello is not None and settings is not None:
        hello = {**hello, "settings": settings}
    try:
        roots = folders or [folder]
        await client.initialize(hello=hello, capabilities=capabilities or {}, folders=roots, client_name=client_name)
        yield client
        client.laws.check()
    finally:
        await client.close()
