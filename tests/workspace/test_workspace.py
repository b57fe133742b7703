from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock import FakeClock
from tests.support.editor import FakeEditor

from pilotfish.errors import Refused, StaleEdit, ToolError
from pilotfish.workspace.editor import Hunk, NoEditor
from pilotfish.workspace.edits import writer
from pilotfish.workspace.edits.changes import FileChange, Refusal
from pilotfish.workspace.edits.drafts import Delete, Edit, Move, Rewrite
from pilotfish.workspace.edits.matching import Replacement
from pilotfish.workspace.files.atomic import Staged
from pilotfish.workspace.files.disk import Disk
from pilotfish.workspace.files.encoding import MAX_TEXT_BYTES, decode
from pilotfish.workspace.workspace import Workspace

LINES = "".join(f"line {number}\n" for number in range(1, 11))


class Scene:
    """A workspace with one file, an editor, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "x.txt"
        self.path.write_text(LINES)
        self.editor = FakeEditor()
        self.clock = FakeClock()
        self.workspace = Workspace([folder], self.editor, clock=self.clock)

    @property
    def disk(self) -> str:
        return self.path.read_bytes().decode()

    @property
    def document(self) -> str:
        return self.editor.docs[self.path].text


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path.resolve())


@pytest.fixture
def plain(scene: Scene) -> Workspace:
    """without an editor"""
    return Workspace([scene.folder], NoEditor())


def swap(old: str, new: str) -> Edit:
    return Edit((Replacement(old=old, new=new),))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# -- on disk -------------------------------------------------------------------------------------------------------


async def test_a_closed_file_is_edited_on_disk(plain: Workspace, scene: Scene) -> None:
    edited = await plain.apply(scene.path, swap("line 5", "LINE 5"))
    after = LINES.replace("line 5", "LINE 5")
    assert scene.disk == after
    assert edited.change == FileChange(
        path=scene.path, change="edited", before=LINES.encode(), after=after.encode(), added=1, removed=1, via="disk"
    )
    assert edited.diff.startswith("--- x.txt\n+++ x.txt\n@@ -2,7 +2,7 @@\n line 2\n")
    assert (edited.saved, edited.notes) == (True, ())


async def test_a_new_file_is_made_with_its_directories(plain: Workspace, scene: Scene) -> None:
    path = scene.folder / "a/b.txt"
    edited = await plain.apply(path, Rewrite("new\r\n"))
    assert path.read_bytes() == b"new\r\n"
    assert edited.change == FileChange(
        path=path, change="created", before=None, after=b"new\r\n", added=1, removed=0, via="disk"
    )


FORMS = {
    "crlf": b"one\r\ntwo\r\nthree\r\n",
    "tabs": b"\tone\n\t\ttwo\nthree\n",
    "bom": codecs.BOM_UTF8 + b"one\ntwo\nthree\n",
    "no final newline": b"one\ntwo\nthree",
    "latin-1": "één\ntwo\nthree\n".encode("latin-1"),
    "utf-16 with mark": "één\r\ntwo\r\nthree".encode("utf-16"),
    "utf-16 without mark": "one\ntwo\nthree\n".encode("utf-16-be"),
    "mixed line ends": b"one\r\ntwo\nthree\r\nfour\rfive\n",
    "old mac": b"one\rtwo\rthree\r",
    "form feed and line separator": "one\x0c\u2028\ntwo\nthree\x85\n".encode(),
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
async def test_a_file_keeps_its_form(scene: Scene, data: bytes, opened: bool) -> None:
    scene.path.write_bytes(data)
    encoding = decode(data)[1]
    if opened:
        scene.editor.encoding = encoding
        scene.editor.open(scene.path)
    edited = await scene.workspace.apply(scene.path, swap("two", "2b 2c"))
    assert edited.change is not None
    if opened and data in (FORMS["mixed line ends"], FORMS["old mac"]):
        assert edited.notes == ("the file has mixed line endings; the editor makes them uniform when it saves",)
        return
    assert scene.path.read_bytes() == data.replace("two".encode(encoding), "2b 2c".encode(encoding))
    assert edited.change.after == scene.path.read_bytes()


async def test_new_lines_end_like_the_others(plain: Workspace, scene: Scene) -> None:
    scene.path.write_bytes(b"one\r\ntwo\r\n")
    await plain.apply(scene.path, swap("one\ntwo", "one\nand a half\ntwo"))
    assert scene.path.read_bytes() == b"one\r\nand a half\r\ntwo\r\n"


async def test_a_rewrite_keeps_the_form_too(plain: Workspace, scene: Scene) -> None:
    scene.path.write_bytes(codecs.BOM_UTF8 + b"one\r\ntwo\r\n")
    await plain.read(scene.path)
    await plain.apply(scene.path, Rewrite("one\nnew\n"))
    assert scene.path.read_bytes() == codecs.BOM_UTF8 + b"one\r\nnew\r\n"


async def test_what_the_encoding_cannot_hold_is_refused_and_nothing_written(plain: Workspace, scene: Scene) -> None:
    scene.path.write_bytes("één\n".encode("latin-1"))
    with pytest.raises(Refused, match=r"U\+2192.*latin-1"):
        await plain.apply(scene.path, swap("één", "→"))
    assert scene.path.read_bytes() == "één\n".encode("latin-1")


async def test_a_file_of_fifty_megabytes_keeps_its_form(plain: Workspace, scene: Scene) -> None:
    row = b"0123456789 some text of a long file\r\n"
    data = row * (MAX_TEXT_BYTES // len(row) - 1) + b"unique\r\n"
    data += b"x" * (MAX_TEXT_BYTES - len(data))
    scene.path.write_bytes(data)
    edited = await plain.apply(scene.path, swap("unique", "UNIQUE"))
    assert scene.path.read_bytes() == data.replace(b"unique", b"UNIQUE")
    assert edited.change is not None
    assert (edited.change.added, edited.change.removed) == (1, 1)
    scene.path.write_bytes(data + b"x")
    with pytest.raises(Refused, match="too big"):
        await plain.apply(scene.path, swap("unique", "UNIQUE"))


async def test_a_link_stays_a_link(plain: Workspace, scene: Scene) -> None:
    link = scene.folder / "link"
    link.symlink_to(scene.path)
    place = plain.resolve("link")
    await plain.apply(place.path, swap("line 5", "LINE 5"))
    assert link.is_symlink()
    assert "LINE 5" in scene.disk


async def test_a_binary_file_is_refused_kindly(plain: Workspace, scene: Scene) -> None:
    scene.path.write_bytes(b"\x7fELF\0\0")
    with pytest.raises(Refused, match="is not text"):
        await plain.read(scene.path)
    with pytest.raises(Refused, match="is not text"):
        await plain.apply(scene.path, swap("a", "b"))


async def test_a_missing_file_says_what_is_near(plain: Workspace, scene: Scene) -> None:
    with pytest.raises(ToolError, match=r"^x.tx does not exist. Did you mean x.txt\?$"):
        await plain.read(scene.folder / "x.tx")
    with pytest.raises(ToolError, match="does not exist"):
        await plain.apply(scene.folder / "y", swap("a", "b"))


async def test_an_unread_file_is_not_overwritten(plain: Workspace, scene: Scene) -> None:
    with pytest.raises(ToolError, match="has not been read; read it first"):
        await plain.apply(scene.path, Rewrite("new\n"))
    assert scene.disk == LINES
    scene.path.write_text("")
    await plain.apply(scene.path, Rewrite("new\n"))
    assert scene.disk == "new\n"


async def test_a_half_read_file_is_not_overwritten(plain: Workspace, scene: Scene) -> None:
    plain.learn(await plain.look(scene.path), range(1, 6))
    with pytest.raises(ToolError, match="you have not read lines 6-10"):
        await plain.apply(scene.path, Rewrite("new\n"))
    await plain.apply(scene.path, swap("line 9", "LINE 9"))
    assert scene.disk == LINES.replace("line 9", "LINE 9")


async def test_a_rewrite_with_the_same_text_changes_nothing(plain: Workspace, scene: Scene) -> None:
    await plain.read(scene.path)
    before = scene.path.stat().st_mtime_ns
    edited = await plain.apply(scene.path, Rewrite(LINES))
    assert (edited.change, edited.diff) == (None, "")
    assert scene.path.stat().st_mtime_ns == before


# -- over what others did ------------------------------------------------------------------------------------------


async def test_an_edit_is_rebased_over_what_others_changed_elsewhere(plain: Workspace, scene: Scene) -> None:
    await plain.read(scene.path)
    scene.path.write_text(LINES.replace("line 1\n", "new\nline 1\n"))
    edited = await plain.apply(scene.path, swap("line 9", "LINE 9"))
    assert scene.disk == LINES.replace("line 1\n", "new\nline 1\n").replace("line 9", "LINE 9")
    assert edited.notes == (
        (
            "others changed the file after you read it; their changes were kept:\n"
            "@@ -1,3 +1,4 @@\n+new\n line 1\n line 2\n line 3"
        ),
    )


async def test_a_rewrite_is_rebased_too(plain: Workspace, scene: Scene) -> None:
    await plain.read(scene.path)
    scene.path.write_text(LINES.replace("line 1\n", "new\nline 1\n"))
    await plain.apply(scene.path, Rewrite(LINES.replace("line 9", "LINE 9")))
    assert scene.disk == LINES.replace("line 1\n", "new\nline 1\n").replace("line 9", "LINE 9")


async def test_an_edit_in_lines_that_others_changed_is_refused_and_says_what_changed(
    plain: Workspace, scene: Scene
) -> None:
    await plain.read(scene.path)
    theirs = LINES.replace("line 5\n", "theirs\n")
    scene.path.write_text(theirs)
    with pytest.raises(StaleEdit) as caught:
        await plain.apply(scene.path, swap("line 5", "LINE 5"))
    assert scene.disk == theirs
    assert str(caught.value) == (
        f"{scene.path} was changed since you read it, in the lines you want to edit. Nothing was written. "
        "What changed:\n"
        "@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n+theirs\n line 6\n line 7\n line 8\n"
        "Read it again before you edit it."
    )


async def test_what_the_model_knows_from_elsewhere_it_may_edit(plain: Workspace, scene: Scene) -> None:
    """It read the file, a command changed it and showed the new lines, and it quotes those."""
    await plain.read(scene.path)
    scene.path.write_text(LINES.replace("line 5\n", "from a command\n"))
    await plain.apply(scene.path, swap("from a command", "from the model"))
    assert scene.disk == LINES.replace("line 5\n", "from the model\n")


async def test_a_file_that_changes_between_look_and_write_is_looked_at_again(
    plain: Workspace, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = [LINES.replace("line 1\n", "theirs\n")]

    def staged(path: Path, data: bytes, like: Disk | None) -> Staged:
        found = Staged(path, data, like)
        if theirs:
            scene.path.write_text(theirs.pop())
        return found

    monkeypatch.setattr(writer, "Staged", staged)
    await plain.apply(scene.path, swap("line 9", "LINE 9"))
    assert scene.disk == LINES.replace("line 1\n", "theirs\n").replace("line 9", "LINE 9")
    assert files(scene.folder) == ["x.txt"]


async def test_a_file_that_never_stands_still_is_left_alone(
    plain: Workspace, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def staged(path: Path, data: bytes, like: Disk | None) -> Staged:
        found = Staged(path, data, like)
        with scene.path.open("a") as file:
            file.write("more\n")
        return found

    monkeypatch.setattr(writer, "Staged", staged)
    with pytest.raises(StaleEdit, match="keeps changing"):
        await plain.apply(scene.path, swap("line 1\n", "LINE 1\n"))
    assert scene.disk == LINES + "more\n" * writer.ATTEMPTS
    assert files(scene.folder) == ["x.txt"]


async def test_a_new_file_that_somebody_else_makes_first_is_not_overwritten(
    plain: Workspace, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scene.folder / "new"

    def staged(name: Path, data: bytes, like: Disk | None) -> Staged:
        found = Staged(name, data, like)
        path.write_text("theirs\n")
        return found

    monkeypatch.setattr(writer, "Staged", staged)
    with pytest.raises(ToolError, match="exists and has not been read"):
        await plain.apply(path, Rewrite("mine\n"))
    assert path.read_text() == "theirs\n"


async def test_writes_to_one_file_never_overlap(scene: Scene) -> None:
    workspaces = [Workspace([scene.folder], NoEditor()) for _ in range(4)]
    scene.path.write_text("".join(f"start {number}\n\n\n" for number in range(20)))
    await asyncio.gather(
        *(
            workspaces[number % 4].apply(scene.path, swap(f"start {number}\n", f"end {number}\n"))
            for number in range(20)
        )
    )
    assert scene.disk == "".join(f"end {number}\n\n\n" for number in range(20))


# -- through the editor --------------------------------------------------------------------------------------------


async def test_an_open_document_is_edited_in_the_editor_and_saved(scene: Scene) -> None:
    scene.editor.open(scene.path)
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    after = LINES.replace("line 5", "LINE 5")
    assert (scene.document, scene.disk) == (after, after)
    assert (edited.saved, edited.notes) == (True, ())
    assert edited.change is not None
    assert (edited.change.via, edited.change.after) == ("buffer", after.encode())
    scene.editor.undo(scene.path)
    assert scene.document == LINES


async def test_several_edits_are_one_undo_step(scene: Scene) -> None:
    scene.editor.open(scene.path)
    edits = Edit((Replacement(old="line 2", new="LINE 2"), Replacement(old="line 8", new="LINE 8")))
    await scene.workspace.apply(scene.path, edits)
    scene.editor.undo(scene.path)
    assert scene.document == LINES


async def test_a_closed_file_is_held_by_the_editor_and_its_format_on_save_honoured(scene: Scene) -> None:
    scene.editor.format = lambda text: text.replace("LINE", "Line")
    edited = await scene.workspace.apply(scene.path, swap("line 5", "line FIVE"))
    assert scene.editor.requests == ["hold", "apply", "save"]
    assert scene.disk == LINES.replace("line 5", "line FIVE")
    assert edited.change is not None


async def test_a_dirty_document_is_left_dirty(scene: Scene) -> None:
    scene.editor.open(scene.path)
    scene.editor.type(scene.path, 0, "typed\n")
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert scene.document == "typed\n" + LINES.replace("line 5", "LINE 5")
    assert scene.disk == LINES
    assert edited.saved is False
    assert edited.notes == ("the document had unsaved changes before, so it is left unsaved",)


async def test_a_tab_that_woke_up_unsaved_is_found_before_the_edit(scene: Scene) -> None:
    scene.editor.restore_in_background(scene.path, "typed\n" + LINES)
    await scene.workspace.read(scene.path)
    await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert scene.document == "typed\n" + LINES.replace("line 5", "LINE 5")
    assert scene.disk == LINES


async def test_an_editor_that_cannot_save_is_left_with_the_edit(scene: Scene) -> None:
    scene.editor.can_save = False
    scene.editor.open(scene.path)
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert (edited.saved, scene.disk) == (False, LINES)
    assert edited.notes == ("it is left unsaved in the editor, which has no save request",)
    assert await scene.workspace.save_own_edits() == (scene.path,)


async def test_without_save_a_closed_file_is_written_on_disk(scene: Scene) -> None:
    scene.editor.can_save = False
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.change is not None
    assert (edited.change.via, scene.disk) == ("disk", LINES.replace("line 5", "LINE 5"))


async def test_an_editor_that_takes_no_edits_is_worked_beside_unless_it_is_dirty(scene: Scene) -> None:
    scene.editor.can_edit = False
    scene.editor.open(scene.path)
    await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert scene.disk == LINES.replace("line 5", "LINE 5")
    scene.editor.tick()
    scene.editor.type(scene.path, 0, "typed\n")
    with pytest.raises(Refused, match="unsaved changes in an editor that accepts no edits"):
        await scene.workspace.apply(scene.path, swap("line 7", "LINE 7"))


async def test_typing_during_an_edit_is_rebased_over(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    for _ in range(3):
        scene.editor.meanwhile["apply"].append(lambda: scene.editor.type(scene.path, 0, "typed\n"))
    edited = await scene.workspace.apply(scene.path, swap("line 9", "LINE 9"))
    assert scene.document == "typed\n" * 3 + LINES.replace("line 9", "LINE 9")
    assert scene.disk == LINES
    assert edited.saved is False
    assert scene.editor.requests == ["apply"] * 4


async def test_typing_in_the_edited_line_is_never_overwritten(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    at = LINES.index("line 5")
    scene.editor.meanwhile["apply"].append(lambda: scene.editor.type(scene.path, at, "typed "))
    with pytest.raises(StaleEdit, match=r"-line 5\n\+typed line 5"):
        await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert scene.document == LINES.replace("line 5", "typed line 5")


async def test_an_editor_that_refuses_though_nothing_moves_is_asked_a_few_times_and_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def refuse(path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        asked.append(version)
        return False

    scene.editor.open(scene.path)
    monkeypatch.setattr(scene.editor, "apply", refuse)
    with pytest.raises(ToolError, match="the editor refused to edit"):
        await scene.workspace.apply(scene.path, swap("line 9", "LINE 9"))
    assert (scene.document, scene.disk, asked) == (LINES, LINES, [1, 1, 1])


async def test_somebody_who_types_without_end_is_not_fought(scene: Scene) -> None:
    scene.editor.open(scene.path)
    for _ in range(20):
        scene.editor.meanwhile["apply"].append(lambda: scene.editor.type(scene.path, 0, "typed\n"))
    with pytest.raises(StaleEdit, match="keeps changing"):
        await scene.workspace.apply(scene.path, swap("line 9", "LINE 9"))
    assert scene.document == "typed\n" * writer.ATTEMPTS + LINES


async def test_a_save_that_fails_while_somebody_types_leaves_their_text_to_them(scene: Scene) -> None:
    scene.editor.open(scene.path)
    scene.editor.meanwhile["saving"].append(lambda: scene.editor.type(scene.path, 0, "typed\n"))
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert scene.document == "typed\n" + LINES.replace("line 5", "LINE 5")
    assert scene.disk == LINES
    assert edited.saved is False
    assert edited.notes == ("it is left unsaved in the editor: it could not be saved, or was changed at the same time",)


async def test_a_save_that_fails_once_is_tried_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.editor.open(scene.path)
    doc = scene.editor.docs[scene.path]

    def fail() -> None:
        doc.size = -1
        scene.editor.meanwhile["save"].append(lambda: setattr(doc, "size", len(LINES)))

    scene.editor.meanwhile["save"].append(fail)
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert scene.editor.requests == ["apply", "save", "save"]
    assert edited.saved is True


async def test_a_disk_that_changes_during_the_edit_is_not_saved_over(scene: Scene) -> None:
    """The same length: the editor itself would not notice."""
    scene.editor.open(scene.path)
    theirs = LINES.replace("line 1\n", "LINE 1\n")
    scene.editor.meanwhile["applied"].append(lambda: scene.path.write_text(theirs))
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.saved is False
    assert scene.disk == theirs
    assert scene.document == LINES.replace("line 5", "LINE 5")


async def test_autosave_that_is_faster_is_fine(scene: Scene) -> None:
    scene.editor.open(scene.path)
    scene.editor.meanwhile["applied"].append(lambda: scene.editor.save_as_user(scene.path))
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.saved is True
    assert scene.editor.requests == ["apply"]


async def test_format_on_save_is_picked_up_not_fought(scene: Scene) -> None:
    scene.editor.format = lambda text: text.replace(" = ", "=").rstrip() + "\n"
    scene.editor.open(scene.path)
    edited = await scene.workspace.apply(scene.path, swap("line 5", "a = 5"))
    after = LINES.replace("line 5", "a=5")
    assert edited.change is not None
    assert (scene.disk, edited.change.after) == (after, after.encode())
    assert "+a=5\n" in edited.diff
    assert edited.notes == ("saving it reformatted the file; the diff shows the result",)
    assert scene.workspace.changed_since_read() == ()
    await scene.workspace.apply(scene.path, swap("a=5", "a=6"))
    assert await scene.workspace.undo([edited.change]) == (
        (),
        (Refusal(scene.path, f"{scene.path} has been changed since, in the same lines"),),
    )


async def test_what_a_formatter_did_is_undone_with_the_edit(scene: Scene) -> None:
    scene.editor.format = lambda text: text.replace(" = ", "=")
    scene.editor.open(scene.path)
    edited = await scene.workspace.apply(scene.path, swap("line 5", "a = 5"))
    assert edited.change is not None
    undone = await scene.workspace.undo([edited.change])
    assert undone.refused == ()
    assert scene.disk == LINES


async def test_words_typed_during_the_save_are_not_taken_for_the_formatters(scene: Scene) -> None:
    scene.editor.open(scene.path)
    scene.editor.format = lambda text: f"typed\n{text}"
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.change is not None
    assert edited.change.after == LINES.replace("line 5", "LINE 5").encode()
    assert scene.workspace.changed_since_read() == (scene.path,)
    await scene.workspace.undo([edited.change])
    assert scene.document.lstrip("typed\n") == LINES.lstrip("typed\n")


async def test_an_edit_taken_back_at_once_is_told(scene: Scene) -> None:
    scene.editor.open(scene.path)

    def undo_and_save() -> None:
        scene.editor.undo(scene.path)
        scene.editor.save_as_user(scene.path)

    scene.editor.meanwhile["save"].append(undo_and_save)
    edited = await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.notes == ("the edit was undone in the editor immediately",)


async def test_a_clean_document_that_lags_is_waited_for(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    scene.path.write_text(LINES.replace("line 1\n", "by a command\n"))
    scene.clock.later(0.2, scene.editor.tick)
    edited = await scene.workspace.apply(scene.path, swap("line 9", "LINE 9"))
    after = LINES.replace("line 1\n", "by a command\n").replace("line 9", "LINE 9")
    assert edited.change is not None
    assert (scene.document, scene.disk, edited.change.via) == (after, after, "buffer")


async def test_a_clean_document_that_never_catches_up_is_written_beside(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    scene.path.write_text(LINES.replace("line 1\n", "by a command\n"))
    edited = await scene.workspace.apply(scene.path, swap("line 9", "LINE 9"))
    assert edited.change is not None
    assert (edited.change.via, scene.document) == ("disk", LINES)
    assert scene.disk == LINES.replace("line 1\n", "by a command\n").replace("line 9", "LINE 9")


async def test_somebody_who_opens_and_types_during_a_write_on_disk_is_noticed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.editor.can_save = False
    typing = [lambda: scene.editor.type(scene.path, 0, "typed\n")]

    def staged(path: Path, data: bytes, like: Disk | None) -> Staged:
        found = Staged(path, data, like)
        if typing:
            scene.editor.open(scene.path)
            typing.pop()()
        return found

    monkeypatch.setattr(writer, "Staged", staged)
    await scene.workspace.apply(scene.path, swap("line 9", "LINE 9"))
    assert scene.document == "typed\n" + LINES.replace("line 9", "LINE 9")
    assert scene.disk == LINES
    assert files(scene.folder) == ["x.txt"]


async def test_an_editor_that_answers_too_late_has_made_the_edit_once(scene: Scene) -> None:
    scene.editor.open(scene.path)
    really = scene.editor.apply

    async def late(path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        await really(path, version, hunks)
        return False

    scene.editor.apply = late
    edited = await scene.workspace.apply(scene.path, swap("line 5", "line 5 line 5"))
    assert scene.document == LINES.replace("line 5", "line 5 line 5")
    assert edited.change is not None
    assert edited.change.before == LINES.encode()


async def test_a_notebook_is_refused_where_there_is_an_editor(scene: Scene, plain: Workspace) -> None:
    path = scene.folder / "n.ipynb"
    path.write_text('{"cells": []}\n')
    with pytest.raises(Refused, match="is a notebook"):
        await scene.workspace.apply(path, swap("[]", "[1]"))
    with pytest.raises(Refused, match="is a notebook"):
        await scene.workspace.preview(path, swap("[]", "[1]"))
    await plain.apply(path, swap("[]", "[1]"))


async def test_a_document_with_broken_characters_is_refused(scene: Scene) -> None:
    scene.path.write_bytes("één\ntwo\n".encode("latin-1"))
    scene.editor.open(scene.path)
    with pytest.raises(Refused, match="saving it would destroy characters"):
        await scene.workspace.apply(scene.path, swap("two", "2"))
    assert scene.path.read_bytes() == "één\ntwo\n".encode("latin-1")


async def test_before_a_command_only_the_agents_own_text_is_saved(scene: Scene) -> None:
    scene.editor.open(scene.path)
    scene.editor.can_save = False
    await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))
    scene.editor.can_save = True
    assert await scene.workspace.save_own_edits() == ()
    assert scene.disk == LINES.replace("line 5", "LINE 5")
    scene.editor.can_save = False
    await scene.workspace.apply(scene.path, swap("line 6", "LINE 6"))
    scene.editor.type(scene.path, 0, "typed\n")
    scene.editor.can_save = True
    assert await scene.workspace.save_own_edits() == (scene.path,)
    assert "typed" not in scene.disk


# -- what was approved is what runs --------------------------------------------------------------------------------


async def test_a_preview_shows_what_the_edit_then_does(scene: Scene) -> None:
    scene.editor.open(scene.path)
    shown = await scene.workspace.preview(scene.path, swap("line 5", "LINE 5"))
    assert (shown.before, shown.after) == (LINES, LINES.replace("line 5", "LINE 5"))
    assert (scene.document, scene.disk) == (LINES, LINES)
    await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"), {str(scene.path): shown.version})
    assert scene.disk == shown.after


async def test_a_preview_of_a_new_file_has_no_before(plain: Workspace, scene: Scene) -> None:
    path = scene.folder / "new"
    shown = await plain.preview(path, Rewrite("new\n"))
    assert (shown.before, shown.after) == (None, "new\n")
    path.write_text("theirs\n")
    await plain.read(path)
    with pytest.raises(StaleEdit, match="has changed since this edit was shown"):
        await plain.apply(path, Rewrite("new\n"), {str(path): shown.version})


@pytest.mark.parametrize("far", [True, False], ids=["far away", "in the same line"])
async def test_an_approved_edit_is_refused_when_anything_has_moved(scene: Scene, far: bool) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    shown = await scene.workspace.preview(scene.path, swap("line 5", "LINE 5"))
    scene.editor.type(scene.path, 0 if far else LINES.index("line 5"), "typed\n")
    with pytest.raises(StaleEdit):
        await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"), {str(scene.path): shown.version})
    assert "LINE 5" not in scene.document


async def test_an_approved_edit_is_refused_when_somebody_types_at_the_last_moment(scene: Scene) -> None:
    scene.editor.open(scene.path)
    shown = await scene.workspace.preview(scene.path, swap("line 5", "LINE 5"))
    scene.editor.meanwhile["apply"].append(lambda: scene.editor.type(scene.path, 0, "typed\n"))
    with pytest.raises(StaleEdit, match="has changed since this edit"):
        await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"), {str(scene.path): shown.version})
    assert scene.document == "typed\n" + LINES


async def test_typing_that_was_taken_back_leaves_an_approval_valid(scene: Scene) -> None:
    scene.editor.open(scene.path)
    shown = await scene.workspace.preview(scene.path, swap("line 5", "LINE 5"))
    scene.editor.type(scene.path, 0, "typed\n")
    scene.editor.undo(scene.path)
    await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"), {str(scene.path): shown.version})
    assert scene.disk == shown.after


async def test_an_approval_is_not_for_another_edit_nor_for_another_file(plain: Workspace, scene: Scene) -> None:
    shown = await plain.preview(scene.path, swap("line 5", "LINE 5"))
    with pytest.raises(StaleEdit):
        await plain.apply(scene.path, swap("line 5", "something else"), {str(scene.path): shown.version})
    with pytest.raises(StaleEdit):
        await plain.apply(scene.path, swap("line 5", "LINE 5"), {str(scene.folder / "y"): shown.version})
    assert scene.disk == LINES


async def removed(scene: Scene, path: Path) -> FileChange:
    (edited,) = await scene.workspace.apply_all({path: Delete()})
    assert edited.change is not None
    return edited.change


async def moved(scene: Scene, target: Path) -> FileChange:
    (edited,) = await scene.workspace.apply_all({scene.path: Move(target)})
    assert edited.change is not None
    return edited.change


# -- deleting and renaming -----------------------------------------------------------------------------------------


async def test_a_file_is_deleted_and_comes_back(scene: Scene) -> None:
    change = await removed(scene, scene.path)
    assert not scene.path.exists()
    assert (change.change, change.before, change.after, change.removed) == ("deleted", LINES.encode(), None, 10)
    undone = await scene.workspace.undo([change])
    assert (scene.disk, undone.refused) == (LINES, ())
    assert (await scene.workspace.redo([change])).refused == ()
    assert not scene.path.exists()


async def test_unsaved_text_is_never_deleted_nor_renamed(scene: Scene) -> None:
    scene.editor.restore_in_background(scene.path, "typed\n" + LINES)
    with pytest.raises(Refused, match="unsaved text"):
        await removed(scene, scene.path)
    with pytest.raises(Refused, match="unsaved text"):
        await moved(scene, scene.folder / "y.txt")
    assert scene.disk == LINES


async def test_a_file_is_renamed_never_onto_another(scene: Scene) -> None:
    other = scene.folder / "other.txt"
    other.write_text("other\n")
    with pytest.raises(ToolError, match="already exists; nothing was overwritten"):
        await moved(scene, other)
    new = scene.folder / "sub/new.txt"
    change = await moved(scene, new)
    assert (change.change, change.old_path, change.path) == ("renamed", scene.path, new)
    assert files(scene.folder) == ["other.txt", "sub/new.txt"]
    assert (await scene.workspace.undo([change])).refused == ()
    assert files(scene.folder) == ["other.txt", "x.txt"]


async def test_a_file_is_not_renamed_onto_a_document_that_only_the_editor_has(scene: Scene) -> None:
    ghost = scene.folder / "ghost.txt"
    ghost.write_text("g\n")
    scene.editor.open(ghost)
    ghost.unlink()
    with pytest.raises(Refused, match="is open in the editor"):
        await moved(scene, ghost)


# -- undo and redo of a turn ---------------------------------------------------------------------------------------


async def turn(scene: Scene) -> list[FileChange]:
    """A turn over four files: edited on disk, edited in the editor, made, deleted."""
    (scene.folder / "open.txt").write_text(LINES)
    (scene.folder / "gone.txt").write_text("gone\n")
    scene.editor.open(scene.folder / "open.txt")
    changes = [
        (await scene.workspace.apply(scene.path, swap("line 5", "LINE 5"))).change,
        (await scene.workspace.apply(scene.folder / "open.txt", swap("line 5", "LINE 5"))).change,
        (await scene.workspace.apply(scene.folder / "made.txt", Rewrite("made\n"))).change,
        await removed(scene, scene.folder / "gone.txt"),
        (await scene.workspace.apply(scene.path, swap("line 7", "LINE 7"))).change,
    ]
    return [change for change in changes if change is not None]


def texts(scene: Scene) -> dict[str, str]:
    return {path.name: path.read_text() for path in scene.folder.iterdir()}


async def test_a_whole_turn_is_undone_and_done_again(scene: Scene) -> None:
    changes = await turn(scene)
    after = texts(scene)
    undone = await scene.workspace.undo(changes)
    assert undone.refused == ()
    assert {(change.path.name, change.change) for change in undone.done} == {
        ("x.txt", "edited"),
        ("open.txt", "edited"),
        ("made.txt", "deleted"),
        ("gone.txt", "created"),
    }
    assert texts(scene) == {"x.txt": LINES, "open.txt": LINES, "gone.txt": "gone\n"}
    assert scene.editor.docs[scene.folder / "open.txt"].text == LINES
    assert (await scene.workspace.redo(changes)).refused == ()
    assert texts(scene) == after


async def test_an_undo_keeps_what_others_changed_elsewhere_and_is_refused_in_the_same_lines(scene: Scene) -> None:
    changes = await turn(scene)
    scene.editor.type(scene.folder / "open.txt", 0, "typed\n")
    (scene.folder / "made.txt").write_text("made by two\n")
    scene.path.write_text(scene.disk.replace("LINE 7", "LINE 7 mine"))
    undone = await scene.workspace.undo(changes)
    assert {refusal.path.name: refusal.why.removeprefix(str(scene.folder)) for refusal in undone.refused} == {
        "x.txt": "/x.txt has been changed since, in the same lines",
        "made.txt": "/made.txt has been changed since",
    }
    assert scene.editor.docs[scene.folder / "open.txt"].text == "typed\n" + LINES
    assert texts(scene) == {
        "x.txt": scene.disk,
        "open.txt": LINES.replace("line 5", "LINE 5"),
        "made.txt": "made by two\n",
        "gone.txt": "gone\n",
    }


async def test_a_dry_run_says_the_same_and_does_nothing(scene: Scene) -> None:
    changes = await turn(scene)
    (scene.folder / "gone.txt").write_text("back again\n")
    before = texts(scene)
    promised = await scene.workspace.undo(changes, dry_run=True)
    assert texts(scene) == before
    assert await scene.workspace.undo(changes) == promised
    assert [refusal.why for refusal in promised.refused] == [
        f"{scene.folder / 'gone.txt'} exists again: somebody created it since"
    ]


async def test_an_undo_gives_back_the_very_bytes(plain: Workspace, scene: Scene) -> None:
    data = codecs.BOM_UTF8 + "één\r\ntwo\nthree\r".encode()
    scene.path.write_bytes(data)
    edited = await plain.apply(scene.path, swap("two", "2"))
    assert edited.change is not None
    await plain.undo([edited.change])
    assert scene.path.read_bytes() == data


async def test_a_file_deleted_since_is_refused(plain: Workspace, scene: Scene) -> None:
    edited = await plain.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.change is not None
    scene.path.unlink()
    undone = await plain.undo([edited.change])
    assert undone == ((), (Refusal(scene.path, f"{scene.path} has been deleted since"),))


async def test_a_redo_is_refused_where_others_have_moved_on(plain: Workspace, scene: Scene) -> None:
    edited = await plain.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.change is not None
    await plain.undo([edited.change])
    scene.path.write_text(LINES.replace("line 5", "line 5 theirs"))
    assert [refusal.path for refusal in (await plain.redo([edited.change])).refused] == [scene.path]
    scene.path.write_text(LINES + "theirs\n")
    assert (await plain.redo([edited.change])).refused == ()
    assert scene.disk == LINES.replace("line 5", "LINE 5") + "theirs\n"


async def test_an_undo_is_a_change_the_model_is_told_of(plain: Workspace, scene: Scene) -> None:
    edited = await plain.apply(scene.path, swap("line 5", "LINE 5"))
    assert edited.change is not None
    assert plain.changed_since_read() == ()
    await plain.undo([edited.change])
    assert plain.changed_since_read() == (scene.path,)


# -- cancelled -----------------------------------------------------------------------------------------------------


async def test_an_edit_that_is_cancelled_half_way_is_whole_and_accounted_for(scene: Scene) -> None:
    scene.editor.open(scene.path)
    task = asyncio.create_task(scene.workspace.apply(scene.path, swap("line 5", "LINE 5")))
    scene.editor.meanwhile["applied"].append(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.disk == LINES.replace("line 5", "LINE 5")
    (change,) = scene.workspace.take_unclaimed()
    assert (change.path, change.before) == (scene.path, LINES.encode())
    assert scene.workspace.take_unclaimed() == ()


async def test_an_edit_that_is_cancelled_and_fails_leaves_nothing(scene: Scene) -> None:
    task = asyncio.create_task(scene.workspace.apply(scene.path, swap("nowhere", "x")))
    scene.editor.meanwhile["hold"].append(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.workspace.take_unclaimed() == ()
    assert scene.disk == LINES


async def test_closing_waits_for_a_write_that_has_begun(scene: Scene) -> None:
    scene.editor.open(scene.path)
    task = asyncio.create_task(scene.workspace.apply(scene.path, swap("line 5", "LINE 5")))
    await asyncio.sleep(0)
    await scene.workspace.aclose()
    assert (await task).saved


# -- names ---------------------------------------------------------------------------------------------------------


def test_paths_are_shown_from_their_root(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    one = Workspace([folder / "a"], NoEditor())
    two = Workspace([folder / "a", folder / "b"], NoEditor())
    assert one.relative(folder / "a/x/y") == "x/y"
    assert two.relative(folder / "b/x") == "b/x"
    assert two.resolve(two.relative(folder / "b/x")).path == folder / "b/x"
    assert one.relative(folder / "b/x") == str(folder / "b/x")


def test_roots_are_real_directories_and_named_once(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "a").mkdir()
    (folder / "link").symlink_to("a")
    assert Workspace([folder / "a", folder / "link", Path(os.path.relpath(folder / "a"))], NoEditor()).roots == (
        folder / "a",
    )


async def test_a_program_that_writes_while_an_edit_is_drafted_loses_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.editor.open(scene.path)
    await scene.workspace.read(scene.path)
    real, drafted = writer.make_draft, 0

    async def make_draft(*arguments: Any) -> Any:
        nonlocal drafted
        drafted += 1
        if drafted == 1:
            scene.path.write_text(LINES.replace("line 9", "a program's line"))
        return await real(*arguments)

    monkeypatch.setattr(writer, "make_draft", make_draft)
    await scene.workspace.apply(scene.path, swap("line 2", "the agent's line"))
    assert drafted > 1
    scene.editor.tick()
    assert "a program's line" in scene.disk
    assert "the agent's line" in scene.disk
    assert scene.document == scene.disk
