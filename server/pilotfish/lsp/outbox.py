"""What waits to be written to the client. Sending never blocks, and a client that does not read stops nobody.

Frames leave in the order of `send`. Whoever makes much asks `keeps_up`, or waits for `room`: numbered updates are never
joined here (law 1), text is joined before it is numbered, in the engine's journal.

A pipe or socket of our own is written without blocking from the event loop; anything else (a terminal, a file that
stderr shares, Windows) from a thread, because there O_NONBLOCK would change a description that others use.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections import deque
from collections.abc import Callable

from pilotfish.lsp.framing import frame

HIGH = 256 * 1024
"""bytes waiting, above which the client does not keep up"""
LOW = 64 * 1024
"""bytes waiting, below which it does again"""
FATAL = 512 * 1024 * 1024
"""bytes waiting, above which nobody will ever read them"""


class Outbox:
    """Frames on their way to a file descriptor. Belongs to one event loop."""

    def __init__(self, descriptor: int, on_gone: Callable[[], None]) -> None:
        """`on_gone` is called once, on the loop, when nothing can be written any more."""
        self._loop = asyncio.get_running_loop()
        self._on_gone = on_gone
        self._gone = False
        self._free = asyncio.Event()
        self._free.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._sink = (_Direct if _is_our_own(descriptor) else _Threaded)(descriptor, self._loop, self._written)

    @property
    def keeps_up(self) -> bool:
        """whether the client reads about as fast as it is told things"""
        return self._free.is_set()

    async def room(self) -> None:
        """Returns when the client keeps up."""
        await self._free.wait()

    def send(self, body: bytes) -> None:
        """Frame a message and send it; never blocks."""
        if self._gone:
            return
        waiting = self._sink.put(frame(body))
        self._empty.clear()
        if waiting > HIGH:
            self._free.clear()
            if waiting > FATAL:
                self._written(None)

    def send_now(self, body: bytes) -> None:
        """Likewise, with all that was sent before, and not only when this turn of the loop ends: with many turns
        running that is a while, and somebody waits for this one."""
        self.send(body)
        if not self._gone:
            self._sink.push()

    async def flushed(self) -> None:
        """Returns when everything is written, or nothing more can be."""
        await self._empty.wait()

    def _written(self, waiting: int | None) -> None:
        """Bytes left after a write; None: the client is gone."""
        if waiting is None:
            if not self._gone:
                self._gone = True
                self._free.set()
                self._empty.set()
                self._on_gone()
            return
        if waiting < LOW:
            self._free.set()
        if not waiting:
            self._empty.set()


Written = Callable[[int | None], None]


class _Direct:
    """Written from the loop, as far as the pipe takes it; the rest when it takes more."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop, written: Written) -> None:
        self.waiting = 0
        self._descriptor = descriptor
        self._loop = loop
        self._written = written
        self._frames: deque[bytes | memoryview] = deque()
        self._scheduled = False
        self._armed = False
        os.set_blocking(descriptor, False)

    def put(self, frame: bytes) -> int:
        if not self._scheduled and not self._armed:
            # A frame that comes alone leaves at once. What follows it in this turn of the loop is written together.
            self._scheduled = True
            self._loop.call_soon(self._flush)
            written = self._try(frame)
        else:
            written = 0
        if written < len(frame):
            self._frames.append(memoryview(frame)[written:] if written else frame)
            self.waiting += len(frame) - written
        return self.waiting

    def push(self) -> None:
        if not self._armed:
            self._flush()

    def _try(self, frame: bytes) -> int:
        """How much of it could be written. Whoever sends does not hear that the client is gone: `_flush` will."""
        try:
            return os.write(self._descriptor, frame)
        except OSError:
            return 0

    def _flush(self) -> None:
        self._scheduled = False
        while self._frames:
            data = self._joined()
            try:
                count = os.write(self._descriptor, data)
            except BlockingIOError:
                count = 0
            except OSError:
                self._frames.clear()
                self.waiting = 0
                self._disarm()
                self._written(None)
                return
            self.waiting -= count
            if count < len(data):
                self._frames.appendleft(memoryview(data)[count:])  # no copy: a frame may be a hundred megabytes
                break
        if not self._frames:
            self._disarm()
        elif not self._armed:
            self._loop.add_writer(self._descriptor, self._flush)
            self._armed = True
        self._written(self.waiting)

    def _joined(self) -> bytes | memoryview:
        """Enough frames for one write; joining all of a long queue for each write would be quadratic."""
        first = self._frames.popleft()
        if not self._frames or len(first) >= HIGH:
            return first
        size, parts = len(first), [first]
        while self._frames and size < HIGH:
            parts.append(self._frames.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    def _disarm(self) -> None:
        if self._armed:
            self._loop.remove_writer(self._descriptor)
            self._armed = False


class _Threaded:
    """Written by a thread of its own, which may block."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop, written: Written) -> None:
        self.waiting = 0
        self._descriptor = descriptor
        self._loop = loop
        self._written = written
        self._frames: deque[bytes] = deque()
        self._more = threading.Condition()
        threading.Thread(target=self._run, name="outbox", daemon=True).start()

    def put(self, frame: bytes) -> int:
        with self._more:
            self._frames.append(frame)
            self.waiting += len(frame)
            self._more.notify()
            return self.waiting

    def push(self) -> None:
        """The thread is at it already."""

    def _run(self) -> None:
        while True:
            with self._more:
                while not self._frames:
                    self._more.wait()
                data = b"".join(self._frames)
                self._frames.clear()
            left: int | None
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view) :]
                with self._more:
                    self.waiting -= len(data)
                    left = self.waiting
            except OSError:
                left = None
            try:
                self._loop.call_soon_threadsafe(self._written, left)
            except RuntimeError:  # the loop is closed: the process is ending
                return
            if left is None:
                return


def _is_our_own(descriptor: int) -> bool:
    if os.name != "posix":
        return False
    ours, errors = os.fstat(descriptor), os.fstat(2)
    shared = (ours.st_dev, ours.st_ino) == (errors.st_dev, errors.st_ino)
    return not shared and (stat.S_ISFIFO(ours.st_mode) or stat.S_ISSOCK(ours.st_mode))
