"""Titles of sessions that the model writes after the first turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Rig, rig
from tests.support.provider import Tokens, fails, say
from tests.support.waiting import until

from pilotfish.conversation.records import SessionRecord, UsageRecord

ANSWER = say("The module holds tokens.", usage=Tokens(input=100, output=10))


def _counted(turn: Rig) -> list[UsageRecord]:
    return [update.record for update in turn.updates if isinstance(update.record, UsageRecord)]


async def _titled(turn: Rig) -> str:
    """The title of the session, once the request for it was counted."""
    await until(lambda: "title" in [record.origin for record in _counted(turn)])
    return (await turn.engine.session(turn.session_id)).title


async def test_the_model_writes_the_title_after_the_first_turn_and_it_is_counted(tmp_path: Path):
    title = say('"Tokens of the auth module."\nand more', usage=Tokens(input=50, output=5))
    async with rig(tmp_path, ANSWER, title, say("Yes.")) as turn:
        turn.engine.writes_titles = True
        await turn.prompt("What is in src/auth.py? Read it first.")
        assert await _titled(turn) == "Tokens of the auth module"
        usage = (await turn.engine.session(turn.session_id)).usage
        assert (usage.requests, usage.input_tokens, usage.output_tokens) == (2, 150, 15)
        assert [(record.origin, record.turn_id == "") for record in _counted(turn)] == [
            ("turn", False),
            ("title", True),
        ]
        await until(lambda: isinstance(turn.updates[-1].record, SessionRecord))
        assert turn.updates[-1].record == SessionRecord(
            turn_id="", title="Tokens of the auth module", model="openai-chat:scripted", mode="ask"
        )
        sent = str(turn.provider.requests[1].body)
        assert "What is in src/auth.py?" in sent
        assert "The module holds tokens." in sent
        await turn.prompt("Sure?")
        assert len(turn.provider.requests) == 3  # no other title


async def test_a_name_that_the_user_gave_is_kept(tmp_path: Path):
    async with rig(tmp_path, ANSWER, say("Other")) as turn:
        turn.engine.writes_titles = True
        await turn.engine.rename(turn.session_id, "Mine")
        await turn.prompt("Hi")
        assert await _titled(turn) == "Mine"


async def test_a_title_that_cannot_be_written_leaves_the_prompt(tmp_path: Path):
    async with rig(tmp_path, ANSWER, fails("bad_request")) as turn:
        turn.engine.writes_titles = True
        await turn.prompt("Explain the parser")
        assert await _titled(turn) == "Explain the parser"


@pytest.mark.parametrize("settings", [{}, {"titles": False}])
async def test_no_title_is_asked_for_without_a_list_or_when_it_is_switched_off(
    tmp_path: Path, settings: dict[str, Any]
):
    async with rig(tmp_path, ANSWER, **settings) as turn:
        turn.engine.writes_titles = "titles" in settings
        await turn.prompt("Explain the parser")
        await turn.engine.aclose()
        assert len(turn.provider.requests) == 1
