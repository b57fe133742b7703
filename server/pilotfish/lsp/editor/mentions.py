"""Completes mentions after an `@`: files, folders, open buffers, symbols, what the editor and git know, resources,
other sessions and web pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pilotfish.engine.frontend import Session
from pilotfish.engine.mcp.offers import OfferedResource
from pilotfish.engine.prompting.special_mentions import BRANCH, CHANGES, PROBLEMS, SPECIAL, TERMINAL
from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.protocol import wire
from pilotfish.text.mention_syntax import is_url, written
from pilotfish.workspace.git.repository import may_be_repository
from pilotfish.workspace.search.file_index import FileIndex

SYMBOL_SECONDS = 0.4  # a popover does not wait for a slow language server
MAX_SYMBOLS = 5
MAX_RESOURCES = 10
MAX_MENTIONED_SESSIONS = 8
SESSION = "session"


class Mentions:
    """Completions over all workspace folders."""

    def __init__(self, roots: Sequence[Path], documents: Documents, editor: LspEditor) -> None:
        self._index = FileIndex(roots)
        self._roots = roots
        self._documents = documents
        self._editor = editor

    async def complete(
        self,
        query: str,
        limit: int,
        resources: Sequence[OfferedResource] = (),
        sessions: Sequence[Session] = (),
    ) -> wire.MentionResult:
        """The best matches first: special mentions that begin with the query, open buffers, files and folders, symbols
        and resources of MCP servers. Without a query special mentions come last."""
        if is_url(query):
            return wire.MentionResult(mentions=(_page(query),))
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
        symbols = (*symbols, *_resources(query, resources))
        room = max(0, limit - min(len(symbols), MAX_SYMBOLS))
        listed = (*mentions[:room], *symbols[: limit - min(room, len(mentions))])
        special = (*self._special(query), *_sessions(query, sessions))
        return wire.MentionResult(mentions=((*special, *listed) if query else (*listed, *special))[:limit])

    def _special(self, query: str) -> tuple[wire.Mention, ...]:
        """The special mentions that there is something for."""
        names = [PROBLEMS] if self._editor.can_answer("diagnostics") else []
        names += [TERMINAL] if self._editor.can_answer("terminal") else []
        if any(map(may_be_repository, self._roots[:1])):
            names += [CHANGES, BRANCH]
        return tuple(
            wire.Mention(kind="context", uri="", label=name, insert=name, detail=SPECIAL[name])
            for name in names
            if name.startswith(query.lower())
        )

    def stale(self) -> None:
        """Rebuild the list of files before the next completion."""
        self._index.stale()

    async def aclose(self) -> None:
        await self._index.aclose()

    async def _symbols(self, query: str) -> tuple[wire.Mention, ...]:
        answer = await self._editor.query("symbols", {"query": query}, SYMBOL_SECONDS)
        symbols = as_objects((as_object(answer) or {}).get("symbols"))[:MAX_SYMBOLS]
        return tuple(mention for symbol in symbols if (mention := _symbol(symbol)) is not None)


def wants_sessions(query: str) -> bool:
    """Whether other sessions are completed: `@session`, and `@session:words of the title`."""
    return bool(query) and SESSION.startswith(query.casefold().partition(":")[0])


def _sessions(query: str, sessions: Sequence[Session]) -> tuple[wire.Mention, ...]:
    wanted = query.casefold().partition(":")[2]
    return tuple(
        wire.Mention(
            kind="session", uri="", label=session.title or session.id, insert=session.id, detail="another session"
        )
        for session in sessions
        if wanted in session.title.casefold()
    )[:MAX_MENTIONED_SESSIONS]


def _page(url: str) -> wire.Mention:
    return wire.Mention(kind="url", uri=url, label=url, insert=url, detail="the text of this page")


def _resources(query: str, resources: Sequence[OfferedResource]) -> list[wire.Mention]:
    wanted = query.casefold()
    return [
        wire.Mention(
            kind="resource",
            uri=resource.uri,
            label=resource.name,
            insert=written(resource.mention),
            detail=resource.description or resource.server,
        )
        for resource in resources
        if wanted in f"{resource.mention} {resource.name}".casefold()
    ][:MAX_RESOURCES]


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
