"""The editor, as the workspace's port: open buffers, edits through them, saves, and the other language servers.

Everything asked of a client has a time limit: a client that is slow or says nothing costs a tool its answer, never a
turn. An edit goes out with the exact version it was made for; a refusal is a plain `False`, and the caller reads again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from lsprotocol import types

from pilotfish.errors import BadRequest
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.editor.documents import Document, Documents, position
from pilotfish.protocol import wire
from pilotfish.text.uris import path_of
from pilotfish.workspace.editor import Buffer, Hunk, Saved

log = logging.getLogger(__name__)

APPLY_SECONDS = 10.0
HOLD_SECONDS = 10.0
SAVE_SECONDS = 30.0  # a formatter on save may take its time
SYNC_SECONDS = 2.0
CONTEXT_SECONDS = 1.0  # a prompt waits for it
LABEL = "Pilotfish"
"""what an edit is called in the editor's list of undo steps or changes"""

_ABILITIES = {
    "diagnostics": "diagnostics",
    "codeActions": "code_actions",
    "definition": "symbols",
    "references": "symbols",
    "symbols": "symbols",
    "rename": "symbols",
    "terminal": "terminal",
}
"""query → the ability a client must have for it"""


class LspEditor:
    """Implements `workspace.editor.Editor` over a connection."""

    def __init__(
        self,
        connection: Connection,
        documents: Documents,
        abilities: wire.ClientAbilities,
        *,
        can_edit: bool,
        annotates: bool = False,
    ) -> None:
        self._connection = connection
        self._documents = documents
        self._abilities = abilities
        self._can_edit = can_edit
        self._annotates = annotates
        self._moved: dict[Path, asyncio.Event] = {}
        self.ask_to_write: Callable[[Sequence[Path]], Awaitable[bool]] | None = None
        """for a generic client, which cannot save: set when the engine is loaded"""
        documents.on_change.append(self._note_change)

    def for_session(self, session_id: str) -> Self:
        del session_id
        return self

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

    async def refresh(self, path: Path) -> None:
        """Nothing to do: the client reports every change of an open document."""

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
        for opened_document in answer.opened:
            # A dirty state is not stored: a save would end it, and clients do not report saves.
            document = self._documents.get(opened_document.uri)
            if document is not None:
                document.held = True
            if not opened_document.dirty and document and document.version == opened_document.version:
                document.saved_at = opened_document.version
        for path in missing:
            if path in opened and self._documents.at(path) is None:
                await self._wait(path, self._expect(path))
                if (late := self._documents.at(path)) is not None:
                    late.held = True

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        document = self._documents.at(path)
        if not self._can_edit or document is None or document.version != version:
            return False
        edits = _edits(document, hunks)
        if edits is None:
            return False
        identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, version)
        params = types.ApplyWorkspaceEditParams(self._workspace_edit(identifier, edits), label=LABEL)
        moved, place = self._expect(path), self._documents.last_place
        try:
            answer = await self._connection.request(types.WORKSPACE_APPLY_EDIT, params, APPLY_SECONDS)
        except (ClientError, TimeoutError) as error:
            log.warning("workspace/applyEdit: %s", error or "no answer in time")
            return False
        if (as_object(answer) or {}).get("applied") is not True:
            return False
        # The text is current only when the client has sent the change back; some clients answer before they do.
        if edits and document.version == version:
            await self._wait(path, moved)
        self._documents.last_place = place  # the user was not there
        return True

    def _workspace_edit(
        self, document: types.OptionalVersionedTextDocumentIdentifier, edits: Sequence[types.TextEdit]
    ) -> types.WorkspaceEdit:
        """The edit, annotated with who makes it if the client shows that."""
        if not self._annotates:
            return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, edits)])
        annotated = [types.AnnotatedTextEdit(LABEL, edit.range, edit.new_text) for edit in edits]
        return types.WorkspaceEdit(
            document_changes=[types.TextDocumentEdit(document, annotated)],
            change_annotations={LABEL: types.ChangeAnnotation(LABEL)},
        )

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

    async def allows_disk_writes(self, paths: Sequence[Path]) -> bool:
        return self.ask_to_write is not None and await self.ask_to_write(paths)

    def can_answer(self, method: str) -> bool:
        return getattr(self._abilities, _ABILITIES.get(method, ""), False)

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        if not self.can_answer(method):
            return None
        try:
            return await self._connection.request(f"pilotfish/editor/{method}", dict(params), timeout)
        except (ClientError, TimeoutError) as error:
            log.info("editor/%s: %s", method, error or "no answer in time")
            return None

    async def context(self) -> wire.EditorContext | None:
        """What the user looks at; None if the client does not say it."""
        if not self._abilities.context:
            return None
        answer = await self._ask("pilotfish/editor/context", wire.Empty(), CONTEXT_SECONDS)
        return answer if isinstance(answer, wire.EditorContext) else None

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
            log.warning("the client did not send its change to %s", path.name)
            self._moved.pop(path, None)


def _buffer(path: Path, document: Document) -> Buffer:
    saved = document.saved_at == document.version
    return Buffer(path, document.text.value, document.version, dirty=False if saved else None, held=document.held)


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
