from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.tools import Bench, bench

from pilotfish.conversation.messages import Category
from pilotfish.errors import StaleEdit, ToolError
from pilotfish.tools.files import read_file
from pilotfish.tools.files.update_file import TOOL, FileEdit, UpdateFileArgs
from pilotfish.tools.tool import Subject, Touch
from pilotfish.workspace.edits.matching import Ambiguous, NotFound

LINES = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture
async def at(tmp_path: Path):
    async with bench(tmp_path.resolve()) as found:
        (tmp_path / "x").write_text(LINES)
        yield found


def root(at: Bench) -> Path:
    return at.workspace.roots[0]


def edit(old: str, new: str, **more: bool) -> dict[str, object]:
    return {"old_string": old, "new_string": new, **more}


async def test_quoted_text_is_replaced_and_the_diff_told(at: Bench) -> None:
    result = await at.run(TOOL, path="x", edits=[edit("line 5", "LINE 5")])
    diff = "--- x\n+++ x\n@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n+LINE 5\n line 6\n line 7\n line 8\n"
    assert (result.text, result.diff) == (f"Edited x (+1 −1).\n{diff}", diff)
    assert [change.after for change in result.changes] == [LINES.replace("line 5", "LINE 5").encode()]


async def test_several_edits_are_all_made_or_none(at: Bench) -> None:
    await at.run(TOOL, path="x", edits=[edit("line 2", "two"), edit("line 3", "three")])
    assert (root(at) / "x").read_text() == LINES.replace("line 2", "two").replace("line 3", "three")
    before = (root(at) / "x").read_text()
    with pytest.raises(NotFound, match="edit 2"):
        await at.run(TOOL, path="x", edits=[edit("line 4", "four"), edit("line 44", "x")])
    assert (root(at) / "x").read_text() == before


async def test_an_ambiguous_quote_is_an_error_that_shows_the_places(at: Bench) -> None:
    with pytest.raises(Ambiguous, match="line 1:\n     1\tline 1\n"):
        await at.run(TOOL, path="x", edits=[edit("line 1", "x")])
    await at.run(TOOL, path="x", edits=[edit("line 1", "LINE 1", replace_all=True)])
    assert (root(at) / "x").read_text() == LINES.replace("line 1", "LINE 1")


async def test_a_loose_match_is_told(at: Bench) -> None:
    (root(at) / "x").write_text("if a:\n\tb\n\tc\n")
    result = await at.run(TOOL, path="x", edits=[edit("    b\n    c", "    b\n    d")])
    assert (root(at) / "x").read_text() == "if a:\n\tb\n\td\n"
    assert result.text.startswith("Edited x (+1 −1).\nNote: matched with other indentation.\n--- x")


async def test_what_others_changed_is_kept_and_told(at: Bench) -> None:
    await at.run(read_file.TOOL, path="x")
    (root(at) / "x").write_text("theirs\n" + LINES)
    result = await at.run(TOOL, path="x", edits=[edit("line 9", "LINE 9")])
    assert (root(at) / "x").read_text() == "theirs\n" + LINES.replace("line 9", "LINE 9")
    assert (
        "Note: others changed the file after you read it; their changes were kept:\n@@ -1,3 +1,4 @@\n+theirs\n"
        in result.text
    )


async def test_an_edit_over_others_lines_is_refused(at: Bench) -> None:
    await at.run(read_file.TOOL, path="x")
    (root(at) / "x").write_text(LINES.replace("line 9", "theirs"))
    with pytest.raises(StaleEdit, match=r"-line 9\n\+theirs"):
        await at.run(TOOL, path="x", edits=[edit("line 9", "LINE 9")])


async def test_an_edit_that_is_there_already_is_no_change(at: Bench) -> None:
    await at.run(read_file.TOOL, path="x")
    (root(at) / "x").write_text(LINES.replace("line 9", "LINE 9"))
    result = await at.run(TOOL, path="x", edits=[edit("line 9", "LINE 9")])
    assert (result.text, result.changes) == ("x already has this content; nothing was written.", ())


async def test_what_was_approved_is_what_runs(at: Bench) -> None:
    args = UpdateFileArgs(path="x", edits=(FileEdit(old_string="line 5", new_string="LINE 5"),))
    assert TOOL.preview
    shown = (await TOOL.preview(at.context(), args)).files[0]
    assert (shown.before, shown.after) == (LINES, LINES.replace("line 5", "LINE 5"))
    approved = replace(at.context(), approved={str(root(at) / "x"): shown.version})
    (root(at) / "x").write_text("theirs\n" + LINES)
    with pytest.raises(StaleEdit, match="has changed since this edit"):
        await TOOL.run(approved, args)
    (root(at) / "x").write_text(LINES)
    await TOOL.run(approved, args)
    assert (root(at) / "x").read_text() == shown.after


async def test_a_missing_file_is_an_error_for_preview_and_edit(at: Bench) -> None:
    args = UpdateFileArgs(path="y", edits=(FileEdit(old_string="a", new_string="b"),))
    assert TOOL.preview
    for act in (TOOL.preview, TOOL.run):
        with pytest.raises(ToolError, match="does not exist"):
            await act(at.context(), args)


@pytest.mark.parametrize(
    "bad",
    [
        {"path": "x"},
        {"path": "x", "edits": []},
        {"path": "x", "edits": [{"old_string": "a"}]},
        {"path": "x", "edits": [{"old_string": "a", "new_string": "b", "count": 1}]},
    ],
)
async def test_bad_arguments_are_named(at: Bench, bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        await at.run(TOOL, **bad)


def test_people_and_policy_are_told() -> None:
    args = UpdateFileArgs(path="x", edits=(FileEdit(old_string="a", new_string="b"),) * 2)
    assert TOOL.title(args) == "Edit x (2 edits)"
    assert TOOL.subject(args) == Subject(touches=(Touch(path="x", access="write"),))
    assert TOOL.category is Category.WRITE
