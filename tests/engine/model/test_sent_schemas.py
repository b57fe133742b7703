"""The tool schemas that a provider receives are the compact ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.engine import Dialect, rig
from tests.support.provider import say

from pilotfish.tools import BY_NAME, TOOLS
from pilotfish.tools.families import offered
from pilotfish.tools.tool import parameters
from pilotfish.workspace.editor import NoEditor

MOST_BYTES = 11_000  # names, descriptions and parameters of the tools that one model is offered, in Chat's form


class WithLanguageServers(NoEditor):
    def can_answer(self, method: str) -> bool:
        return True


async def sent(tmp_path: Path, dialect: Dialect) -> dict[str, dict[str, Any]]:
    """Tool → what the provider received for it, without the envelope of the dialect."""
    files = {".pilotfish/skills/a/SKILL.md": "With a skill, every tool is offered."}
    async with rig(tmp_path, say("hi"), dialect=dialect, editor=WithLanguageServers(), files=files) as turn:
        await turn.prompt("hello")
        tools: list[dict[str, Any]] = turn.provider.requests[0].body["tools"]
    return {tool["name"]: tool for tool in (tool.get("function", tool) for tool in tools)}


@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic"])
async def test_a_provider_receives_the_compact_schema_of_every_tool(tmp_path: Path, dialect: Dialect) -> None:
    received = await sent(tmp_path, dialect)
    not_there = {"web_search"} if dialect == "chat" else set[str]()  # its provider searches nothing
    assert received.keys() == set(offered("scripted", BY_NAME)) - not_there
    for tool in TOOLS:
        if tool.name not in received:
            continue
        schema = received[tool.name].get("parameters") or received[tool.name]["input_schema"]
        assert without_additions(schema) == parameters(tool.args)
        assert received[tool.name]["description"] == tool.description


def without_additions(schema: Any) -> Any:
    """pydantic-ai closes every object for OpenAI's models."""
    match schema:
        case {"type": "object", "additionalProperties": False, **rest}:
            return without_additions({"type": "object", **rest})
        case dict():
            return {key: without_additions(value) for key, value in cast("dict[str, Any]", schema).items()}
        case list():
            return [without_additions(value) for value in cast("list[Any]", schema)]
        case _:
            return schema


async def test_all_tools_together_are_small(tmp_path: Path) -> None:
    received = await sent(tmp_path, "chat")
    text = json.dumps(list(received.values()), ensure_ascii=False, separators=(",", ":"))
    assert not any(noise in text for noise in ('"$ref"', '"anyOf"', '"$defs"', '"title":"'))
    assert len(text.encode()) < MOST_BYTES
