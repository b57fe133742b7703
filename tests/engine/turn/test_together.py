"""Turns that wake up together run one step at a time, and begin when the provider's modules are loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.engine import rig
from tests.support.provider import say


async def test_only_one_turn_is_let_through_in_a_round_of_the_loop(tmp_path: Path) -> None:
    async with rig(tmp_path) as turn:
        rounds, through = 0, list[int]()

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        async def step() -> None:
            await turn.engine.fairness_gate()
            through.append(rounds)

        counting = asyncio.create_task(count())
        await asyncio.gather(*(step() for _ in range(20)))
        counting.cancel()
        assert len(set(through)) == 20


async def test_a_turn_waits_until_its_providers_modules_are_loaded(tmp_path: Path) -> None:
    async with rig(tmp_path, say("hi")) as turn:
        turn.engine.warmed = asyncio.Event()
        running = asyncio.create_task(turn.prompt("go"))
        await asyncio.sleep(0.2)
        assert (turn.updates, turn.provider.requests) == ([], [])
        turn.engine.warmed.set()
        assert (await running).stop_reason == "end_turn"
