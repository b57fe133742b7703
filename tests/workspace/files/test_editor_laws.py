"""The laws of edits through an editor: one that reports its changes (LSP), and one that is asked (ACP)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.clock import FakeClock
from tests.support.editor import Doc, FakeEditor

import acp
from acp import schema
from pilotfish.acp.editor import AcpEditor
from pilotfish.errors import StaleEdit
from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.edits import writer
from pilotfish.workspace.edits.drafts import Edit
from pilotfish.workspace.edits.matching import Replacement
from pilotfish.workspace.workspace import Workspace

LINES = "".join(f"line {number}\n" for number in range(1, 11))
OFFERED = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)


class Client:
    """An ACP client over the documents of an editor. Like Zed it has lines that end in `\\n` only, and may save."""

    def __init__(self, editor: FakeEditor, *, saves: bool) -> None:
        self.editor = editor
        self.saves = saves

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> schema.ReadTextFileResponse:
        assert session_id == "ses"
        await asyncio.sleep(0)
        return schema.ReadTextFileResponse(content=self._document(Path(path)).text.replace("\r\n", "\n"))

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        assert session_id == "ses"
        await asyncio.sleep(0)
        document = self._document(Path(path))
        self.editor.docs[Path(path)] = document
        self.editor.type(Path(path), 0, content, over=len(document.text))
        if self.saves:
            self.editor.save_as_user(Path(path))

    def _document(self, path: Path) -> Doc:
        if path in self.editor.unsynced:
            self.editor.open(path)
        if path not in self.editor.docs and not path.exists():
            raise acp.RequestError.resource_not_found(str(path))
        if path in self.editor.docs:
            return self.editor.docs[path]
        self.editor.open(path)
        return self.editor.docs.pop(path)


class Asked(AcpEditor):
    """Has the user type when an edit begins, as `FakeEditor` does when the request for one arrives."""

    def __init__(self, editor: FakeEditor, *, saves: bool) -> None:
        super().__init__(cast("acp.Client", Client(editor, saves=saves)), OFFERED, "ses")
        self._fake = editor

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        self._fake.happen("apply")
        return await super().apply(path, version, hunks)


KINDS: dict[str, Callable[[FakeEditor], FakeEditor | Asked]] = {
    "reports": lambda editor: editor,
    "asked, saves": lambda editor: Asked(editor, saves=True),
    "asked, does not save": lambda editor: Asked(editor, saves=False),
}


class Scene:
    def __init__(self, folder: Path, kind: str) -> None:
        self.path = folder / "x.txt"
        self.path.write_text(LINES)
        self.editor = FakeEditor()
        self.saves = kind != "asked, does not save"
        self.asked = kind != "reports"
        self.workspace = Workspace([folder], KINDS[kind](self.editor), clock=FakeClock())

    def typed_at_edit(self, text: str, at: int = 0, times: int = 1) -> None:
        for _ in range(times):
            self.editor.meanwhile["apply"].append(lambda: self.editor.type(self.path, at, text))

    async def edit(self, old: str, new: str) -> Any:
        return await self.workspace.apply(self.path, swap(old, new))

    @property
    def document(self) -> str:
        return self.editor.docs[self.path].text


@pytest.fixture(params=KINDS)
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Scene:
    return Scene(tmp_path.resolve(), request.param)


def swap(old: str, new: str) -> Edit:
    return Edit((Replacement(old=old, new=new),))


async def test_an_open_document_is_edited_in_the_editor(scene: Scene) -> None:
    scene.editor.open(scene.path)
    edited = await scene.edit("line 5", "LINE 5")
    after = LINES.replace("line 5", "LINE 5")
    assert scene.document == after
    assert (edited.saved, edited.change.via, edited.change.after) == (scene.saves, "buffer", after.encode())
    assert scene.path.read_text() == (after if scene.saves else LINES)


async def test_unsaved_text_is_read_and_kept(scene: Scene) -> None:
    scene.editor.open(scene.path)
    scene.editor.type(scene.path, 0, "typed\n")
    assert (await scene.workspace.read(scene.path)).text == "typed\n" + LINES
    await scene.edit("line 5", "LINE 5")
    assert scene.document == "typed\n" + LINES.replace("line 5", "LINE 5")


async def test_unsaved_text_in_a_tab_that_was_never_shown_is_kept(scene: Scene) -> None:
    scene.editor.restore_in_background(scene.path, "typed\n" + LINES)
    await scene.workspace.read(scene.path)
    await scene.edit("line 5", "LINE 5")
    assert scene.document == "typed\n" + LINES.replace("line 5", "LINE 5")


async def test_typing_during_an_edit_is_rebased_over(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    scene.typed_at_edit("typed\n", times=3)
    await scene.edit("line 9", "LINE 9")
    assert scene.document == "typed\n" * 3 + LINES.replace("line 9", "LINE 9")


async def test_typing_in_the_edited_line_is_never_overwritten(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    scene.typed_at_edit("typed ", LINES.index("line 5"))
    with pytest.raises(StaleEdit, match=r"-line 5\n\+typed line 5"):
        await scene.edit("line 5", "LINE 5")
    assert scene.document == LINES.replace("line 5", "typed line 5")


async def test_somebody_who_types_without_end_is_not_fought(scene: Scene) -> None:
    scene.editor.open(scene.path)
    scene.typed_at_edit("typed\n", times=20)
    with pytest.raises(StaleEdit, match="keeps changing"):
        await scene.edit("line 9", "LINE 9")
    assert scene.document == "typed\n" * writer.ATTEMPTS + LINES


async def test_an_approved_edit_is_made_exactly_as_it_was_shown_or_not_at_all(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    draft = await scene.workspace.preview(scene.path, swap("line 5", "LINE 5"))
    scene.typed_at_edit("typed\n")
    with pytest.raises(StaleEdit, match="shown and approved"):
        await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"), {str(scene.path): draft.version})
    assert scene.document == "typed\n" + LINES


async def test_what_a_program_wrote_is_seen_though_the_document_lags_behind(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    scene.path.write_text("a program wrote this\n")
    assert (await scene.workspace.read(scene.path)).text == "a program wrote this\n"


async def test_line_ends_stay_and_an_undo_gives_back_the_very_bytes(scene: Scene) -> None:
    before = LINES.replace("\n", "\r\n").encode()
    scene.path.write_bytes(before)
    scene.editor.open(scene.path)
    edited = await scene.edit("line 5", "line five\nand a half")
    after = LINES.replace("line 5", "line five\nand a half").replace("\n", "\r\n")
    assert scene.document == after
    if scene.saves:
        assert (scene.path.read_bytes(), edited.change.after) == (after.encode(), after.encode())
    undone = await scene.workspace.undo([edited.change])
    assert (scene.document.encode(), undone.refused) == (before, ())
    assert scene.path.read_bytes() == before


async def test_what_is_not_utf_8_is_written_beside_the_editor(scene: Scene) -> None:
    scene.path.write_bytes("caf\xe9\n".encode("latin-1"))
    edited = await scene.edit("caf", "Caf")
    assert (scene.path.read_bytes(), edited.change.via) == (b"Caf\xe9\n", "disk")
