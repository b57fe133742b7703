"""The HTTP/1.1 connection of the scripted provider: records requests and streams replies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tests.support.provider_anthropic import Anthropic
from tests.support.provider_chat import Chat
from tests.support.provider_dialect import Dialect, Kind, error_body
from tests.support.provider_google import Google
from tests.support.provider_google_strict import google_fault
from tests.support.provider_responses import Responses
from tests.support.provider_script import Gate, Pause, Reply, Text, reply_from
from tests.support.provider_strict import Fault, fault

if TYPE_CHECKING:
    from tests.support.provider import Provider

ENDPOINTS: dict[str, Kind] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}
FILL_IN: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "/api/generate": lambda text, tokens: {"response": text, "prompt_eval_count": tokens, "eval_count": 3},
    "/infill": lambda text, tokens: {"content": text, "tokens_evaluated": tokens, "tokens_predicted": 3},
    "/v1/fim/completions": lambda text, tokens: {
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 3},
    },
    "/v1/completions": lambda text, tokens: {
        "choices": [{"text": text}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 3},
    },
}
"""fill-in-the-middle: Ollama, llama.cpp, Mistral, OpenAI; what each answers with a text"""
GOOGLE = re.compile(r"/v1(?:beta)?/models/(?P<model>[^/:]+):(?P<method>generateContent|streamGenerateContent)\Z")
DIALECTS: dict[Kind, type[Dialect]] = {
    "chat": Chat,
    "responses": Responses,
    "anthropic": Anthropic,
    "google": Google,
}
BLOCK = 16_384  # bytes gathered into one write when nothing waits


@dataclass(eq=False, kw_only=True)
class Request:
    """A received request and its outcome. Times are `time.monotonic()`."""

    n: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    size: int
    at: float
    kind: Kind | None = None
    refused: str | None = None
    first_byte_at: float | None = None
    finished_at: float | None = None
    disconnected_at: float | None = None
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """the history, whatever the dialect calls it"""
        names = {"responses": "input", "google": "contents"}
        found = self.body.get(names.get(self.kind or "", "messages"), [])
        return [{"role": "user", "content": found}] if isinstance(found, str) else found

    @property
    def tools(self) -> list[str]:
        tools = self.body.get("tools", ())
        if self.kind == "google":
            return [declared["name"] for tool in tools for declared in tool.get("functionDeclarations", ())]
        return [tool.get("name") or tool["function"]["name"] for tool in tools]

    @property
    def asked(self) -> dict[str, Any]:
        """the body with the model and whether to stream, which Google puts into the address"""
        if (google := GOOGLE.match(self.path)) is None:
            return self.body
        return {**self.body, "model": google["model"], "stream": google["method"] == "streamGenerateContent"}

    def to_json(self) -> dict[str, Any]:
        names = ("n", "method", "path", "headers", "body", "size", "kind", "refused")
        times = ("at", "first_byte_at", "finished_at", "disconnected_at")
        return {name: getattr(self, name) for name in (*names, *times)}


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: handles requests in sequence and detects a disconnect at once."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.task: asyncio.Task[None] | None = None
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._request: Request | None = None
        self._chunked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.provider._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        request, self._transport = self._request, None
        if request is not None and request.finished_at is None:
            request.disconnected_at = time.monotonic()
            request.disconnected.set()
            if self.task is not None:
                self.task.cancel()
        self._room.set()
        self.provider.forget(self)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            if not rest.endswith(b"0\r\n\r\n"):
                return
            body, self._buffer = _dechunk(bytes(rest)), bytearray()
        else:
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            body, self._buffer = bytes(rest[:length]), rest[length:]
        method, target, _ = lines[0].split(" ", 2)
        self._arrived(method, target.partition("?")[0], headers, body)

    def _arrived(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        parsed: Any = None
        with contextlib.suppress(ValueError):
            parsed = json.loads(body) if body else {}
        kind = _kind(path) if method == "POST" else None
        count = len(self.provider.requests) + 1 if kind or path in FILL_IN else 0
        request = Request(
            n=count,
            method=method,
            path=path,
            headers=headers,
            body=cast(dict[str, Any], parsed) if isinstance(parsed, dict) else {"_": parsed},
            size=len(body),
            at=time.monotonic(),
            kind=kind,
        )
        self._request = request
        self.provider.begin(self, request)

    async def reply(self, request: Request) -> None:
        try:
            if request.path in FILL_IN:
                await self.provider.note(request)
                await self._fill_in(request)
            elif request.kind is None:
                self._control(request)
            else:
                await self.provider.note(request)
                await self._converse(request, request.kind)
        except ConnectionResetError:
            pass
        finally:
            if request.disconnected_at is None:
                request.finished_at = time.monotonic()

    def _control(self, request: Request) -> None:
        """Model lists, and the control endpoints for tests in other processes."""
        provider = self.provider
        match request.method, request.path:
            case "GET", "/v1/models":
                entries = [{"id": model} if isinstance(model, str) else model for model in provider.models]
                shape = {"object": "model", "created": 1_700_000_000, "owned_by": "scripted"}
                self._send_json(200, {"object": "list", "data": [{**shape, **entry} for entry in entries]})
            case "GET", "/_requests":
                self._send_json(200, [seen.to_json() for seen in provider.requests])
            case "POST", "/_script":
                found = request.body.get("_", request.body.get("replies", []))
                provider.replies.extend(reply_from(each) for each in cast(list[dict[str, Any]], found))
                self._send_json(200, {})
            case "POST", "/_key":
                provider.key = str(request.body["key"])
                self._send_json(200, {})
            case "POST", "/_hold":
                provider.gate.clear()
                self._send_json(200, {})
            case "POST", "/_release":
                provider.release()
                self._send_json(200, {})
            case _ if request.path in provider.pages:
                self._send_json(200, provider.pages[request.path])
            case _:
                self._send_json(404, {"error": {"message": f"Invalid URL ({request.method} {request.path})"}})

    async def _converse(self, request: Request, kind: Kind) -> None:
        provider = self.provider
        if provider.key is not None and provider.key not in _keys(request.headers):
            self._send_error(kind, Reply(error="authentication"))
            return
        if provider.strict and (problem := self._fault(request, kind)) is not None:
            request.refused = problem.message
            self._send_json(400, error_body(kind, 400, problem.message, param=problem.param))
            return
        reply = provider.choose(request)
        if reply.wait:
            await asyncio.sleep(reply.wait)
        if reply.wire is not None:
            self._write(reply.wire.encode("utf-8", "surrogateescape"))
            self.close()
        elif reply.error is not None or reply.status != 200 or reply.body is not None:
            self._send_error(kind, reply)
        elif request.asked.get("stream"):
            await self._stream(request, DIALECTS[kind](request.asked, reply, provider.memory), reply)
        else:
            dialect = DIALECTS[kind](request.asked, reply, provider.memory)
            for _ in dialect.pieces():
                pass
            await self._pauses(reply)
            self._send_json(200, dialect.whole())

    async def _fill_in(self, request: Request) -> None:
        reply = self.provider.choose(request)
        await asyncio.sleep(reply.wait)
        await self._pauses(reply)
        if reply.error is not None or reply.status != 200:
            self._send_error("chat", reply)
            return
        text = "".join(part.text for part in reply.parts if isinstance(part, Text))
        self._send_json(200, FILL_IN[request.path](text, reply.usage.input if reply.usage else 7))

    def _fault(self, request: Request, kind: Kind) -> Fault | None:
        if kind == "google":
            return google_fault(request.body, self.provider.memory)
        return fault(kind, request.headers, request.body, self.provider.memory)

    async def _pauses(self, reply: Reply) -> None:
        """Delay a response without streaming for as long as its stream would take."""
        if any(isinstance(part, Gate) for part in reply.parts):
            await self.provider.gate.wait()
        if reply.end == "stall":
            await asyncio.Event().wait()

    async def _stream(self, request: Request, dialect: Dialect, reply: Reply) -> None:
        kind = reply.content_type or "text/event-stream; charset=utf-8"
        self._write(_head(200, {"content-type": kind, "transfer-encoding": "chunked", **dict(reply.headers)}))
        self._chunked = True
        gathered: list[bytes] = []
        size = 0
        sent = 0
        for piece in dialect.pieces():
            if isinstance(piece, Pause | Gate):
                await self._flush(gathered)
                size = 0
                await (asyncio.sleep(piece.seconds) if isinstance(piece, Pause) else self.provider.gate.wait())
                continue
            if request.first_byte_at is None:
                request.first_byte_at = time.monotonic()
            gathered.append(_chunk(piece))
            size += len(piece)
            sent += 1
            if reply.delay or size > BLOCK:
                await self._flush(gathered)
                size = 0
                if reply.delay:
                    await asyncio.sleep(reply.delay)
        await self._flush(gathered)
        await self._finish(dialect, reply)

    async def _finish(self, dialect: Dialect, reply: Reply) -> None:
        match reply.end:
            case "done":
                self._write(b"".join(map(_chunk, dialect.last())) + b"0\r\n\r\n")
            case "cut":
                self._write(b"0\r\n\r\n")
            case "garbage":
                self._write(_chunk(dialect.garbage) + b"0\r\n\r\n")
            case "drop":
                self._write(b"40\r\ndata: {")
                await asyncio.sleep(0)
                self.abort()
            case "stall":
                await asyncio.Event().wait()
            case "endless":
                while True:
                    self._write(_chunk(dialect.again()))
                    await asyncio.sleep(reply.delay)
                    await self._room.wait()
            case end:
                self._write(_chunk(dialect.broken(end.removeprefix("error:"))) + b"0\r\n\r\n")

    async def _flush(self, gathered: list[bytes]) -> None:
        if gathered:
            self._write(b"".join(gathered))
            gathered.clear()
            await self._room.wait()

    def _send_error(self, kind: Kind, reply: Reply) -> None:
        status, body = DIALECTS[kind].failure(reply)
        headers = {"content-type": reply.content_type or "application/json", **dict(reply.headers)}
        if reply.retry_after is not None and kind != "google":  # which says it in the body
            headers["retry-after"] = f"{reply.retry_after:g}"
        self._send(status, headers, body)

    def _send_json(self, status: int, value: Any) -> None:
        self._send(status, {"content-type": "application/json"}, json.dumps(value).encode())

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._write(_head(status, {**headers, "content-length": str(len(body))}) + body)

    def _write(self, data: bytes) -> None:
        if self._transport is None:
            raise ConnectionResetError
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _kind(path: str) -> Kind | None:
    return "google" if GOOGLE.match(path) else ENDPOINTS.get(path)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}"]
    lines += [f"{name}: {value}" for name, value in {"x-request-id": "req_scripted", **headers}.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _dechunk(data: bytes) -> bytes:
    out = bytearray()
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size, 16)
        out += rest[:length]
        data = rest[length + 2 :] if length else b""
    return bytes(out)


def _keys(headers: Mapping[str, str]) -> Iterator[str]:
    yield headers.get("authorization", "").removeprefix("Bearer ")
    yield headers.get("x-api-key", "")
    yield headers.get("x-goog-api-key", "")
