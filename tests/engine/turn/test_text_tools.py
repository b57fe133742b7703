"""Models that cannot call tools: they are told how to write a call, and the call runs like any other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import rig
from tests.support.provider import Reply, say

from pilotfish.engine.model.catalog import listing

REFUSED = Reply(status=400, body='{"error": {"message": "registry/gemma does not support tools"}}')
CALL = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>'


@pytest.fixture(autouse=True)
async def clean() -> AsyncIterator[None]:
    listing.forget()
    yield
    listing.forget()


def sent(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], str(message["content"])) for message in body["messages"]]


async def test_a_model_that_refuses_tools_writes_its_calls_as_text(tmp_path: Path) -> None:
    replies = (REFUSED, say(f"I look.\n{CALL}"), say("It says here."), say("again"))
    async with rig(tmp_path, *replies, files={"a.txt": "here\n"}) as turn:
        assert (await turn.prompt("look")).stop_reason == "end_turn"
        assert (await turn.prompt("and?")).stop_reason == "end_turn"
        bodies = [request.body for request in turn.provider.requests]
        assert ["tools" in body for body in bodies] == [True, False, False, False]
        first, then = ["\n".join(text for role, text in sent(body) if role == "system") for body in bodies[:2]]
        assert then.startswith(first)
        assert "## read_file\n" in then
        role, result = sent(bodies[2])[-1]
        assert role == "user"
        assert result.startswith('<tool_result name="read_file">')
        assert "here" in result
        assert any(CALL in text for role, text in sent(bodies[2]) if role == "assistant")
        assert bodies[3]["messages"][: len(bodies[2]["messages"])] == bodies[2]["messages"]
        assert list(turn.statuses().values()) == [["pending", "in_progress", "completed"]]
        assert turn.text() == "I look.\nIt says here.again"
        assert [notice for notice in turn.notices() if "cannot call tools" in notice] == [
            "This model cannot call tools. It now writes its calls as text, which works less well."
        ]
        assert not [notice for notice in turn.notices() if "recovered" in notice]
        turn.check_laws()


async def test_a_model_that_is_known_to_lack_tools_is_not_sent_any(tmp_path: Path) -> None:
    async with rig(tmp_path, say("hi")) as turn:
        listing.note_lacking_tools("openai-chat:scripted")
        await turn.prompt("go")
        assert "tools" not in turn.provider.requests[0].body
        assert turn.notices() == []


async def test_a_server_that_refuses_without_tools_too_ends_the_turn(tmp_path: Path) -> None:
    async with rig(tmp_path, otherwise=REFUSED) as turn:
        outcome = await turn.prompt("go")
        assert outcome.error is not None
        assert "cannot call tools" in outcome.error.message
        assert len(turn.provider.requests) == 2
        assert "tools" not in json.dumps(list(turn.provider.requests[1].body))
