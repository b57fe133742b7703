"""A stop is felt by whatever a turn waits for, and nothing runs on behind it."""

from __future__ import annotations

import asyncio

import pytest

from pilotfish.engine.stopping import Stop

LONG = 600.0  # seconds that no test waits for


async def test_a_pause_lasts_as_long_as_it_was_asked_for():
    assert await Stop(lambda: 0.0).pause(0.01)


async def test_who_hurries_ends_the_pause_that_is_and_not_the_next_one():
    stop = Stop(lambda: 0.0)
    stop.hurry()  # nobody waits
    pause = asyncio.ensure_future(stop.pause(LONG))
    await asyncio.wait((pause,), timeout=0.05)
    assert not pause.done()
    stop.hurry()
    assert await asyncio.wait_for(pause, 30)


@pytest.mark.parametrize("before", [True, False])
async def test_a_stop_ends_a_pause_that_is_and_one_that_would_begin(before: bool):
    stop = Stop(lambda: 7.0)
    if before:
        stop.ask()
    pause = asyncio.ensure_future(stop.pause(LONG))
    await asyncio.sleep(0)
    stop.ask()
    assert (await asyncio.wait_for(pause, 30), stop.at, stop.token.cancelled) == (False, 7.0, True)


@pytest.mark.parametrize("before", [True, False])
async def test_work_is_over_when_its_stop_is_heard(before: bool):
    over: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(LONG)
        finally:
            await asyncio.sleep(0.01)
            over.append("over")

    stop = Stop(lambda: 0.0)
    if before:
        stop.ask()
    running = asyncio.ensure_future(stop.run(work(), "work"))
    await asyncio.sleep(0.01)
    stop.ask()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    assert over == ([] if before else ["over"])  # what was stopped before it began did nothing


async def test_what_the_work_raises_is_raised():
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Stop(lambda: 0.0).run(work(), "work")
