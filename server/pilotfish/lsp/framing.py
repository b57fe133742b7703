"""Bytes on stdin → JSON-RPC messages. Imports nothing heavy: it is on the way to the answer to `initialize`.

Promises: any bytes at all may come. Every frame with broken JSON is reported once, bytes that are no frame are
skipped until the next header, no frame is kept in memory that is larger than `MAX_FRAME`, and garbage never grows.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` costs 4 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

MAX_FRAME = 256 * 1024 * 1024
_MAX_LINE = 64 * 1024  # a header line; more without a line end is garbage
_HEADER = b"content-length:"
_READ = 1024 * 1024
_MAX_BACK = 256 * 1024  # searching more than this again and again would cost minutes on nested rubbish
_INFINITY = float("inf")


class Broken:
    """A frame that is no JSON-RPC message: the code and words to answer with."""

    __slots__ = ("code", "words")

    def __init__(self, code: int, words: str) -> None:
        self.code = code
        self.words = words


class Feed:
    """The messages on a file descriptor, in order.

    `loads` may be replaced by a faster parser at any time; it raises ValueError for what is no JSON.
    """

    def __init__(self, descriptor: int, loads: Callable[[bytes], Any]) -> None:
        self.loads = loads
        self.descriptor = descriptor
        self._buffer = bytearray()
        self._steps = self._parsed()

    def messages(self) -> Iterator[dict[str, Any] | Broken]:
        """Blocks between messages; ends when the input does."""
        while True:
            yield from self.ready()
            if not self.read():
                return

    def ready(self) -> Iterator[dict[str, Any] | Broken]:
        """The messages that have been read."""
        for message in self._steps:
            if message is None:
                return
            yield message

    def read(self) -> bool:
        """Read once; blocks while there is nothing. False at the end of the input."""
        try:
            data = os.read(self.descriptor, _READ)
        except OSError:
            return False
        self._buffer += data
        return bool(data)

    def _parsed(self) -> Generator[dict[str, Any] | Broken | None]:
        """Messages, and None where more has to be read first."""
        while True:
            length = yield from self._header()
            if length > MAX_FRAME:
                yield from self._skip(length)
                yield Broken(-32600, "the message is too large")
                continue
            while len(self._buffer) < length:
                yield None
            body = bytes(self._buffer[:length])
            del self._buffer[:length]
            yield self._message(body)

    def _message(self, body: bytes) -> dict[str, Any] | Broken:
        try:
            message = self.loads(body)
        except (ValueError, RecursionError):
            self._put_back(body)
            return Broken(-32700, "the message is not valid JSON")
        return as_object(message) or Broken(
            -32600, "a message is one JSON object with something in it; batches are not part of LSP"
        )

    def _put_back(self, body: bytes) -> None:
        """A length that was too large has swallowed what came after it: read on from the header inside."""
        inside = body.lower().find(_HEADER) if len(body) <= _MAX_BACK else -1
        if inside >= 0:
            self._buffer[:0] = body[inside:]

    def _header(self) -> Generator[None, None, int]:
        """Skip to the end of the next header; its length."""
        length = -1
        while True:
            line = (yield from self._line()).strip()
            if not line:
                if length >= 0:
                    return length
                continue
            # From the right: a header may be glued to garbage, or to a body that was longer than it said.
            at = line.lower().rfind(_HEADER)
            if at >= 0:
                digits = line[at + len(_HEADER) :].strip()
                length = int(digits) if digits.isdigit() and len(digits) < 16 else -1

    def _line(self) -> Generator[None, None, bytes]:
        searched = 0
        while True:
            end = self._buffer.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line
            if len(self._buffer) > _MAX_LINE:
                del self._buffer[: -len(_HEADER) - 20]
            searched = len(self._buffer)
            yield None

    def _skip(self, length: int) -> Generator[None]:
        while len(self._buffer) < length:
            length -= len(self._buffer)
            self._buffer.clear()
            yield None
        del self._buffer[:length]


def scrub(value: Any) -> Any:
    """Half surrogate pairs, which JSON can escape and UTF-8 cannot say, become U+FFFD: as long, in UTF-16."""
    kind = _kind(value)
    if kind is str:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if kind is list:
        return [scrub(item) for item in value]
    if kind is dict:
        return {scrub(key): scrub(item) for key, item in value.items()}
    return value


def finite(digits: str) -> float:
    """A number as JSON writes it. One too large for a float is refused, as orjson refuses it."""
    number = float(digits)
    if number in (_INFINITY, -_INFINITY):
        raise ValueError("a number is too large")
    return number


def as_object(value: Any) -> dict[str, Any] | None:
    """A JSON object, or None for anything else."""
    kind = _kind(value)
    return value if kind is dict else None


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in a JSON array; nothing for anything else."""
    return [item for item in value if _kind(item) is dict] if _kind(value) is list else []


def as_list(value: Any) -> list[Any] | None:
    """A JSON array, empty where there is nothing, or None for anything else."""
    return [] if value is None else value if _kind(value) is list else None


def _kind(value: object) -> object:
    return type(value)


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
