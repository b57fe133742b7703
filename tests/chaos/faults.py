"""Faults that can happen during a turn, one function per fault. `FAULTS` is the table; `test_faults.py` runs it.

A fault creates a session, causes the failure, and returns the session. `World.check` then checks what must hold after
any fault. The function itself checks only what is specific: how the turn ended, which text must still exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.chaos import faults_disk as disk
from tests.chaos import faults_provider as provider
from tests.chaos.world import PATIENCE, Fault, World
from tests.support.client import RpcError, never, option
from tests.support.provider import Call, Gate, Reply, Text, call, calls, say
from tests.support.waiting import until

# ---- the client -----------------------------------------------------------------------------------------------------


async def leaves_in_mid_turn(world: World) -> str:
    session = await world.session()
    world.begin(session, say("word ", times=400, delay=0.01))
    await world.client.first_update("agent_message_chunk", session)
    await world.moment()
    _hang_up(world)
    await world.gone()
    return session


async def leaves_in_mid_question(world: World) -> str:
    """The turn ends with its client; nothing was done without an approval."""
    session = await _asked(world, "unasked.txt")
    _hang_up(world)
    await world.gone()
    assert not (world.folder / "unasked.txt").exists()
    return session


async def _asked(world: World, name: str) -> str:
    """A session with a pending approval."""
    session = await world.session(mode="ask")
    world.client.answers["pilotfish/approval/request"] = never
    world.begin(session, call("write_file", path=name, content="x\n"), say("done"))
    await world.status_of_call(session, "awaiting_approval")
    return session


def _hang_up(world: World) -> None:
    assert world.client.process.stdin is not None
    world.client.process.stdin.close()


async def never_reads(world: World) -> str:
    session = await world.session()
    turn = world.begin(session, say("x" * 200 + " ", end="endless"))
    await world.client.first_update("agent_message_chunk", session)
    world.client.reading.clear()
    await asyncio.sleep(0.5)
    world.client.notify(
        "pilotfish/session/cancel", {"sessionId": session}
    )  # a notification, because a response would not be read
    world.client.ask("pilotfish/session/cancel", {"sessionId": session})
    await asyncio.wait_for(world.provider.requests[-1].disconnected.wait(), PATIENCE)
    world.client.reading.set()
    assert (await asyncio.wait_for(turn, PATIENCE)).stop_reason == "cancelled"
    return session


async def answers_twice(world: World) -> str:
    session = await world.session(mode="ask")
    answer = await world.turn(session, call("write_file", path="twice.txt", content="x\n"), say("done"))
    assert answer.stop_reason == "end_turn"
    for choice in ("allow_once", "reject", "allow_always"):
        _answer_again(world, {"optionId": choice})
    await world.client.request("pilotfish/status")
    assert (await world.client.request("pilotfish/rule/list", {}))["rules"] == []
    return session


async def answers_late(world: World) -> str:
    """An approval after a cancel does nothing."""
    session = await _asked(world, "late.txt")
    await world.client.request("pilotfish/session/cancel", {"sessionId": session})
    _answer_again(world, {"optionId": "allow_once"})
    await world.client.request("pilotfish/status")
    assert not (world.folder / "late.txt").exists()
    world.client.answers["pilotfish/approval/request"] = option("allow_once")
    return session


def _answer_again(world: World, result: Any) -> None:
    asked = [message["id"] for message in world.client.heard if message.get("method") == "pilotfish/approval/request"]
    world.client.send({"jsonrpc": "2.0", "id": asked[-1], "result": result})


async def answers_nonsense(world: World) -> str:
    """An invalid response is not an approval: the request stays pending until a valid response."""
    junk: list[Any] = [5, None, [], "allow_once", {}, {"optionId": 7}, {"optionId": "allow_everything"}]
    junk += [{"optionId": "allow_once", "args": {"path": 5}}, {"optionId": "allow_once", "args": "rm"}]
    world.dice.shuffle(junk)
    asked = 0

    async def answer(_: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        if asked <= len(junk):
            return junk[asked - 1]
        return {"optionId": "reject"}

    session = await world.session(mode="ask")
    world.client.answers["pilotfish/approval/request"] = answer
    turn = world.begin(session, call("write_file", path="nonsense.txt", content="x\n"), say("done"))
    while not turn.done():
        await asyncio.sleep(0.1)
        # The server does not repeat a failed request by itself; this command makes it send the request again.
        await world.client.request("workspace/executeCommand", {"command": "pilotfish.approve", "arguments": []})
        assert asked < 100
    assert (await turn).stop_reason == "end_turn"
    assert not (world.folder / "nonsense.txt").exists()
    world.client.answers["pilotfish/approval/request"] = option("allow_once")
    return session


# ---- processes ------------------------------------------------------------------------------------------------------


async def server_is_killed(world: World) -> str:
    world.file("a.txt", "a\n")
    session = await world.session()
    run = f"echo x >> killed{world.dice.randrange(1 << 30)}; sleep 0.05"
    work = (Call("read_file", {"path": "a.txt"}), Call("bash", {"command": run}))
    world.begin(session, say("word ", times=30, delay=0.003), calls(*work, text="so"), say("done"))
    await world.moment(1.0)
    world.client.process.kill()
    await world.gone()
    return session


async def server_is_killed_in_mid_question(world: World) -> str:
    """The approval is requested again, and the turn continues with the response."""
    session = await _asked(world, "asked.txt")
    world.client.process.kill()
    await world.gone()
    assert not (world.folder / "asked.txt").exists()
    await world.restart()
    await world.client.load(session)
    await world.client.until(lambda: any(key == session for key, _ in world.client.laws.ended), PATIENCE)
    assert (world.folder / "asked.txt").read_text() == "x\n"
    (world.folder / "asked.txt").unlink()
    return session


async def a_tools_process_is_killed(world: World) -> str:
    session = await world.session()
    pid = world.folder / f"pid{world.dice.randrange(1 << 30)}"
    turn = world.begin(session, call("bash", command=f"echo $$ > {pid.name}; sleep 600"), say("it is gone"))
    await _appears(pid)
    found = [int(number) for number, words in world.processes().items() if "sleep 600" in words]
    for number in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    assert (await asyncio.wait_for(turn, PATIENCE)).stop_reason == "end_turn"
    pid.unlink()
    return session


async def _appears(path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        await until(lambda: not (not path.exists() or not path.read_text().strip()))


STATES = ("newborn", "loading", "idle", "streaming", "running a command", "asking", "shutting down")


def terminated(state: str) -> Fault:
    """After SIGTERM the server exits and ends its commands."""

    async def fault(world: World) -> str:
        session = await world.session()
        match state:
            case "newborn" | "loading":
                await world.leave()
                world.client = await (world.born() if state == "newborn" else world.another())
            case "streaming":
                world.begin(session, say("word ", times=400, delay=0.01))
                await world.client.first_update("agent_message_chunk", session)
            case "running a command":
                world.begin(session, call("bash", command="(trap '' TERM; sleep 600) & sleep 600"))
                await world.status_of_call(session, "in_progress")
            case "asking":
                session = await _asked(world, "terminated.txt")
            case "shutting down":
                world.client.ask("shutdown").add_done_callback(lambda answer: answer.cancelled() or answer.exception())
            case _:
                pass
        await world.moment(0.1)
        world.client.process.send_signal(signal.SIGTERM)
        await world.gone()
        return session

    return fault


async def two_servers(world: World) -> str:
    """Two servers share a store: a session in use by one is busy for the other, and nothing is lost."""
    session = await world.session()
    other = await world.another()
    try:
        turn = world.begin(session, Reply(parts=(Text("mine "), Gate(), Text("still"))))
        await world.client.first_update("agent_message_chunk", session)
        with pytest.raises(RpcError) as busy:
            await other.prompt(session, "and mine?")
        assert busy.value.code == 2
        own = await other.new_session()
        assert (await other.prompt(own, world.script(say("elsewhere")), PATIENCE)).stop_reason == "end_turn"
        world.provider.release()
        assert (await asyncio.wait_for(turn, PATIENCE)).stop_reason == "end_turn"
        world.provider.gate.clear()
        assert (await other.prompt(session, world.script(say("my turn")), PATIENCE)).stop_reason == "end_turn"
        world.note(other)
        other.laws.check()
        assert await other.stop(PATIENCE) == 0
    finally:
        await other.close()
    await world.restart()
    await world.still_there(own)
    return session


# ---- the table ------------------------------------------------------------------------------------------------------


def _named(*faults: Callable[[World], Any], prefix: str = "") -> dict[str, Fault]:
    return {prefix + fault.__name__.replace("_", " "): fault for fault in faults}


FAULTS: dict[str, Fault] = {
    **{f"provider: {name}": provider.odd(name) for name in provider.ODD},
    **_named(
        provider.stalls,
        provider.redirects,
        provider.speaks_no_tls,
        provider.has_a_certificate_of_its_own,
        provider.says_a_hundred_megabytes,
        provider.never_ends,
        provider.asks_for_a_thousand_calls,
        prefix="provider ",
    ),
    **_named(
        leaves_in_mid_turn,
        leaves_in_mid_question,
        never_reads,
        answers_twice,
        answers_late,
        answers_nonsense,
        prefix="client ",
    ),
    **_named(server_is_killed, server_is_killed_in_mid_question, a_tools_process_is_killed, two_servers),
    **{f"SIGTERM while {state}": terminated(state) for state in STATES},
    **_named(
        disk.disk_is_full,
        disk.disk_has_no_room,
        disk.disk_is_read_only,
        disk.disk_is_slow,
        disk.store_is_deleted,
        disk.clock_jumps,
        disk.memory_is_short,
    ),
    **{f"the file is now {move.__name__.replace('_', ' ')}": disk.moved(move) for move in disk.MOVES},
}
