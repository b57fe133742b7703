"""What holds for every tool, and the tools that only pass something on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.tools import bench, parse

from pilotfish.conversation.messages import Category
from pilotfish.conversation.records import PlanEntry
from pilotfish.tools import TOOLS
from pilotfish.tools.agent import ask_user, research_codebase, task, update_plan
from pilotfish.tools.commands import read_output
from pilotfish.tools.families import FAMILIES, Family
from pilotfish.tools.tool import Tool, parameters

MAX_SCHEMA_BYTES = 10_000
"""All tools that one model is offered, with those that only some sessions need."""

CATEGORIES = {
    "read_file": Category.READ_ONLY,
    "list_dir": Category.READ_ONLY,
    "glob": Category.READ_ONLY,
    "grep": Category.READ_ONLY,
    "find_symbol": Category.READ_ONLY,
    "symbols": Category.READ_ONLY,
    "diagnostics": Category.READ_ONLY,
    "update_file": Category.WRITE,
    "write_file": Category.WRITE,
    "edit_notebook": Category.WRITE,
    "apply_patch": Category.WRITE,
    "move_file": Category.WRITE,
    "delete_file": Category.WRITE,
    "rename_symbol": Category.WRITE,
    "quick_fix": Category.WRITE,
    "bash": Category.EXECUTE,
    "bash_output": Category.READ_ONLY,
    "web_fetch": Category.READ_ONLY,
    "web_search": Category.RESEARCH,
    "research_codebase": Category.RESEARCH,
    "task": Category.RESEARCH,
    "update_plan": Category.READ_ONLY,
    "report_finding": Category.READ_ONLY,
    "ask_user": Category.READ_ONLY,
    "read_output": Category.READ_ONLY,
    "read_skill": Category.READ_ONLY,
    "remember": Category.WRITE,
}


def test_the_list_is_what_it_is() -> None:
    assert {tool.name: tool.category for tool in TOOLS} == CATEGORIES


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_schemas_of_all_tools_fit_into_every_request(family: Family) -> None:
    tools = [tool for tool in TOOLS if tool.name not in family.without]
    sent = [{"name": tool.name, "description": tool.description, "parameters": parameters(tool.args)} for tool in tools]
    assert len(json.dumps(sent, separators=(",", ":"), ensure_ascii=False).encode()) < MAX_SCHEMA_BYTES


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_is_plain(tool: Tool[Any]) -> None:
    schema = parameters(tool.args)
    text = json.dumps(schema)
    assert schema["type"] == "object"
    assert set(schema["properties"]) == set(tool.args.model_fields)
    assert not any(noise in text for noise in ('"$ref"', '"anyOf"', '"$defs"', "null"))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_what_writes_or_runs_shows_itself_first_and_is_never_repeated(tool: Tool[Any]) -> None:
    if tool.category in (Category.WRITE, Category.EXECUTE):
        assert (tool.preview is not None, tool.repeatable) == (True, False)


def test_an_argument_called_title_is_an_argument() -> None:
    from pilotfish.tools.tool import Args

    class Odd(Args):
        title: str
        minimum: int | None = None

    assert parameters(Odd)["properties"] == {"title": {"type": "string"}, "minimum": {"type": "integer"}}


async def test_a_plan_is_shown_and_summed_up(tmp_path: Path) -> None:
    steps = [
        {"content": "read", "status": "completed"},
        {"content": "write", "status": "in_progress", "priority": "high"},
        {"content": "test"},
    ]
    async with bench(tmp_path) as made:
        assert await made.text(update_plan.TOOL, steps=steps) == "1 of 3 done; now: write"
        assert made.plan == [
            PlanEntry(content="read", status="completed"),
            PlanEntry(content="write", status="in_progress", priority="high"),
            PlanEntry(content="test"),
        ]
        assert await made.text(update_plan.TOOL, steps=[]) == "The plan is empty."
    assert update_plan.TOOL.title(parse(update_plan.TOOL, {"steps": steps})) == "Plan: 1 of 3 done; now: write"


@pytest.mark.parametrize("steps", [None, "x", [{}], [{"content": ""}], [{"content": "x", "status": "done"}]])
def test_a_plan_that_is_none_is_refused(steps: object) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse(update_plan.TOOL, {"steps": steps})


async def test_a_question_reaches_the_person_and_silence_is_an_answer(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        made.answer = "blue"
        assert await made.text(ask_user.TOOL, question="Which?", options=["red", "blue"]) == "blue"
        assert made.updates == ["Which? ['red', 'blue']"]
        made.answer = None
        assert "best judgement" in await made.text(ask_user.TOOL, question="Which?")


async def test_research_and_tasks_are_handed_on(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        assert await made.text(research_codebase.TOOL, question="how?") == "research about how?"
        assert await made.text(task.TOOL, title="a", prompt="do it") == "task about do it"


async def test_pages_of_an_earlier_output_are_read(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        made.pages["c1"] = "a\nb\nc\nd"
        assert await made.text(read_output.TOOL, call_id="c1", line=2, count=2) == "b\nc"
