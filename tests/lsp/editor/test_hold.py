"""What the editor says of a document that it was asked to hold: saved, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from lsprotocol import types

from pilotfish.lsp.connection.protocol import Connection
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.protocol import wire
from pilotfish.workspace.clock import Clock
from pilotfish.workspace.files.view import Views


class Holding:
    """A client that opens what it is asked to hold, with this text."""

    def __init__(self, documents: Documents, text: str, *, dirty: bool) -> None:
        self._documents = documents
        self._text = text
        self._dirty = dirty

    async def request(self, method: str, params: wire.UrisParams, timeout: float) -> Any:
        del timeout
        assert method == "pilotfish/editor/open"
        for uri in params.uris:
            self._documents.put_text_document(types.TextDocumentItem(uri, "", 4, self._text))
        return {"opened": [{"uri": uri, "version": 4, "dirty": self._dirty} for uri in params.uris], "failed": []}


async def held(path: Path, text: str, *, dirty: bool) -> tuple[LspEditor, Documents]:
    documents = Documents("utf-16")
    connection = cast("Connection", Holding(documents, text, dirty=dirty))
    editor = LspEditor(connection, documents, wire.ClientAbilities(save=True), can_edit=True)
    await editor.hold([path])
    return editor, documents


def state(editor: LspEditor, path: Path) -> bool | None:
    buffer = editor.buffer(path)
    assert buffer is not None
    assert buffer == editor.buffers()[0]
    return buffer.dirty


@pytest.mark.parametrize(("dirty", "told"), [(False, False), (True, None)])
async def test_a_held_document_is_known_to_be_saved_when_the_editor_says_so(
    tmp_path: Path, dirty: bool, told: bool | None
) -> None:
    editor, _ = await held(tmp_path / "a.txt", "one\n", dirty=dirty)
    assert state(editor, tmp_path / "a.txt") is told


async def test_that_is_forgotten_with_the_next_change_and_when_it_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    editor, documents = await held(path, "one\n", dirty=False)
    named = types.VersionedTextDocumentIdentifier(5, path.as_uri())
    documents.update_text_document(named, types.TextDocumentContentChangeWholeDocument("typed\n"))
    assert state(editor, path) is None
    documents.remove_text_document(named.uri)
    documents.put_text_document(types.TextDocumentItem(named.uri, "", 4, "restored, unsaved\n"))
    assert state(editor, path) is None


async def test_a_saved_document_that_was_never_seen_to_agree_does_not_hide_what_a_program_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a program wrote this\n")
    editor, _ = await held(path, "as the editor loaded it\n", dirty=False)
    view = await Views(editor, Clock()).look(path)
    assert view is not None
    assert (view.text, view.dirty) == ("a program wrote this\n", False)


async def test_a_document_that_was_asked_for_is_not_one_that_the_user_opened(tmp_path: Path) -> None:
    editor, documents = await held(tmp_path / "a.txt", "one\n", dirty=False)
    documents.put_text_document(types.TextDocumentItem((tmp_path / "b.txt").as_uri(), "", 1, "two\n"))
    assert [buffer.held for buffer in editor.buffers()] == [True, False]
