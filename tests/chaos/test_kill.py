"""`kill -9` of the real server at random moments of a turn, again and again, on one store.

After each: what was told is there, the session loads, nothing runs twice, the next prompt succeeds, nothing is left
over. The seed is printed; `PILOTFISH_SEED` repeats it, `PILOTFISH_CYCLES` sets how often.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.chaos.world import World, world
from tests.support.client import spawn
from tests.support.provider import Call, Reply, Text, calls, say

CYCLES = int(os.environ.get("PILOTFISH_CYCLES", "1000" if os.environ.get("PILOTFISH_LONG") else "6"))
SEED = int(os.environ.get("PILOTFISH_SEED", str(random.randrange(1 << 30))))
TURNS_A_SESSION = 25
COLD_STARTS = 20  # every so many cycles the killed server was not forked but started, and dies while it loads, too
LONGEST = 1.5  # seconds into a turn


@pytest.mark.timeout(300 + 30 * CYCLES)
async def test_after_any_kill_nothing_told_is_lost_and_the_next_prompt_works(tmp_path: Path) -> None:
    print(f"seed {SEED}")  # noqa: T201 -- a failure must be repeatable
    marks: list[str] = []
    async with world(tmp_path, SEED) as it:
        it.file("a.txt", "a\n")
        session = ""
        for cycle in range(CYCLES):
            if cycle % TURNS_A_SESSION == 0:
                session = await it.session()
            if cycle % COLD_STARTS == 1:
                await it.restart(spawn)
            it.begin(session, *[work(it, marks) for _ in range(3)], say("done"))
            await it.moment(LONGEST)
            it.client.process.kill()
            await it.gone()
            await it.check(session)
            if cycle % 50 == 49:
                print(f"{cycle + 1} cycles", flush=True)  # noqa: T201 -- hours may pass
        for mark in marks:
            ran = (it.folder / mark).read_text("utf-8") if (it.folder / mark).exists() else ""
            assert ran in ("", "x\n"), f"{mark} ran {len(ran) // 2} times"


def work(it: World, marks: list[str]) -> Reply:
    """What a model might do next: talk, read, run a command that leaves a mark, write a file."""
    match it.dice.randrange(4):
        case 0:
            return Reply(
                parts=(*(Text(f"word{number} ") for number in range(it.dice.randrange(1, 60))), Call("list_dir", {})),
                delay=0.002,
            )
        case 1:
            return calls(Call("read_file", {"path": "a.txt"}), Call("list_dir", {"path": "."}), text="reading ")
        case 2:
            marks.append(f"mark{len(marks)}")
            return calls(Call("bash", {"command": f"echo x >> {marks[-1]}; sleep 0.05"}))
        case _:
            path = f"made{it.dice.randrange(3)}.txt"
            return calls(Call("write_file", {"path": path, "content": f"made {it.dice.random()}\n"}))
