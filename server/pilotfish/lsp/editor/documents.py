"""The documents a client has open: texts and versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.workspace import Workspace

from pilotfish.text.positions import Text, TextPosition
from pilotfish.text.uris import path_of


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
    held: bool = False
    """whether it is open only because the server asked for it"""


@dataclass(frozen=True, slots=True)
class LastPlace:
    """Where the user has worked last: the range of an edit, a code action or a hover."""

    uri: str
    start: TextPosition
    end: TextPosition


class Documents(Workspace):
    """Every open document, in place of pygls' `Workspace`. Changes of a document that is not open are ignored.

    Why not pygls' own: it ends lines where LSP does not (at a form feed, at U+2028), which loses the editor's text,
    and it moves a position after the last line's end one character back.
    """

    def __init__(self, encoding: str) -> None:
        super().__init__(None, position_encoding=encoding)
        self.encoding = encoding
        self.on_change: list[Callable[[Document], None]] = []
        """each is called with every document that was opened, changed or closed"""
        self.last_place: LastPlace | None = None
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
        self._changed(document)

    def update_text_document(
        self, text_doc: types.VersionedTextDocumentIdentifier, change: types.TextDocumentContentChangeEvent
    ) -> None:
        """`textDocument/didChange`, called for one change after the other"""
        document = self._open.get(text_doc.uri)
        if document is None:
            return
        now, start, end = document.text, 0, len(document.text.value)
        if isinstance(change, types.TextDocumentContentChangePartial):
            begin = TextPosition(change.range.start.line, change.range.start.character)
            self.last_place = LastPlace(text_doc.uri, begin, begin)
            start, end = (
                now.offset(TextPosition(at.line, at.character)) for at in (change.range.start, change.range.end)
            )
        value = now.value[:start] + change.text + now.value[max(start, end) :]
        document.text = Text(value, self.encoding)
        document.version = text_doc.version
        self._changed(document)

    def remove_text_document(self, doc_uri: str) -> None:
        """`textDocument/didClose`"""
        document = self._open.pop(doc_uri, None)
        if document is None:
            return
        for path in _names(document.uri):
            if self._by_path.get(path) is document:
                del self._by_path[path]
        self._changed(document)

    def _changed(self, document: Document) -> None:
        for listener in self.on_change:
            listener(document)


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
