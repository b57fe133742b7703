"""The scripted guide runs a complete turn on the sample workspace, a tour in any other, and answers any prompt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, ToolDenied, ToolFailed
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.usage import UsageLimits

from pilotfish.engine.model.guide.answers import ANSWERS, HOW_TO, WHO, answer
from pilotfish.engine.model.guide.demo import DemoModel, next_step
from pilotfish.engine.model.guide.outline import best_file, commented, outline
from pilotfish.engine.model.guide.sample import BUG, FIX, new_sample, sample_workspace
from pilotfish.engine.model.guide.script import DemoResult, Play
from pilotfish.tools.agent import update_plan
from pilotfish.tools.commands import bash
from pilotfish.tools.files import glob, read_file, update_file, write_file

ASKED = "Fix the failing test"
EVERY_TOOL = frozenset({"glob", "read_file", "update_file", "write_file", "bash", "update_plan"})


@dataclass
class House(AbstractCapability[object]):
    """A minimal engine with real files and with tools that can be denied or missing."""

    root: Path
    missing: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        self.calls.append((call.tool_name, args))
        if call.tool_name in self.denied:
            return ToolDenied("rather not")
        if call.tool_name in self.broken:
            raise ToolFailed("out of order")
        return await handler(args)

    def agent(self) -> Agent[object, str]:
        tools: list[Callable[..., Any]] = [
            self.glob,
            self.read_file,
            self.update_file,
            self.write_file,
            self.bash,
            self.update_plan,
        ]
        return Agent(
            DemoModel(pace=0),
            tools=[tool for tool in tools if tool.__name__ not in self.missing],
            capabilities=[self],
        )

    def glob(self, pattern: str, limit: int) -> str:
        found = [path.relative_to(self.root).as_posix() for path in sorted(self.root.rglob("*.*"))]
        return "\n".join(found) or f"No file matches {pattern}"

    def read_file(self, path: str) -> str:
        try:
            lines = (self.root / path).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ToolFailed(str(error)) from error
        return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))

    def write_file(self, path: str, content: str) -> str:
        (self.root / path).write_text(content)
        return f"Wrote {path}."

    def update_file(self, path: str, edits: list[dict[str, str]]) -> str:
        file = self.root / path
        text = file.read_text()
        for edit in edits:
            assert text.count(edit["old_string"]) == 1
            text = text.replace(edit["old_string"], edit["new_string"])
        file.write_text(text)
        return f"Edited {path}."

    def bash(self, command: str) -> str:
        ran = subprocess.run(
            command.replace("python3", sys.executable), shell=True, cwd=self.root, text=True, capture_output=True
        )
        text = f"{ran.stdout}{ran.stderr}[exit code {ran.returncode}]"
        if ran.returncode:
            raise ToolFailed(text)
        return text

    def update_plan(self, steps: list[dict[str, str]]) -> str:
        return "ok"


def house(root: Path, **fields: Any) -> House:
    return House(sample_workspace(root / "sample"), **fields)


async def play(house: House, prompt: str = ASKED, history: list[ModelMessage] | None = None) -> Any:
    async def watch(_: Any, events: Any) -> None:
        async for _ in events:
            pass

    return await house.agent().run(
        prompt, message_history=history, event_stream_handler=watch, usage_limits=UsageLimits(request_limit=9)
    )


async def test_the_demo_turn_fixes_the_bug_and_the_tests_pass(tmp_path: Path) -> None:
    stage = house(tmp_path)
    result = await play(stage)
    assert [name for name, _ in stage.calls] == [
        "glob",
        "update_plan",
        "read_file",
        "read_file",
        "update_file",
        "update_plan",
        "bash",
        "update_plan",
    ]
    text = (stage.root / "calc.py").read_text()
    assert BUG not in text
    assert FIX in text
    assert result.output.startswith("Done. `mean` now divides by the number of values, and both tests pass.")
    assert HOW_TO in result.output


async def test_it_thinks_first_and_reads_files_in_parallel(tmp_path: Path) -> None:
    result = await play(house(tmp_path))
    second = result.all_messages()[3]
    assert [type(part) for part in second.parts] == [ThinkingPart, TextPart, ToolCallPart, ToolCallPart, ToolCallPart]


async def test_the_sample_fails_before_and_is_written_once(tmp_path: Path) -> None:
    stage = house(tmp_path)
    with pytest.raises(ToolFailed, match="exit code 1"):
        stage.bash("python3 -m unittest")
    with pytest.raises(FileExistsError):
        sample_workspace(stage.root)


async def test_after_a_denied_edit_the_change_is_shown_instead(tmp_path: Path) -> None:
    stage = house(tmp_path, denied=frozenset({"update_file"}))
    result = await play(stage)
    assert "I leave the file as it is; the answer was “rather not”." in result.output
    assert f"+{FIX}" in result.output
    assert BUG in (stage.root / "calc.py").read_text()
    assert "bash" not in [name for name, _ in stage.calls]


async def test_after_a_denied_command_the_fix_is_reported_as_untested(tmp_path: Path) -> None:
    result = await play(house(tmp_path, denied=frozenset({"bash"})))
    assert "I did not run the tests; the answer was “rather not”." in result.output


async def test_failing_tests_are_reported(tmp_path: Path) -> None:
    stage = house(tmp_path)
    (stage.root / "test_calc.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n def test(self): self.fail()\n"
    )
    assert "The tests do not pass yet" in (await play(stage)).output


async def test_a_fixed_workspace_is_only_tested(tmp_path: Path) -> None:
    stage = house(tmp_path)
    await play(stage)
    stage.calls.clear()
    result = await play(stage)
    assert "update_file" not in [name for name, _ in stage.calls]
    assert result.output.startswith("Done.")


async def test_calc_py_of_another_project_gets_the_tour(tmp_path: Path) -> None:
    for name in ("calc.py", "test_calc.py"):
        (tmp_path / name).write_text("def add(a, b):\n    return a + b\n")
    result = await play(House(tmp_path))
    assert "`calc.py` is changed" in result.output


def plan_is_completed(stage: House) -> bool:
    plans = [args["steps"] for name, args in stage.calls if name == "update_plan"]
    return not plans or all(step["status"] == "completed" for step in plans[-1])


async def test_in_any_folder_the_best_file_is_outlined_and_gets_a_comment(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "README.md").write_text("# Shop\n")
    (tmp_path / "src" / "test_shop.py").write_text("")
    (tmp_path / "src" / "shop.py").write_text("#!/usr/bin/env python\nclass Shop:\n    def open(self):\n        pass\n")
    stage = House(tmp_path)
    result = await play(stage, "add dark mode")
    names = [name for name, _ in stage.calls]
    assert names == ["glob", "update_plan", "read_file", "update_plan", "update_file", "update_plan"]
    assert plan_is_completed(stage)
    assert (tmp_path / "src" / "shop.py").read_text() == (
        "#!/usr/bin/env python\n# Overview: Shop, open\nclass Shop:\n    def open(self):\n        pass\n"
    )
    assert "*Undo* at this turn" in result.output
    assert HOW_TO in result.output


async def test_the_open_file_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main\n\nfunc main() {}\n")
    (tmp_path / "notes.md").write_text("# Notes\n")
    stage = House(tmp_path)
    await play(stage, '<active_file path="notes.md" cursor="1:1">\n1 # Notes\n</active_file>\ntour')
    assert (tmp_path / "notes.md").read_text() == "<!-- Overview: Notes -->\n# Notes\n"


async def test_a_second_tour_does_not_add_a_second_comment(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("export function go() {}\n")
    stage = House(tmp_path)
    await play(stage, "tour")
    text = (tmp_path / "a.js").read_text()
    assert "The comment of an earlier tour is still there" in (await play(stage, "tour")).output
    assert (tmp_path / "a.js").read_text() == text


@pytest.mark.parametrize(
    ("around", "said"),
    [
        ("Mode: plan.", "The session is in mode `plan`, so nothing is changed."),
        ("Mode: auto.", "In mode `auto` an edit runs without a question"),
        ("Mode: ask.\nThe workspace is not trusted: read and explain only.", "This folder is not trusted"),
    ],
)
async def test_no_edit_is_made_without_a_question(tmp_path: Path, around: str, said: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    stage = House(tmp_path)
    result = await play(stage, f"<environment>\n{around}\n</environment>\ntour")
    assert said in result.output
    assert "+# Overview: 1 lines" in result.output
    assert [name for name, _ in stage.calls if name in ("update_file", "write_file")] == []
    assert plan_is_completed(stage)


async def test_an_empty_folder_gets_a_new_file(tmp_path: Path) -> None:
    stage = House(tmp_path)
    result = await play(stage, "tour")
    assert (tmp_path / "pilotfish-tour.md").exists()
    assert "`pilotfish-tour.md` is changed" in result.output


async def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b.py").write_text("def b(): ...\n")
    stage = House(tmp_path)
    await play(stage, "tour")
    assert (tmp_path / "b.py").read_text() == "# Overview: b\ndef b(): ...\n"


@pytest.mark.parametrize("denied", ["update_file", "bash"])
async def test_the_plan_ends_completed_after_a_denial(tmp_path: Path, denied: str) -> None:
    stage = house(tmp_path, denied=frozenset({denied}))
    await play(stage)
    assert plan_is_completed(stage)


@pytest.mark.parametrize(
    ("asked", "topic"),
    [
        ("What modes are there?", "mode"),
        ("how do I undo a change?", "undo"),
        ("How can I stop it?", "stop"),
        ("where are my sessions", "sessions"),
        ("which models can I use?", "models"),
        ("how do I set my API key?", "models"),
        ("Does my code leave this machine?", "privacy"),
        ("is it safe? what needs approval?", "approvals"),
        ("undo", "undo"),
    ],
)
def test_questions_about_the_product_are_answered(asked: str, topic: str) -> None:
    assert answer(asked) == next(text for name, _, text in ANSWERS if name == topic)


@pytest.mark.parametrize("asked", ["add dark mode", "Fix the undo button of the editor", "What does this file do?"])
def test_work_is_not_taken_for_a_question_about_the_product(asked: str) -> None:
    assert answer(asked) is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.ts", "export class A {}\nconst f = async (x) => x\n", ["A", "f"]),
        ("a.rs", "pub struct P;\npub(crate) fn go() {}\n", ["P", "go"]),
        ("a.go", "func (s *S) Run() {}\n", ["Run"]),
        ("a.c", "static int add(int a, int b) {\n  if (a) {\n", ["add"]),
        ("a.md", "# One\n```\n# no\n```\n## Two\n", ["One", "Two"]),
    ],
)
def test_outlines(name: str, text: str, expected: list[str]) -> None:
    assert [symbol.name for symbol in outline(name, text.splitlines())] == expected


@given(
    st.sampled_from(["a.py", "a.js", "a.md", "a.php", "a.html", "a.css"]),
    st.lists(st.sampled_from(["", "---", "#!/bin/x", "<?php", "x", "x = 1", "# -*- coding: utf-8 -*-"]), max_size=6),
    st.text(max_size=20),
)
def test_a_comment_adds_one_line_and_keeps_the_others(name: str, lines: list[str], text: str) -> None:
    edit = commented(name, lines, text)
    whole = "\n".join(lines)
    if edit is not None:
        assert whole.count(edit[0]) == 1
        changed = whole.replace(*edit).split("\n")
        assert len(changed) == len(lines) + 1
        added = next((place for place, line in enumerate(changed) if lines[place : place + 1] != [line]), len(lines))
        assert changed[:added] + changed[added + 1 :] == lines


def test_the_best_file_is_source_near_the_root() -> None:
    names = ["docs/a.md", "tests/test_a.py", "deep/er/b.py", "z.py", "logo.png", "src/main.py"]
    assert best_file(names) == "src/main.py"


def test_each_sample_is_a_folder_of_its_own(tmp_path: Path) -> None:
    made = [new_sample(tmp_path / "samples").name for _ in range(2)]
    assert made == ["sample-1", "sample-2"]


@pytest.mark.parametrize("prompt", ["What is the capital of France?", "", "🐟", "<rules>fix it</rules>blub blub"])
async def test_free_text_is_answered_with_how_to_set_a_real_model(tmp_path: Path, prompt: str) -> None:
    stage = house(tmp_path)
    result = await play(stage, prompt or " ")
    assert stage.calls == []
    assert "No model is connected: I am a scripted guide" in result.output
    assert HOW_TO in result.output


@pytest.mark.parametrize("prompt", ["Hello!", "help", "who are you?"])
async def test_a_greeting_is_answered_with_what_the_guide_can_do(tmp_path: Path, prompt: str) -> None:
    assert (await play(house(tmp_path), prompt)).output == WHO


async def test_a_second_prompt_starts_over(tmp_path: Path) -> None:
    stage = house(tmp_path, denied=frozenset({"update_file"}))
    first = await play(stage)
    stage.denied = frozenset()
    second = await play(stage, "go on, fix it", first.all_messages())
    assert second.output.startswith("Done.")
    third = await play(stage, "thank you", second.all_messages())
    assert "I am a scripted guide" in third.output


async def test_a_prompt_after_a_cancelled_turn_starts_over(tmp_path: Path) -> None:
    stage = house(tmp_path)
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(ASKED)]),
        ModelResponse(parts=[ToolCallPart("read_file", {"path": "calc.py"}, "c1")]),
    ]
    result = await play(
        stage, "hello", [*history, ModelRequest(parts=[]), ModelResponse(parts=[], state="interrupted")]
    )
    assert result.output == WHO


@pytest.mark.parametrize("name", sorted(EVERY_TOOL))
@pytest.mark.parametrize("way", ["missing", "denied", "broken"])
async def test_no_tool_is_needed_to_give_an_answer(tmp_path: Path, name: str, way: str) -> None:
    result = await play(house(tmp_path, **{way: frozenset({name})}))
    assert result.output.strip()


async def test_the_response_without_streaming_is_the_same(tmp_path: Path) -> None:
    streamed = await play(house(tmp_path / "a"))
    plain = await house(tmp_path / "b").agent().run(ASKED)
    assert plain.output == streamed.output


RETURNED = st.builds(
    DemoResult,
    st.sampled_from([*sorted(EVERY_TOOL), "strange"]),
    st.sampled_from([{}, {"path": "calc.py"}, {"path": "test_calc.py"}, {"path": "a.py"}]),
    st.sampled_from(["success", "failed", "denied", "interrupted", "retried"]),
    st.sampled_from(["", BUG, FIX, "[exit code 0]", "[exit code 1]", "calc.py\ntest_calc.py", "a.py", "     1\tx = 1"]),
)


@given(
    st.text(max_size=30) | st.just(ASKED),
    st.lists(RETURNED, max_size=6).map(tuple),
    st.frozensets(st.sampled_from(sorted(EVERY_TOOL))),
)
def test_any_turn_has_a_next_step_that_only_calls_what_exists(
    asked: str, returned: tuple[DemoResult, ...], tools: frozenset[str]
) -> None:
    step = next_step(Play(asked, returned, tools))
    assert step.text or step.calls
    assert {name for name, _ in step.calls} <= tools


async def test_its_calls_are_valid_for_our_own_tools(tmp_path: Path) -> None:
    ours = {tool.TOOL.name: tool.TOOL for tool in (glob, read_file, update_file, write_file, bash, update_plan)}
    stage, empty = house(tmp_path), House(tmp_path / "empty")
    empty.root.mkdir()
    await play(stage)
    await play(empty)
    for name, args in (*stage.calls, *empty.calls):
        ours[name].args.model_validate(args)
