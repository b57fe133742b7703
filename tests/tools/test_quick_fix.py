"""quick_fix: the editor's own fixes, shown with the problems and made like every edit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.tools import bench, parse

from pilotfish.errors import Refused, ToolError
from pilotfish.tools.code import diagnostics, quick_fix

WRONG = "import os\nprint(1)\n"
FIX = {"path": "a.py", "line": 1, "title": "Remove unused import"}


def span(line: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": 0}, "end": {"line": end, "character": 0}}


def action(file: Path, title: str = "Remove unused import", **more: Any) -> dict[str, Any]:
    edit = {"changes": {file.as_uri(): [{"range": span(0, 1), "newText": ""}]}}
    return {"title": title, "diagnostics": [{"range": span(0, 1), "message": "unused"}], "edit": edit, **more}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(WRONG)
    return tmp_path / "a.py"


async def test_fixes_are_shown_with_the_problem_they_are_for(tmp_path: Path, file: Path) -> None:
    problems = [{"range": span(1, 2), "message": "no newline"}, {"range": span(0, 1), "message": "unused"}]
    async with bench(tmp_path) as made:
        made.editor.answers["diagnostics"] = {"documents": [{"uri": file.as_uri(), "diagnostics": problems}]}
        made.editor.answers["codeActions"] = {
            "actions": [action(file), action(file, "Run it", command={"command": "x"})]
        }
        told = "a.py:1: error: unused\n  quick_fix: Remove unused import\na.py:2: error: no newline"
        assert await made.text(diagnostics.TOOL, path="a.py") == told


async def test_a_fix_is_shown_made_and_can_be_undone(tmp_path: Path, file: Path) -> None:
    async with bench(tmp_path) as made:
        made.editor.answers["codeActions"] = {"actions": [action(file)]}
        assert quick_fix.TOOL.preview is not None
        shown = await quick_fix.TOOL.preview(made.context(), parse(quick_fix.TOOL, FIX))
        assert [(each.path, each.before, each.after) for each in shown.files] == [(file, WRONG, "print(1)\n")]
        assert file.read_text() == WRONG
        result = await made.run(quick_fix.TOOL, **FIX)
        assert file.read_text() == "print(1)\n"
        assert [(change.path, change.change) for change in result.changes] == [(file, "edited")]
        asked = {"uri": file.as_uri(), "range": span(0, 1), "only": ["quickfix"]}
        assert [params for method, params in made.editor.asked if method == "codeActions"] == [asked] * 2


async def test_what_was_approved_is_what_is_made(tmp_path: Path, file: Path) -> None:
    async with bench(tmp_path) as made:
        made.editor.answers["codeActions"] = {"actions": [action(file)]}
        assert quick_fix.TOOL.preview is not None
        shown = await quick_fix.TOOL.preview(made.context(), parse(quick_fix.TOOL, FIX))
        approved = {str(each.path): each.version or "" for each in shown.files}
        file.write_text("import os\nprint(2)\n")
        with pytest.raises(ToolError):
            await quick_fix.TOOL.run(replace(made.context(), approved=approved), parse(quick_fix.TOOL, FIX))
        assert file.read_text() == "import os\nprint(2)\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"title": "Another"}, "Offered there: 'Another'"),
        ({"edit": None}, "Offered there: none"),
        ({"command": {"command": "x"}}, "Offered there: none"),
        ({"edit": {"changes": {}}}, "changes nothing"),
        ({"edit": {"documentChanges": [{"kind": "delete", "uri": "file:///x"}]}}, "create or move files"),
    ],
)
async def test_what_is_no_plain_edit_is_not_made(tmp_path: Path, file: Path, more: dict[str, Any], words: str) -> None:
    async with bench(tmp_path) as made:
        made.editor.answers["codeActions"] = {"actions": [action(file) | more]}
        with pytest.raises(ToolError, match=words):
            await made.run(quick_fix.TOOL, **FIX)
        assert file.read_text() == WRONG


async def test_a_fix_that_reaches_another_file_is_refused(tmp_path: Path, file: Path) -> None:
    other = tmp_path / "b.py"
    other.write_text(WRONG)
    async with bench(tmp_path) as made:
        made.editor.answers["codeActions"] = {"actions": [action(other)]}
        with pytest.raises(Refused, match="other files"):
            await made.run(quick_fix.TOOL, **FIX)
        assert other.read_text() == WRONG
