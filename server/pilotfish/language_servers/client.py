"""The client side of LSP: pygls' client over the pipes of a language server that we started.

Messages stay JSON values, because servers send what lsprotocol's types refuse. What a server asks of an editor is
answered so that nothing changes: no edit is applied, nothing is shown. A server that sends too much is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from lsprotocol import types
from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException
from pygls.io_ import run_async
from pygls.protocol import JsonRPCNotification, JsonRPCProtocol, JsonRPCRequestMessage, JsonRPCResponseMessage

log = logging.getLogger(__name__)

MAX_MESSAGE = 64 << 20
FLOOD_SECONDS = 10.0
FLOOD_MESSAGES = 20_000
FLOOD_BYTES = 256 << 20
"""what a server may send in `FLOOD_SECONDS`"""
RETRIED = (types.LSPErrorCodes.ContentModified.value, types.LSPErrorCodes.ServerCancelled.value)
"""the server asks to be asked again"""
RETRY_SECONDS = 0.2
PATIENCE = 2.0
"""seconds that a request must have waited to count as not answered"""

ServerError = JsonRpcException
"""the server answered with an error"""

CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "workspaceEdit": {"documentChanges": True},
        "didChangeWatchedFiles": {"dynamicRegistration": False},
        "symbol": {},
    },
    "textDocument": {
        "synchronization": {},
        "publishDiagnostics": {"versionSupport": True, "relatedInformation": True, "dataSupport": True},
        "definition": {},
        "references": {},
        "rename": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}},
            "dataSupport": True,
            "disabledSupport": True,
        },
    },
}
"""Diagnostics are pushed, not pulled, because all servers push them. Edits of code actions are sent with them."""


class Flooded(Exception):
    """The server sends more than anybody could need."""


class ServerClient(JsonRPCClient):
    """A connection to one language server."""

    def __init__(self, root: Path, settings: Mapping[str, Any]) -> None:
        super().__init__(protocol_cls=RawProtocol)
        self._folder = {"uri": root.as_uri(), "name": root.name}
        self._settings = settings
        self._progress: set[str] = set()
        self.idle = asyncio.Event()
        """set while the server reports no work in progress"""
        self.idle.set()
        self.on_diagnostics: Callable[[Mapping[str, Any]], None] = lambda _: None
        self.silences = 0
        """requests in a row that were not answered while somebody waited"""
        self._ended = asyncio.Event()
        self._answer_requests()

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        """Serve the connection until the server closes it or floods it."""
        self.protocol.set_writer(writer)
        return asyncio.get_running_loop().create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
                await run_async(threading.Event(), LimitedReader(reader), self.protocol)
        except Flooded as error:
            log.warning("a language server was cut off: %s", error)
        finally:
            self._ended.set()

    async def initialize(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The server's capabilities."""
        params = {
            "processId": None,  # the server cannot see our process from inside the sandbox
            "rootUri": self._folder["uri"],
            "workspaceFolders": [self._folder],
            "capabilities": CAPABILITIES,
            "initializationOptions": dict(options),
        }
        answer = await self.request(types.INITIALIZE, params)
        self.notify(types.INITIALIZED, {})
        self.notify(types.WORKSPACE_DID_CHANGE_CONFIGURATION, {"settings": self._settings})
        results = objects(answer)
        capabilities = objects(results[0].get("capabilities")) if results else []
        return capabilities[0] if capabilities else {}

    async def request(self, method: str, params: Any) -> Any:
        """The JSON value that the server answers. Raises ServerError, or ConnectionError if the server has ended. The
        request is cancelled at the server when the caller is cancelled."""
        while True:
            try:
                return await self._request(method, params)
            except ServerError as error:
                if error.code not in RETRIED:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def _request(self, method: str, params: Any) -> Any:
        key = str(uuid.uuid4())
        answer = asyncio.ensure_future(self.protocol.send_request_async(method, params, msg_id=key))
        ended = asyncio.ensure_future(self._ended.wait())
        began = time.monotonic()
        try:
            await asyncio.wait({answer, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ConnectionError("the language server has ended")
            self.silences = 0
            return answer.result()
        finally:
            ended.cancel()
            if not answer.done():
                self.silences += time.monotonic() - began >= PATIENCE
                answer.add_done_callback(_ignore)  # not cancelled: pygls could not take the late answer then
                if not self._ended.is_set():
                    self.notify(types.CANCEL_REQUEST, {"id": key})

    def notify(self, method: str, params: Any) -> None:
        self.protocol.notify(method, params)

    # -- what the server asks ---------------------------------------------------------------------------------------

    def _answer_requests(self) -> None:
        answers: Mapping[str, Callable[[Any], Any]] = {
            types.WORKSPACE_CONFIGURATION: self._configuration,
            types.WORKSPACE_WORKSPACE_FOLDERS: lambda _: [self._folder],
            types.WORKSPACE_APPLY_EDIT: lambda _: {"applied": False, "failureReason": "edits are not taken"},
            types.WINDOW_SHOW_DOCUMENT: lambda _: {"success": False},
            types.PROGRESS: self._note_progress,
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: self._note_diagnostics,
        }
        ignored = (
            types.CLIENT_REGISTER_CAPABILITY,
            types.CLIENT_UNREGISTER_CAPABILITY,
            types.WINDOW_LOG_MESSAGE,
            types.WINDOW_SHOW_MESSAGE,
            types.WINDOW_SHOW_MESSAGE_REQUEST,
            types.WINDOW_WORK_DONE_PROGRESS_CREATE,
            types.TELEMETRY_EVENT,
            types.WORKSPACE_CODE_LENS_REFRESH,
            types.WORKSPACE_DIAGNOSTIC_REFRESH,
            types.WORKSPACE_INLAY_HINT_REFRESH,
            types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        )
        for method, answer in {**dict.fromkeys(ignored, _nothing), **answers}.items():
            self.feature(method)(partial(answer))  # pygls sets attributes of it

    def _configuration(self, params: Any) -> list[Any]:
        match params:
            case {"items": items}:
                return [self._settings.get(str(item.get("section"))) for item in objects(items)]
            case _:
                return []

    def _note_diagnostics(self, params: Any) -> None:
        self.on_diagnostics(params)

    def _note_progress(self, params: Any) -> None:
        match params:
            case {"token": int() | str() as token, "value": {"kind": "begin"}}:
                self._progress.add(str(token))
            case {"token": int() | str() as token, "value": {"kind": "end"}}:
                self._progress.discard(str(token))
            case _:
                return
        if self._progress:
            self.idle.clear()
        else:
            self.idle.set()


class RawProtocol(JsonRPCProtocol):
    """pygls' protocol with JSON values in place of lsprotocol's types."""

    fm: Any  # pygls does not type its tables

    def structure_message(self, data: dict[str, Any]) -> Any:
        return data

    def handle_message(self, message: Any) -> None:
        typed = _typed(message)
        unknown = isinstance(typed, JsonRPCNotification) and typed.method not in self.fm.features
        if typed is not None and not unknown:
            super().handle_message(typed)


class LimitedReader:
    """What a server writes, up to a rate that no use needs. Raises Flooded beyond it."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._since = time.monotonic()
        self._messages = 0
        self._bytes = 0

    async def readline(self) -> bytes:
        return await self._stream.readline()

    async def readexactly(self, n: int) -> bytes:
        now = time.monotonic()
        if now - self._since > FLOOD_SECONDS:
            self._since, self._messages, self._bytes = now, 0, 0
        self._messages += 1
        self._bytes += n
        if n > MAX_MESSAGE or self._messages > FLOOD_MESSAGES or self._bytes > FLOOD_BYTES:
            raise Flooded(f"{self._messages:,} messages and {self._bytes:,} bytes in {now - self._since:.0f} s")
        return await self._stream.readexactly(n)


def _typed(message: Any) -> Any:
    """The message in pygls' types; None if it is none."""
    match message:
        case {"method": str() as method, "id": int() | str() as key}:
            return JsonRPCRequestMessage(key, method, "2.0", message.get("params"))
        case {"method": str() as method}:
            return None if method == types.CANCEL_REQUEST else JsonRPCNotification(method, "2.0", message.get("params"))
        case {"id": int() | str() as key, "error": {"code": int() as code, "message": str() as words}}:
            return types.ResponseErrorMessage(id=key, error=types.ResponseError(code, words))
        case {"id": int() | str() as key, "result": result}:
            return JsonRPCResponseMessage(key, "2.0", result)
        case _:
            return None


def _nothing(_: Any) -> None:
    """Answers a request whose answer has no value."""


def _ignore(late: asyncio.Future[Any]) -> None:
    if not late.cancelled():
        late.exception()


def objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list, or the one object; nothing else."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def locations(answer: Any) -> list[dict[str, Any]]:
    """Location, Location[] or LocationLink[] as a list of Location."""
    return [
        {"uri": item.get("targetUri", item.get("uri")), "range": item.get("targetSelectionRange", item.get("range"))}
        for item in objects(answer)
    ]
