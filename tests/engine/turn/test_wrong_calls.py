"""Calls that models get wrong: read as meant, answered with what helps, and never the end of a turn by their count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Dialect, Rig, rig
from tests.support.provider import call, calls, say
from tests.support.provider_script import Call

from pilotfish.conversation.records import ToolCallRecord


def results(turn: Rig) -> list[str]:
    """What the model was told after each call, from the last Chat request."""
    told = [message["content"] for message in turn.provider.requests[-1].body["messages"] if message["role"] == "tool"]
    return [json.loads(text)["error"] if text.startswith('{"error":') else text for text in told]


def last_calls(turn: Rig) -> dict[str, tuple[str, Any, str]]:
    found = (told.record.call for told in turn.updates if isinstance(told.record, ToolCallRecord))
    return {call.id: (call.name, call.args, call.status.value) for call in found}


@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic", "google"])
async def test_another_agents_call_runs_as_ours_and_replays(tmp_path: Path, dialect: Dialect) -> None:
    sent = {"file_path": "a.py", "offset": 0, "description": "look"}
    async with rig(
        tmp_path, call("Read", **sent), say("fine"), say("again"), dialect=dialect, files={"a.py": "x = 1\n"}
    ) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert list(last_calls(turn).values()) == [("read_file", {"path": "a.py", "offset": 1}, "completed")]
        assert (await turn.prompt("more")).stop_reason == "end_turn"
        body = json.dumps(turn.provider.requests[-1].body, ensure_ascii=False)
        assert "x = 1" in body
        assert "[note: the tool is called read_file]" in body
        assert "read_file has no argument description; it was ignored" in body
        assert "look" in body  # the call is sent back with the arguments that the model wrote
        assert [request.refused for request in turn.provider.requests] == [None] * 3
        turn.check_laws()


async def test_what_is_approved_is_the_call_as_it_was_read(tmp_path: Path) -> None:
    asked: list[tuple[str, Any, str]] = []
    reply = call("str_replace_based_edit_tool", command="str_replace", path="a.py", old_str="x = 1", new_str="x = 2")
    async with rig(tmp_path, reply, say("fine"), files={"a.py": "x = 1\n"}, mode="ask") as turn:
        choose = turn.frontend.on_ask
        assert choose is not None

        def on_ask(question: Any) -> None:
            asked.append((question.call.name, question.call.args, question.preview.files[0].after))
            choose(question)

        turn.frontend.on_ask = on_ask
        await turn.prompt("go")
        edit = {"old_string": "x = 1", "new_string": "x = 2"}
        assert asked == [("update_file", {"path": "a.py", "edits": [edit]}, "x = 2\n")]
        assert (turn.root / "a.py").read_text() == "x = 2\n"


async def test_wrong_calls_do_not_end_the_turn_by_their_count(tmp_path: Path) -> None:
    wrong = [
        *(call("bash", command={"number": number}) for number in range(6)),
        *(calls(Call("read_file", f'{{"path": "a{number}')) for number in range(6)),
        *(call(f"no_such_tool_{number}") for number in range(6)),
        *(call("no_such_tool", number=number) for number in range(6)),
    ]
    async with rig(tmp_path, *wrong, say("fine"), maxIterations=50) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert turn.text() == "fine"
        assert {status for _, _, status in last_calls(turn).values()} == {"failed"}
        turn.check_laws()


async def test_a_wrong_name_is_answered_with_the_right_one(tmp_path: Path) -> None:
    async with rig(tmp_path, call("raed_file", path="a"), say("fine")) as turn:
        await turn.prompt("go")
        (told,) = results(turn)
        assert told.startswith("There is no tool 'raed_file'. Did you mean read_file")
        assert "The tools are: read_file, " in told


@pytest.mark.parametrize("name", ["read_file", "no_such_tool"])
async def test_a_call_that_fails_again_is_answered_differently_and_then_the_user_is_asked(
    tmp_path: Path, name: str
) -> None:
    async with rig(tmp_path, otherwise=call(name, path="missing.py"), maxIterations=50) as turn:
        outcome = await turn.prompt("loop")
        assert (outcome.stop_reason, outcome.usage.requests) == ("cancelled", 4)
        first, second, third = results(turn)
        assert "exactly this call" not in first
        assert second.startswith(first)
        assert "You made exactly this call 2 times" in second
        assert "You made exactly this call 3 times" in third
        assert turn.notices() == ["The turn was stopped: it repeated the same call."]
        turn.check_laws()


async def test_a_failing_call_that_a_change_may_mend_is_no_loop(tmp_path: Path) -> None:
    steps = [
        reply
        for number in range(6)
        for reply in (call("bash", command="exit 3"), call("write_file", path=f"a{number}", content="x"))
    ]
    async with rig(tmp_path, *steps, say("fine"), maxIterations=50, mode="auto") as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert not any("exactly this call" in told for told in results(turn))


async def test_a_missing_path_is_answered_with_the_nearest_and_a_folder_with_its_listing(tmp_path: Path) -> None:
    asked = str(tmp_path / "work/src/calc.py").removeprefix("/")
    replies = (
        call("read_file", path=asked),
        call("update_file", path="lib/calc.py", edits=[{"old_string": "1", "new_string": "2"}]),
        call("read_file", path="src"),
        say("fine"),
    )
    async with rig(tmp_path, *replies, files={"src/calc.py": "x = 1\n"}, mode="auto") as turn:
        await turn.prompt("go")
        slash, edit, folder = results(turn)
        assert slash.endswith("does not exist. Did you mean src/calc.py?")
        assert edit == "lib/calc.py does not exist. Did you mean src/calc.py?"
        assert "src/\n  calc.py" in folder


async def test_an_attachment_that_is_left_out_is_said(tmp_path: Path) -> None:
    async with rig(tmp_path, say("fine"), files={".env": "KEY=1\n", "x.bin": "\0"}) as turn:
        with (turn.root / "big.log").open("wb") as file:
            file.truncate(60_000_000)
        await turn.prompt("look at @big.log, @.env, @x.bin and @nothing.py")
        sent = json.dumps(turn.provider.requests[0].body["messages"])
        for name in ("big.log", ".env", "x.bin"):
            assert f"[{name} could not be attached: " in sent
            assert any(notice.startswith(f"{name} was not attached: ") for notice in turn.notices())
        assert len(turn.notices()) == 3
