"""After an edit the model hears of the errors it made, as the editor's language servers find them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock import FakeClock
from tests.support.editor import FakeEditor

from pilotfish.workspace import post_edit_diagnostics
from pilotfish.workspace.edits.drafts import Edit, Rewrite
from pilotfish.workspace.edits.matching import Replacement
from pilotfish.workspace.workspace import Workspace

OLD = "an old trouble"


class CheckedEditor(FakeEditor):
    """An editor with a language server that finds one error in every line with a `!`, and is as quick as it is."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.takes = 0.1
        self.answers = True
        self.asked: list[bool] = []
        """of each question, whether the answer was to be waited for"""

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        assert method == "diagnostics"
        self.asked.append("waitForVersion" in params)
        if not self.answers:
            return None
        quick = True
        if "waitForVersion" in params:
            quick = self.takes * 1000 <= params["timeoutMs"]
            await self.clock.sleep(min(self.takes, params["timeoutMs"] / 1000))
        path = Path(params["uri"].removeprefix("file://"))
        doc = self.docs.get(path)
        lines = doc.text.split("\n") if doc is not None and quick else []
        return {
            "documents": [
                {
                    "uri": params["uri"],
                    "diagnostics": [
                        {
                            "range": _line(number),
                            "message": line,
                            "severity": 2 if "?" in line else 1,
                            "source": "check",
                        }
                        for number, line in enumerate(lines)
                        if "!" in line
                    ],
                }
            ]
        }


def _line(number: int) -> dict[str, Any]:
    return {"start": {"line": number, "character": 0}, "end": {"line": number, "character": 1}}


class Scene:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "x.py"
        self.path.write_text(f"{OLD}!\nfine\n")
        self.clock = FakeClock()
        self.editor = CheckedEditor(self.clock)
        self.editor.open(self.path)
        self.workspace = Workspace([folder], self.editor, clock=self.clock)

    async def swap(self, old: str, new: str) -> tuple[str, ...]:
        return (await self.workspace.apply(self.path, Edit((Replacement(old=old, new=new),)))).notes


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path.resolve())


async def test_new_errors_are_told_and_old_ones_are_not(scene: Scene) -> None:
    assert await scene.swap("fine", "wrong!\nalso wrong!\nodd?!") == (
        "the language server now reports: line 2: wrong! [check]; line 3: also wrong! [check]",
    )


async def test_the_same_error_once_more_is_new(scene: Scene) -> None:
    assert await scene.swap("fine", f"{OLD}!") == (f"the language server now reports: line 2: {OLD}! [check]",)


async def test_an_edit_without_errors_says_nothing_and_neither_does_one_that_changes_nothing(scene: Scene) -> None:
    assert await scene.swap("fine", "better") == ()
    scene.editor.asked.clear()
    await scene.workspace.read(scene.path)
    edited = await scene.workspace.apply(scene.path, Rewrite(f"{OLD}!\nbetter\n"))
    assert (edited.change, scene.editor.asked) == (None, [False])


async def test_of_many_errors_the_first_are_told(scene: Scene) -> None:
    (told,) = await scene.swap("fine", "\n".join(f"wrong {number}!" for number in range(8)))
    assert told.endswith("line 6: wrong 4! [check] and 3 more")


async def test_a_kind_of_file_that_nobody_speaks_of_is_waited_for_once(scene: Scene, tmp_path: Path) -> None:
    scene.editor.takes = 99
    (tmp_path / "x.py").write_text("fine\n")
    scene.editor.tick()
    assert await scene.swap("fine", "plain") == ()
    waited = scene.clock.passed
    assert waited >= post_edit_diagnostics.WAIT
    scene.editor.asked.clear()
    assert await scene.swap("plain", "fine") == ()
    assert (scene.editor.asked, scene.clock.passed - waited < 0.5) == ([False, False], True)


async def test_it_is_waited_for_again_once_somebody_has_spoken(scene: Scene) -> None:
    scene.workspace._diagnostics._silent_suffixes.add(".py")
    assert await scene.swap("fine", "wrong!") == ("the language server now reports: line 2: wrong! [check]",)
    assert scene.editor.asked == [False, True]


async def test_an_editor_that_does_not_answer_is_asked_once(scene: Scene) -> None:
    scene.editor.answers = False
    for number in range(3):
        await scene.swap("fine", f"fine {number}")
    assert scene.editor.asked == [False]


async def test_an_edit_whose_call_is_cancelled_while_it_is_checked_is_accounted_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking = asyncio.Event()

    async def after(*_: object) -> None:
        checking.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(scene.workspace._diagnostics, "after", after)
    editing = asyncio.create_task(scene.swap("fine", "made"))
    await checking.wait()
    editing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await editing
    assert [change.path for change in scene.workspace.take_unclaimed()] == [scene.path]
