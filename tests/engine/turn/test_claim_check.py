"""The claims of an answer are recorded, and the model is told once of those that nothing shows."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.engine import Rig, rig
from tests.support.provider import Reply, call, say

from pilotfish.conversation.records import ClaimRecord

FALSE = "Done. All tests pass."
EDIT = call("write_file", path="calc.py", content="x = 2\n")


def claims(turn: Rig) -> list[tuple[str, str, str | None]]:
    records = [told.record for told in turn.updates if isinstance(told.record, ClaimRecord)]
    return [(record.text, record.verdict, record.evidence) for record in records]


def told(turn: Rig) -> int:
    """How often the model was told."""
    return json.dumps(turn.provider.requests[-1].messages).count("A check of your last answer")


async def test_the_model_is_told_once_and_may_correct_its_answer(tmp_path: Path) -> None:
    async with rig(tmp_path, say(FALSE), say("I have not run them.")) as turn:
        outcome = await turn.prompt("fix it and make sure that all tests pass")
        assert outcome.stop_reason == "end_turn"
        assert claims(turn) == [("All tests pass.", "unsupported", "no command ran that could be tests")]
        assert (len(turn.provider.requests), told(turn)) == (2, 1)
        turn.check_laws()


async def test_a_model_that_insists_is_marked_again_and_not_told_again(tmp_path: Path) -> None:
    async with rig(tmp_path, say(FALSE), say(FALSE)) as turn:
        await turn.prompt("go")
        assert [verdict for _, verdict, _ in claims(turn)] == ["unsupported", "unsupported"]
        assert (len(turn.provider.requests), told(turn)) == (2, 1)


async def test_what_the_calls_show_is_supported(tmp_path: Path) -> None:
    run = call("bash", command="python -m unittest -q")
    files = {"test_it.py": "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"}
    async with rig(tmp_path, EDIT, run, say("I created `calc.py`. All tests pass."), files=files) as turn:
        await turn.prompt("go")
        assert [(text, verdict) for text, verdict, _ in claims(turn)] == [
            ("I created `calc.py`.", "supported"),
            ("All tests pass.", "supported"),
        ]
        assert len(turn.provider.requests) == 3


async def test_evidence_of_earlier_turns_counts_until_the_code_changes(tmp_path: Path) -> None:
    run = call("bash", command="python -m unittest -q || true; echo OK")
    replies: tuple[Reply, ...] = (run, say("ok"), say(FALSE), EDIT, say(FALSE), say("Not since the edit."))
    async with rig(tmp_path, *replies) as turn:
        await turn.prompt("run the tests")
        await turn.prompt("how are the tests?")
        assert [verdict for _, verdict, _ in claims(turn)] == ["supported"]
        await turn.prompt("now change it")
        assert claims(turn)[1:] == [
            (
                "All tests pass.",
                "unsupported",
                "calc.py was changed after the last run of tests (`python -m unittest -q || true; echo OK`)",
            )
        ]


async def test_a_turn_at_its_limit_is_marked_and_ends(tmp_path: Path) -> None:
    async with rig(tmp_path, say(FALSE), maxIterations=1) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert [verdict for _, verdict, _ in claims(turn)] == ["unsupported"]


async def test_the_check_can_be_turned_off(tmp_path: Path) -> None:
    async with rig(tmp_path, say(FALSE), verifyClaims=False) as turn:
        await turn.prompt("go")
        assert (claims(turn), len(turn.provider.requests)) == ([], 1)
