from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.clock import FakeClock
from tests.support.editor import FakeEditor

from pilotfish.workspace.files.encoding import Binary
from pilotfish.workspace.files.view import RECENT, View, Views


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "x.txt"
    path.write_text("one\ntwo\n")
    return path


@pytest.fixture
def editor() -> FakeEditor:
    return FakeEditor()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def views(editor: FakeEditor, clock: FakeClock) -> Views:
    return Views(editor, clock)


async def seen(views: Views, path: Path) -> View:
    view = await views.look(path)
    assert view is not None
    return view


async def facts(views: Views, path: Path) -> tuple[str, str, bool]:
    view = await seen(views, path)
    return view.text, view.source, view.dirty


async def test_a_file_that_is_not_open_is_what_is_on_disk(views: Views, path: Path) -> None:
    view = await seen(views, path)
    assert (view.text, view.source, view.dirty) == ("one\ntwo\n", "disk", False)
    assert (view.encoding, view.newline, view.bom, view.final_newline) == ("utf-8", "\n", False, True)
    assert view.version.startswith("disk:")
    assert view.data == b"one\ntwo\n"


async def test_a_file_that_does_not_exist_is_none(views: Views, path: Path) -> None:
    assert await views.look(path.with_name("y")) is None


async def test_an_open_document_wins(views: Views, editor: FakeEditor, path: Path) -> None:
    editor.open(path)
    assert await facts(views, path) == ("one\ntwo\n", "buffer", False)
    editor.type(path, 0, "zero\n")
    view = await seen(views, path)
    assert (view.text, view.dirty, view.version) == ("zero\none\ntwo\n", True, "buffer:2")


async def test_a_clean_document_that_lags_behind_the_disk_is_not_the_truth(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    editor.open(path)
    await views.look(path)
    path.write_text("one\nTWO\n")
    assert await facts(views, path) == ("one\nTWO\n", "disk", False)
    editor.tick()
    assert await facts(views, path) == ("one\nTWO\n", "buffer", False)


async def test_a_dirty_document_stays_the_truth_when_the_disk_changes(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    editor.open(path)
    await views.look(path)
    editor.type(path, 0, "zero\n")
    path.write_text("one\nTWO\n")
    assert await facts(views, path) == ("zero\none\ntwo\n", "buffer", True)


async def test_a_document_never_seen_before_gets_a_moment_to_reload(
    views: Views, editor: FakeEditor, clock: FakeClock, path: Path
) -> None:
    editor.open(path)
    path.write_text("one\nTWO\n")
    clock.later(0.2, editor.tick)
    assert await facts(views, path) == ("one\nTWO\n", "buffer", False)


async def test_a_document_that_does_not_reload_is_taken_for_unsaved(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    editor.restore_in_background(path, "restored\n")
    editor.open(path)
    assert await facts(views, path) == ("restored\n", "buffer", True)


async def test_nobody_waits_for_a_file_that_was_written_long_ago(
    views: Views, editor: FakeEditor, clock: FakeClock, path: Path
) -> None:
    editor.restore_in_background(path, "restored\n")
    editor.open(path)
    os.utime(path, (1, clock.wall() - RECENT - 1))
    assert await facts(views, path) == ("restored\n", "buffer", True)
    assert clock.passed == 0


async def test_the_editors_own_word_on_dirty_is_taken(
    views: Views, editor: FakeEditor, clock: FakeClock, path: Path
) -> None:
    editor.tells_dirty = True
    editor.open(path)
    path.write_text("one\nTWO\n")
    assert await facts(views, path) == ("one\nTWO\n", "disk", False)
    editor.type(path, 0, "zero\n")
    assert await facts(views, path) == ("zero\none\ntwo\n", "buffer", True)
    assert clock.passed == 0


async def test_a_reopened_document_is_not_taken_for_the_one_before(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    """The same version number, another text: what was restored is unsaved."""
    editor.open(path)
    await views.look(path)
    editor.close(path)
    editor.restore_in_background(path, "restored\n")
    editor.open(path)
    assert await facts(views, path) == ("restored\n", "buffer", True)


async def test_a_document_whose_file_was_deleted_is_gone_unless_it_is_unsaved(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    editor.open(path)
    await views.look(path)
    path.unlink()
    assert await views.look(path) is None
    editor.type(path, 0, "zero\n")
    assert await facts(views, path) == ("zero\none\ntwo\n", "buffer", True)


async def test_a_document_opened_by_a_link_is_the_same_file(views: Views, editor: FakeEditor, path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    editor.open(link)
    editor.type(link, 0, "zero\n")
    view = await seen(views, path)
    assert (view.text, view.dirty, view.trouble) == ("zero\none\ntwo\n", True, None)


async def test_a_file_open_twice_with_different_text_must_not_be_edited(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    for name in (path, link):
        editor.open(name)
    assert (await seen(views, path)).trouble is None
    editor.type(link, 0, "link\n")
    assert await facts(views, path) == ("link\none\ntwo\n", "buffer", True)
    assert (await seen(views, path)).trouble is None
    editor.type(path, 0, "name\n")
    assert "open twice" in str((await seen(views, path)).trouble)


async def test_line_ends_and_marks_that_an_editor_hides_make_nothing_dirty(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\r\n")
    editor.open(path)
    view = await seen(views, path)
    assert (view.text, view.source, view.dirty) == ("one\ntwo\nthree\n", "buffer", False)
    assert (view.bom, view.newline) == (True, "\r\n")


async def test_a_document_in_the_wrong_encoding_is_read_from_disk_and_must_not_be_edited(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    path.write_bytes("café\n".encode("latin-1"))
    editor.open(path)
    view = await seen(views, path)
    assert (view.text, view.encoding, view.dirty) == ("café\n", "latin-1", False)
    assert "reopen it with encoding latin-1" in str(view.trouble)
    editor.type(path, 0, "x")
    view = await seen(views, path)
    assert (view.text, view.dirty) == ("xcaf\ufffd\n", True)
    assert "saving it would destroy characters" in str(view.trouble)


async def test_a_document_in_its_own_old_encoding_is_fine(views: Views, editor: FakeEditor, path: Path) -> None:
    path.write_bytes("café\n".encode("latin-1"))
    editor.encoding = "latin-1"
    editor.open(path)
    view = await seen(views, path)
    assert (view.text, view.encoding, view.dirty, view.trouble) == ("café\n", "latin-1", False, None)


async def test_a_replacement_character_that_is_really_in_the_file_is_fine(
    views: Views, editor: FakeEditor, path: Path
) -> None:
    path.write_text("odd \ufffd\n")
    editor.open(path)
    editor.type(path, 0, "x")
    assert (await seen(views, path)).trouble is None


async def test_a_binary_file_is_refused_kindly(views: Views, path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with pytest.raises(Binary, match=r"x.txt is not text \(a PNG image, 10 bytes\)"):
        await views.look(path)


async def test_the_hash_is_of_the_text(views: Views, editor: FakeEditor, path: Path) -> None:
    on_disk = (await seen(views, path)).hash
    editor.open(path)
    assert (await seen(views, path)).hash == on_disk
    editor.type(path, 0, "x")
    assert (await seen(views, path)).hash != on_disk
