"""`textDocument/inlineCompletion`: offered to the client only while a model is set for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types

from pilotfish.engine.completion.completer import Completer
from pilotfish.engine.completion.cursor import Cursor
from pilotfish.engine.context import EngineContext
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.editor.documents import Document, Documents
from pilotfish.protocol import present, wire
from pilotfish.text.positions import Text, TextPosition

ASK_SECONDS = 5.0
REGISTRATION = "pilotfish-inline-completion"
MAX_PLACES = 8
AROUND = 4  # lines shown before and after a place that was changed


class InlineCompletions:
    """The inline completions of one connection."""

    def __init__(self, connection: Connection, client: Client, documents: Documents, engine: EngineContext) -> None:
        self._connection = connection
        self._client = client
        self._documents = documents
        self._completer = Completer(engine, self._report)
        self._places: dict[tuple[str, int], None] = {}
        """(uri, line) of the last changes, the newest last"""
        self._registered = False
        self._lock = asyncio.Lock()

    async def settings_changed(self) -> None:
        """Register the feature with the client or take it back, as the setting says."""
        async with self._lock:
            wanted = bool(self._completer.model)
            self._listen(wanted)
            if wanted == self._registered or not self._client.registers_completion:
                return
            self._registered = wanted
            method = types.TEXT_DOCUMENT_INLINE_COMPLETION
            with contextlib.suppress(ClientError, TimeoutError):
                if wanted:
                    added = types.RegistrationParams([types.Registration(REGISTRATION, method, {})])
                    await self._connection.request(types.CLIENT_REGISTER_CAPABILITY, added, ASK_SECONDS)
                else:
                    removed = types.UnregistrationParams([types.Unregistration(REGISTRATION, method)])
                    await self._connection.request(types.CLIENT_UNREGISTER_CAPABILITY, removed, ASK_SECONDS)

    async def complete(self, params: types.InlineCompletionParams) -> types.InlineCompletionList | None:
        """The completion at a position, if there is one."""
        document = self._documents.get(params.text_document.uri)
        if document is None or (document.path is None and not document.uri.startswith("untitled:")):
            return None
        place = TextPosition(params.position.line, params.position.character)
        chosen = params.context.selected_completion_info
        text, range_, selected = document.text, types.Range(params.position, params.position), ""
        if chosen is not None:  # the user is shown another completion: go on as if it were accepted
            range_, selected = chosen.range, chosen.text
            start, end = (text.offset(TextPosition(at.line, at.character)) for at in (range_.start, range_.end))
            text = Text(text.value[:start] + selected + text.value[end:], text.encoding)
            offset = start + len(selected)
        else:
            offset = text.offset(place)
        cursor = Cursor(document.uri, document.path, document.language, text.value, offset)
        at_once = params.context.trigger_kind == types.InlineCompletionTriggerKind.Invoked
        found = await self._completer.complete(cursor, lambda: self._recent(document, place.line), at_once=at_once)
        if not found:
            return None
        return types.InlineCompletionList([types.InlineCompletionItem(selected + found, range=range_)])

    def status(self) -> wire.CompletionStatus | None:
        """What was used, if anything or if completion is on."""
        completer = self._completer
        if not completer.model and not completer.usage.requests:
            return None
        return wire.CompletionStatus(model=completer.model, usage=present.same(wire.Usage, completer.usage))

    def _listen(self, wanted: bool) -> None:
        if wanted and self._changed not in self._documents.on_change:
            self._documents.on_change.append(self._changed)
        elif not wanted and self._changed in self._documents.on_change:
            self._documents.on_change.remove(self._changed)
            self._places.clear()

    def _changed(self, document: Document) -> None:
        place = self._documents.last_place
        if document.path is None or place is None or place.uri != document.uri:
            return
        line = place.start.line
        for known in [one for one in self._places if one[0] == document.uri and abs(one[1] - line) <= AROUND]:
            del self._places[known]
        self._places[document.uri, line] = None
        while len(self._places) > MAX_PLACES:
            del self._places[next(iter(self._places))]

    def _recent(self, current: Document, line: int) -> Sequence[tuple[Path, str]]:
        """The last changes elsewhere, the newest first, as they are now."""
        found: list[tuple[Path, str]] = []
        for uri, changed in reversed(self._places):
            document = self._documents.get(uri)
            if document is None or document.path is None or (document is current and abs(changed - line) < 100):
                continue
            rows = range(max(0, changed - AROUND), min(changed + AROUND + 1, len(document.text.starts)))
            found.append((document.path, "\n".join(document.text.line(row) for row in rows)))
        return found

    def _report(self, message: str) -> None:
        self._connection.message(types.MessageType.Warning, f"Pilotfish: {message}")
