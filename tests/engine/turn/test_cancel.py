"""A turn can be cancelled at every step."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.support.engine import rig
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
        await turn.live.cancel(turn.session_id)
        outcome = await running
        assert outcome.stop_reason in ("cancelled", "end_turn")
        await ticks(5)
        assert turn.live.questions() == ()
        assert {task.get_name() for task in asyncio.all_tasks() - before if task.get_name().startswith("call")} == set()
        assert turn.live.status()["runningTurns"] == 0
        turn.check_laws()
        turn.provider.replies.clear()
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()
