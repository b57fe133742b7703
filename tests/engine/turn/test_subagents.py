"""Subagents: their calls are calls of the turn, under the same policy, and their context is their own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.support.engine import Dialect, Rig, beside, rig
from tests.support.frontends import DENY
from tests.support.provider import Call, Reply, Tokens, call, calls, say

from pilotfish.conversation.items import CallItem
from pilotfish.conversation.messages import CanonicalToolCall
from pilotfish.conversation.records import ToolCallRecord

TASK = call("task", title="write it", prompt="Write one to a.txt. #sub#")
WRITE = call("write_file", path="a.txt", content="one\n")


def made(turn: Rig) -> dict[str, CanonicalToolCall]:
    """The calls by name, as they ended."""
    return {
        update.record.call.name: update.record.call
        for update in turn.updates
        if isinstance(update.record, ToolCallRecord)
    }


async def test_a_task_works_in_its_own_context_and_its_calls_are_under_it(tmp_path: Path) -> None:
    async with rig(tmp_path, TASK, WRITE, say("Wrote a.txt."), say("Done.")) as turn:
        outcome = await turn.prompt("a long story")
        assert outcome.stop_reason == "end_turn"
        main, sub, _, last = turn.provider.requests
        assert "a long story" in json.dumps(main.messages)
        assert "a long story" not in json.dumps(sub.messages)
        assert "You do one part of a larger piece of work" in json.dumps(sub.messages[0])
        assert not {"task", "research_codebase", "ask_user"} & set(sub.tools)
        found = made(turn)
        assert (found["write_file"].parent_id, found["task"].parent_id) == (found["task"].id, None)
        assert [question.call.name for question in turn.frontend.asked] == ["write_file"]
        assert (turn.root / "a.txt").read_text() == "one\n"
        assert "Wrote a.txt.\n[2 request(s), 1 call(s), " in str(last.messages[-1]["content"])
        assert "write_file" not in json.dumps(last.messages)
        assert turn.text("progress").startswith("write_file {")
        turn.check_laws()
        await turn.engine.undo(turn.session_id)
        assert not (turn.root / "a.txt").exists()


async def test_the_user_denies_a_call_of_a_task_and_the_task_goes_on(tmp_path: Path) -> None:
    async with rig(tmp_path, TASK, WRITE, say("It was denied."), say("Done."), choose=lambda _: DENY) as turn:
        await turn.prompt("go")
        assert made(turn)["write_file"].status.value == "denied"
        assert made(turn)["task"].status.value == "completed"
        assert not (turn.root / "a.txt").exists()


async def test_several_tasks_run_at_once_and_take_no_place_of_their_calls(tmp_path: Path) -> None:
    tasks = calls(*(Call("task", {"title": name, "prompt": f"Make {name}."}) for name in "ab"))
    both = asyncio.Event()

    def choose(_: object) -> None:
        """Nobody is answered before both tasks have asked."""
        if len(turn.frontend.asked) == 2:
            both.set()

    files = [call("write_file", path=f"{name}.txt", content=name) for name in "ab"]
    async with rig(tmp_path, tasks, *files, say("ok"), say("ok"), say("Done."), maxParallelTools=1) as turn:
        turn.frontend.on_ask = choose
        running = asyncio.ensure_future(turn.prompt("go"))
        async with asyncio.timeout(60):
            await both.wait()
        turn.answers(lambda _: None)
        for question in turn.frontend.asked:
            turn.answer(question, DENY)
        assert (await running).stop_reason == "end_turn"
        parents = {question.call.parent_id for question in turn.frontend.asked}
        assert len(parents) == 2


async def test_research_never_asks_and_cannot_write(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("private")
    replies = (
        call("research_codebase", question="?"),
        call("read_file", path=str(outside)),
        WRITE,
        say("I may not."),
        say("Done."),
    )
    async with rig(tmp_path, *replies, mode="auto") as turn:
        await turn.prompt("go")
        assert turn.frontend.asked == []
        assert made(turn)["read_file"].status.value == "denied"
        assert made(turn)["write_file"].status.value == "failed"
        assert not (turn.root / "a.txt").exists()
        turn.check_laws()


async def test_plan_mode_holds_for_a_task(tmp_path: Path) -> None:
    async with rig(tmp_path, TASK, WRITE, say("no"), say("Done."), mode="plan") as turn:
        await turn.prompt("go")
        assert made(turn)["write_file"].status.value == "denied"


async def test_a_stop_ends_the_calls_of_a_task(tmp_path: Path) -> None:
    async with rig(tmp_path, TASK, WRITE, say("?"), choose=None) as turn:
        asked = asyncio.Event()
        turn.frontend.on_ask = lambda _: asked.set()
        running = asyncio.ensure_future(turn.prompt("go"))
        await asked.wait()
        await turn.engine.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"
        assert {name: one.status.value for name, one in made(turn).items()} == {
            "task": "cancelled",
            "write_file": "cancelled",
        }
        turn.check_laws()


@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic", "google"])
async def test_the_conversation_goes_on_after_a_task(tmp_path: Path, dialect: Dialect) -> None:
    """The calls of a task are no part of the conversation, in this process and in the next."""
    spent = Tokens(input=100, output=10)
    script = [Reply(parts=reply.parts, usage=spent) for reply in (TASK, WRITE, say("Wrote it."), say("Done."))]
    async with rig(tmp_path, *script, say("again"), dialect=dialect) as turn:
        await turn.prompt("go")
        assert (await turn.prompt("and now?")).stop_reason == "end_turn"
        assert "write_file" not in json.dumps(turn.provider.requests[-1].body.get("messages", ""))
        assert (await turn.engine.session(turn.session_id)).usage.requests == 5


async def test_after_a_restart_the_calls_of_a_task_are_under_it_and_not_in_the_conversation(tmp_path: Path) -> None:
    async with rig(tmp_path, TASK, WRITE, say("Wrote it."), say("Done."), say("again")) as turn:
        await turn.prompt("go")
        async with beside(turn, tmp_path) as later:
            await later.prompt(turn.session_id, [{"type": "text", "text": "and now?"}])
            assert "write_file" not in json.dumps(turn.provider.requests[-1].messages)
            items = (await later.load(turn.session_id)).items
            parents = [item.call.parent_id for item in items if isinstance(item, CallItem)]
            assert parents == [None, made(turn)["task"].id]
