from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.tools import bench, parse, plant_empty

from pilotfish.errors import ToolError
from pilotfish.tools.files.list_dir import TOOL
from pilotfish.workspace.search import listing


async def check(root: Path, expected: str, **args: object) -> None:
    async with bench(root) as made:
        assert await made.text(TOOL, **args) == expected


async def test_folders_come_first_and_ignored_ones_are_named_not_entered(tmp_path: Path) -> None:
    plant_empty(tmp_path, "z.py", "a/b.py", "node_modules/x/y.js", ".env")
    (tmp_path / ".gitignore").write_text("node_modules/\n")
    (tmp_path / "link").symlink_to("a")
    expected = "./\n  a/\n    b.py\n  node_modules/  (ignored)\n  .env\n  .gitignore\n  link@\n  z.py"
    await check(tmp_path, expected, depth=2)


async def test_a_folder_below(tmp_path: Path) -> None:
    plant_empty(tmp_path, "a/b/c.py")
    await check(tmp_path, "a/\n  b/", path="a")


async def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    await check(tmp_path, "e/\n  (empty)", path="e")


async def test_a_great_many_entries_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotfish.workspace.search.listing.MAX_ENTRIES", 2)
    plant_empty(tmp_path, "a", "b", "c")
    await check(tmp_path, "./\n  a\n  b\n[only the first 2 entries; list a subfolder, or use glob]")


async def test_names_that_are_no_text_and_pipes_are_listed_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    plant_empty(tmp_path, "two\nlines", "ü")
    await check(tmp_path, "./\n  pipe|\n  two\\nlines\n  ü")


@pytest.mark.parametrize(
    ("path", "words"), [("gone", "gone does not exist"), ("file", "file is a file; use read_file")]
)
async def test_what_cannot_be_listed_says_why(tmp_path: Path, path: str, words: str) -> None:
    plant_empty(tmp_path, "file")
    async with bench(tmp_path) as made:
        with pytest.raises(ToolError, match=words):
            await made.run(TOOL, path=path)


async def test_a_folder_that_may_not_be_read_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    plant_empty(tmp_path, "locked/x", "open/y")
    monkeypatch.setattr(listing.os, "scandir", scandir)
    async with bench(tmp_path) as made:
        with pytest.raises(ToolError, match="locked: permission denied"):
            await made.run(TOOL, path="locked")
        assert await made.text(TOOL, depth=2) == "./\n  locked/  (Permission denied)\n  open/\n    y"


@pytest.mark.parametrize("args", [{"depth": 0}, {"depth": 9}, {"path": 1}, {"folder": "x"}])
def test_bad_arguments_are_refused(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse(TOOL, args)


async def test_people_and_policy_know_what_it_touches(tmp_path: Path) -> None:
    args = TOOL.args.model_validate({"path": "src"})
    assert TOOL.title(args) == "List src"
    assert [(touch.path, touch.access) for touch in TOOL.subject(args).touches] == [("src", "read")]
    async with bench(tmp_path) as made:
        assert [place.uri for place in TOOL.locations(made.context(), args)] == [(tmp_path / "src").as_uri()]
