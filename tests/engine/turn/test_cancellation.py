"""A cancellation ends everything that a turn waits for."""

from __future__ import annotations

import asyncio

import pytest

from pilotfish.engine.turn.cancellation import Cancellation

LONG = 600.0  # seconds that no test waits for


async def test_a_pause_lasts_as_long_as_it_was_asked_for():
    assert await Cancellation(lambda: 0.0).pause(0.01)


async def test_skip_backoff_ends_the_current_pause_and_not_the_next_one():
    stop = Cancellation(lambda: 0.0)
    stop.skip_backoff()  # nobody waits
    pause = asyncio.ensure_future(stop.pause(LONG))
    await asyncio.wait((pause,), timeout=0.05)
    assert not pause.done()
    stop.skip_backoff()
    assert await asyncio.wait_for(pause, 30)


@pytest.mark.parametrize("before", [True, False])
async def test_a_stop_ends_a_pause_that_is_and_one_that_would_begin(before: bool):
    stop = Cancellation(lambda: 7.0)
    if before:
        stop.ask()
    pause = asyncio.ensure_future(stop.pause(LONG))
    await asyncio.sleep(0)
    stop.ask()
    assert (await asyncio.wait_for(pause, 30), stop.at, stop.token.cancelled) == (False, 7.0, True)
