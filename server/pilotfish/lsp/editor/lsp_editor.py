"""The editor, as the workspace's port: open buffers, edits through them, saves, and the other language servers.

Everything asked of a client has a time limit: a client that is slow or says nothing costs a tool its answer, never a
turn. An edit goes out with the exact version it was made for; a refusal is a plain `False`, and the caller reads again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from pilotfish.errors import BadRequest
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.editor.documents import Document, Documents, position
from pilotfish.lsp.uris import path_of
from pilotfish.protocol import wire
from pilotfish.workspace.editor import Buffer, Hunk, Saved

log = logging.getLogger(__name__)

APPLY_SECONDS = 10.0
HOLD_SECONDS = 10.0
SAVE_SECONDS = 30.0  # a formatter on save may take its time
SYNC_SECONDS = 2.0

_ABILITIES = {
    "diagnostics": "diagnostics",
    "codeActions": "code_actions",
    "definition": "symbols",
    "references": "symbols",
    "symbols": "symbols",
    "rename": "symbols",
}
"""query → the ability a client must have for it"""


class LspEditor:
    """Implements `workspace.editor.Editor` over a connection."""

    def __init__(
        self, connection: Connection, documents: Documents, abilities: wire.ClientAbilities, *, can_edit: bool
    ) -> None:
        self._connection = connection
        self._documents = documents
        self._abilities = abilities
        self._can_edit = can_edit
        self._moved: dict[Path, asyncio.Event] = {}
        documents.on_change = self._note_change

    @property
    def can_edit(self) -> bool:
        return self._can_edit

    @property
    def can_save(self) -> bool:
        return self._abilities.save

    @property
    def encoding(self) -> str:
        return self._documents.encoding

    def buffer(self, path: Path) -> Buffer | None:
        document = self._documents.at(path)
        return None if document is None else _buffer(path, document)

    def buffers(self) -> Sequence[Buffer]:
        return [_buffer(document.path, document) for document in self._documents.all() if document.path is not None]

    async def hold(self, paths: Sequence[Path]) -> None:
        missing = [path for path in paths if self._documents.at(path) is None]
        if not missing or not self.can_save:
            return
        asked = wire.UrisParams(uris=tuple(path.as_uri() for path in missing))
        answer = await self._ask("pilotfish/editor/open", asked, HOLD_SECONDS)
        if not isinstance(answer, wire.OpenResult):
            return
        # `didOpen` comes before the answer; some clients are late all the same.
        opened = {path_of(document.uri) for document in answer.opened}
        for told in answer.opened:
            # That it is dirty is not noted: a save would end it, and nobody tells of saves.
            if not told.dirty and (document := self._documents.get(told.uri)) and document.version == told.version:
                document.saved_at = told.version
        for path in missing:
            if path in opened and self._documents.at(path) is None:
                await self._wait(path, self._expect(path))

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        document = self._documents.at(path)
        if not self._can_edit or document is None or document.version != version:
            return False
        edits = _edits(document, hunks)
        if edits is None:
            return False
        identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, version)
        change = types.TextDocumentEdit(identifier, edits)
        params = types.ApplyWorkspaceEditParams(types.WorkspaceEdit(document_changes=[change]))
        moved = self._expect(path)
        try:
            answer = await self._connection.request(types.WORKSPACE_APPLY_EDIT, params, APPLY_SECONDS)
        except (ClientError, TimeoutError) as error:
            log.warning("workspace/applyEdit: %s", error or "no answer in time")
            return False
        if (as_object(answer) or {}).get("applied") is not True:
            return False
        # The text is ours only once the client has told it back: some answer first, and tell a moment later.
        if edits and document.version == version:
            await self._wait(path, moved)
        return True

    async def save(self, path: Path) -> Saved:
        document = self._documents.at(path)
        if not self.can_save:
            return Saved(saved=False, reason="the editor cannot be asked to save")
        uri = document.uri if document else path.as_uri()
        answer = await self._ask("pilotfish/editor/save", wire.UrisParams(uris=(uri,)), SAVE_SECONDS)
        if not isinstance(answer, wire.SaveResult):
            return Saved(saved=False, reason="the editor did not answer")
        if answer.saved:
            return Saved(saved=True)
        return Saved(saved=False, reason=answer.failed[0].reason if answer.failed else "the editor did not save it")

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        if not getattr(self._abilities, _ABILITIES.get(method, ""), False):
            return None
        try:
            return await self._connection.request(f"pilotfish/editor/{method}", dict(params), timeout)
        except (ClientError, TimeoutError) as error:
            log.info("editor/%s: %s", method, error or "no answer in time")
            return None

    async def show_diff(self, title: str, uri: str, before: str, after: str) -> bool:
        """Show a diff; returns whether the client does."""
        if not self._abilities.diff:
            return False
        shown = wire.DiffParams(title=title, uri=uri, before=before, after=after)
        return await self._ask("pilotfish/editor/diff", shown, HOLD_SECONDS) is not None

    def _note_change(self, document: Document) -> None:
        if document.path is not None and (event := self._moved.pop(document.path, None)) is not None:
            event.set()

    async def _ask(self, method: str, params: wire.Wire, timeout: float) -> wire.Wire | None:
        """The parsed answer, or None if there is none, it is an error, or it does not fit."""
        result = wire.METHODS[method].result or wire.Empty
        try:
            return read(result, await self._connection.request(method, params, timeout) or {})
        except (ClientError, TimeoutError) as error:
            log.warning("%s: %s", method, error or "no answer in time")
        except BadRequest as error:
            log.warning("%s: the client's answer does not fit: %s", method, error)
        return None

    def _expect(self, path: Path) -> asyncio.Event:
        return self._moved.setdefault(path, asyncio.Event())

    async def _wait(self, path: Path, moved: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await moved.wait()
        except TimeoutError:
            log.warning("the client did not tell of its change to %s", path.name)
            self._moved.pop(path, None)


def _buffer(path: Path, document: Document) -> Buffer:
    saved = document.saved_at == document.version
    return Buffer(path, document.text.value, document.version, dirty=False if saved else None)


def _edits(document: Document, hunks: Sequence[Hunk]) -> list[types.TextEdit] | None:
    """Hunks as TextEdits, or None when they overlap or reach outside: clients clamp and half apply such edits."""
    text, last, edits = document.text, 0, list[types.TextEdit]()
    for hunk in sorted(hunks, key=lambda hunk: (hunk.start, hunk.end)):
        if not last <= hunk.start <= hunk.end <= len(text.value):
            return None
        last = hunk.end
        where = types.Range(position(text.place(hunk.start)), position(text.place(hunk.end)))
        edits.append(types.TextEdit(where, hunk.text))
    return edits
