"""HTTP/1.1 over asyncio's own connections, for httpx2: its default transport costs a sixth of a tool round.

Hides: connections that are used again, reading ahead and when to stop reading ahead, what went wrong in httpx2's words.
Promises: what httpx2's own transport gives for the same bytes, but for where the body is cut (all that has come is one
piece) and for a length that is said twice, which is refused. Anything but a plain GET or POST goes through that one.
Proxies are not for this one: see `create_client`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from typing import Any

import httptools
import httpx2

IDLE_SECONDS = 30.0  # that a connection is kept for the next request
MOST_IDLE = 20
READ_AHEAD = 256 * 1024  # bytes of a body that nobody has asked for yet
LONGEST_HEAD = 100 * 1024
SOON = 1.0  # seconds: a kept connection that is lost later was not about to be closed, and may have begun to answer
HAPPY_EYEBALLS = 0.25  # seconds for an address before the next one is tried beside it

_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"(?:[^\0\s]+(?:[ \t]+[^\0\s]+)*)?")

Origin = tuple[str, str, int]


class LeanTransport(httpx2.AsyncBaseTransport):
    """Belongs to the event loop it is used on."""

    def __init__(self, context: ssl.SSLContext) -> None:
        context.set_alpn_protocols(["http/1.1"])
        self._context = context
        self._open: set[_Connection] = set()
        self._idle: dict[Origin, list[_Connection]] = {}
        self._default: httpx2.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        extensions = request.extensions.keys() - {"timeout"}
        if request.method not in ("GET", "POST") or url.scheme not in ("http", "https") or extensions:
            return await self._usual().handle_async_request(request)
        timeouts: Mapping[str, float | None] = request.extensions.get("timeout", {})
        message = await _message(request)
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))
        connection = self._idle_one(origin)
        if connection is not None:
            try:
                await connection.ask(message, timeouts)
            except (httpx2.ProtocolError, httpx2.NetworkError):
                if connection.heard or connection.asked_for > SOON:
                    raise
                connection = None  # the server was about to close it: as if it had not been there
        if connection is None:
            connection = await self._connect(origin, timeouts.get("connect"))
            await connection.ask(message, timeouts)
        return httpx2.Response(
            connection.status,
            headers=connection.headers,
            stream=_Body(connection, timeouts.get("read")),
            extensions={"http_version": connection.version, "reason_phrase": connection.reason},
        )

    async def aclose(self) -> None:
        for connection in tuple(self._open):
            connection.close()
        if self._default is not None:
            await self._default.aclose()

    def _usual(self) -> httpx2.AsyncHTTPTransport:
        if self._default is None:
            self._default = httpx2.AsyncHTTPTransport(verify=self._context)
        return self._default

    def _idle_one(self, origin: Origin) -> _Connection | None:
        idle = self._idle.get(origin, [])
        return idle.pop() if idle else None

    async def _connect(self, origin: Origin, seconds: float | None) -> _Connection:
        scheme, host, port = origin
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self, origin),
                    host,
                    port,
                    ssl=self._context if scheme == "https" else None,
                    happy_eyeballs_delay=HAPPY_EYEBALLS,
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(str(error) or "no connection in time") from error
        except (OSError, ssl.SSLError, UnicodeError) as error:
            raise httpx2.ConnectError(str(error)) from error
        self._open.add(connection)
        return connection

    def keep(self, connection: _Connection) -> None:
        """It is free for the next request."""
        idle = self._idle.setdefault(connection.origin, [])
        idle.append(connection)
        if len(idle) > MOST_IDLE:
            idle[0].close()

    def gone(self, connection: _Connection) -> None:
        self._open.discard(connection)
        idle = self._idle.get(connection.origin, [])
        if connection in idle:
            idle.remove(connection)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, connection: _Connection, seconds: float | None) -> None:
        self._connection: _Connection | None = connection
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while self._connection is not None and (piece := await self._connection.body(self._seconds)):
                yield piece
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.done()


class _Connection(asyncio.Protocol):
    """One request goes out, its answer comes in; then the next."""

    def __init__(self, pool: LeanTransport, origin: Origin) -> None:
        self.origin = origin
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._blocked = False
        """more is to be sent than the other side takes"""
        self._paused = False
        self._asked_at = 0.0
        self._begin()
        self._ended = True  # no answer is due yet

    def _begin(self) -> None:
        self.status = 0
        self.version = b"HTTP/1.1"
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.heard = False
        """whether anything has come of the answer"""
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(  # what servers that people write themselves send, and httpx2 takes
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._head_size = 0
        self._has_head = False
        self._ended = False
        self._again = False
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._error: httpx2.TransportError | None = None

    @property
    def asked_for(self) -> float:
        """seconds since its last request"""
        return self._loop.time() - self._asked_at

    # -- what the transport does with it -------------------------------------------------------------------------

    async def ask(self, message: bytes, timeouts: Mapping[str, float | None]) -> None:
        """Send a request, and read the head of its answer."""
        try:
            await self._send(message, timeouts.get("write"))
            await self._head(timeouts.get("read"))
        except BaseException:
            self.close()
            raise

    async def _send(self, message: bytes, seconds: float | None) -> None:
        """Give a request to the system. An answer that comes before it is all sent is an answer."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._begin()
        self._asked_at = self._loop.time()
        if self._transport is None or self._transport.is_closing():
            self._fail(httpx2.RemoteProtocolError("Server disconnected without sending a response."))
            return
        self._transport.write(message)
        while self._blocked and not self._has_head and self._error is None:
            await self._wait(seconds, httpx2.WriteTimeout)

    async def _head(self, seconds: float | None) -> None:
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._wait(seconds, httpx2.ReadTimeout)

    async def body(self, seconds: float | None) -> bytes:
        """What has come of the body since; nothing when it has ended."""
        while not self._pieces and not self._ended:
            if self._error is not None:
                raise self._error
            await self._wait(seconds, httpx2.ReadTimeout)
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def done(self) -> None:
        """The answer has been read, or is not wanted any more."""
        if not self._ended or self._pieces or not self._again or self._transport is None:
            self.close()
        elif self._transport.get_write_buffer_size():
            self.close()  # it was answered before it was asked to the end
        else:
            self._expiry = self._loop.call_later(IDLE_SECONDS, self.close)
            self._pool.keep(self)

    def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._pool.gone(self)
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self, seconds: float | None, late: type[httpx2.TimeoutException]) -> None:
        """Until something has changed."""
        self._waiter = waiter = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, _give_up, waiter, late, seconds)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake_up(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: httpx2.TransportError) -> None:
        if self._error is None:
            self._error = error
        self._wake_up()

    # -- what asyncio tells --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 -- for the types: a stream has this kind
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._ended:
            self._again = False
            self.close()
            return
        self.heard = True
        if not self._has_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._ended:
                self._again = False  # what follows a whole answer spoils the next one, not this
            else:
                self._fail(httpx2.RemoteProtocolError(str(error)))
        else:
            if not self._has_head and self._head_size > LONGEST_HEAD:
                self._fail(httpx2.RemoteProtocolError("the head of the answer is too long"))
        if self._error is not None:
            self.close()
            return
        if self._waiting > READ_AHEAD and not self._paused and not self._ended and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._again = False
        self._pool.gone(self)
        if self._ended:
            pass
        elif self._has_head and exc is None and not self._has_length():
            self._ended = True  # such a body ends with the connection
        elif exc is not None:
            self._fail(httpx2.ReadError(str(exc)))
        elif self._has_head:
            self._fail(httpx2.RemoteProtocolError("peer closed connection without sending complete message body"))
        else:
            self._fail(httpx2.RemoteProtocolError("Server disconnected without sending a response."))
        self._wake_up()

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._wake_up()

    def _has_length(self) -> bool:
        return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

    # -- what the parser tells -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._ended:
            raise ValueError("bytes that nobody asked for")

    def on_status(self, status: bytes) -> None:
        self.reason += status

    def on_header(self, name: bytes, value: bytes | None) -> None:
        self.headers.append((name, value.rstrip(b" \t") if value else b""))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.version = b"HTTP/" + self._parser.get_http_version().encode("ascii")
        self._has_head = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._waiting += len(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            self._ended = True
            self._again = self._parser.should_keep_alive()
        else:  # the answer itself is still to come
            self.reason, self.headers = b"", []


def _give_up(waiter: asyncio.Future[None], late: type[httpx2.TimeoutException], seconds: float) -> None:
    if not waiter.done():
        waiter.set_exception(late(f"nothing for {seconds:g} seconds"))


async def _message(request: httpx2.Request) -> bytes:
    """A request as it goes over the wire."""
    assert isinstance(request.stream, httpx2.AsyncByteStream)  # noqa: S101 -- for the types: an async client makes these
    body = b"".join([piece async for piece in request.stream])
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    chunked = False
    for name, value in request.headers.raw:
        lines.append(_line(name, value))
        chunked = chunked or name.lower() == b"transfer-encoding"
    if chunked:
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return b"\r\n".join((*lines, b"", body))


@lru_cache(maxsize=128)  # nearly all are the same for every request
def _line(name: bytes, value: bytes) -> bytes:
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):  # the value may be a key: it is not said
        raise httpx2.LocalProtocolError(f"Illegal header {name!r}")
    return name + b": " + value
