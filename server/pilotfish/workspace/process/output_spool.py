"""Stores the output of a command on disk: all of it up to a size, then only its beginning and end."""

from __future__ import annotations

import re
import tempfile

HEAD_BYTES = 4 << 20
TAIL_BYTES = 4 << 20
"""What is kept of one command's output: its first and its last bytes."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_X][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"  # CSI, OSC and strings, the rest
)
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f\udc80-\udcff]")
_READABLE = dict.fromkeys((*range(9), *range(11, 32), 127)) | {0xDC80 + low: 0x80 + low for low in range(128)}
"""Control characters away; bytes that are not UTF-8 read as Latin-1: nothing is lost, old programs stay readable."""


def plain_text(data: bytes) -> str:
    """Output as a reader of a terminal would see it: decoded, without colours, overwritten lines gone. Linear."""
    text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text or "\x08" in text:
        text = "\n".join(map(_as_shown, text.split("\n")))
    return _readable(text)


def live_text(text: str) -> str:
    """A piece of output that was decoded with `surrogateescape`, without what is not for reading."""
    return _readable(_ESCAPES.sub("", text) if "\x1b" in text else text)


def decoded(data: bytes) -> str:
    """Text that should be UTF-8, as well as it can be read."""
    return _readable(data.decode("utf-8", "surrogateescape"))


def _readable(text: str) -> str:
    return text.translate(_READABLE) if _ODD.search(text) else text


def _as_shown(line: str) -> str:
    """A line as it stands in the end, after carriage returns and backspaces."""
    if "\r" in line:
        line = line.rstrip("\r").rpartition("\r")[2]
    if "\x08" not in line:
        return line
    shown: list[str] = []
    for char in line:
        if char != "\x08":
            shown.append(char)
        elif shown:
            shown.pop()
    return "".join(shown)


class Spool:
    """Bytes in the order they came, on disk. `size` counts all that came, kept or not."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head = head
        self._tail = tail
        self._file = tempfile.TemporaryFile(prefix="pilotfish-output-")  # noqa: SIM115 - lives as long as the spool
        self.size = 0

    def write(self, data: bytes) -> None:
        while data:
            place, room = self._place(self.size)
            part = data[:room]
            self._file.seek(place)
            self._file.write(part)
            self.size += len(part)
            data = data[room:]

    def read(self, start: int = 0) -> tuple[bytes, int]:
        """What is kept from `start` on, and how many bytes between were let go (marked where they were)."""
        lost_from, lost_to = self._head, max(self._head, self.size - self._tail)
        first = self._span(start, min(self.size, lost_from))
        last = self._span(max(start, lost_to), self.size)
        lost = max(0, lost_to - max(start, lost_from))
        if lost:
            first += f"\n[… {lost:,} bytes were not kept …]\n".encode()
        return first + last, lost

    def close(self) -> None:
        self._file.close()

    def _span(self, start: int, stop: int) -> bytes:
        pieces: list[bytes] = []
        while start < stop:
            place, room = self._place(start)
            self._file.seek(place)
            piece = self._file.read(min(room, stop - start))
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def _place(self, index: int) -> tuple[int, int]:
        """Where byte `index` is in the file, and how many follow it there: the tail is a ring after the head."""
        if index < self._head:
            return index, self._head - index
        place = (index - self._head) % self._tail
        return self._head + place, self._tail - place
