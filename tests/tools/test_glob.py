from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tools import bench, parse, plant_empty

from pilotfish.errors import ToolError
from pilotfish.tools.files.glob import TOOL


async def test_files_are_found_sorted_and_ignored_ones_left_out(tmp_path: Path) -> None:
    plant_empty(tmp_path, "b.py", "a/c.py", "a/d.ts", "out/e.py")
    (tmp_path / ".gitignore").write_text("out/\n")
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, pattern="*.py") == "a/c.py\nb.py"
        assert await made.text(TOOL, pattern="*.py", include_ignored=True) == "a/c.py\nb.py\nout/e.py"
        assert await made.text(TOOL, pattern="*.py", path="a") == "a/c.py"
        assert await made.text(TOOL, pattern="a/*") == "a/c.py\na/d.ts"
        assert await made.text(TOOL, pattern="*.rs") == "No file matches *.rs (ignored files are left out)"


async def test_what_is_not_shown_is_counted(tmp_path: Path) -> None:
    plant_empty(tmp_path, *(f"{number}.py" for number in range(5)))
    async with bench(tmp_path) as made:
        expected = "0.py\n1.py\n[2 of 5 files; narrow the pattern or raise limit]"
        assert await made.text(TOOL, pattern="*.py", limit=2) == expected


async def test_several_roots_are_searched_and_named(tmp_path: Path) -> None:
    plant_empty(tmp_path, "one/a.py", "two/a.py")
    async with bench(tmp_path / "one", tmp_path / "two") as made:
        assert await made.text(TOOL, pattern="*.py") == "one/a.py\ntwo/a.py"
        assert await made.text(TOOL, pattern="*.py", path="two") == "two/a.py"


async def test_a_file_that_is_only_in_the_editor_is_found(tmp_path: Path) -> None:
    plant_empty(tmp_path, "a.py")
    (tmp_path / ".gitignore").write_text("*.log\n")
    async with bench(tmp_path) as made:
        for name in ("a.py", "new.py", "new.log"):
            made.editor.type_in(tmp_path / name, "text")
        assert await made.text(TOOL, pattern="*") == ".gitignore\na.py\nnew.py"


async def test_hidden_files_are_found_and_those_hidden_from_the_agent_are_not(tmp_path: Path) -> None:
    plant_empty(tmp_path, ".github/ci.yml", "secret.yml", "sub/mine.yml")
    (tmp_path / ".pilotfishignore").write_text("secret.yml\n")
    (tmp_path / "sub/.pilotfishignore").write_text("*\n")
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, pattern="*.yml") == ".github/ci.yml"


@pytest.mark.parametrize(("args", "words"), [({"path": "gone"}, "not a folder"), ({"pattern": "[z-a]"}, "not a glob")])
async def test_what_cannot_be_searched_says_why(tmp_path: Path, args: dict[str, str], words: str) -> None:
    async with bench(tmp_path) as made:
        with pytest.raises(ToolError, match=words):
            await made.run(TOOL, **{"pattern": "*", **args})


async def test_without_a_folder_a_path_is_asked_for() -> None:
    async with bench() as made:
        with pytest.raises(ToolError, match="give an absolute path"):
            await made.run(TOOL, pattern="*")


@pytest.mark.parametrize("args", [{}, {"pattern": ""}, {"pattern": "*", "limit": 0}, {"pattern": "*", "x": 1}])
def test_bad_arguments_are_refused(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse(TOOL, args)


async def test_a_name_that_is_too_long_names_no_folder(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        with pytest.raises(ToolError, match=r"^x{400} is not a folder$"):
            await made.run(TOOL, pattern="*", path="x" * 5000)
