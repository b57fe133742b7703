"""Requests that come right behind a prompt mean that prompt, and a line keeps its order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.provider import Call, Gate, Reply, Text, call, say
from tests.support.served import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAITS = Reply(parts=(Text("one "), Gate(), Text("two")))


async def waiting(rig: Rig, session: str) -> list[tuple[str, str]]:
    listed = await rig.client.request("pilotfish/queue/list", {"sessionId": session})
    return [(prompt["promptId"], prompt["kind"]) for prompt in listed["prompts"]]


async def test_a_cancel_right_behind_a_prompt_stops_it(rig: Rig):
    session = await rig.client.new_session()
    turn = rig.client.begin(session, rig.script("cancelled", WAITS))
    receipt = await rig.client.request("pilotfish/session/cancel", {"sessionId": session})
    result = await asyncio.wait_for(turn, 60)
    assert (result.stop_reason, receipt["turnId"]) == ("cancelled", result.turn_id)


async def test_a_cancel_right_behind_a_plan_stops_it(rig: Rig):
    session = await rig.client.new_session()
    turn = rig.client.begin(session, f"/plan {rig.script('planned', WAITS)}")
    await rig.client.request("pilotfish/session/cancel", {"sessionId": session})
    assert (await asyncio.wait_for(turn, 60)).stop_reason == "cancelled"


async def test_a_stop_ends_a_summary(rig: Rig):
    session = await rig.client.new_session()
    for number in range(4):
        await rig.client.prompt(session, rig.script(f"told{number}", say("word " * 2000)))
    rig.scripts.add("told0", WAITS)  # the summary of what is old
    seen = len(rig.provider.requests)
    answer = rig.client.begin(session, "/compact")
    await rig.provider.received(seen + 1)
    behind = rig.client.begin(session, rig.script("behind", say("not now")))
    await rig.client.request("pilotfish/session/cancel", {"sessionId": session})
    results = await asyncio.wait_for(asyncio.gather(answer, behind), 60)
    assert [(result.stop_reason, result.reply) for result in results] == [("cancelled", None)] * 2
    assert "compaction" not in [item.kind for item in (await rig.client.load(session)).items]


async def test_a_load_right_behind_a_prompt_shows_a_busy_session(rig: Rig):
    session = await rig.client.new_session()
    turn = rig.client.begin(session, rig.script("loaded", WAITS))
    assert (await rig.client.load(session)).session.busy
    rig.provider.release()
    assert (await asyncio.wait_for(turn, 60)).stop_reason == "end_turn"


async def test_of_two_prompts_sent_together_the_first_runs_and_the_second_is_refused(rig: Rig):
    session = await rig.client.new_session()
    own = rig.folder / ".pilotfish" / "commands"
    own.mkdir(parents=True, exist_ok=True)
    (own / "slowly.md").write_text(rig.script("first", say("done")))
    first = rig.client.begin(session, "/slowly")  # its file is read first, which takes longer than no file
    second = rig.client.begin(session, "second", whenBusy="queue")
    await asyncio.wait_for(asyncio.gather(first, second), 60)
    prompts = [item.prompt for item in (await rig.client.load(session)).items if item.kind == "prompt"]
    assert ["#first#" in str(prompt) for prompt in prompts] == [True, False]


async def test_prompts_sent_together_are_listed_at_once_steers_first_in_their_order(rig: Rig):
    session = await rig.client.new_session()
    turn = rig.client.begin(session, rig.script("listed", WAITS, say("read")), promptId="first")
    await rig.client.first_update("agent_message_chunk", session)
    later = [
        rig.client.begin(session, "queued", promptId="q", whenBusy="queue"),
        rig.client.begin(session, "do this", promptId="s1", whenBusy="steer"),
        rig.client.begin(session, "then that", promptId="s2", whenBusy="steer"),
    ]
    assert await waiting(rig, session) == [("s1", "steer"), ("s2", "steer"), ("q", "queue")]
    rig.provider.release()
    results = await asyncio.wait_for(asyncio.gather(turn, *later), 60)
    assert [result.turn_id == results[0].turn_id for result in results] == [True, False, True, True]


async def test_words_steered_into_a_turn_are_told_when_the_model_reads_them_and_loaded_the_same(rig: Rig):
    session = await rig.client.new_session()
    reads = Reply(parts=(Text("I look"), Gate(), Call("list_dir", {"path": "."})))
    turn = rig.client.begin(session, rig.script("steered", reads, say("seen"), say("later")), promptId="first")
    await rig.client.first_update("agent_message_chunk", session)
    mine = {"type": "resource", "uri": (rig.folder / "a.txt").as_uri(), "text": "my words"}
    blocks = [{"type": "text", "text": "mind this"}, mine]
    params = {"sessionId": session, "prompt": blocks, "promptId": "s", "whenBusy": "steer"}
    steer = rig.client.ask("pilotfish/session/prompt", params)
    assert await waiting(rig, session) == [("s", "steer")]
    rig.provider.release()
    await asyncio.wait_for(asyncio.gather(turn, steer), 60)
    told = [update for update in rig.client.updates if update.session_id == session]
    states = [(update.update.state, update.update.prompt_id) for update in told if update.update.kind == "state"]
    assert states == [
        ("user_input", None),
        ("assistant", None),
        ("tool_execution", None),
        ("response", None),
        ("user_input", "s"),
        ("assistant", None),
        ("response", None),
    ]
    read = next(update for update in told if update.update.kind == "state" and update.update.prompt_id == "s")
    items = (await rig.client.load(session)).items
    assert [item.kind for item in items] == ["prompt", "message", "tool_call", "prompt", "message", "turn_end"]
    item = items[3]
    assert item.kind == "prompt"
    assert (item.prompt_id, item.seq, item.turn_id) == ("s", read.seq, read.turn_id)
    assert [block.model_dump(by_alias=True, exclude_none=True) for block in item.prompt] == blocks
    forked = await rig.client.request("pilotfish/session/fork", {"sessionId": session, "itemId": item.id})
    assert (await rig.client.prompt(forked["session"]["id"], "go on")).stop_reason == "end_turn"
    assert "my words" in str(rig.provider.requests[-1].messages)


async def test_a_command_that_asks_the_model_can_be_cancelled(rig: Rig):
    session = await rig.client.new_session()
    for number in range(4):
        await rig.client.prompt(session, rig.script(f"long{number}", say("word " * 2000)))
    rig.scripts.add("long0", WAITS)  # the summary of what is old
    prompt: list[Any] = [{"type": "text", "text": "/compact"}]
    seen = len(rig.provider.requests)
    answer = rig.client.ask("pilotfish/session/prompt", {"sessionId": session, "prompt": prompt}, key="compact")
    await rig.provider.received(seen + 1)
    rig.client.notify("$/cancelRequest", {"id": "compact"})
    assert (await asyncio.wait_for(answer, 60))["stopReason"] == "cancelled"
    assert "compaction" not in [item.kind for item in (await rig.client.load(session)).items]
    assert (await rig.client.prompt(session, rig.script("on", say("on")))).stop_reason == "end_turn"


async def test_a_prompt_right_behind_other_modes_runs_in_the_last_of_them(rig: Rig):
    session = await rig.client.new_session(mode="ask")
    answers = [
        rig.client.ask("pilotfish/session/configure", {"sessionId": session, "mode": mode})
        for mode in ("auto", "edit", "plan")
    ]
    turn = rig.client.begin(session, rig.script("modes", call("bash", command="touch planned"), say("ok")))
    assert [(await answer)["session"]["mode"] for answer in answers] == ["auto", "edit", "plan"]
    assert (await turn).stop_reason == "end_turn"
    assert not (rig.folder / "planned").exists()
    assert (await rig.client.load(session)).session.mode == "plan"


async def test_a_prompt_right_behind_a_rule_obeys_it(rig: Rig):
    session = await rig.client.new_session(mode="auto")
    rule = {"decision": "deny", "tool": "bash", "pattern": "touch *", "scope": "session", "sessionId": session}
    added = rig.client.ask("pilotfish/rule/add", rule)
    turn = rig.client.begin(session, rig.script("ruled", call("bash", command="touch ruled"), say("ok")))
    assert (await added)["rule"]["decision"] == "deny"
    assert (await turn).stop_reason == "end_turn"
    assert not (rig.folder / "ruled").exists()


async def test_a_prompt_right_behind_an_undo_finds_the_files_put_back(rig: Rig):
    session = await rig.client.new_session(mode="auto")
    await rig.client.prompt(session, rig.script("made", call("write_file", path="a.txt", content="a\n"), say("ok")))
    undone = rig.client.ask("pilotfish/session/undo", {"sessionId": session})
    turn = rig.client.begin(session, rig.script("gone", call("bash", command="ls a.txt || echo gone"), say("ok")))
    assert len((await undone)["changes"]) == 1
    assert (await turn).stop_reason == "end_turn"
    assert "gone" in str(rig.provider.requests[-1].messages[-1])
