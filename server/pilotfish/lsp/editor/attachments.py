"""Attaches the text of documents that are not files: untitled documents, notebook cells, views of plugins.

The engine reads files itself, preferring the open buffer. It cannot read a document that only the editor has.
"""

from __future__ import annotations

from pilotfish.lsp.editor.documents import Document, Documents
from pilotfish.protocol import wire
from pilotfish.text.positions import TextPosition


def with_text(block: wire.ContentBlock, documents: Documents) -> wire.ContentBlock:
    """The block, with its text if it is an open document that is not a file."""
    if not isinstance(block, wire.ResourceBlock) or block.text is not None:
        return block
    return resource(block.uri, block.range, documents.get(block.uri))


def resource(uri: str, where: wire.Range | None, document: Document | None) -> wire.ResourceBlock:
    """A document or a selection of it, with its text if it is not a file."""
    text = None
    if document is not None and document.path is None:
        text = document.text.value if where is None else selected(where, document)
    return wire.ResourceBlock(uri=uri, range=where, text=text)


def wider(where: wire.Range, lines: int, document: Document | None) -> wire.Range:
    """The range with this many lines above and below it, clamped to the document."""
    end = TextPosition(where.end.line + lines + 1, 0)
    if document is not None:
        end = document.text.place(document.text.offset(end))
    return wire.Range(
        start=wire.Position(line=max(0, where.start.line - lines), character=0),
        end=wire.Position(line=end.line, character=end.character),
    )


def selected(where: wire.Range, document: Document) -> str:
    """The text of a range."""
    start, end = (TextPosition(place.line, place.character) for place in (where.start, where.end))
    return document.text.slice(start, end)
