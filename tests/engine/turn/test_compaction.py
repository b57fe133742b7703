"""A conversation that fills the model's window: old content is left out, then summarised, also inside a turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.engine import Dialect, Rig, rig
from tests.support.provider import Answer, Reply, Request, call, calls, fails, say
from tests.support.provider_script import Call, Tokens

from pilotfish.conversation.records import CompactionRecord

WINDOW = 32_000  # tokens of the provider
LINES = "seq -f 'line %06g of a long output' 1 {}"  # 30 bytes a line


def tokens(request: Request) -> int:
    return len(json.dumps(request.body, ensure_ascii=False)) * 2 // 7


class SmallModel:
    """Plays a script like a provider whose window is small: a larger request is refused and answered by no reply."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.refused = 0
        self.summaries = 0

    def __call__(self, request: Request) -> Reply:
        size = tokens(request)
        if size > WINDOW:
            self.refused += 1
            return fails("context")
        if "Summarise this conversation" in json.dumps(request.body):
            self.summaries += 1
            return say(f"SUMMARY {self.summaries}", usage=Tokens(input=size, output=5))
        reply = self.replies.pop(0)
        return Reply(parts=reply.parts, usage=Tokens(input=size, output=20))


def compactions(turn: Rig) -> list[CompactionRecord]:
    return [told.record for told in turn.updates if isinstance(told.record, CompactionRecord)]


def nine_outputs(together: bool) -> list[Reply]:
    commands = [Call("bash", {"command": LINES.format(500 + number)}) for number in range(9)]
    return [calls(*commands)] if together else [calls(command) for command in commands]


@pytest.mark.parametrize("dialect", ["chat", "anthropic"])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("told", [True, False])
async def test_nine_outputs_of_fifteen_kilobytes_work_through_in_a_small_window(
    tmp_path: Path, dialect: Dialect, together: bool, told: bool
) -> None:
    model = SmallModel(*nine_outputs(together), say("done"), say("still here"))
    window = WINDOW if told else None
    async with rig(tmp_path, otherwise=model, dialect=dialect, mode="auto", contextWindow=window) as turn:
        assert (await turn.prompt("run them all")).stop_reason == "end_turn"
        assert (await turn.prompt("continue")).stop_reason == "end_turn"
        assert model.replies == []
        assert model.refused <= (0 if told else 1)
        assert "run them all" in json.dumps(turn.provider.requests[-1].body)
        if told and not together:
            assert turn.notices()[0] == "The content of 2 older call(s) is no longer sent to the model, to make room."
        turn.check_laws()


async def test_a_turn_that_cannot_be_folded_is_summarised_in_its_middle(tmp_path: Path) -> None:
    """The model's own words fill the window. The summary keeps the task, the plan and the files."""
    plan = call("update_plan", steps=[{"content": "write it down", "status": "in_progress"}])
    edit = call("write_file", path="notes.md", content="one\n")
    long = [calls(Call("list_dir", {"path": "."}), text=f"thinking {number} " * 800) for number in range(14)]
    model = SmallModel(plan, edit, *long, say("done"))
    async with rig(tmp_path, otherwise=model, mode="auto", contextWindow=WINDOW) as turn:
        turn.frontend.user_answer = "Go on"
        assert (await turn.prompt("Write the notes.")).stop_reason == "end_turn"
        assert (model.refused, model.summaries) == (0, len(compactions(turn)))
        record = compactions(turn)[0]
        assert record.summary.startswith("SUMMARY 1\n\nThe task, in the user's words:\nWrite the notes.")
        assert "- [in_progress] write it down" in record.summary
        assert f"Files changed: {turn.root / 'notes.md'}" in record.summary
        assert 0 < record.after < record.before / 2
        requests = [request for request in turn.provider.requests if "SUMMARY 1" in json.dumps(request.body)]
        assert tokens(requests[0]) == pytest.approx(record.after, rel=0.25)
        turn.check_laws()


async def test_an_overflow_error_in_a_turn_of_one_prompt_is_answered_with_a_summary_once(tmp_path: Path) -> None:
    replies: tuple[Answer, ...] = (
        call("bash", command=LINES.format(100)),
        call("bash", command=LINES.format(101)),
        fails("context"),
        say("SUMMARY"),
        say("done"),
        call("bash", command="true"),
        fails("context"),
        say("SECOND"),
        fails("context"),
    )
    async with rig(tmp_path, *replies, mode="auto") as turn:
        assert (await turn.prompt("count")).stop_reason == "end_turn"
        assert [record.summary.split("\n")[0] for record in compactions(turn)] == ["SUMMARY"]
        outcome = await turn.prompt("again")
        assert (outcome.stop_reason, outcome.error and outcome.error.kind) == ("failed", "context")
        assert len(compactions(turn)) == 2
        turn.check_laws()


async def test_a_second_summary_is_made_from_the_first_one(tmp_path: Path) -> None:
    async with rig(tmp_path, *(say(f"answer {number}") for number in range(4))) as turn:
        for number in range(4):
            await turn.prompt(f"question {number}")
        for summary in ("FIRST", "SECOND"):
            turn.provider.replies.extend([say(summary), say("on"), say("on"), say("on"), say("on")])
            assert await turn.engine.compact(turn.session_id)
            for number in range(4):
                await turn.prompt(f"more {number}")
        asked = [json.dumps(request.body) for request in turn.provider.requests]
        assert ["FIRST" in body for body in asked if "Summarise this conversation" in body] == [False, True]
