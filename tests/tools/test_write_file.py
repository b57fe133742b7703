from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.tools import Bench, bench

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import Refused, StaleEdit, ToolError
from pilotfish.tools.files import read_file
from pilotfish.tools.files.write_file import TOOL, WriteFileArgs
from pilotfish.tools.tool import Preview, Subject, Touch
from pilotfish.workspace.edits.changes import FileChange
from pilotfish.workspace.edits.drafts import FilePreview


@pytest.fixture
async def at(tmp_path: Path):
    async with bench(tmp_path.resolve()) as found:
        yield found


def root(at: Bench) -> Path:
    return at.workspace.roots[0]


async def test_a_new_file_is_written_with_its_directories(at: Bench) -> None:
    result = await at.run(TOOL, path="a/b.txt", content="one\ntwo\n")
    assert (root(at) / "a/b.txt").read_text() == "one\ntwo\n"
    assert result.text == "Created a/b.txt (2 lines)."
    assert result.changes == (
        FileChange(
            path=root(at) / "a/b.txt",
            change="created",
            before=None,
            after=b"one\ntwo\n",
            added=2,
            removed=0,
            via="disk",
        ),
    )


async def test_a_file_that_was_read_is_rewritten_and_the_diff_told(at: Bench) -> None:
    (root(at) / "x").write_text("one\ntwo\n")
    await at.run(read_file.TOOL, path="x")
    result = await at.run(TOOL, path="x", content="one\n2\n")
    assert result.text == "Wrote x (+1 −1).\n--- x\n+++ x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert result.diff == "--- x\n+++ x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"


async def test_a_file_that_was_not_read_is_not_overwritten(at: Bench) -> None:
    (root(at) / "x").write_text("precious\n")
    with pytest.raises(ToolError, match="has not been read; read it first"):
        await at.run(TOOL, path="x", content="new\n")
    assert TOOL.preview
    with pytest.raises(ToolError, match="has not been read; read it first"):
        await TOOL.preview(at.context(), WriteFileArgs(path="x", content="new\n"))
    assert (root(at) / "x").read_text() == "precious\n"


async def test_a_file_that_was_read_in_part_is_not_overwritten(at: Bench) -> None:
    (root(at) / "x").write_text("".join(f"{number}\n" for number in range(1, 11)))
    await at.run(read_file.TOOL, path="x", limit=4)
    with pytest.raises(ToolError, match="you have not read lines 5-10"):
        await at.run(TOOL, path="x", content="new\n")
    await at.run(read_file.TOOL, path="x", offset=5)
    await at.run(TOOL, path="x", content="new\n")
    assert (root(at) / "x").read_text() == "new\n"


async def test_the_same_text_writes_nothing(at: Bench) -> None:
    (root(at) / "x").write_text("same\n")
    await at.run(read_file.TOOL, path="x")
    result = await at.run(TOOL, path="x", content="same\n")
    assert (result.text, result.changes, result.diff) == ("x already has this content; nothing was written.", (), None)


async def test_a_preview_shows_what_then_runs_and_nothing_else(at: Bench) -> None:
    args = WriteFileArgs(path="x", content="new\n")
    assert TOOL.preview
    shown = await TOOL.preview(at.context(), args)
    version = shown.files[0].version
    assert shown == Preview(
        kind="diff", files=(FilePreview(path=root(at) / "x", before=None, after="new\n", version=version),)
    )
    assert not (root(at) / "x").exists()
    approved = replace(at.context(), approved={str(root(at) / "x"): version})
    with pytest.raises(StaleEdit, match="has changed since this edit was shown"):
        await TOOL.run(approved, WriteFileArgs(path="x", content="other\n"))
    await TOOL.run(approved, args)
    assert (root(at) / "x").read_text() == "new\n"


async def test_unsaved_text_in_an_editor_that_takes_no_edits_is_left_alone(at: Bench) -> None:
    (root(at) / "x").write_text("saved\n")
    at.editor.type_in(root(at) / "x", "typed\n")
    await at.run(read_file.TOOL, path="x")
    with pytest.raises(Refused, match="unsaved changes"):
        await at.run(TOOL, path="x", content="new\n")


async def test_where_no_file_can_be_is_an_error(at: Bench) -> None:
    (root(at) / "file").touch()
    for path, why in (
        ("file/x", "a part of this path is a file"),
        (".", "is a directory"),
        ("x" * 300, "File name too long"),
        ("/proc/x", "running system"),
    ):
        with pytest.raises(ToolError, match=why):
            await at.run(TOOL, path=path, content="x")
    assert sorted(path.name for path in root(at).iterdir()) == ["file"]


def test_people_and_policy_are_told(at: Bench) -> None:
    args = WriteFileArgs(path="x", content="")
    assert TOOL.title(args) == "Write x"
    assert TOOL.subject(args) == Subject(touches=(Touch(path="x", access="write"),))
    assert TOOL.locations(at.context(), args) == (Location(uri=(root(at) / "x").as_uri()),)
    assert (TOOL.category, TOOL.repeatable) == (Category.WRITE, False)
