"""The demo model runs a complete turn on the sample workspace and answers any other prompt."""

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

from pilotfish.engine.model.demo import HOW_TO, DemoModel, DemoResult, Play, next_step, sample_workspace
from pilotfish.engine.model.demo_sample import BUG, FIX
from pilotfish.tools import bash, read_file, update_file, update_plan

ASKED = "Fix the failing test"
EVERY_TOOL = frozenset({"read_file", "update_file", "bash", "update_plan"})


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
        tools: list[Callable[..., Any]] = [self.read_file, self.update_file, self.bash, self.update_plan]
        return Agent(
            DemoModel(pace=0),
            tools=[tool for tool in tools if tool.__name__ not in self.missing],
            capabilities=[self],
        )

    def read_file(self, path: str) -> str:
        try:
            return (self.root / path).read_text()
        except OSError as error:
            raise ToolFailed(str(error)) from error

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
        prompt, message_history=history, event_stream_handler=watch, usage_limits=UsageLimits(request_limit=8)
    )


async def test_the_demo_turn_fixes_the_bug_and_the_tests_pass(tmp_path: Path) -> None:
    stage = house(tmp_path)
    result = await play(stage)
    assert [name for name, _ in stage.calls] == [
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
    first = result.all_messages()[1]
    assert [type(part) for part in first.parts] == [ThinkingPart, TextPart, ToolCallPart, ToolCallPart, ToolCallPart]


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


async def test_another_workspace_gets_an_explanation(tmp_path: Path) -> None:
    result = await play(House(tmp_path))
    assert "I could not read `calc.py`" in result.output
    assert "pilotfish demo" in result.output


@pytest.mark.parametrize("prompt", ["Hello!", "What is the capital of France?", "", "🐟", "<rules>fix it</rules>hi"])
async def test_free_text_is_answered_with_how_to_set_a_real_model(tmp_path: Path, prompt: str) -> None:
    stage = house(tmp_path)
    result = await play(stage, prompt or " ")
    assert stage.calls == []
    assert "I am the demo model" in result.output
    assert HOW_TO in result.output


async def test_a_second_prompt_starts_over(tmp_path: Path) -> None:
    stage = house(tmp_path, denied=frozenset({"update_file"}))
    first = await play(stage)
    stage.denied = frozenset()
    second = await play(stage, "go on, fix it", first.all_messages())
    assert second.output.startswith("Done.")
    third = await play(stage, "thank you", second.all_messages())
    assert "I am the demo model" in third.output


async def test_a_prompt_after_a_cancelled_turn_starts_over(tmp_path: Path) -> None:
    stage = house(tmp_path)
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(ASKED)]),
        ModelResponse(parts=[ToolCallPart("read_file", {"path": "calc.py"}, "c1")]),
    ]
    result = await play(
        stage, "hello", [*history, ModelRequest(parts=[]), ModelResponse(parts=[], state="interrupted")]
    )
    assert "I am the demo model" in result.output


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
    st.sampled_from([{}, {"path": "calc.py"}, {"path": "test_calc.py"}]),
    st.sampled_from(["success", "failed", "denied", "interrupted", "retried"]),
    st.sampled_from(["", BUG, FIX, "[exit code 0]", "[exit code 1]"]),
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
    ours = {tool.TOOL.name: tool.TOOL for tool in (read_file, update_file, bash, update_plan)}
    stage = house(tmp_path)
    await play(stage)
    for name, args in stage.calls:
        ours[name].args.model_validate(args)
