"""The tools that ask the editor's language servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.tools import bench, parse

from pilotfish.errors import Refused, ToolError
from pilotfish.tools.code import diagnostics, find_symbol, rename_symbol, symbols


def place(line: int, character: int, length: int = 0) -> dict[str, Any]:
    return {
        "start": {"line": line, "character": character},
        "end": {"line": line, "character": character + length},
    }


async def test_a_definition_is_asked_for_at_the_name_and_shown_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def fish(): ...\n")
    (tmp_path / "b.py").write_text("import a\n\n𝒳 = a.fish()  # fishy\n")
    async with bench(tmp_path) as made:
        made.editor.answers["definition"] = {"locations": [{"uri": (tmp_path / "a.py").as_uri(), "range": place(0, 4)}]}
        for name in ("fish", "a.fish"):
            assert await made.text(find_symbol.TOOL, path="b.py", line=3, name=name) == "a.py:1: def fish(): ..."
        # 𝒳 is two units of UTF-16
        asked = {"uri": (tmp_path / "b.py").as_uri(), "position": {"line": 2, "character": 7}}
        assert made.editor.asked == [("definition", asked)] * 2


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 9), ("utf-16", 7), ("utf-32", 6)])
async def test_characters_are_counted_as_the_editor_counts_them(tmp_path: Path, encoding: str, character: int) -> None:
    (tmp_path / "b.py").write_text("𝒳 = a.fish()\n")
    uri = (tmp_path / "b.py").as_uri()
    async with bench(tmp_path) as made:
        made.editor.encoding = encoding
        made.editor.answers["definition"] = {"locations": []}
        await made.run(find_symbol.TOOL, path="b.py", line=1, name="fish")
        assert made.editor.asked == [("definition", {"uri": uri, "position": {"line": 0, "character": character}})]
        edits = [{"range": place(0, character, 4), "newText": "bird"}]
        made.editor.answers["rename"] = {"edit": {"changes": {uri: edits}}}
        await made.run(rename_symbol.TOOL, path="b.py", line=1, name="fish", new_name="bird")
        assert (tmp_path / "b.py").read_text() == "𝒳 = a.bird()\n"


async def test_references_are_sorted_and_a_line_a_little_off_is_forgiven(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n\nfish\n")
    uri = (tmp_path / "a.py").as_uri()
    async with bench(tmp_path) as made:
        made.editor.answers["references"] = {
            "locations": [{"uri": uri, "range": place(2, 0)}, {"uri": uri, "range": place(0, 0)}]
        }
        text = await made.text(find_symbol.TOOL, path="a.py", line=1, name="fish", find="references")
        assert text == "a.py:1: x\na.py:3: fish"


async def test_a_name_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("fishy\n")
    async with bench(tmp_path) as made:
        with pytest.raises(ToolError, match=r"'fish' is not in line 1 of a\.py: fishy"):
            await made.run(find_symbol.TOOL, path="a.py", line=1, name="fish")
        with pytest.raises(ToolError, match="only 2 lines"):
            await made.run(find_symbol.TOOL, path="a.py", line=9, name="fish")
        with pytest.raises(ToolError, match="does not exist"):
            await made.run(find_symbol.TOOL, path="gone.py", line=1, name="fish")


@pytest.mark.parametrize(("answer", "words"), [(None, "use grep"), ({"locations": [{"uri": 1}]}, "an invalid answer")])
async def test_no_answer_and_a_strange_answer_are_said_so(tmp_path: Path, answer: object, words: str) -> None:
    (tmp_path / "a.py").write_text("fish\n")
    async with bench(tmp_path) as made:
        made.editor.answers["definition"] = answer
        with pytest.raises(ToolError, match=words):
            await made.run(find_symbol.TOOL, path="a.py", line=1, name="fish")


async def test_problems_come_gravest_first(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n")
    warning = {"range": place(0, 0), "message": "unused", "severity": 2, "source": "ruff", "code": "F401"}
    error = {"range": place(4, 0), "message": "undefined", "severity": 1}
    async with bench(tmp_path) as made:
        made.editor.answers["diagnostics"] = {
            "documents": [{"uri": (tmp_path / "a.py").as_uri(), "version": 3, "diagnostics": [warning, error]}]
        }
        expected = "a.py:5: error: undefined\na.py:1: warning: unused [ruff F401]"
        assert await made.text(diagnostics.TOOL, path="a.py") == expected
        made.editor.answers["diagnostics"] = {"documents": []}
        assert await made.text(diagnostics.TOOL) == "No problems found."


async def test_the_problems_of_the_text_as_it_is_now_are_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n")
    async with bench(tmp_path) as made:
        made.editor.type_in(tmp_path / "a.py", "y\n", version=7)
        made.editor.answers["diagnostics"] = {"documents": []}
        await made.run(diagnostics.TOOL, path="a.py")
        assert made.editor.asked[0][1]["waitForVersion"] == 7


async def test_an_outline_keeps_its_shape(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    child = {"name": "swim", "kind": 6, "range": place(1, 0), "selectionRange": place(1, 0)}
    async with bench(tmp_path) as made:
        made.editor.answers["symbols"] = {
            "symbols": [{"name": "Fish", "kind": 5, "range": place(0, 0), "children": [child]}]
        }
        assert await made.text(symbols.TOOL, path="a.py") == "class Fish :1\n  method swim :2"


async def test_symbols_of_the_workspace_are_named_with_their_files(tmp_path: Path) -> None:
    found = {"name": "Fish", "kind": 5, "location": {"uri": (tmp_path / "a.py").as_uri(), "range": place(9, 0)}}
    async with bench(tmp_path) as made:
        made.editor.answers["symbols"] = {"symbols": [found]}
        assert await made.text(symbols.TOOL, query="fish") == "class Fish a.py:10"
        with pytest.raises(ToolError, match="either path or query"):
            await made.run(symbols.TOOL)


def renaming(tmp_path: Path) -> dict[str, Any]:
    """fish → whale in two files, one of them with letters outside the basic plane."""
    (tmp_path / "a.py").write_bytes(b"def fish(): ...\r\nfish()\r\n")
    (tmp_path / "b.py").write_text("𝒳 = fish()\n")
    edit = {"newText": "whale"}
    return {
        "edit": {
            "changes": {
                (tmp_path / "a.py").as_uri(): [{**edit, "range": place(0, 4, 4)}, {**edit, "range": place(1, 0, 4)}]
            },
            "documentChanges": [
                {
                    "textDocument": {"uri": (tmp_path / "b.py").as_uri(), "version": None},
                    "edits": [{**edit, "range": place(0, 5, 4)}],
                }
            ],
        }
    }


RENAME = {"path": "a.py", "line": 1, "name": "fish", "new_name": "whale"}


async def test_a_rename_changes_every_file_and_can_be_undone(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        made.editor.answers["rename"] = renaming(tmp_path)
        result = await made.run(rename_symbol.TOOL, **RENAME)
        assert (tmp_path / "a.py").read_bytes() == b"def whale(): ...\r\nwhale()\r\n"
        assert (tmp_path / "b.py").read_text() == "𝒳 = whale()\n"
        assert result.text.startswith("Renamed fish to whale in 2 files.\n")
        await made.workspace.undo(result.changes)
        assert (tmp_path / "b.py").read_text() == "𝒳 = fish()\n"


async def test_a_rename_shows_what_it_would_do(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        made.editor.answers["rename"] = renaming(tmp_path)
        assert rename_symbol.TOOL.preview is not None
        shown = await rename_symbol.TOOL.preview(made.context(), parse(rename_symbol.TOOL, RENAME))
        assert [(file.path.name, file.after) for file in shown.files] == [
            ("a.py", "def whale(): ...\nwhale()\n"),
            ("b.py", "𝒳 = whale()\n"),
        ]
        assert (tmp_path / "b.py").read_text() == "𝒳 = fish()\n"


async def test_a_rename_that_fails_half_way_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as made:
        made.editor.answers["rename"] = renaming(tmp_path)
        real = made.workspace._writer.write

        async def write(path: Path, *rest: Any) -> Any:
            if path.name == "b.py":
                raise Refused("b.py is locked")
            return await real(path, *rest)

        monkeypatch.setattr(made.workspace._writer, "write", write)
        with pytest.raises(ToolError, match=r"Nothing was changed: b\.py is locked"):
            await made.run(rename_symbol.TOOL, **RENAME)
        assert (tmp_path / "a.py").read_bytes() == b"def fish(): ...\r\nfish()\r\n"


async def test_a_rename_that_is_interrupted_is_made_whole_and_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as made:
        made.editor.answers["rename"] = renaming(tmp_path)
        real, begun = made.workspace._writer.write, asyncio.Event()

        async def write(path: Path, *rest: Any) -> Any:
            begun.set()
            await asyncio.sleep(0.02)
            return await real(path, *rest)

        monkeypatch.setattr(made.workspace._writer, "write", write)
        renaming_now = asyncio.create_task(made.run(rename_symbol.TOOL, **RENAME))
        await begun.wait()
        renaming_now.cancel()
        with pytest.raises(asyncio.CancelledError):
            await renaming_now
        assert [change.path.name for change in made.workspace.take_unclaimed()] == ["a.py", "b.py"]
        assert (tmp_path / "b.py").read_text() == "𝒳 = whale()\n"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"edit": None}, "cannot rename"),
        (
            {"edit": {"documentChanges": [{"kind": "rename", "oldUri": "a", "newUri": "b"}]}},
            "make the changes yourself",
        ),
        (
            {"edit": {"changes": {"file:///etc/hosts": [{"newText": "x", "range": place(0, 0)}]}}},
            "outside the workspace",
        ),
        ({"edit": {"changes": {"untitled:x": [{"newText": "x", "range": place(0, 0)}]}}}, "is not a file URI"),
    ],
)
async def test_a_rename_that_cannot_be_done_says_why(tmp_path: Path, answer: dict[str, Any], words: str) -> None:
    (tmp_path / "a.py").write_text("fish\n")
    async with bench(tmp_path) as made:
        made.editor.answers["rename"] = answer
        with pytest.raises(ToolError, match=words):
            await made.run(rename_symbol.TOOL, **RENAME)


async def test_a_rename_does_not_change_a_file_that_policy_would_ask_about(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("fish\n")
    (tmp_path / ".env").write_text("fish\n")
    edits = [{"newText": "bird", "range": place(0, 0, 4)}]
    async with bench(tmp_path) as made:
        made.editor.answers["rename"] = {"edit": {"changes": {(tmp_path / ".env").as_uri(): edits}}}
        with pytest.raises(Refused, match=r"\.env"):
            await made.run(rename_symbol.TOOL, **RENAME)


async def test_edits_that_overlap_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("fish\n")
    edits = [{"newText": "x", "range": place(0, 0, 3)}, {"newText": "y", "range": place(0, 2, 2)}]
    async with bench(tmp_path) as made:
        made.editor.answers["rename"] = {"edit": {"changes": {(tmp_path / "a.py").as_uri(): edits}}}
        with pytest.raises(ToolError, match="overlap"):
            await made.run(rename_symbol.TOOL, **RENAME)
