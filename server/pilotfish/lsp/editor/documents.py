"""The documents a client has open: texts, versions, and positions in the encoding that was agreed.

A line ends at `\\n`, `\\r\\n` or `\\r` and nowhere else, as LSP says; Python's `splitlines` disagrees.
Offsets are code points of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from lsprotocol import types
from pygls.workspace import Workspace

from pilotfish.lsp.uris import path_of

_LINE_END = re.compile("\r\n|\r|\n")
_WIDTH = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_UNIT = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@dataclass(frozen=True, slots=True)
class TextPosition:
    """A position: line and character count from zero, characters in the client's units."""

    line: int
    character: int


class Text:
    """A text with an index of its lines."""

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

    def offset(self, place: TextPosition) -> int:
        """The offset of a position. A position after the end of a line or of the text is clamped to that end."""
        if place.line >= len(self.starts):
            return len(self.value)
        line = self.line(place.line)
        if line.isascii() or self.encoding == "utf-32":
            column = min(place.character, len(line))
        else:
            units = line.encode(_WIDTH[self.encoding], "surrogatepass")[: place.character * _UNIT[self.encoding]]
            column = len(units.decode(_WIDTH[self.encoding], "ignore"))
        return self.starts[place.line] + column

    def place(self, offset: int) -> TextPosition:
        """The position of an offset."""
        row = bisect_right(self.starts, offset) - 1
        start = self.starts[row]
        return TextPosition(row, self.units(self.value[start:offset]))

    def line(self, row: int) -> str:
        """A line without its end."""
        start = self.starts[row]
        end = self.starts[row + 1] if row + 1 < len(self.starts) else len(self.value)
        return self.value[start:end].rstrip("\r\n")

    def units(self, text: str) -> int:
        """The length of a text in the client's units."""
        if text.isascii() or self.encoding == "utf-32":
            return len(text)
        return len(text.encode(_WIDTH[self.encoding], "surrogatepass")) // _UNIT[self.encoding]

    def slice(self, start: TextPosition, end: TextPosition) -> str:
        return self.value[self.offset(start) : self.offset(end)]


@dataclass(slots=True)
class Document:
    """An open document."""

    uri: str
    path: Path | None
    """the real path, links followed; None for what is no file (untitled, output, git …)"""
    text: Text
    version: int
    language: str
    saved_at: int | None = None
    """the version that the editor reported as saved"""


class Documents(Workspace):
    """Every open document, in place of pygls' `Workspace`. Changes of a document that is not open are ignored.

    Why not pygls' own: it ends lines where LSP does not (at a form feed, at U+2028), which loses the editor's text,
    and it moves a position after the last line's end one character back.
    """

    def __init__(self, encoding: str) -> None:
        super().__init__(None, position_encoding=encoding)
        self.encoding = encoding
        self.on_change: Callable[[Document], None] = lambda _: None
        """called with every document that was opened, changed or closed"""
        self._open: dict[str, Document] = {}
        self._by_path: dict[Path, Document] = {}

    def get(self, uri: str) -> Document | None:
        return self._open.get(uri) or self._by_path.get(path_of(uri) or Path())

    def at(self, path: Path) -> Document | None:
        return self._by_path.get(path)

    def all(self) -> Sequence[Document]:
        return tuple(self._open.values())

    def put_text_document(self, text_document: types.TextDocumentItem, notebook_uri: str | None = None) -> None:
        """`textDocument/didOpen`"""
        del notebook_uri  # a notebook cell is a document like any other
        names = _names(text_document.uri)
        document = Document(
            uri=text_document.uri,
            path=next(iter(names), None),
            text=Text(text_document.text, self.encoding),
            version=text_document.version,
            language=str(text_document.language_id),
        )
        self._open[document.uri] = document
        for path in names:
            self._by_path[path] = document
        self.on_change(document)

    def update_text_document(
        self, text_doc: types.VersionedTextDocumentIdentifier, change: types.TextDocumentContentChangeEvent
    ) -> None:
        """`textDocument/didChange`, called for one change after the other"""
        document = self._open.get(text_doc.uri)
        if document is None:
            return
        now, start, end = document.text, 0, len(document.text.value)
        if isinstance(change, types.TextDocumentContentChangePartial):
            start, end = (
                now.offset(TextPosition(at.line, at.character)) for at in (change.range.start, change.range.end)
            )
        value = now.value[:start] + change.text + now.value[max(start, end) :]
        document.text = Text(value, self.encoding)
        document.version = text_doc.version
        self.on_change(document)

    def remove_text_document(self, doc_uri: str) -> None:
        """`textDocument/didClose`"""
        document = self._open.pop(doc_uri, None)
        if document is None:
            return
        for path in _names(document.uri):
            if self._by_path.get(path) is document:
                del self._by_path[path]
        self.on_change(document)


def position(place: TextPosition) -> types.Position:
    return types.Position(place.line, place.character)


def _names(uri: str) -> tuple[Path, ...]:
    """The real path of a document, and the path it was opened by if that is a link."""
    path = path_of(uri)
    if path is None:
        return ()
    try:
        real = path.resolve()
    except (OSError, RuntimeError):
        real = path
    return (real,) if real == path else (real, path)
