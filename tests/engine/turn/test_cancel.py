"""A turn can be cancelled at every step."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.engine import beside, rig, texts
from tests.support.provider import call, calls, say
from tests.support.provider_script import Call

STEPS = range(0, 400, 9) if os.environ.get("PILOTFISH_LONG") else range(0, 400, 40)


async def ticks(count: int) -> None:
    """Let the event loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("step", STEPS)
async def test_after_a_cancel_at_any_step_nothing_is_left_over_and_the_next_prompt_works(
    tmp_path: Path, step: int
) -> None:
    replies = (
        calls(Call("read_file", {"path": "a.txt"}), Call("bash", {"command": "sleep 0.02; echo hi"}), text="look"),
        call("write_file", path="b.txt", content="b\n"),
        say("all", " done", thoughts=("hm",)),
    )
    async with rig(tmp_path, *replies, files={"a.txt": "a\n"}, otherwise=say("fine")) as turn:
        before = asyncio.all_tasks()
        running = asyncio.create_task(turn.prompt("go"))
        await ticks(step)
        await turn.engine.cancel(turn.session_id)
        outcome = await running
        assert outcome.stop_reason in ("cancelled", "end_turn")
        await ticks(5)
        assert turn.engine.questions() == ()
        assert {task.get_name() for task in asyncio.all_tasks() - before if task.get_name().startswith("call")} == set()
        assert turn.engine.status().running_turns == 0
        turn.check_laws()
        turn.provider.replies.clear()
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


@pytest.mark.parametrize("dialect", ["chat", "anthropic", "google"])
async def test_a_live_and_a_restarted_process_tell_the_model_the_same_after_a_cancel(
    tmp_path: Path, dialect: Any
) -> None:
    wanted = (Call("bash", {"command": "echo partial; sleep 30"}), Call("read_file", {"path": "a.txt"}))
    files = {"a.txt": "alpha\n"}
    async with rig(tmp_path, calls(*wanted), otherwise=say("fine"), mode="auto", files=files, dialect=dialect) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while "partial" not in turn.text("progress"):
            await asyncio.sleep(0.005)
        await turn.engine.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"
        await turn.prompt("again")
        engine = turn.provider.requests[-1].messages
        async with beside(turn, tmp_path) as other:
            for name in ("anthropic", "google"):
                other.set_secret(name, "test-key")
            await other.load(turn.session_id)
            await other.prompt(turn.session_id, texts(["once more"]))
        restarted = turn.provider.requests[-1].messages
        assert _without_cache_marks(restarted[: len(engine)]) == _without_cache_marks(engine)
        assert r"\npartial\n" in str(engine[-3:])
        assert "[the user stopped this call]" in str(engine[-3:])


def _without_cache_marks(value: Any) -> Any:
    """Messages without Anthropic's cache breakpoints, which move on with every request."""
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            return {key: _without_cache_marks(inner) for key, inner in fields.items() if key != "cache_control"}
        case list():
            return [_without_cache_marks(inner) for inner in cast("list[Any]", value)]
        case _:
            return value
