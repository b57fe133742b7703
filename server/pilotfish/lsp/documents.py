"""The documents a client has open, mirrored: texts, versions, and positions in the encoding that was agreed.

A line ends at `\\n`, `\\r\\n` or `\\r` and nowhere else, as LSP says; Python's `splitlines` disagrees.
Offsets are code points of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pilotfish.errors import BadRequest
from pilotfish.lsp.framing import as_object, as_objects

_LINE_END = re.compile("\r\n|\r|\n")
_WIDTH = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_UNIT = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@dataclass(frozen=True, slots=True)
class Place:
    """A position: line and character count from zero, characters in the client's units."""

    line: int
    character: int


class Text:
    """A text that knows its lines."""

    __slots__ = ("_starts", "encoding", "value")

    def __init__(self, value: str, encoding: str) -> None:
        self.value = value
        self.encoding = encoding
        self._starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        """the offset at which each line starts"""
        if self._starts is None:
            if "\r" in self.value:
                self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.value))]
            else:
                lengths = accumulate(len(line) + 1 for line in self.value.split("\n"))
                self._starts = [0, *lengths]
                self._starts.pop()
        return self._starts

    def offset(self, place: Place) -> int:
        """Where a place is. Behind the end of a line is its end, behind the last line the end of the text."""
        if place.line >= len(self.starts):
            return len(self.value)
        line = self.line(place.line)
        if line.isascii() or self.encoding == "utf-32":
            column = min(place.character, len(line))
        else:
            units = line.encode(_WIDTH[self.encoding], "surrogatepass")[: place.character * _UNIT[self.encoding]]
            column = len(units.decode(_WIDTH[self.encoding], "ignore"))
        return self.starts[place.line] + column

    def place(self, offset: int) -> Place:
        """The place of an offset."""
        row = bisect_right(self.starts, offset) - 1
        start = self.starts[row]
        return Place(row, self.units(self.value[start:offset]))

    def line(self, row: int) -> str:
        """A line without its end."""
        start = self.starts[row]
        end = self.starts[row + 1] if row + 1 < len(self.starts) else len(self.value)
        return self.value[start:end].rstrip("\r\n")

    def units(self, text: str) -> int:
        """How many of the client's units a text is long."""
        if text.isascii() or self.encoding == "utf-32":
            return len(text)
        return len(text.encode(_WIDTH[self.encoding], "surrogatepass")) // _UNIT[self.encoding]

    def slice(self, start: Place, end: Place) -> str:
        return self.value[self.offset(start) : self.offset(end)]


@dataclass(slots=True)
class Document:
    """An open document as it is now."""

    uri: str
    path: Path | None
    """the real path, links followed; None for what is no file (untitled, output, git …)"""
    text: Text
    version: int
    language: str
    saved_at: int | None = None
    """a version of which the editor itself said that it is on disk"""


class Documents:
    """Every open document. Tolerates what editors do: changes after a close, any first version, unknown documents."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._open: dict[str, Document] = {}
        self._by_path: dict[Path, Document] = {}

    def get(self, uri: str) -> Document | None:
        return self._open.get(uri) or self._by_path.get(path_of(uri) or Path())

    def at(self, path: Path) -> Document | None:
        return self._by_path.get(path)

    def all(self) -> Sequence[Document]:
        return tuple(self._open.values())

    def opened(self, params: Any) -> Document:
        """`textDocument/didOpen`"""
        item = _object(params, "textDocument")
        uri, text, version = item.get("uri"), item.get("text"), item.get("version")
        if not isinstance(uri, str) or not isinstance(text, str):
            raise BadRequest("textDocument needs uri and text", field="textDocument")
        document = Document(
            uri=uri,
            path=next(iter(_names(uri)), None),
            text=Text(text, self.encoding),
            version=version if isinstance(version, int) else 0,
            language=str(item.get("languageId", "")),
        )
        self._open[uri] = document
        for path in _names(uri):
            self._by_path[path] = document
        return document

    def changed(self, params: Any) -> Document | None:
        """`textDocument/didChange`; None: that document is not open"""
        item = _object(params, "textDocument")
        document = self._open.get(str(item.get("uri")))
        changes = params.get("contentChanges")
        if document is None:
            return None
        # All or nothing: a message half understood would leave a text that nobody has.
        now = document.text
        for change in as_objects(changes):
            text = change.get("text")
            if not isinstance(text, str):
                raise BadRequest("a change needs a text", field="contentChanges")
            span = as_object(change.get("range"))
            if span is None:
                now = Text(text, self.encoding)
                continue
            start, end = now.offset(place_of(span.get("start"))), now.offset(place_of(span.get("end")))
            now = Text(now.value[:start] + text + now.value[max(start, end) :], self.encoding)
        document.text = now
        version = item.get("version")
        document.version = version if isinstance(version, int) else document.version + 1
        return document

    def closed(self, params: Any) -> Document | None:
        """`textDocument/didClose`"""
        document = self._open.pop(str(_object(params, "textDocument").get("uri")), None)
        if document is not None:
            for path in _names(document.uri):
                if self._by_path.get(path) is document:
                    del self._by_path[path]
        return document


def place_of(value: Any) -> Place:
    """A Position of LSP."""
    position = as_object(value) or {}
    line, character = position.get("line"), position.get("character")
    if isinstance(line, int) and isinstance(character, int) and line >= 0 and character >= 0:
        return Place(line, character)
    raise BadRequest("a position has a line and a character", field="position")


def json_of(place: Place) -> dict[str, int]:
    return {"line": place.line, "character": place.character}


def path_of(uri: str) -> Path | None:
    """The path a `file:` URI names, or None for anything else."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    # Windows: `/c:/x` names a drive, in whatever case the editor writes it.
    if re.match(r"^/[A-Za-z]:", path):
        path = path[1].upper() + path[2:]
    return Path(path) if path and "\0" not in path else None


def _names(uri: str) -> tuple[Path, ...]:
    """The real path of a document, and the one it was opened by, where a link lies between."""
    path = path_of(uri)
    if path is None:
        return ()
    try:
        real = path.resolve()
    except (OSError, RuntimeError):
        real = path
    return (real,) if real == path else (real, path)


def _object(params: Any, field: str) -> dict[str, Any]:
    value = as_object((as_object(params) or {}).get(field))
    if value is None:
        raise BadRequest(f"{field} is missing", field=field)
    return value
