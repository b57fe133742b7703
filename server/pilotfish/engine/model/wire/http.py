"""The HTTP client for model requests: it detects stalled responses and joins deltas that arrived together.

A request ends with a read timeout if no byte arrives for `stall` seconds; `errors.py` maps it to the kind `stalled`.
Every byte counts, including pings and comments, so a slow but active answer is never cut off. The first byte may take
longer, because reasoning models think first and local models process the prompt first.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, cast

import httpx2
import orjson

from pilotfish import __version__
from pilotfish.engine.model.wire.delta_joiner import DeltaJoiner
from pilotfish.engine.model.wire.quirks import corrected

USER_AGENT = f"pilotfish/{__version__}"
FIRST_BYTE_FACTOR = 4  # the first byte may take this many times `stall`
CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0
FRAME = 0.016  # seconds: deltas are passed on at most this often, because a display does not show more
LAST_LOOK = 0.05  # seconds to read what arrived while this process was suspended
READ_AHEAD = 1_000_000  # bytes to buffer before reading pauses


def create_client(stall: float, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """A client whose response bodies may pause for `stall` seconds. It uses the proxies of the environment."""

    async def watch(response: httpx2.Response) -> None:
        await _correct(response, stall)
        response.stream = ResponseBody(cast("httpx2.AsyncByteStream", response.stream), stall, _joiner_for(response))

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(
            connect=CONNECT_SECONDS, read=stall * FIRST_BYTE_FACTOR, write=WRITE_SECONDS, pool=CONNECT_SECONDS
        ),
        headers={"accept-encoding": "identity"},  # a compressed stream could not be joined
        verify=certificates(),
        transport=transport,
        event_hooks={"request": [_name_ourselves], "response": [watch]},
    )


async def _name_ourselves(request: httpx2.Request) -> None:
    """The SDKs set their own name in every request."""
    request.headers["user-agent"] = USER_AGENT


@cache
def certificates() -> ssl.SSLContext:
    """The trusted root certificates. Loading them is the slowest part of creating a client, so it happens once."""
    return httpx2.create_ssl_context()


def _joiner_for(response: httpx2.Response) -> DeltaJoiner | None:
    is_event_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    return DeltaJoiner() if is_event_stream and "content-encoding" not in response.headers else None


async def _correct(response: httpx2.Response, stall: float) -> None:
    """Replace an answer in JSON that the SDKs would misread (`quirks.py`)."""
    if not response.headers.get("content-type", "").startswith("application/json"):
        return
    sent = response.request.content
    asked_for_stream = _asks_for_stream(sent) or "streamGenerateContent" in response.request.url.path
    if response.status_code != 200 and not asked_for_stream:
        return
    stream = cast("httpx2.AsyncByteStream", response.stream)
    body = b"".join([block async for block in ResponseBody(stream, stall, None)])
    try:
        answer = corrected(response.status_code, body, sent, streamed=asked_for_stream)
    except ValueError as error:
        await stream.aclose()
        raise httpx2.RemoteProtocolError(str(error), request=response.request) from error
    response.status_code = answer.status
    if answer.events:
        response.headers["content-type"] = "text/event-stream"
    response.stream = _Replayed(answer.body, stream)


def _asks_for_stream(body: bytes) -> bool:
    try:
        request: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(request, dict) and cast("dict[str, Any]", request).get("stream") is True


class _Replayed(httpx2.AsyncByteStream):
    """A body that was read already."""

    def __init__(self, body: bytes, source: httpx2.AsyncByteStream) -> None:
        self._body = body
        self._source = source

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        await self._source.aclose()


class ResponseBody(httpx2.AsyncByteStream):
    """A response body, read ahead by a task.

    All bytes that have arrived are yielded as one block. Deltas wait until the end of the frame; the first deltas of an
    answer and all other events do not wait. A second iteration continues where the first one stopped, because OpenAI's
    SDK drains the body that way to reuse the connection.
    """

    def __init__(self, body: httpx2.AsyncByteStream, stall: float, joiner: DeltaJoiner | None) -> None:
        self._body = body
        self._stall = stall
        self._patience = stall * FIRST_BYTE_FACTOR
        self._joiner = joiner
        self._chunks: list[bytes] = []
        self._size = 0
        self._reader: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._urgent = asyncio.Event()
        """set if an event that is not a delta is buffered, or if the body has ended"""
        self._room = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None
        self._next_frame = 0.0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._reader is None:
            self._reader = asyncio.create_task(self._read(), name="read a response")
        try:
            while not self._ended or self._size:
                await self._wait_for_bytes()
                await self._wait_for_frame()
                if block := self._take():
                    yield block
            if self._joiner is not None and (rest := self._joiner.close()):
                yield rest
            if self._error is not None:
                raise self._error
            if self._joiner is not None and self._joiner.is_cut_off:
                raise httpx2.RemoteProtocolError("the stream ended before the answer did")
        finally:
            self._reader.cancel()

    async def aclose(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.cancel()
        try:
            if self._reader is not None:
                await asyncio.wait((self._reader,))
        finally:
            await self._body.aclose()

    async def _read(self) -> None:
        try:
            async for chunk in self._body:
                self._add(chunk)
                if self._size > READ_AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:  # raised where the body is iterated
            self._error = error
        finally:
            self._ended = True
            self._arrived.set()
            self._urgent.set()

    def _add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._arrived.set()
        if self._joiner is None:
            self._chunks.append(chunk)
            return
        self._joiner.feed(chunk)
        if not self._joiner.only_deltas:
            self._urgent.set()

    def _take(self) -> bytes:
        self._arrived.clear()
        if not self._ended:
            self._urgent.clear()
        self._size = 0
        self._room.set()
        if self._joiner is not None:
            return self._joiner.take()
        block = b"".join(self._chunks)
        self._chunks.clear()
        return block

    async def _wait_for_bytes(self) -> None:
        """Raises ReadTimeout if nothing arrives in time. Time that the caller spends between reads does not count."""
        if not self._arrived.is_set():
            try:
                async with asyncio.timeout(self._patience):
                    await self._arrived.wait()
            except TimeoutError:
                await asyncio.sleep(LAST_LOOK)
                if not self._arrived.is_set():
                    raise httpx2.ReadTimeout(f"no byte for {self._patience:g} seconds") from None
        self._patience = self._stall

    async def _wait_for_frame(self) -> None:
        """Wait until the end of the frame so that deltas can be joined. Any other event ends the wait."""
        if self._joiner is None or not self._joiner.only_deltas or self._ended:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._next_frame:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._next_frame):
                    await self._urgent.wait()
        self._next_frame = loop.time() + FRAME
