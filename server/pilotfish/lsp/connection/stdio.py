"""stdin and stdout for pygls: a reader that survives any bytes, and a writer that never blocks the event loop.

`pygls` reads headers exactly as it would write them, answers nothing to a broken message, and writes to stdout on the
event loop. `FrameReader` and `Outbox` are the two binary files that `LanguageServer.start_io` is given instead.
"""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Callable
from typing import Any, cast

import orjson

from pilotfish.lsp.connection.json_values import as_object, loads, without_lone_surrogates
from pilotfish.protocol.wire import ERROR_CODES

MAX_FRAME = 256 * 1024 * 1024
HIGH = 256 * 1024
"""bytes not written yet, above which the client does not keep up"""
LOW = 64 * 1024
"""bytes not written yet, below which it does again"""
FATAL = 512 * 1024 * 1024
"""bytes not written yet, above which the client is taken for dead"""

_MAX_LINE = 64 * 1024  # a header line; more without a line end is garbage
_MAX_RESCAN = 256 * 1024  # searching more than this again and again would take minutes on nested garbage
_HEADER = b"content-length:"
_READ = 256 * 1024
_EXIT = b'{"jsonrpc":"2.0","method":"exit"}'


class FrameReader(io.RawIOBase):
    """What pygls reads from: well-formed frames only, each with one JSON value.

    A JSON object is a message of the client. A JSON array `[code, message]` stands for a frame that is no message: the
    error to answer. Bytes outside of frames are skipped, a frame larger than `MAX_FRAME` is not kept, and the end of
    the input reads as an `exit` notification. Methods block, so pygls calls them in its thread pool.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        """`read` blocks for the next bytes; it returns none at the end of the input."""
        self._read = read
        self._buffer = bytearray()
        self._body: bytes | None = None
        self._ended = False

    def readline(self, size: int | None = -1, /) -> bytes:
        """The header of the next frame, then the empty line after it."""
        del size
        if self._body is not None:
            return b"\r\n"
        if self._ended:
            threading.Event().wait()  # the `exit` handler ends the process
        try:
            self._body = self._next_frame()
        except EOFError:
            self._ended, self._body = True, _EXIT
        return b"Content-Length: %d\r\n" % len(self._body)

    def read(self, size: int = -1, /) -> bytes:
        """The body of that frame."""
        del size
        body, self._body = self._body or b"", None
        return body

    def _next_frame(self) -> bytes:
        length = self._next_header()
        if length > MAX_FRAME:
            self._skip(length)
            return _broken("invalid_request", "the message is too large")
        while len(self._buffer) < length:
            self._fill()
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        try:
            message = loads(body)
        except ValueError:
            self._put_back(body)
            return _broken("parse_error", "the message is not valid JSON")
        if not as_object(message):
            return _broken("invalid_request", "a message is one JSON object that is not empty; LSP has no batches")
        return orjson.dumps(message)  # every parser reads what this one has read

    def _next_header(self) -> int:
        """Skip to the end of the next header; returns the length it announces."""
        length = -1
        while True:
            line = self._next_line().strip()
            if not line:
                if length >= 0:
                    return length
                continue
            # From the right: a header may follow garbage on its line, or a body longer than announced.
            at = line.lower().rfind(_HEADER)
            if at >= 0:
                digits = line[at + len(_HEADER) :].strip()
                length = int(digits) if digits.isdigit() and len(digits) < 16 else -1

    def _next_line(self) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            if len(self._buffer) > _MAX_LINE:
                del self._buffer[: -len(_HEADER) - 20]
            searched = len(self._buffer)
            self._fill()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _skip(self, length: int) -> None:
        while len(self._buffer) < length:
            length -= len(self._buffer)
            self._buffer.clear()
            self._fill()
        del self._buffer[:length]

    def _put_back(self, body: bytes) -> None:
        """If the announced length was too large, the body holds the start of the next frame: continue there."""
        inside = body.lower().find(_HEADER) if len(body) <= _MAX_RESCAN else -1
        if inside >= 0:
            self._buffer[:0] = body[inside:]

    def _fill(self) -> None:
        data = self._read()
        if not data:
            raise EOFError
        self._buffer += data


class Outbox(io.RawIOBase):
    """What pygls writes to: a queue that one thread empties.

    Frames leave in the order of `write`, which never blocks. A producer of many messages checks `keeps_up` or awaits
    `room`. Numbered updates are never joined here (law 1): the engine joins text before it numbers it.
    """

    def __init__(self, descriptor: int, on_lost: Callable[[], object]) -> None:
        """The writing thread calls `on_lost` once, when nothing can be written any more."""
        self._descriptor = descriptor
        self._on_lost = on_lost
        self._changed = threading.Condition()
        self._frames = bytearray()
        self._pending = 0
        self._behind = self._lost = False
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        threading.Thread(target=self._run, name="stdout", daemon=True).start()

    @property
    def keeps_up(self) -> bool:
        """whether the client reads about as fast as messages are sent"""
        return not self._behind

    async def room(self) -> None:
        """Returns when the client keeps up."""
        await self._until(lambda: self.keeps_up)

    async def flushed(self) -> None:
        """Returns when everything is written, or nothing can be written any more."""
        await self._until(lambda: self._pending == 0)

    def write(self, data: Any, /) -> int:
        data = without_lone_surrogates(cast("bytes", data))
        with self._changed:
            if not self._lost:
                self._frames += data
                self._pending += len(data)
                self._behind = self._behind or self._pending > HIGH
                self._changed.notify()
            too_much = self._pending > FATAL
        if too_much:
            self._stop()
        return len(data)

    def close(self) -> None:
        """The process closes the descriptor when it ends."""

    async def _until(self, reached: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        with self._changed:
            if reached():
                return
            waiter = (asyncio.get_running_loop(), changed)
            self._waiters.append(waiter)
        try:
            while not reached():
                await changed.wait()
                changed.clear()
        finally:
            self._waiters.remove(waiter)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._frames or self._lost)
                data, self._frames = memoryview(self._frames), bytearray()
            while data and not self._lost:
                try:
                    written = os.write(self._descriptor, data[:HIGH])
                except OSError:
                    self._stop()
                    return
                data = data[written:]
                with self._changed:
                    self._pending -= written
                    self._behind = self._behind and self._pending > LOW
                self._wake()
            if self._lost:
                return

    def _stop(self) -> None:
        with self._changed:
            first, self._lost = not self._lost, True
            self._pending, self._behind = 0, False
            self._changed.notify()
        self._wake()
        if first:
            self._on_lost()

    def _wake(self) -> None:
        for loop, changed in tuple(self._waiters):
            try:
                loop.call_soon_threadsafe(changed.set)
            except RuntimeError:  # the loop is closed: the process is ending
                return


def read_from(descriptor: int) -> Callable[[], bytes]:
    """Blocking reads from a descriptor; one that fails reads as the end of the input."""

    def read() -> bytes:
        try:
            return os.read(descriptor, _READ)
        except OSError:
            return b""

    return read


def _broken(code: str, message: str) -> bytes:
    return orjson.dumps([ERROR_CODES[code], message])
