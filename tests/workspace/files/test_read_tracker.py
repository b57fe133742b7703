from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.clock import FakeClock
from tests.support.editor import FakeEditor

from pilotfish.workspace.files import read_tracker as known_module
from pilotfish.workspace.files.read_tracker import ReadTracker
from pilotfish.workspace.files.view import View, Views


class Scene:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "x.txt"
        self.path.write_text("one\ntwo\n")
        self.editor = FakeEditor()
        self.views = Views(self.editor, FakeClock())
        self.known = ReadTracker()

    async def learn(self, lines: range | None = None) -> View:
        view = await self.views.look(self.path)
        assert view is not None
        self.known.learn(view, lines)
        return view

    def changed(self) -> tuple[Path, ...]:
        return self.known.changed(self.views)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path.resolve())


async def test_what_did_not_change_is_not_named(scene: Scene) -> None:
    await scene.learn()
    assert scene.changed() == ()
    scene.path.touch()
    assert scene.changed() == ()


async def test_a_change_is_named_once(scene: Scene) -> None:
    await scene.learn()
    scene.path.write_text("one\nTWO\n")  # the same length, perhaps the same tick of the clock
    assert scene.changed() == (scene.path,)
    assert scene.changed() == ()
    scene.path.write_text("three\n")
    assert scene.changed() == (scene.path,)


async def test_what_is_put_back_is_forgotten_and_can_be_named_again(scene: Scene) -> None:
    await scene.learn()
    for _ in range(2):
        scene.path.write_text("changed\n")
        assert scene.changed() == (scene.path,)
        scene.path.write_text("one\ntwo\n")
        assert scene.changed() == ()


async def test_a_deleted_file_has_changed(scene: Scene) -> None:
    await scene.learn()
    scene.path.unlink()
    assert scene.changed() == (scene.path,)
    assert scene.changed() == ()


async def test_typing_is_a_change(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.learn()
    assert scene.changed() == ()
    scene.editor.type(scene.path, 0, "x")
    await scene.views.look(scene.path)
    assert scene.changed() == (scene.path,)


async def test_a_clean_document_that_lags_does_not_hide_a_change(scene: Scene) -> None:
    scene.editor.open(scene.path)
    await scene.learn()
    scene.path.write_text("one\nTWO\n")
    assert scene.changed() == (scene.path,)


async def test_a_file_that_is_no_text_any_more_has_changed(scene: Scene) -> None:
    await scene.learn()
    scene.path.write_bytes(b"\0\1\2")
    assert scene.changed() == (scene.path,)


async def test_what_the_agent_wrote_is_known(scene: Scene) -> None:
    await scene.learn()
    scene.path.write_text("mine\n")
    scene.known.wrote(scene.path, "mine\n")
    assert scene.changed() == ()


async def test_lines_that_were_not_shown_are_known_as_such(scene: Scene) -> None:
    scene.path.write_text("".join(f"{number}\n" for number in range(1, 11)))
    await scene.learn(range(3, 5))
    assert scene.known.unseen(scene.path) == (range(1, 3), range(5, 11))
    await scene.learn(range(1, 4))
    await scene.learn(range(5, 9))
    assert scene.known.unseen(scene.path) == (range(9, 11),)
    await scene.learn(range(9, 11))
    assert scene.known.unseen(scene.path) == ()


async def test_a_changed_file_must_be_shown_anew(scene: Scene) -> None:
    scene.path.write_text("1\n2\n3\n")
    await scene.learn(range(1, 3))
    scene.path.write_text("1\n2\n4\n")
    await scene.learn(range(3, 4))
    assert scene.known.unseen(scene.path) == (range(1, 3),)


async def test_a_renamed_file_is_known_by_its_new_name(scene: Scene) -> None:
    await scene.learn()
    new = scene.path.with_name("y.txt")
    scene.path.rename(new)
    scene.known.move(scene.path, new)
    assert scene.known.text(new) == "one\ntwo\n"
    assert scene.known.text(scene.path) is None
    assert scene.changed() == ()


async def test_only_so_much_text_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "MAX_KEPT", 10)
    await scene.learn()
    other = scene.path.with_name("y")
    scene.known.wrote(other, "0123456789")
    assert scene.known.text(scene.path) is None
    assert scene.known.text(other) == "0123456789"
    other.write_text("0123456789")
    scene.path.write_text("changed\n")
    assert scene.changed() == (scene.path,)
