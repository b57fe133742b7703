"""Several windows on one session, and several requests of one window at once: each sees what the others did, and takes
nothing from them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Rig, beside, rig, texts
from tests.support.frontends import ALLOW, SilentFrontend
from tests.support.provider import Gate, Text, call, say
from tests.support.provider_script import Reply
from tests.support.waiting import until

from pilotfish.conversation.records import Record, SessionRecord, TurnStartRecord
from pilotfish.engine.engine import LoadedSession
from pilotfish.engine.session.journal import Journal
from pilotfish.engine.session.session import LOOK_SECONDS
from pilotfish.errors import BadRequest, SessionBusy, UnknownSession

SLOW = call("bash", command="sleep 30")


def ends(loaded: LoadedSession) -> list[str]:
    return [item.stop_reason for item in loaded.items if item.kind == "turn_end"]


async def crashed(turn: Rig, tmp_path: Path) -> Path:
    """Where the ledger lies as the process would leave it if it died now."""
    await turn.engine.load(turn.session_id)  # what was told is on disk
    ignored = shutil.ignore_patterns("holds", "locks")
    await asyncio.to_thread(shutil.copytree, tmp_path / "store", tmp_path / "after" / "store", ignore=ignored)
    return tmp_path / "after"


async def running_call(turn: Rig) -> None:
    await until(lambda: not ("in_progress" not in [line[-1] for line in turn.statuses().values()]))


# ---- names, models, modes -------------------------------------------------------------------------------------------


async def test_a_setting_of_one_window_holds_in_the_other(tmp_path: Path) -> None:
    write = call("write_file", path="a.txt", content="x\n")
    async with rig(tmp_path, say("one"), write, say("two")) as turn, beside(turn, tmp_path) as other:
        await turn.engine.configure(turn.session_id, mode="auto")
        await other.prompt(turn.session_id, texts(["hello"]))
        await turn.engine.rename(turn.session_id, "Named here")
        await turn.engine.configure(turn.session_id, mode="plan")
        seen = (await other.load(turn.session_id)).session
        assert (seen.title, seen.mode) == ("Named here", "plan")
        await turn.engine.rename(turn.session_id, "Named again")
        await other.prompt(turn.session_id, texts(["write"]))
        assert not (turn.root / "a.txt").exists()
        assert (await other.session(turn.session_id)).title == "Named again"


@pytest.mark.parametrize("while_it_runs", [False, True])
async def test_a_mode_of_another_process_is_emitted_before_the_next_turn(tmp_path: Path, while_it_runs: bool) -> None:
    reply = Reply(parts=(Text("one"), Gate()))
    async with rig(tmp_path, reply, say("two"), say("three")) as turn, beside(turn, tmp_path) as other:
        running = asyncio.create_task(turn.prompt("hello"))
        await turn.provider.received(1)
        if while_it_runs:
            await other.configure(turn.session_id, mode="auto")
        turn.provider.release()
        await running
        if not while_it_runs:
            await other.configure(turn.session_id, mode="auto")
        for prompt in ("go on", "and on"):
            await turn.prompt(prompt)
        told = [each.record for each in turn.frontend.updates]
        modes = [(place, record.mode) for place, record in enumerate(told) if isinstance(record, SessionRecord)]
        starts = [place for place, record in enumerate(told) if isinstance(record, TurnStartRecord)]
        assert [mode for _, mode in modes] == ["ask", "auto"]
        assert starts[0] < modes[0][0] < modes[1][0] < starts[1]


async def test_a_choice_leaves_what_the_other_window_chose_meanwhile(tmp_path: Path) -> None:
    async with rig(tmp_path) as turn, beside(turn, tmp_path) as other:
        await other.load(turn.session_id)
        await turn.engine.configure(turn.session_id, mode="plan")
        chosen = await other.configure(turn.session_id, model="openai-chat:another")
        assert (chosen.model, chosen.mode) == ("openai-chat:another", "plan")
        row = await other.catalog.get(turn.session_id)
        assert (row.model, row.mode) == ("openai-chat:another", "plan")


# ---- looking --------------------------------------------------------------------------------------------------------


async def test_loading_during_a_response_has_exactly_the_emitted_updates(tmp_path: Path) -> None:
    reply = Reply(parts=tuple(Text(f"w{index} ") for index in range(300)), delay=0.001)
    async with rig(tmp_path, reply) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while not running.done():
            loaded = await turn.engine.load(turn.session_id)
            shown = "".join(item.text for item in loaded.items if item.kind == "message")
            assert (shown, loaded.last_seq) == (turn.text(), turn.updates[-1].seq if turn.updates else 0)
        assert (await running).stop_reason == "end_turn"


async def test_a_look_that_is_cancelled_while_it_mends_is_over_when_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, SLOW, say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await running_call(turn)
        async with beside(turn, await crashed(turn, tmp_path)) as other:
            frontend = other.frontend
            assert isinstance(frontend, SilentFrontend)
            look = asyncio.create_task(other.load(turn.session_id))
            emit = Journal.emit

            def emit_and_cancel(journal: Journal, record: Record) -> None:
                emit(journal, record)
                look.cancel()

            with monkeypatch.context() as patch:
                patch.setattr(Journal, "emit", emit_and_cancel)
                await asyncio.wait((look,))
            assert look.cancelled()
            assert frontend.updates[-1].record.type == "turn_end"
            assert ends(await other.load(turn.session_id)) == ["failed"]
        await turn.engine.cancel(turn.session_id)
        await running


async def test_the_process_that_repairs_a_session_and_a_later_reader_see_the_same(tmp_path: Path) -> None:
    async with rig(tmp_path, SLOW) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await running_call(turn)
        after = await crashed(turn, tmp_path)
        async with beside(turn, after) as mends, beside(turn, after) as looks:
            assert await mends.load(turn.session_id) == await looks.load(turn.session_id)
        await turn.engine.cancel(turn.session_id)
        await running


# ---- a question that a crash left open ------------------------------------------------------------------------------


async def test_a_question_left_by_a_crash_is_asked_again_by_one_window_and_answered_in_the_other(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, call("bash", command="echo done >> ran"), say("fine"), choose=None) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: turn.frontend.asked)
        after = await crashed(turn, tmp_path)
        async with beside(turn, after) as one, beside(turn, after) as two:
            both = await asyncio.gather(one.load(turn.session_id), two.load(turn.session_id))
            assert [loaded.session.busy for loaded in both] == [True, True]
            assert sorted(loaded.session.elsewhere for loaded in both) == [False, True]
            for loaded in both:
                assert [item.call.status.value for item in loaded.items if item.kind == "tool_call"] == [
                    "awaiting_approval"
                ]
            asks, looks = (two, one) if both[0].session.elsewhere else (one, two)
            await until(lambda: one.questions() and two.questions())
            looks.answer(looks.questions()[0].approval_id, ALLOW)
            while (await asks.load(turn.session_id)).session.busy:
                await asyncio.sleep(0.005)
            for engine in (one, two):
                assert ends(await engine.load(turn.session_id)) == ["end_turn"]
            assert (turn.root / "ran").read_text("utf-8") == "done\n"
        await turn.engine.cancel(turn.session_id)
        await running


async def test_a_question_that_another_window_has_answered_is_not_asked_again(tmp_path: Path) -> None:
    """Both have read it open. When the second gets the session, the first has gone on with it to its end."""
    async with rig(tmp_path, call("bash", command="echo done >> ran"), say("fine"), choose=None) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: turn.frontend.asked)
        after = await crashed(turn, tmp_path)
        async with beside(turn, after) as one, beside(turn, after) as two:
            await two.session(turn.session_id)
            await one.load(turn.session_id)
            one.answer(one.questions()[0].approval_id, ALLOW)
            while (await one.load(turn.session_id)).session.busy:
                await asyncio.sleep(0.005)
            for engine in (two, one):
                assert ends(await engine.load(turn.session_id)) == ["end_turn"]
            assert (turn.root / "ran").read_text("utf-8") == "done\n"
        await turn.engine.cancel(turn.session_id)
        await running


# ---- a summary ------------------------------------------------------------------------------------------------------


SUMMARY = Reply(parts=(Text("so far"), Gate()))


async def summarising(turn: Rig) -> asyncio.Task[bool | None]:
    for text in ("a", "b", "c"):
        await turn.prompt(text)
    task = asyncio.create_task(turn.engine.compact(turn.session_id))
    await turn.provider.received(4)
    return task


async def test_a_prompt_waits_for_a_summary_and_goes_on_from_it(tmp_path: Path) -> None:
    async with rig(tmp_path, say("1"), say("2"), say("3"), SUMMARY, say("after")) as turn:
        compacting = await summarising(turn)
        running = asyncio.create_task(turn.prompt("d"))
        await turn.engine.rename(turn.session_id, "Named meanwhile")
        with pytest.raises(SessionBusy):
            await turn.engine.undo(turn.session_id)
        with pytest.raises(SessionBusy):
            await turn.engine.compact(turn.session_id)
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert not running.done()
        turn.provider.release()
        assert await compacting is True
        assert (await running).stop_reason == "end_turn"
        assert "so far" in str(turn.provider.requests[-1].body)
        turn.check_laws()


async def test_a_stop_ends_a_summary_and_the_prompt_that_waits_for_it(tmp_path: Path) -> None:
    async with rig(tmp_path, say("1"), say("2"), say("3"), SUMMARY, say("after")) as turn:
        compacting = await summarising(turn)
        running = asyncio.create_task(turn.prompt("d"))
        while not (await turn.engine.session(turn.session_id)).busy:
            await asyncio.sleep(0.005)
        await asyncio.wait_for(turn.engine.cancel(turn.session_id), 30)
        assert await compacting is None
        assert (await running).stop_reason == "cancelled"
        assert (await turn.prompt("e")).stop_reason == "end_turn"
        turn.check_laws()


async def test_a_stop_ends_a_summary_that_nobody_waits_for(tmp_path: Path) -> None:
    async with rig(tmp_path, say("1"), say("2"), say("3"), SUMMARY, say("after")) as turn:
        compacting = await summarising(turn)
        await asyncio.wait_for(turn.engine.cancel(turn.session_id), 30)
        assert await asyncio.wait_for(compacting, 30) is None
        assert (await turn.prompt("e")).stop_reason == "end_turn"


# ---- deleting -------------------------------------------------------------------------------------------------------


async def test_a_session_that_is_deleted_several_times_at_once_is_gone(tmp_path: Path) -> None:
    async with rig(tmp_path, say("hi")) as turn, beside(turn, tmp_path) as other:
        await turn.prompt("hello")
        await other.load(turn.session_id)
        asked = (turn.engine.delete, other.delete, turn.engine.delete, other.delete)
        got = await asyncio.gather(*(delete(turn.session_id) for delete in asked), return_exceptions=True)
        assert got.count(None) == 1
        assert {type(each) for each in got} <= {type(None), UnknownSession, SessionBusy}
        for engine in (turn.engine, other):
            with pytest.raises(UnknownSession):
                await engine.load(turn.session_id)


async def test_a_prompt_that_comes_while_its_session_is_deleted_is_answered_and_not_run(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="trap '' TERM; sleep 30"), say("never")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await running_call(turn)
        deleting = asyncio.create_task(turn.engine.delete(turn.session_id))
        while not turn.engine._sessions[turn.session_id].line.stopping:
            await asyncio.sleep(0)
        later = [asyncio.create_task(turn.prompt("more", when_busy=kind)) for kind in ("queue", "steer")]
        await asyncio.wait_for(deleting, 30)
        assert [(await each).stop_reason for each in (running, *later)] == ["cancelled"] * 3
        assert len(turn.provider.requests) == 1
        with pytest.raises(UnknownSession):
            await turn.prompt("anybody there?")


async def test_waiting_prompts_are_answered_when_another_window_deletes_the_session(tmp_path: Path) -> None:
    async with rig(tmp_path, SLOW) as turn, beside(turn, tmp_path) as other:
        running = asyncio.create_task(turn.prompt("go"))
        await running_call(turn)
        waiting = asyncio.create_task(turn.prompt("and then", when_busy="queue"))
        while not await turn.engine.queue(turn.session_id):
            await asyncio.sleep(0.005)
        await turn.engine.cancel(turn.session_id)
        await running
        await other.delete(turn.session_id)
        with pytest.raises(UnknownSession):
            await turn.engine.load(turn.session_id)
        done, _ = await asyncio.wait((waiting,), timeout=30)
        assert [each.result().stop_reason for each in done] == ["cancelled"]


async def test_a_session_with_a_turn_in_another_process_is_not_deleted_and_keeps_its_queue(tmp_path: Path) -> None:
    async with rig(tmp_path, SLOW, SLOW, say("fine"), say("fine too")) as turn, beside(turn, tmp_path) as other:
        running = asyncio.create_task(turn.prompt("go"))
        await running_call(turn)
        waiting = asyncio.create_task(turn.prompt("and then", when_busy="queue"))
        while not await turn.engine.queue(turn.session_id):
            await asyncio.sleep(0.005)
        await turn.engine.cancel(turn.session_id)
        await running
        elsewhere = asyncio.create_task(other.prompt(turn.session_id, texts(["mine"])))
        while not (await turn.engine.session(turn.session_id)).elsewhere:
            await asyncio.sleep(0.005)
        with pytest.raises(SessionBusy):
            await turn.engine.delete(turn.session_id)
        assert [each.blocks for each in await turn.engine.queue(turn.session_id)] == [tuple(texts(["and then"]))]
        await other.cancel(turn.session_id)
        await elsewhere
        assert (await turn.prompt("now")).stop_reason == "end_turn"
        assert (await waiting).stop_reason == "end_turn"


# ---- stopping -------------------------------------------------------------------------------------------------------


async def test_a_stop_means_nothing_that_was_sent_after_it(tmp_path: Path) -> None:
    async with rig(tmp_path, say("one"), say("two"), say("three")) as turn, beside(turn, tmp_path) as other:
        await turn.prompt("a")
        for text in ("b", "c"):  # the second time the session is known here, and has been written to elsewhere
            stopping = asyncio.create_task(other.cancel(turn.session_id))
            running = asyncio.create_task(other.prompt(turn.session_id, texts([text])))
            assert (await stopping).turn_id is None
            assert (await running).stop_reason == "end_turn"
            await turn.engine.rename(turn.session_id, f"after {text}")


# ---- words for a turn that runs -------------------------------------------------------------------------------------


async def test_a_rejected_steer_does_not_run_later(tmp_path: Path) -> None:
    async with rig(tmp_path, SLOW, say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await running_call(turn)
        broken = [{"type": "image", "data": "no base64!", "mimeType": "image/png"}]
        with pytest.raises(BadRequest):
            await turn.engine.prompt(turn.session_id, broken, when_busy="steer")
        assert await turn.engine.queue(turn.session_id) == ()
        await turn.engine.cancel(turn.session_id)
        await running


# ---- undoing --------------------------------------------------------------------------------------------------------


async def test_a_cancelled_undo_is_completed_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path, call("write_file", path="a.txt", content="x\n"), say("written")) as turn:
        await turn.prompt("write")
        workspace = turn.engine._sessions[turn.session_id].workspace
        undo, begun, goes_on = workspace.undo, asyncio.Event(), asyncio.Event()

        async def slowly(*arguments: Any, **options: Any) -> Any:
            done = await undo(*arguments, **options)
            begun.set()
            await goes_on.wait()
            return done

        monkeypatch.setattr(workspace, "undo", slowly)
        undoing = asyncio.create_task(turn.engine.undo(turn.session_id))
        await begun.wait()
        undoing.cancel()
        asyncio.get_running_loop().call_later(0.05, goes_on.set)
        await asyncio.wait((undoing,))
        assert undoing.cancelled()
        assert not (turn.root / "a.txt").exists()
        await turn.engine.redo(turn.session_id)
        assert (turn.root / "a.txt").read_text("utf-8") == "x\n"
