"""The beginning of a request stays the same over a session, and what changes goes into the user's message."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from tests.support.cached_prefix import HEADS, input_cost, sections, without_cache_marks
from tests.support.editor import FakeEditor
from tests.support.engine import Dialect, rig
from tests.support.provider import Gate, Reply, call, say

from pilotfish.engine.environment import standing_instructions
from pilotfish.engine.session import briefing

ROUNDS = 40


def task(number: int) -> Reply:
    """A round of a task that reads, edits and runs."""
    match number % 4:
        case 0:
            return call("read_file", path=f"src/f{number}.py")
        case 1:
            edit = {"old_string": f"v = {number - 1}\n", "new_string": f"v = {number + 3}\n"}
            return call("update_file", path="src/f0.py", edits=[edit])
        case 2:
            return call("write_file", path=f"src/new{number}.py", content="x = 1\n" * 20)
        case _:
            return call("bash", command=f"seq {number} {number + 200}")


@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic", "google"])
async def test_nine_tenths_of_the_input_of_forty_rounds_are_a_cached_prefix(tmp_path: Path, dialect: Dialect) -> None:
    files = {f"src/f{number}.py": "v = 0\n" + "y = 2\n" * 200 for number in range(ROUNDS)} | {"AGENTS.md": "Use tabs."}
    editor = FakeEditor()
    replies = (*map(task, range(ROUNDS)), say("done"), say("more"))
    async with rig(tmp_path, *replies, dialect=dialect, files=files, editor=editor, mode="auto") as turn:
        await turn.prompt("do it")
        editor.open(turn.root / "src/f3.py")
        await turn.engine.configure(turn.session_id, mode="edit")
        await turn.prompt("and then?")
        requests = turn.provider.requests
        assert len(requests) == ROUNDS + 2
        assert input_cost(requests).share >= 0.9
        heads = [[without_cache_marks(request.body.get(name)) for name in HEADS] for request in requests]
        assert all(head == heads[0] for head in heads)
        assert "Mode: edit" in sections(requests[-1].body)
        assert "src/f3.py" in sections(requests[-1].body)


async def test_a_prompt_says_where_the_user_is_and_what_the_project_offers(tmp_path: Path) -> None:
    files = {
        "src/a.py": "".join(f"line {number}\n" for number in range(1, 60)),
        "src/AGENTS.md": "Nested rule.",
        "b.py": "",
        "package.json": '{"scripts": {"test": "vitest", "bad name;": "x"}}',
        "Makefile": "lint: all\n\tx\nVAR := 1\n",
    }
    editor = FakeEditor()
    async with rig(tmp_path, call("write_file", path="c.py", content="x\n"), say("ok"), say("2"), files=files,
                   editor=editor, mode="edit") as turn:  # fmt: skip
        for name in ("src/a.py", "b.py"):
            editor.open(turn.root / name)
        at = {"line": 29, "character": 4}
        problem = {"range": {"start": at, "end": at}, "message": "odd", "source": "lint", "severity": 2}
        active = {
            "uri": (turn.root / "src/a.py").as_uri(),
            "cursor": at,
            "visible": {"start": {"line": 20, "character": 0}, "end": {"line": 44, "character": 1}},
            "diagnostics": [problem],
        }
        await turn.prompt("look", context={"active": active})
        editor.open(turn.root / "c.py")
        await turn.prompt("again", context={})
        first, second = (turn.provider.requests[index].body["messages"] for index in (0, -1))
        said, later = first[-1]["content"], second[-1]["content"]
        assert said.endswith("\n\nlook")
        assert "Commands of the project: npm run test, make lint\n" in said
        assert "Open in the editor: src/a.py (active), b.py\n" in said
        assert '<rules from="src/AGENTS.md">\nNested rule.\n</rules>' in said
        assert '<active_file path="src/a.py" cursor="30:5" visible="21-45">\n   20 line 20\n' in said
        assert "   40 line 40\nwarning [lint] in line 30: odd\n</active_file>" in said
        assert "Open in the editor: src/a.py, b.py\n" in later  # c.py was opened by the agent's edit
        assert "active_file" not in later
        assert "Nested rule." not in later
        assert second[: len(first)] == first


async def test_the_state_of_the_repository_is_said_unless_the_client_drops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(briefing, "GIT_SECONDS", 60)  # a busy machine starts git slowly
    files = {"a.py": "1\n", "b.py": "1\n"}
    async with rig(tmp_path, say("1"), say("2"), say("3"), files=files) as turn:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in (["init", "-qb", "main"], ["add", "a.py"], ["commit", "-qm", "Begin"]):
            subprocess.run([*git, *words], cwd=turn.root, check=True)
        (turn.root / "a.py").write_text("2\n")
        await turn.prompt("one")
        await turn.prompt("two")
        await turn.prompt("three", context={"git": False})
        one, two, three = (request.body["messages"][-1]["content"] for request in turn.provider.requests)
        assert "Git: branch main, 2 changed file(s)\nLast commits: " in one
        assert " Begin\n" in one
        assert "Git: branch main, 2 changed file(s)\n" in two
        assert "Last commits" not in two
        assert "Git:" not in three


async def test_a_mode_that_changes_in_a_turn_is_said_with_the_next_request(tmp_path: Path) -> None:
    async with rig(tmp_path, call("list_dir", path="."), say("ok"), choose=None) as turn:
        turn.provider.replies[0] = Reply(parts=(Gate(), *call("list_dir", path=".").parts))
        running = asyncio.create_task(turn.prompt("go"))
        await turn.provider.received(1)
        await turn.engine.configure(turn.session_id, mode="plan")
        turn.provider.release()
        await running
        assert "Mode: plan." not in json.dumps(turn.provider.requests[0].body)
        assert "Mode: plan." in json.dumps(turn.provider.requests[1].body["messages"][-1])
        items = (await turn.engine.load(turn.session_id)).items
        assert [item.kind for item in items if item.kind == "prompt"] == ["prompt"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("anthropic:claude-sonnet-5", "nothing beside it"),
        ("openai:gpt-5", "Prefer to implement"),
        ("openai:o3", "Prefer to implement"),
        ("openrouter:google/gemini-3-pro", "Never assume that a library"),
        ("ollama:qwen2.5-coder:7b", "One step at a time"),
        ("openai:gpt-4o", "Prefer to implement"),
        ("ollama:qwen2.5-coder:32b", ""),
        ("demo", ""),
    ],
)
def test_a_family_of_models_has_its_own_words(model: str, words: str) -> None:
    text = standing_instructions(model)
    assert text.startswith("You are Pilotfish")
    assert words in text
    assert ("For this model" in text) == bool(words)


def test_a_very_small_model_gets_words_of_its_own_alone() -> None:
    text = standing_instructions("ollama:qwen2.5-coder:1.5b")
    assert "greet.py" in text
    assert len(text) < 1_500
