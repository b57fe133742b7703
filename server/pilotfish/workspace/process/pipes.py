"""A pipe that a child process writes and the loop reads.

asyncio's own subprocess pipes tie "the process has ended" to "every holder has closed the pipe": a command that
leaves a child behind would never be seen to end. This pipe is apart from the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

if sys.platform == "linux":
    import fcntl

READ_SIZE = 1 << 18
PIPE_SIZE = 1 << 20
"""what the kernel is asked to hold, so that a fast writer is not stopped at every 64 KiB"""


class Pipe:
    """`writer` is given to a child and then closed here with `close_writer`; `read` gives b"" at the end."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._loop: asyncio.AbstractEventLoop | None = None
        os.set_blocking(self._reader, False)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # over the user's limit: the usual size does
                fcntl.fcntl(self._reader, fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    async def read(self) -> bytes:
        """What has arrived, waiting for something; b"" when the last writer has closed."""
        await asyncio.sleep(0)  # a writer that is always ahead must not keep the loop to itself
        while (data := self.read_now()) is None:
            self._loop = asyncio.get_running_loop()
            readable = self._loop.create_future()
            self._loop.add_reader(self._reader, _wake, readable)
            try:
                await readable
            finally:
                self._forget()
        return data

    def read_now(self) -> bytes | None:
        """What has arrived; None when nothing has, b"" at the end."""
        try:
            return os.read(self._reader, READ_SIZE) if self._reader >= 0 else b""
        except BlockingIOError:
            return None

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        if self._reader >= 0:
            self._forget()
            os.close(self._reader)
            self._reader = -1

    def _forget(self) -> None:
        if self._loop is not None and self._reader >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(self._reader)


def _wake(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)
