"""After a crash: no call runs again, shown text is kept, open questions are asked again, the next prompt works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.engine import Rig, beside, rig
from tests.support.frontends import ALLOW, SilentFrontend
from tests.support.provider import Gate, Text, call, calls, say
from tests.support.provider_script import Call, Reply
from tests.support.waiting import until as until_true

from pilotfish.engine.engine import Engine, LoadedSession
from pilotfish.errors import SessionBusy
from pilotfish.store.ledger import Lease, Ledger
from pilotfish.workspace.editor import NoEditor


@asynccontextmanager
async def restarted(turn: Rig, tmp_path: Path) -> AsyncGenerator[Rig]:
    """A second process on the ledger as the first one left it, in the middle of whatever it did."""
    await turn.engine.load(turn.session_id)  # what was told is on disk
    copy = tmp_path / "after"
    await asyncio.to_thread(_copy_store, tmp_path / "store", copy)
    frontend = SilentFrontend(NoEditor())
    engine = Engine(turn.engine.settings, Ledger.open(copy), frontend, roots=[turn.root], trusted=True)
    for name in ("openai", "anthropic"):
        engine.set_secret(name, "test-key")
    try:
        yield Rig(engine, frontend, turn.provider, turn.root, turn.session_id)
    finally:
        await engine.aclose()


def ends(loaded: LoadedSession) -> list[str]:
    return [item.stop_reason for item in loaded.items if item.kind == "turn_end"]


def _copy_store(source: Path, target: Path) -> None:
    import shutil

    shutil.copytree(source, target, ignore=shutil.ignore_patterns("holds", "locks"))


async def until(turn: Rig, status: str) -> None:
    while status not in [line[-1] for line in turn.statuses().values()]:
        await asyncio.sleep(0.005)


async def test_text_shown_before_a_crash_is_there_after_it(tmp_path: Path) -> None:
    async with rig(tmp_path, Reply(parts=(Text("half a sen"), Gate())), say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while not turn.text():
            await asyncio.sleep(0.005)
        async with restarted(turn, tmp_path) as after:
            loaded = await after.engine.load(turn.session_id)
            assert [item.text for item in loaded.items if item.kind == "message"] == ["half a sen"]
            (end,) = [item for item in loaded.items if item.kind == "turn_end"]
            assert end.stop_reason == "failed"
            assert end.error is not None
            assert end.error.message == "Pilotfish restarted; the last step may be incomplete."
            assert end.error.kind == "restarted"
            assert loaded.last_seq > turn.updates[-1].seq
            assert (await after.prompt("continue")).stop_reason == "end_turn"
            assert "half a sen" in str(turn.provider.requests[-1].body)
        await turn.engine.cancel(turn.session_id)
        await running


async def test_a_command_that_ran_during_the_crash_is_closed_as_unknown_and_not_run_again(tmp_path: Path) -> None:
    command = "echo x >> ran; sleep 30"
    async with rig(tmp_path, call("bash", command=command), say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until_true(lambda: (turn.root / "ran").exists() and (turn.root / "ran").read_text("utf-8"))
        async with restarted(turn, tmp_path) as after:
            loaded = await after.engine.load(turn.session_id)
            (item,) = [item for item in loaded.items if item.kind == "tool_call"]
            assert (item.call.status.value, item.call.error) == (
                "cancelled",
                "the server stopped; started, result unknown",
            )
            assert (await after.prompt("go on")).stop_reason == "end_turn"
        await turn.engine.cancel(turn.session_id)
        await running
        assert (turn.root / "ran").read_text("utf-8") == "x\n"


async def test_a_question_that_waited_is_asked_again_and_the_turn_goes_on(tmp_path: Path) -> None:
    wanted = (Call("bash", {"command": "echo done >> first"}), Call("bash", {"command": "echo done >> second"}))
    async with rig(tmp_path, calls(*wanted), say("fine"), choose=None) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while not turn.frontend.asked:
            await asyncio.sleep(0.005)
        (first,) = turn.frontend.asked
        assert first.call.args == wanted[0].args
        turn.answer(first, ALLOW)
        await until(turn, "completed")
        while len(turn.frontend.asked) < 2:
            await asyncio.sleep(0.005)
        async with restarted(turn, tmp_path) as after:
            loaded = await after.engine.load(turn.session_id)
            assert loaded.session.busy
            while not after.frontend.asked:
                await asyncio.sleep(0.005)
            (question,) = after.frontend.asked
            assert question.call.args == {"command": "echo done >> second"}
            after.answer(question, ALLOW)
            while (await after.engine.load(turn.session_id)).session.busy:
                await asyncio.sleep(0.005)
            assert (turn.root / "first").read_text("utf-8") == "done\n"
            assert (turn.root / "second").read_text("utf-8") == "done\n"
            loaded = await after.engine.load(turn.session_id)
            assert ends(loaded) == ["end_turn"]
        await turn.engine.cancel(turn.session_id)
        await running


async def test_a_new_prompt_lets_the_old_question_go(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="touch made"), say("fine"), choose=None) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while not turn.frontend.asked:
            await asyncio.sleep(0.005)
        async with restarted(turn, tmp_path) as after:
            await after.engine.load(turn.session_id)
            while not after.frontend.asked:
                await asyncio.sleep(0.005)
            assert (await after.prompt("something else")).stop_reason == "end_turn"
            assert after.engine.questions() == ()
            assert not (turn.root / "made").exists()
        await turn.engine.cancel(turn.session_id)
        await running


async def test_a_prompt_sent_beside_the_load_lets_the_old_question_go_as_well(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="touch made"), say("fine"), choose=None) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while not turn.frontend.asked:
            await asyncio.sleep(0.005)
        async with restarted(turn, tmp_path) as after:
            _, outcome = await asyncio.gather(after.engine.load(turn.session_id), after.prompt("something else"))
            assert outcome.stop_reason == "end_turn"
            assert after.engine.questions() == ()
            loaded = await after.engine.load(turn.session_id)
            old, new = ends(loaded)
            assert new == "end_turn"
            assert old in ("failed", "cancelled")  # given up, or resumed by the load and then stopped by the prompt
        await turn.engine.cancel(turn.session_id)
        await running


async def test_a_turn_of_another_process_is_shown_as_running_and_closed_when_that_process_dies(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, call("bash", command="sleep 30"), say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn, "in_progress")
        async with beside(turn, tmp_path) as other:
            loaded = await other.load(turn.session_id)
            assert (loaded.session.busy, loaded.session.elsewhere) == (True, True)
            assert not (await turn.engine.load(turn.session_id)).session.elsewhere
            assert [item.call.status.value for item in loaded.items if item.kind == "tool_call"] == ["in_progress"]
            with pytest.raises(SessionBusy):
                await other.prompt(turn.session_id, [{"type": "text", "text": "me too"}])
            await turn.engine.cancel(turn.session_id)
            await running
            loaded = await other.load(turn.session_id)
            assert (loaded.session.busy, loaded.session.elsewhere) == (False, False)
            assert ends(loaded) == ["cancelled"]
            assert (await other.prompt(turn.session_id, [{"type": "text", "text": "now"}])).stop_reason == "end_turn"


async def test_looking_from_several_sides_at_a_turn_of_another_process_shows_it_running_to_each(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="sleep 30"), say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn, "in_progress")
        async with beside(turn, tmp_path) as other:
            looks = [look for _ in range(8) for look in (other.load(turn.session_id), other.queue(turn.session_id))]
            loaded = [seen for seen in await asyncio.gather(*looks) if isinstance(seen, LoadedSession)]
            assert [seen.session.elsewhere for seen in loaded] == [True] * 8
            assert {item.kind for seen in loaded for item in seen.items} == {"prompt", "tool_call"}
        await turn.engine.cancel(turn.session_id)
        await running


async def test_a_turn_that_ends_while_another_process_looks_is_not_ended_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has read an open turn, and when it looks whether anybody runs it, nobody does any more."""
    async with rig(tmp_path, call("bash", command="sleep 30"), say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn, "in_progress")
        async with beside(turn, tmp_path) as other:
            lease = other.ledger.lease

            async def late(session_id: str) -> Lease:
                await turn.engine.cancel(turn.session_id)
                await running
                return await lease(session_id)

            with monkeypatch.context() as patch:
                patch.setattr(other.ledger, "lease", late)
                loaded = await other.load(turn.session_id)
            assert (loaded.session.busy, loaded.session.elsewhere) == (False, False)
            assert ends(loaded) == ["cancelled"]
            assert (await other.prompt(turn.session_id, [{"type": "text", "text": "now"}])).stop_reason == "end_turn"
            loaded = await turn.engine.load(turn.session_id)
            assert ends(loaded) == ["cancelled", "end_turn"]


async def test_what_is_done_beside_a_turn_of_another_process_takes_nothing_from_it(tmp_path: Path) -> None:
    script = (call("write_file", path="a.txt", content="one\n"), say("written"), call("bash", command="sleep 30"))
    async with rig(tmp_path, *script, say("after it")) as turn:
        await turn.prompt("write")
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn, "in_progress")
        async with beside(turn, tmp_path) as other:
            assert (await other.rename(turn.session_id, "New name")).title == "New name"
            assert (await other.configure(turn.session_id, None, "plan")).mode == "plan"
            for change in (other.undo, other.redo, other.compact, other.delete):
                with pytest.raises(SessionBusy, match="in use elsewhere"):
                    await change(turn.session_id)
            assert (turn.root / "a.txt").read_text("utf-8") == "one\n"
            await turn.engine.cancel(turn.session_id)
            await running
            for engine in (turn.engine, other):
                loaded = await engine.load(turn.session_id)
                assert ends(loaded) == ["end_turn", "cancelled"]
                assert (loaded.session.title, loaded.session.mode) == ("New name", "plan")
            await other.undo(turn.session_id)
            assert not (turn.root / "a.txt").exists()
            assert (await turn.prompt("and now?")).stop_reason == "end_turn"


@asynccontextmanager
async def reloaded(turn: Rig, tmp_path: Path) -> AsyncGenerator[Rig]:
    """The process ends as when a window is reloaded, and another one takes over."""
    await turn.engine.leave_turns_open()
    await turn.engine.aclose()
    frontend = SilentFrontend(NoEditor())
    engine = Engine(turn.engine.settings, Ledger.open(tmp_path / "store"), frontend, roots=[turn.root], trusted=True)
    engine.set_secret("openai", "test-key")
    try:
        yield Rig(engine, frontend, turn.provider, turn.root, turn.session_id)
    finally:
        await engine.aclose()


async def test_a_question_is_asked_again_after_a_window_was_reloaded(tmp_path: Path) -> None:
    replies = (call("write_file", path="a.txt", content="a"), say("done"))
    async with rig(tmp_path, *replies, choose=None) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn, "awaiting_approval")
        async with reloaded(turn, tmp_path) as after:
            loaded = await after.engine.load(turn.session_id)
            (question,) = loaded.questions
            after.answer(question, ALLOW)
            while not after.updates or after.updates[-1].record.type != "turn_end":
                await asyncio.sleep(0.005)
            assert (turn.root / "a.txt").read_text() == "a"
            assert ends(await after.engine.load(turn.session_id)) == ["end_turn"]
        await running


async def test_a_stream_that_a_reload_cut_off_says_so_and_can_be_continued(tmp_path: Path) -> None:
    async with rig(tmp_path, Reply(parts=(Text("half a sen"), Gate())), say("tence")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while not turn.text():
            await asyncio.sleep(0.005)
        async with reloaded(turn, tmp_path) as after:
            loaded = await after.engine.load(turn.session_id)
            assert [item.text for item in loaded.items if item.kind == "message"] == ["half a sen"]
            (end,) = [item for item in loaded.items if item.kind == "turn_end"]
            assert (end.stop_reason, end.error and end.error.kind) == ("failed", "closed")
            assert (await after.prompt("continue")).stop_reason == "end_turn"
        await running
