"""Every request is counted: those of the turn, of a subagent and of a summary."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage
from tests.support.engine import Dialect, Rig, rig
from tests.support.provider import Reply, Tokens, call, fails, say

from pilotfish.conversation.records import ToolCallRecord, Usage, UsageRecord
from pilotfish.engine.turn.context_window import ContextFill
from pilotfish.engine.turn.usage import Meter

EACH = Tokens(input=100, output=10)


def costly(reply: Reply) -> Reply:
    """The same reply, for 100 tokens in and 10 out."""
    return Reply(parts=reply.parts, finish=reply.finish, usage=EACH)


RESEARCH = (
    costly(call("research_codebase", question="where is it?")),
    costly(call("read_file", path="a.txt")),
    costly(say("it is in a.txt")),
    costly(say("done")),
)


async def recorded(turn: Rig) -> list[tuple[str, int, int]]:
    """Origin, requests and input tokens of every usage record in the ledger."""
    entries = await turn.engine.ledger.history(turn.session_id)
    return [
        (entry.record.origin, entry.record.usage.requests, entry.record.usage.input_tokens)
        for entry in entries
        if isinstance(entry.record, UsageRecord)
    ]


async def test_the_requests_of_the_subagent_are_in_the_usage_of_the_turn(tmp_path: Path) -> None:
    async with rig(tmp_path, *RESEARCH, files={"a.txt": "here\n"}) as turn:
        outcome = await turn.prompt("find it")
        assert outcome.usage == Usage(input_tokens=400, output_tokens=40, requests=4, tool_calls=2)
        assert await recorded(turn) == [("turn", 1, 100), ("research", 2, 200), ("research", 3, 300), ("turn", 4, 400)]
        assert (await turn.engine.session(turn.session_id)).usage == outcome.usage


@pytest.mark.parametrize("dialect", ["chat", "responses", "google"])
async def test_reasoning_and_cached_tokens_are_told_apart(tmp_path: Path, dialect: Dialect) -> None:
    spent = Tokens(input=100, output=30, cached=60, reasoning=20)
    async with rig(tmp_path, Reply(parts=say("hi").parts, usage=spent), dialect=dialect) as turn:
        outcome = await turn.prompt("go")
        assert outcome.usage == Usage(
            input_tokens=100, output_tokens=30, cached_tokens=60, reasoning_tokens=20, requests=1
        )
        assert (await turn.engine.session(turn.session_id)).usage == outcome.usage


@pytest.mark.parametrize(
    ("name", "url", "cost", "unpriced"),
    [
        ("work", "https://gateway.example/v1/", None, 2),
        ("openai", "https://api.openai.com/v1/", "0.5", 0),
        ("ollama", "http://127.0.0.1:11434/v1/", None, 0),
        ("litellm", "http://127.0.0.1:4000/v1/", None, 2),
        (None, None, None, 0),
    ],
)
def test_requests_without_a_known_price_are_counted(
    name: str | None, url: str | None, cost: str | None, unpriced: int
) -> None:
    meter = Meter("turn", lambda _: None, context=ContextFill(0, None))
    usage = RequestUsage(input_tokens=1, cost=Decimal(cost) if cost else None)
    meter.set_context(ModelResponse(parts=[], provider_name=name, provider_url=url, usage=usage), None)
    meter.report("turn")
    meter.report("research")
    assert meter.total.unpriced_requests == unpriced


async def test_what_the_subagent_used_does_not_count_as_context(tmp_path: Path) -> None:
    async with rig(tmp_path, *RESEARCH, files={"a.txt": "here\n"}, contextWindow=1000) as turn:
        await turn.prompt("find it")
        usages = [update.record for update in turn.updates if isinstance(update.record, UsageRecord)]
        assert [(usage.context_used, usage.context_window) for usage in usages] == [(110, 1000)] * 4


async def test_the_budget_stops_the_subagent(tmp_path: Path) -> None:
    async with rig(tmp_path, *RESEARCH, files={"a.txt": "here\n"}, budget={"tokens": 200}) as turn:
        outcome = await turn.prompt("find it")
        assert (outcome.stop_reason, outcome.usage.requests, outcome.usage.input_tokens) == ("budget", 2, 200)
        assert len(turn.provider.requests) == 2
        assert [line[-1] for line in turn.statuses().values()] == ["failed"]
        turn.check_laws()


async def test_the_subagent_does_not_use_up_the_iterations_of_the_turn(tmp_path: Path) -> None:
    async with rig(tmp_path, *RESEARCH, files={"a.txt": "here\n"}, maxIterations=2) as turn:
        assert (await turn.prompt("find it")).stop_reason == "end_turn"


async def test_a_subagent_that_never_ends_is_stopped_and_its_steps_are_the_result(tmp_path: Path) -> None:
    replies = (call("research_codebase", question="?"), *(call("list_dir", path=f"d{n}") for n in range(20)))
    async with rig(tmp_path, *replies, otherwise=say("done")) as turn:
        outcome = await turn.prompt("find it")
        # what the subagent left of the script is the turn's
        assert outcome.usage.requests == len(turn.provider.requests)
        first = next(
            update.record.call.result.text
            for update in turn.updates
            if isinstance(update.record, ToolCallRecord) and update.record.call.result is not None
        )
        assert first.startswith("The research ran out of steps.")
        assert first.count("list_dir") == 12


@pytest.mark.parametrize("failing", [False, True])
async def test_a_summary_within_a_turn_is_counted(tmp_path: Path, failing: bool) -> None:
    """Before the window overflows, and after the provider said that it has."""
    first = [costly(say(f"answer {number}")) for number in range(6)]
    if not failing:
        first[-1] = Reply(parts=first[-1].parts, usage=Tokens(input=900_000, output=10))
    refused = (fails("context"),) if failing else ()
    async with rig(
        tmp_path, *first, *refused, costly(say("SUMMARY")), costly(say("went on")), contextWindow=1_000_000
    ) as turn:
        for number in range(6):
            await turn.prompt(f"question {number}")
        outcome = await turn.prompt("the last one")
        assert outcome.usage == Usage(input_tokens=200, output_tokens=20, requests=2 + failing)
        assert (await recorded(turn))[-2:] == [("compaction", 1 + failing, 100), ("turn", 2 + failing, 200)]


async def test_a_summary_that_was_asked_for_is_in_the_usage_of_the_session(tmp_path: Path) -> None:
    replies = [costly(say(f"answer {number}")) for number in range(8)]
    async with rig(tmp_path, *replies, costly(say("SUMMARY"))) as turn:
        for number in range(8):
            await turn.prompt(f"question {number}")
        assert await turn.engine.compact(turn.session_id)
        usages = [update.record for update in turn.updates if isinstance(update.record, UsageRecord)]
        assert (usages[-1].turn_id, usages[-1].context_used) == ("", 110)  # as after the last answer
        whole = Usage(input_tokens=900, output_tokens=90, requests=9)
        assert (await turn.engine.session(turn.session_id)).usage == whole
        assert (await recorded(turn))[-1] == ("compaction", 1, 100)
        (row,) = (await turn.engine.list()).sessions
        assert row.usage == whole


async def test_a_summary_that_would_go_over_the_budget_ends_the_turn(tmp_path: Path) -> None:
    first = [costly(say(f"answer {number}")) for number in range(6)]
    summary = Reply(parts=say("SUMMARY").parts, usage=Tokens(input=5000, output=10))
    async with rig(tmp_path, *first, fails("context"), summary, say("too late"), budget={"tokens": 1000}) as turn:
        for number in range(6):
            await turn.prompt(f"question {number}")
        outcome = await turn.prompt("the last one")
        assert (outcome.stop_reason, outcome.usage.input_tokens) == ("budget", 5000)
        turn.check_laws()
