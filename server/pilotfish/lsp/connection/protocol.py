"""The connection to one client: a subclass of pygls' protocol that answers every request exactly once.

pygls dispatches, cancels, and matches answers to requests. This subclass promises law 7 on top: every request is
answered exactly once, whatever is wrong with it, and no answer carries a traceback.

- `structure_message` leaves JSON objects as they are: pygls calls it for every object of a message, innermost first,
  and would take any object with a key `jsonrpc` for a message.
- `handle_message` refuses what is no message, comes too early or too late, or has wrong params, and gives the params
  their type: pydantic models for our methods, lsprotocol's types for LSP's.
- `lsp_initialize` adds our own capabilities, `lsp_workspace__execute_command` can be cancelled.

No private member of pygls is used. What we would change upstream:

- answer a request whose params do not fit, or that comes before `initialize` or after `shutdown` (`handle_message`);
- answer broken JSON and batches, write without blocking (`stdio.py`);
- cancel a command when its request is cancelled (`lsp_workspace__execute_command`);
- take back a request of ours that is cancelled (`request`), and ignore its late answer (`report_server_error`);
- end lines where LSP ends them (`documents.py`).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from cattrs import ClassValidationError, Converter, transform_error
from lsprotocol import types
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
    LanguageServerProtocol,
    default_converter,
    lsp_method,
)
from pygls.workspace import Workspace

from pilotfish import errors
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.stdio import Outbox
from pilotfish.protocol.wire import ERROR_CODES, METHODS

log = logging.getLogger(__name__)

ClientError = JsonRpcException
"""the client answered a request of ours with an error"""

SHOW_SECONDS = 5.0
_CODES: Sequence[tuple[type[errors.PilotfishError], str]] = (
    (errors.BadRequest, "invalid_params"),
    (errors.UnknownSession, "unknown_session"),
    (errors.SessionBusy, "session_busy"),
    (errors.NotTrusted, "not_trusted"),
    (errors.UnknownCall, "unknown_call"),
    (errors.RequestError, "invalid_request"),
    (errors.StorageError, "storage"),
    (errors.PilotfishError, "internal"),
)
"""the first row that matches an error is its code"""


class ConnectionServer(LanguageServer):
    """What a connection needs of the server behind it."""

    outbox: Outbox
    stopping: bool = False
    """set by `shutdown`: requests are refused"""
    serving: dict[int | str | None, asyncio.Task[Any] | None]
    """requests that are not answered yet"""

    def add_capabilities(self, capabilities: types.ServerCapabilities) -> None:
        """Add to the answer to `initialize` what pygls cannot know."""
        raise NotImplementedError  # abstract: `PilotfishServer` implements it


class Connection(LanguageServerProtocol):
    """The connection to one client."""

    fm: Any  # pygls does not type its tables
    hello: Mapping[str, Any] | None = None
    """the params of `initialize` as they came; None before"""
    documents: Workspace
    """the open documents; set when the server handles `initialize`"""

    def __init__(self, server: ConnectionServer, converter: Converter) -> None:
        self.server = server
        self.converter = converter
        super().__init__(server, converter)

    # -- incoming -------------------------------------------------------------------------------------------------

    def structure_message(self, data: dict[str, Any]) -> Any:
        return data

    def handle_message(self, message: Any) -> None:
        """Handle a message, or `[code, message]` for a frame that was none; never raises, never waits."""
        if isinstance(message, list):
            # The reader gives a broken frame as [code, message]; pyright cannot know what is in the list.
            code, words = message  # pyright: ignore[reportUnknownVariableType]
            self.refuse(None, JsonRpcException(str(words), int(code)))  # pyright: ignore[reportUnknownArgumentType]
            return
        key = message.get("id")
        key = key if type(key) in (int, str) else None
        try:
            typed = self._typed(key, message)
        except JsonRpcException as error:
            if "id" not in message and isinstance(message.get("method"), str):
                log.warning("%s was ignored: %s", message["method"], error)
            else:
                self.refuse(key, error)
        else:
            if typed is not None:
                super().handle_message(typed)

    def refuse(self, key: int | str | None, error: JsonRpcException) -> None:
        """Answer with an error; with None there is no request that it answers."""
        if self.writer is not None:
            answer = {"jsonrpc": "2.0", "id": key, "error": _error_to_json(error.to_response_error())}
            body = orjson.dumps(answer)  # pygls would leave out an `id` of null
            self.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def _typed(self, key: int | str | None, message: dict[str, Any]) -> Any:
        """The message in pygls' types; None if it can be ignored. Raises the error to answer with."""
        method = message.get("method")
        if message.get("jsonrpc") != "2.0" or not (method is None or isinstance(method, str)):
            raise _refusal("invalid_request", "this is not a JSON-RPC 2.0 message")
        if method is None:
            return self._answer(key, message)
        if "id" not in message:
            return self._with_params(method, message) if self.hello is not None or method == types.EXIT else None
        if key is None:
            raise _refusal("invalid_request", "an id is a number or a string")
        if self.hello is None and method != types.INITIALIZE:
            raise _refusal("not_initialized", "the server is not initialized yet: `initialize` comes first")
        if self.hello is not None and method == types.INITIALIZE:
            raise _refusal("invalid_request", "the server is initialized already")
        if self.server.stopping:
            raise _refusal("invalid_request", "the server is shutting down")
        if key in self.server.serving:
            raise _refusal("invalid_request", "a request with this id is still being served")
        return self._with_params(method, message)

    def _with_params(self, method: str, message: dict[str, Any]) -> Any:
        """A request or notification with typed params."""
        params = message.setdefault("params", None)  # many clients leave out params that may be empty
        if method == types.INITIALIZE:
            return self._initialize(message)
        if method in self.fm.features and (row := METHODS.get(method)) is not None:
            try:
                params = read(row.params, {} if params is None else params)
            except errors.BadRequest as error:
                raise rpc_error(error) from None
        elif method in self.fm.features or method in self.fm.builtin_features or method == types.CANCEL_REQUEST:
            try:
                return super().structure_message(message)
            except JsonRpcException as error:
                raise _invalid(error.__cause__) from None
        if "id" in message:  # pygls answers a method that it does not know
            return JsonRPCRequestMessage(id=message["id"], method=method, jsonrpc="2.0", params=params)
        return JsonRPCNotification(method=method, jsonrpc="2.0", params=params)

    def _initialize(self, message: dict[str, Any]) -> Any:
        params = as_object(message["params"])
        if params is None or as_object(params.get("capabilities")) is None:
            field = "params" if params is None else "params.capabilities"
            raise JsonRpcInvalidParams(f"{field}: an object is needed", data={"field": field})
        self.hello = params
        try:
            return super().structure_message(message)
        except JsonRpcException:  # one capability that lsprotocol does not know must not cost the connection
            return super().structure_message({**message, "params": {"capabilities": {}}})

    def _answer(self, key: int | str | None, message: dict[str, Any]) -> Any:
        """The client's answer to a request of ours."""
        if (error := as_object(message.get("error"))) is not None:
            code = error.get("code")
            answer = types.ResponseError(code if type(code) is int else 0, str(error.get("message")))
            return None if key is None else types.ResponseErrorMessage(id=key, error=answer)
        if "result" not in message:
            raise _refusal("invalid_request", "this is not a JSON-RPC 2.0 message")
        return None if key is None else JsonRPCResponseMessage(id=key, jsonrpc="2.0", result=message["result"])

    # -- outgoing -------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Any, timeout: float | None = None) -> Any:
        """Send a request to the client; returns the JSON value it answers.

        Raises ClientError if the answer is an error, TimeoutError after `timeout` seconds. The request is
        cancelled at the client when nobody waits for its answer any more.
        """
        key = str(uuid.uuid4())
        try:
            async with asyncio.timeout(timeout):
                return await self.send_request_async(method, params, msg_id=key)
        except (asyncio.CancelledError, TimeoutError):
            self.notify(types.CANCEL_REQUEST, types.CancelParams(key))
            raise

    async def choose(self, message: str, options: Sequence[str]) -> str | None:
        """Show a message with buttons; returns the one that was pressed. Raises ClientError if it cannot be shown."""
        actions = [types.MessageActionItem(option) for option in options]
        asked = types.ShowMessageRequestParams(types.MessageType.Info, message, actions)
        answer = as_object(await self.request(types.WINDOW_SHOW_MESSAGE_REQUEST, asked)) or {}
        title = answer.get("title")
        return title if title in options else None

    async def show(self, path: Path, line: int = 0) -> bool:
        """Open a file in the client's editor at a line; returns whether it did."""
        at = types.Position(line, 0)
        asked = types.ShowDocumentParams(path.as_uri(), take_focus=False, selection=types.Range(at, at))
        try:
            answer = await self.request(types.WINDOW_SHOW_DOCUMENT, asked, SHOW_SECONDS)
        except (ClientError, TimeoutError):
            return False
        return (as_object(answer) or {}).get("success") is True

    def message(self, kind: types.MessageType, text: str) -> None:
        """Show a message."""
        self.notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(kind, text))

    # -- pygls' own features --------------------------------------------------------------------------------------

    @property
    def workspace(self) -> Workspace:
        return self.documents

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        self.server.add_capabilities(result.capabilities)
        return result

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # pygls accepts generators and coroutines
        if (command := self.fm.commands.get(params.command)) is None:
            raise JsonRpcInvalidParams(f"command: there is no command {params.command!r}", data={"field": "command"})
        return await command(params)


def make_converter() -> Converter:
    """lsprotocol's converter, which also writes pydantic models and keeps tracebacks out of errors."""
    converter = default_converter()
    converter.register_unstructure_hook_func(
        lambda kind: isinstance(kind, type) and issubclass(kind, BaseModel),
        lambda model: model.model_dump(mode="json", by_alias=True, exclude_none=True),
    )
    converter.register_unstructure_hook(types.ResponseError, _error_to_json)
    return converter


def rpc_error(error: errors.PilotfishError) -> JsonRpcException:
    """The JSON-RPC error for an error of ours."""
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    data = {name: value for name in ("field", "remedy") if (value := getattr(error, name, None)) is not None}
    return JsonRpcException(str(error), ERROR_CODES[code], data or None)


def _refusal(code: str, message: str) -> JsonRpcException:
    return JsonRpcException(message, ERROR_CODES[code])


def _error_to_json(error: types.ResponseError) -> dict[str, Any]:
    """pygls adds a traceback to an error that it did not expect; `report_server_error` logs it."""
    if "traceback" in (as_object(error.data) or {}):
        return {"code": error.code, "message": "the server failed; its log says more"}
    data = {} if error.data is None else {"data": error.data}
    return {"code": error.code, "message": error.message, **data}


def _invalid(cause: BaseException | None) -> JsonRpcInvalidParams:
    """The error for params that lsprotocol's converter refused, with the field as the client named it."""
    field, words = "params", "does not fit"
    if isinstance(cause, ClassValidationError):
        words, _, place = transform_error(cause, path="message")[0].rpartition(" @ ")
        field = ".".join(map(to_camel, place.split(".")[2:])) or field  # after `message.params`
    return JsonRpcInvalidParams(f"{field}: {words}", data={"field": field})
