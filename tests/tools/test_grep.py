from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.tools import bench, parse, plant

from pilotfish.errors import ToolError
from pilotfish.tools.files.grep import TOOL


async def test_hits_are_grouped_by_file(tmp_path: Path) -> None:
    plant(tmp_path, {"b.py": "fish\n", "a.py": "no\nfish one\n\nfish two\n"})
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, pattern="fish") == "a.py\n2: fish one\n4: fish two\nb.py\n1: fish"
        assert await made.text(TOOL, pattern="fish", mode="files") == "a.py\nb.py"
        assert await made.text(TOOL, pattern="fish", mode="count") == "a.py: 2\nb.py: 1"
        assert await made.text(TOOL, pattern="one", context=1) == "a.py\n1- no\n2: fish one\n3- "
        assert await made.text(TOOL, pattern="whale") == "Nothing matches (ignored and binary files are left out)"


async def test_the_user_is_shown_hits_as_they_come(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "fish\n"})
    async with bench(tmp_path) as made:
        await made.run(TOOL, pattern="fish")
        assert made.updates == ["a.py:1: fish\n"]


async def test_unsaved_text_is_searched_in_place_of_the_file(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "old fish\n", "b.py": "fish\n"})
    async with bench(tmp_path) as made:
        made.editor.type_in(tmp_path / "a.py", "typed\nnew fish\n")
        assert await made.text(TOOL, pattern="fish") == "a.py\n2: new fish\nb.py\n1: fish"
        assert await made.text(TOOL, pattern="old") == "Nothing matches (ignored and binary files are left out)"
        assert await made.text(TOOL, pattern="typed", path="a.py") == "a.py\n1: typed"


async def test_a_limit_keeps_the_first_matches_with_their_context(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "x\nfish\ny\nfish\nz\n"})
    async with bench(tmp_path) as made:
        text = await made.text(TOOL, pattern="fish", limit=1, context=1)
        assert text == "a.py\n1- x\n2: fish\n3- y\n[1 of 2 hits; narrow the search or raise limit]"


async def test_secrets_are_kept_from_the_model(tmp_path: Path) -> None:
    plant(tmp_path, {".env": "KEY=fish\n", "a.py": "fish\n"})
    async with bench(tmp_path) as made:
        text = await made.text(TOOL, pattern="fish")
        assert text == "a.py\n1: fish"


async def test_several_roots_are_searched(tmp_path: Path) -> None:
    plant(tmp_path, {"one/a": "fish\n", "two/b": "fish\n"})
    async with bench(tmp_path / "one", tmp_path / "two") as made:
        assert await made.text(TOOL, pattern="fish", mode="files") == "one/a\ntwo/b"


@pytest.mark.parametrize(
    ("args", "words"),
    [({"pattern": "("}, "literal"), ({"path": "gone"}, "does not exist"), ({"glob": "[z-a]/*"}, "glob")],
)
async def test_what_cannot_be_searched_says_why(tmp_path: Path, args: dict[str, str], words: str) -> None:
    async with bench(tmp_path) as made:
        with pytest.raises(ToolError, match=words):
            await made.run(TOOL, **{"pattern": "fish", **args})


async def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with bench(tmp_path) as made:
        with pytest.raises(ToolError, match="neither a file nor a folder"):
            await made.run(TOOL, pattern="x", path="pipe")
        assert (await made.text(TOOL, pattern="x")).startswith("Nothing matches")


async def test_a_search_that_takes_too_long_gives_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / ".slow"
    slow.write_text("#!/bin/sh\nprintf './a.py\\0001:fish\\n'\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr("pilotfish.workspace.search.ripgrep.find_rg", lambda: slow)
    async with bench(tmp_path) as made:
        result = await TOOL.run(made.context(timeout=1), parse(TOOL, {"pattern": "fish"}))
    assert result.text == "a.py\n1: fish\n[stopped after 1 s; narrow the search]"


async def test_names_that_are_no_text_are_spelled_out(tmp_path: Path) -> None:
    plant(tmp_path, {os.fsdecode(b"caf\xe9"): "fish\n"})
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, pattern="fish") == "caf\\udce9\n1: fish"
        assert made.updates == ["caf\\udce9:1: fish\n"]


async def test_special_characters_are_plain_when_literal(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "f(x)[0]\n"})
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, pattern="f(x)[0]", literal=True) == "a.py\n1: f(x)[0]"


@pytest.mark.parametrize(
    "args", [{}, {"pattern": ""}, {"pattern": "x", "mode": "all"}, {"pattern": "x", "context": -1}]
)
def test_bad_arguments_are_refused(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse(TOOL, args)


def test_people_and_policy_know_what_it_touches() -> None:
    args = TOOL.args.model_validate({"pattern": "fish", "path": "src"})
    assert TOOL.title(args) == "Search 'fish' in src"
    assert [(touch.path, touch.recursive) for touch in TOOL.subject(args).touches] == [("src", True)]
