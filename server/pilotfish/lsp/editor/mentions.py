"""Completes mentions after an `@`: files and folders, open buffers, symbols."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.protocol import wire
from pilotfish.text.mention_syntax import written
from pilotfish.workspace.search.file_index import FileIndex

SYMBOL_SECONDS = 0.4  # a popover does not wait for a slow language server
MAX_SYMBOLS = 5


class Mentions:
    """Completions over all workspace folders."""

    def __init__(self, roots: Sequence[Path], documents: Documents, editor: LspEditor) -> None:
        self._index = FileIndex(roots)
        self._documents = documents
        self._editor = editor

    async def complete(self, query: str, limit: int) -> wire.MentionResult:
        """The best matches first: open buffers, then files and folders, then symbols."""
        opened = {document.path for document in self._documents.all() if document.path is not None}
        found = await self._index.search(query, limit, opened)
        mentions = [
            wire.Mention(
                kind="folder" if mention.is_folder else "buffer" if mention.path in opened else "file",
                uri=mention.path.as_uri(),
                label=mention.name,
                insert=written(mention.name),
            )
            for mention in found
        ]
        symbols = await self._symbols(query) if query and len(mentions) < limit + MAX_SYMBOLS else ()
        room = max(0, limit - min(len(symbols), MAX_SYMBOLS))
        return wire.MentionResult(mentions=(*mentions[:room], *symbols[: limit - min(room, len(mentions))]))

    def stale(self) -> None:
        """Rebuild the list of files before the next completion."""
        self._index.stale()

    async def aclose(self) -> None:
        await self._index.aclose()

    async def _symbols(self, query: str) -> tuple[wire.Mention, ...]:
        answer = await self._editor.query("symbols", {"query": query}, SYMBOL_SECONDS)
        symbols = as_objects((as_object(answer) or {}).get("symbols"))[:MAX_SYMBOLS]
        return tuple(mention for symbol in symbols if (mention := _symbol(symbol)) is not None)


def _symbol(symbol: dict[str, Any]) -> wire.Mention | None:
    """LSP's WorkspaceSymbol or SymbolInformation."""
    location = as_object(symbol.get("location")) or {}
    try:
        return wire.Mention(
            kind="symbol",
            uri=location.get("uri", ""),
            label=symbol.get("name", ""),
            insert=symbol.get("name", ""),
            detail=symbol.get("containerName") or None,
            range=location.get("range"),
        )
    except ValidationError:
        return None
