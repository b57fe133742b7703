"""`kill -9` of the real server at random moments of a turn, repeatedly, on one store.

After each kill, everything that was sent is stored, the session loads, nothing runs twice, the next prompt succeeds,
and nothing is left over. The seed is printed. `PILOTFISH_SEED` sets it, `PILOTFISH_CYCLES` sets the number of kills.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from tests.chaos.world import World, world
from tests.support.client import Client, connect, spawn
from tests.support.provider import Call, Reply, Text, calls, say
from tests.support.served import served

CYCLES = int(os.environ.get("PILOTFISH_CYCLES", "1000" if os.environ.get("PILOTFISH_LONG") else "6"))
SEED = int(os.environ.get("PILOTFISH_SEED", str(random.randrange(1 << 30))))
TURNS_A_SESSION = 25
COLD_STARTS = 20  # every 20th killed server is started, not forked, so that some die while they load
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
                print(f"{cycle + 1} cycles", flush=True)  # noqa: T201 -- a run can take hours
        for mark in marks:
            ran = (it.folder / mark).read_text("utf-8") if (it.folder / mark).exists() else ""
            assert ran in ("", "x\n"), f"{mark} ran {len(ran) // 2} times"


def work(it: World, marks: list[str]) -> Reply:
    """A random reply of the model: text, reading, a command that leaves a mark, or writing a file."""
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


async def test_a_turn_killed_while_two_windows_watch_is_ended_once_and_each_sees_it(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with connect(folder) as one, connect(folder) as two:
        async with served(folder) as rig:
            session = await rig.client.new_session(mode="auto")
            running = rig.client.begin(session, rig.script("long", calls(Call("bash", {"command": "sleep 600"}))))
            running.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
            calls_of = rig.client.laws.calls[session]
            await rig.client.until(lambda: any(call.status == "in_progress" for call in calls_of.values()))
            for window in (one, two):
                seen = await window.load(session)
                assert (seen.session.elsewhere, [item.kind for item in seen.items]) == (True, ["prompt", "tool_call"])
            rig.client.process.kill()
            await asyncio.wait_for(rig.client.process.wait(), 60)
        await asyncio.gather(*(until_ended(window, session) for window in (one, two)))
        seen, same = await one.load(session), await two.load(session)
        assert seen == same
        assert [item.kind for item in seen.items] == ["prompt", "tool_call", "turn_end"]
        ended = [update for window in (one, two) for update in window.updates if update.update.kind == "turn_ended"]
        assert [(end.session_id, end.seq) for end in ended] == [(session, seen.last_seq)] * 2


async def until_ended(window: Client, session: str) -> None:
    while (await window.load(session)).session.busy:
        await asyncio.sleep(0.01)
