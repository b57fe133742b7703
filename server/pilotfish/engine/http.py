"""The HTTP client that models talk through, with a watchdog on every answer.

Nothing is sent before what `holding` names is done: a turn's records are written while the request is made.

A provider that stops sending is noticed: no byte for `stall` seconds ends the request with a read timeout, which
`failures.py` calls `stalled`. Any byte counts, pings and comments too, so a slow answer that lives is never cut.
The first byte may take longer: reasoning models think before they speak, local ones read the prompt first.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import cast
from urllib.request import getproxies

import httpx2

FIRST_BYTE_FACTOR = 4  # how much longer the first byte may take than any later one
CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0


_wait_for: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("wait_for", default=None)


@contextmanager
def holding(done: Callable[[], Awaitable[None]]) -> Generator[None]:
    """Requests made here through a client of ours are sent when `done` is: see `is_held`."""
    token = _wait_for.set(done)
    try:
        yield
    finally:
        _wait_for.reset(token)


def is_held(model: object) -> bool:
    """Whether a model talks through a client of ours, so that `holding` holds for it."""
    client: object = getattr(getattr(model, "client", None), "_client", None)
    return isinstance(client, Client)


class Client(httpx2.AsyncClient):
    """A client made here, whose answers may pause for `stall` seconds. `lean` is its transport, where that is ours."""

    stall = 0.0
    lean: httpx2.AsyncBaseTransport | None = None

    async def stream_of(self, request: httpx2.Request) -> httpx2.Response:
        """`send(request, stream=True)`. Of a transport of ours, without httpx2's five steps around it: there are no
        redirects to follow, and no credentials but those in the headers."""
        if self.lean is None or self.auth is not None or request.url.userinfo or self.is_closed:
            return await self.send(request, stream=True)
        await _hold(request)
        response = await self.lean.handle_async_request(request)
        response.request = request
        response.stream = self._watched(response)
        if "set-cookie" in response.headers:
            self.cookies.extract_cookies(response)
        return response

    async def watch(self, response: httpx2.Response) -> None:
        response.stream = self._watched(response)

    def _watched(self, response: httpx2.Response) -> Watched:
        return Watched(cast("httpx2.AsyncByteStream", response.stream), self.stall)


async def _hold(_: httpx2.Request) -> None:
    wait = _wait_for.get()
    if wait is not None:
        await wait()


def create_client(stall: float, *, lean: bool = True) -> httpx2.AsyncClient:
    """A client whose answers are watched. Proxies of the environment hold: then httpx2's own transport is used."""
    patience = stall * FIRST_BYTE_FACTOR
    transport = _lean_transport() if lean and not getproxies().keys() - {"no"} else None
    client = Client(
        timeout=httpx2.Timeout(connect=CONNECT_SECONDS, read=patience, write=WRITE_SECONDS, pool=CONNECT_SECONDS),
        verify=certificates(),
        transport=transport,
    )
    client.stall, client.lean = stall, transport
    client.event_hooks["request"].append(_hold)
    client.event_hooks["response"].append(client.watch)
    return client


def _lean_transport() -> httpx2.AsyncBaseTransport | None:
    try:
        from pilotfish.engine.lean_http import LeanTransport
    except ImportError:  # no httptools for this Python
        return None
    return LeanTransport(certificates())


@cache
def certificates() -> ssl.SSLContext:
    """The roots we trust, loaded once: that takes longer than anything else a client needs."""
    return httpx2.create_ssl_context()


class Watched(httpx2.AsyncByteStream):
    """A body that must keep coming. Time the reader spends elsewhere does not count.

    One timer serves the whole body, and is set anew only when it fires: a timeout around every read would cost as much
    as the read.
    """

    def __init__(self, body: httpx2.AsyncByteStream, stall: float) -> None:
        self._body = body
        self._stall = stall
        self._limit = stall * FIRST_BYTE_FACTOR
        self._reader: asyncio.Task[object] | None = None
        self._since: float | None = None
        """when the reader began to wait; None while it does something else"""
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        chunks = aiter(self._body)
        self._look_at(loop.time() + self._limit)
        try:
            while True:
                self._reader, self._since = asyncio.current_task(), loop.time()
                chunk = await anext(chunks)
                self._since = None
                if self._limit != self._stall:
                    self._limit = self._stall
                    self._look_at(loop.time() + self._limit)
                yield chunk
        except StopAsyncIteration:
            pass
        except asyncio.CancelledError as error:
            if not self._stalled or self._reader is None or self._reader.uncancel() > 0:
                raise
            raise httpx2.ReadTimeout(f"no byte for {self._limit:g} seconds") from error
        finally:
            self._since = None
            if self._timer is not None:
                self._timer.cancel()

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        """Stop the reader when it has waited for too long; else look again when it could have."""
        now = asyncio.get_running_loop().time()
        since = self._since if self._since is not None else now
        if now < since + self._limit:
            self._look_at(since + self._limit)
        elif self._reader is not None and _is_blocked(self._reader):
            self._stalled = True
            self._reader.cancel()
        else:
            self._look_at(now + self._limit)

    async def aclose(self) -> None:
        await self._body.aclose()


def body_of(response: httpx2.Response) -> AsyncIterator[bytes]:
    """What a response brings, decoded. A body that nothing is to be done with comes without httpx2's wrappers."""
    if isinstance(response.stream, Watched) and "content-encoding" not in response.headers:
        return aiter(response.stream)
    return response.aiter_bytes()


def _is_blocked(task: asyncio.Task[object]) -> bool:
    """Whether a task waits for something that has not come: cancelling one about to run would hit its next wait."""
    waits_for: asyncio.Future[object] | None = getattr(task, "_fut_waiter", None)
    return waits_for is not None and not waits_for.done()
