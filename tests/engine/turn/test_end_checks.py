"""The check command: it runs once after changes, as a call, and the model is told if it fails."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.engine import rig
from tests.support.frontends import ALLOW, DENY
from tests.support.provider import call, say

EDIT = call("write_file", path="a.txt", content="one\n")
REPAIR = call("write_file", path="a.txt", content="two\n")
CHECK = "grep two a.txt || { echo two is missing; exit 3; }"


async def test_a_failing_check_is_told_to_the_model_once(tmp_path: Path) -> None:
    async with rig(tmp_path, EDIT, say("Done."), REPAIR, say("Now it is right."), checkCommand=CHECK) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        told = json.dumps(turn.provider.requests[2].messages[-1])
        assert "After your changes the user's check" in told
        assert "two is missing" in told
        assert len(turn.provider.requests) == 4
        assert [line[-1] for line in turn.statuses().values()] == ["completed", "failed", "completed"]
        turn.check_laws()


async def test_a_check_that_passes_ends_the_turn(tmp_path: Path) -> None:
    async with rig(tmp_path, REPAIR, say("Done."), checkCommand=CHECK) as turn:
        await turn.prompt("go")
        assert len(turn.provider.requests) == 2
        assert [line[-1] for line in turn.statuses().values()] == ["completed", "completed"]


async def test_nothing_is_checked_if_nothing_changed(tmp_path: Path) -> None:
    async with rig(tmp_path, say("Hello."), checkCommand=CHECK) as turn:
        await turn.prompt("hi")
        assert turn.statuses() == {}


async def test_the_check_is_under_the_policy_of_the_session(tmp_path: Path) -> None:
    async with rig(tmp_path, EDIT, say("Done."), checkCommand="rm a.txt", choose=None) as turn:
        turn.answers(lambda question: DENY if question.call.name == "bash" else ALLOW)
        await turn.prompt("go")
        assert [question.call.name for question in turn.frontend.asked] == ["write_file", "bash"]
        assert (turn.root / "a.txt").exists()
        assert len(turn.provider.requests) == 2
