"""Commands at the end of a turn: which are stopped, which continue, and the notices about them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Rig, rig
from tests.support.provider import Gate, call, say
from tests.support.provider_script import Reply
from tests.support.waiting import until

from pilotfish.conversation.records import Receipt
from pilotfish.workspace.process.process_tree import find

PLAIN: dict[str, Any] = {"mode": "auto", "sandbox": "off"}  # in a sandbox a command's children end with it


def marker(turn: Rig) -> str:
    return turn.engine._sessions[turn.session_id].workspace.processes._launcher.name


def running(turn: Rig) -> set[int]:
    """Every process that a command of this session started and that lives."""
    return set(find(marker(turn)).sure)


async def stopped_at(turn: Rig, request: int) -> Receipt:
    """Start a turn, and stop it while the model holds back its answer to this request."""
    going = asyncio.create_task(turn.prompt("go"))
    await turn.provider.received(request)
    receipt = await turn.engine.cancel(turn.session_id)
    assert (await going).stop_reason == "cancelled"
    return receipt


async def test_a_background_command_survives_the_stop_of_its_turn_and_the_user_is_told(tmp_path: Path) -> None:
    server = call("bash", command="echo up; sleep 60", background=True)
    async with rig(tmp_path, server, Reply(parts=(Gate(),)), say("still here"), **PLAIN) as turn:
        receipt = await stopped_at(turn, 2)
        assert receipt.killed_processes == ()
        assert turn.notices() == ["Still running in the background: bg1 (echo up; sleep 60)."]
        assert running(turn)
        assert (await turn.prompt("and now?")).stop_reason == "end_turn"
        assert running(turn)
        turn.check_laws()
        name = marker(turn)
        await turn.engine.delete(turn.session_id)
        assert find(name).sure == set()


async def test_processes_that_a_command_left_are_stopped_with_its_turn(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="sleep 60 & echo up"), Reply(parts=(Gate(),)), **PLAIN) as turn:
        receipt = await stopped_at(turn, 2)
        assert [process.command for process in receipt.killed_processes] == ["sleep 60 & echo up"]
        assert (running(turn), turn.notices()) == (set(), [])


async def test_processes_of_an_earlier_turn_are_not_stopped_with_a_later_one(tmp_path: Path) -> None:
    replies = (call("bash", command="sleep 60 & echo up"), say("done"), Reply(parts=(Gate(),)))
    async with rig(tmp_path, *replies, **PLAIN) as turn:
        assert (await turn.prompt("start it")).stop_reason == "end_turn"
        left = running(turn)
        assert left
        receipt = await stopped_at(turn, 3)
        assert (receipt.killed_processes, running(turn)) == ((), left)
        assert turn.notices() == ["Still running in the background: bg1 (sleep 60 & echo up)."]


async def test_a_background_command_that_is_stopped_while_it_starts_is_gone(tmp_path: Path) -> None:
    server = call("bash", command="touch up; sleep 60", background=True)
    async with rig(tmp_path, server, say("without it"), **PLAIN) as turn:
        going = asyncio.create_task(turn.prompt("go"))
        await until((turn.root / "up").exists)
        receipt = await turn.engine.cancel(turn.session_id, next(iter(turn.statuses())))
        assert [process.command for process in receipt.killed_processes] == ["touch up; sleep 60"]
        assert (await going).stop_reason == "end_turn"
        assert running(turn) == set()


async def test_nothing_of_a_background_command_is_emitted_after_the_end_of_its_turn(tmp_path: Path) -> None:
    command = "until test -e go; do sleep 0.02; done; echo late; sleep 60"
    replies = (
        call("bash", command=command, background=True),
        say("started"),
        call("bash_output", id="bg1", wait=20, until="late"),
        say("seen"),
    )
    async with rig(tmp_path, *replies, **PLAIN) as turn:
        assert (await turn.prompt("start it")).stop_reason == "end_turn"
        (turn.root / "go").touch()
        assert (await turn.prompt("what does it say?")).stop_reason == "end_turn"
        assert "late" in str(turn.provider.requests[3].body)
        turn.check_laws()


async def test_a_receipt_has_only_the_processes_of_its_own_turn(tmp_path: Path) -> None:
    replies = (call("bash", command="sleep 60", timeout=0.2), say("too slow"), Reply(parts=(Gate(),)))
    async with rig(tmp_path, *replies, **PLAIN) as turn:
        assert (await turn.prompt("wait a little")).stop_reason == "end_turn"
        assert (await stopped_at(turn, 3)).killed_processes == ()


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_the_settings_say_where_commands_run(tmp_path: Path, sandbox: str) -> None:
    command = call("bash", command="touch ../outside 2>&1; true")
    async with rig(tmp_path, command, say("tried"), mode="auto", sandbox=sandbox) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        confined = (await turn.engine.sandbox_words()).startswith("bubblewrap")
        assert confined or sandbox == "off" or "no sandbox: bubblewrap" in await turn.engine.sandbox_words()
        assert (tmp_path / "outside").exists() is not confined


async def test_a_dev_server_that_the_agent_started_can_be_fetched_once_the_user_allows_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    replies = (
        call("bash", command=f"python3 -m http.server --bind 127.0.0.1 {port}", background=True),
        call("bash_output", id="bg1", wait=20, until="Serving"),
        call("web_fetch", url=f"http://127.0.0.1:{port}/page.txt"),
        say("it is up"),
    )
    async with rig(tmp_path, *replies, files={"page.txt": "hello from the page\n"}, **PLAIN) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert [question.call.name for question in turn.frontend.asked] == ["web_fetch"]
        assert "hello from the page" in str(turn.provider.requests[3].body)
        turn.check_laws()


async def test_with_the_network_turned_off_no_page_is_fetched(tmp_path: Path) -> None:
    replies = (call("web_fetch", url="http://127.0.0.1:9/"), say("I could not"))
    async with rig(tmp_path, *replies, network=False, **PLAIN) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert "turned the network off" in str(turn.provider.requests[1].body)
