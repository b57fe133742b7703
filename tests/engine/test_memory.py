"""What turns and sessions leave behind is collected once nothing runs, and not before."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from pilotfish.engine import memory
from pilotfish.engine.memory import Leftovers, resident_bytes


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the collector was told to do."""
    done: list[str] = []
    monkeypatch.setattr(memory, "TIDY_AFTER", 0.01)
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: done.append(name))
    return done


async def test_what_turns_left_is_collected_once_after_the_last(done: list[str]):
    left = Leftovers(lambda: False)
    for _ in range(3):
        left.of_turn()
    await asyncio.sleep(0.1)
    assert done == ["collect"]
    left.of_turn()
    await asyncio.sleep(0.1)
    assert done == ["collect", "collect"]


async def test_nothing_is_collected_while_a_turn_runs(done: list[str]):
    running = True
    left = Leftovers(lambda: running)
    left.of_session()
    await asyncio.sleep(0.1)
    assert done == []
    running = False
    left.of_turn()  # its end
    await asyncio.sleep(0.1)
    assert done == ["unfreeze", "collect", "freeze"]


async def test_what_was_frozen_is_looked_through_once_for_a_session_that_is_gone(done: list[str]):
    left = Leftovers(lambda: False)
    left.of_session()
    await asyncio.sleep(0.1)
    left.of_turn()
    await asyncio.sleep(0.1)
    assert done == ["unfreeze", "collect", "freeze", "collect"]


def test_what_the_process_holds_is_known_where_the_system_says_it():
    held = resident_bytes()
    assert (held is not None and held > 1_000_000) == Path("/proc/self/statm").exists()
