"""A whole turn on a scripted provider: streaming, calls, approvals, the end, and that the next prompt works."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.engine import Dialect, Rig, rig
from tests.support.frontends import ALLOW
from tests.support.provider import Gate, Text, call, calls, fails, say
from tests.support.provider_script import Call, Reply
from tests.support.waiting import until

from pilotfish.conversation.items import MessageItem, ThoughtItem
from pilotfish.conversation.records import FileChangeRecord, NoticeRecord, TurnEndRecord
from pilotfish.engine.frontend import Answer, Question
from pilotfish.errors import SessionBusy
from pilotfish.store import writer
from pilotfish.workspace.sandbox.sandbox import find_sandbox

DIALECTS: tuple[Dialect, ...] = ("chat", "responses", "anthropic")
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@every_dialect
async def test_a_prompt_streams_an_answer_and_ends(tmp_path: Path, dialect: Dialect) -> None:
    async with rig(tmp_path, say("Hel", "lo", thoughts=("hm", "m")), dialect=dialect) as turn:
        outcome = await turn.prompt("hi")
        assert (outcome.stop_reason, outcome.error) == ("end_turn", None)
        assert (turn.text(), turn.text("thought")) == ("Hello", "hmm")
        assert turn.states() == [("user_input", 0), ("assistant", 1), ("response", 1)]
        turn.check_laws()


@every_dialect
async def test_a_tool_round_reads_and_answers(tmp_path: Path, dialect: Dialect) -> None:
    files = {"a.txt": "one\ntwo\n"}
    async with rig(tmp_path, call("read_file", path="a.txt"), say("done"), files=files, dialect=dialect) as turn:
        outcome = await turn.prompt("read it")
        assert outcome.stop_reason == "end_turn"
        assert list(turn.statuses().values()) == [["pending", "in_progress", "completed"]]
        assert "two" in str(turn.provider.requests[1].body)
        assert turn.states() == [
            ("user_input", 0),
            ("assistant", 1),
            ("tool_execution", 1),
            ("response", 1),
            ("assistant", 2),
            ("response", 2),
        ]
        turn.check_laws()


async def test_the_text_that_was_streamed_is_the_item_that_is_loaded(tmp_path: Path) -> None:
    async with rig(tmp_path, say("I ", "look", thoughts=("so",)), say("…", "done"), files={"a.txt": "x"}) as turn:
        await turn.prompt("one")
        await turn.prompt("two")
        loaded = await turn.engine.load(turn.session_id)
        shown: dict[str, str] = {}
        for told in turn.updates:
            if told.record.type == "chunk" and told.record.channel in ("message", "thought"):
                shown[told.record.item_id] = shown.get(told.record.item_id, "") + told.record.text
        spoken = [item for item in loaded.items if isinstance(item, MessageItem | ThoughtItem)]
        assert {item.id: item.text for item in spoken} == shown
        assert [item.kind for item in loaded.items if item.kind != "turn_end"] == [
            "prompt",
            "thought",
            "message",
            "prompt",
            "message",
        ]
        assert loaded.last_seq == turn.updates[-1].seq


EDIT = call("update_file", path="a.py", edits=[{"old_string": "x = 1", "new_string": "x = 2"}])


async def edited(turn: Rig) -> str:
    return (turn.root / "a.py").read_text("utf-8")


@every_dialect
async def test_an_edit_is_asked_shown_made_and_recorded(tmp_path: Path, dialect: Dialect) -> None:
    replies = (call("read_file", path="a.py"), EDIT, say("done"))
    async with rig(tmp_path, *replies, files={"a.py": "x = 1\n"}, dialect=dialect) as turn:
        assert (await turn.prompt("edit")).stop_reason == "end_turn"
        (question,) = turn.frontend.asked
        assert question.preview.kind == "diff"
        assert [(file.before, file.after) for file in question.preview.files] == [("x = 1\n", "x = 2\n")]
        assert await edited(turn) == "x = 2\n"
        assert list(turn.statuses().values())[1] == ["pending", "awaiting_approval", "in_progress", "completed"]
        (change,) = [told.record for told in turn.updates if isinstance(told.record, FileChangeRecord)]
        assert (change.change, change.added, change.removed, change.via) == ("edited", 1, 1, "disk")
        turn.check_laws()


async def test_a_denial_is_an_answer_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="touch made"), say("as you wish")) as turn:
        turn.answers(lambda _: Answer(option_id="reject", feedback="not in this folder"))
        outcome = await turn.prompt("run")
        assert outcome.stop_reason == "end_turn"
        assert list(turn.statuses().values()) == [["pending", "awaiting_approval", "denied"]]
        assert "not in this folder" in str(turn.provider.requests[1].body)
        assert not (turn.root / "made").exists()
        turn.check_laws()


async def test_what_the_user_amended_is_what_runs_and_what_history_records(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="touch theirs"), say("ok"), say("again")) as turn:
        turn.answers(lambda _: Answer(option_id="allow_once", args={"command": "touch mine"}))
        await turn.prompt("run")
        assert sorted(path.name for path in turn.root.iterdir()) == ["mine"]
        calls_told = [told.record.call for told in turn.updates if told.record.type == "tool_call"]
        assert calls_told[-1].args == {"command": "touch mine"}
        assert calls_told[-1].approval is not None
        assert calls_told[-1].approval.amended
        assert (await turn.prompt("and now?")).stop_reason == "end_turn"
        turn.check_laws()


async def test_a_document_that_moves_while_the_question_is_open_is_asked_again(tmp_path: Path) -> None:
    replies = (call("read_file", path="a.py"), EDIT, say("done"))

    async with rig(tmp_path, *replies, files={"a.py": "x = 1\n\n\ny = 5\n"}) as turn:

        def choose(question: Question) -> Answer:
            if len(turn.frontend.asked) == 1:
                (turn.root / "a.py").write_text("x = 1\n\n\ny = 6\n", "utf-8")
            return ALLOW

        turn.answers(choose)
        await turn.prompt("edit")
        first, second = turn.frontend.asked
        assert first.digest != second.digest
        assert [file.before for file in second.preview.files] == ["x = 1\n\n\ny = 6\n"]
        assert await edited(turn) == "x = 2\n\n\ny = 6\n"
        turn.check_laws()


async def test_parallel_calls_run_side_by_side_and_answer_in_order(tmp_path: Path) -> None:
    wanted = [Call("read_file", {"path": f"{name}.txt"}) for name in "abc"]
    files = {f"{name}.txt": f"text of {name}" for name in "abc"}
    async with rig(tmp_path, calls(*wanted), say("done"), files=files) as turn:
        assert (await turn.prompt("read all")).stop_reason == "end_turn"
        sent = [message for message in turn.provider.requests[1].body["messages"] if message["role"] == "tool"]
        assert [f"text of {name}" in message["content"] for name, message in zip("abc", sent, strict=True)] == [
            True
        ] * 3
        turn.check_laws()


async def test_bad_arguments_and_unknown_tools_are_answers_to_the_model(tmp_path: Path) -> None:
    replies = (
        calls(Call("read_file", {"pth": "a"})),
        calls(Call("no_such_tool", {})),
        calls(Call("read_file", "{broken")),
        say("gave up"),
    )
    async with rig(tmp_path, *replies) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert [line[-1] for line in turn.statuses().values()] == ["failed", "failed", "failed"]
        turn.check_laws()


@every_dialect
@pytest.mark.parametrize(
    ("written", "name"), [("", "unnamed"), ("functions.no such", "functions_no_such"), (" x y", "x_y")]
)
async def test_a_call_of_a_name_that_no_provider_takes_back_is_answered_under_one_that_it_does(
    tmp_path: Path, dialect: Dialect, written: str, name: str
) -> None:
    async with rig(tmp_path, calls(Call(written, {})), say("fine"), dialect=dialect) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert [request.refused for request in turn.provider.requests] == [None, None]
        shown = [item.call for item in (await turn.engine.load(turn.session_id)).items if item.kind == "tool_call"]
        assert [(call.name, call.status.value) for call in shown] == [(name, "failed")]
        turn.check_laws()


@every_dialect
async def test_a_stop_during_the_stream_keeps_the_text_and_the_next_prompt_works(
    tmp_path: Path, dialect: Dialect
) -> None:
    replies = (Reply(parts=(Text("half an"), Gate())), say("whole"))
    async with rig(tmp_path, *replies, dialect=dialect) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn.text)
        receipt = await turn.engine.cancel(turn.session_id)
        outcome = await running
        assert (outcome.stop_reason, outcome.receipt) == ("cancelled", receipt)
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        assert "half an" in str(turn.provider.requests[1].body)
        turn.check_laws()


@every_dialect
async def test_stop_while_a_command_runs_kills_it_and_says_so(tmp_path: Path, dialect: Dialect) -> None:
    command = "echo started; sleep 60 & sleep 61"
    async with rig(tmp_path, call("bash", command=command), say("whole"), dialect=dialect) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: "started" in turn.text("progress"))
        receipt = await turn.engine.cancel(turn.session_id)
        outcome = await running
        assert outcome.stop_reason == "cancelled"
        assert len(receipt.cancelled_calls) == 1
        assert [process.command for process in receipt.killed_processes] == [command]
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


async def test_stop_while_a_question_waits_withdraws_it(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="touch made"), say("whole"), choose=None) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: turn.frontend.asked)
        await turn.engine.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"
        assert turn.engine.questions() == ()
        assert [(option, by) for _, option, by in turn.frontend.cleared] == [("cancelled", "cancelled")]
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        assert not (turn.root / "made").exists()
        turn.check_laws()


async def test_one_call_can_be_stopped_and_the_turn_goes_on(tmp_path: Path) -> None:
    wanted = (Call("bash", {"command": "sleep 60"}, "slow"),)
    async with rig(tmp_path, calls(*wanted), say("went on")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: not ("in_progress" not in [line[-1] for line in turn.statuses().values()]))
        receipt = await turn.engine.cancel(turn.session_id, "slow")
        assert receipt.cancelled_calls == ("slow",)
        assert (await running).stop_reason == "end_turn"
        assert turn.statuses()["slow"][-1] == "cancelled"
        turn.check_laws()


async def test_the_iteration_limit_ends_the_turn_and_continue_goes_on(tmp_path: Path) -> None:
    async with rig(tmp_path, say("went on"), otherwise=call("list_dir", path="."), maxIterations=3) as turn:
        turn.provider.replies.clear()
        outcome = await turn.prompt("loop")
        assert (outcome.stop_reason, outcome.usage.requests) == ("max_iterations", 3)
        turn.check_laws()
        turn.provider.otherwise = say("went on")
        assert (await turn.prompt("continue")).stop_reason == "end_turn"


@every_dialect
async def test_an_answer_cut_off_by_the_token_limit_says_so(tmp_path: Path, dialect: Dialect) -> None:
    async with rig(tmp_path, say("half", finish="length"), say("rest"), dialect=dialect) as turn:
        assert (await turn.prompt("go")).stop_reason == "max_tokens"
        assert turn.notices() == ["The response was cut off by the token limit."]
        assert (await turn.prompt("continue")).stop_reason == "end_turn"
        turn.check_laws()


@every_dialect
async def test_whitespace_is_no_answer_and_after_a_few_tries_the_turn_fails_with_a_remedy(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with rig(tmp_path, otherwise=say(" \n"), dialect=dialect) as turn:
        outcome = await turn.prompt("go")
        assert outcome.error is not None
        assert (outcome.stop_reason, outcome.error.kind) == ("failed", "empty")
        turn.provider.otherwise = say("fine")
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


@every_dialect
async def test_white_space_before_a_call_is_kept_and_not_sent_back(tmp_path: Path, dialect: Dialect) -> None:
    async with rig(tmp_path, calls(Call("list_dir", {}), text="\n\n"), say("fine"), dialect=dialect) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert [request.refused for request in turn.provider.requests] == [None, None]
        turn.check_laws()


@every_dialect
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("authentication", "authentication"),
        ("credit", "credit"),
        ("bad_request", "bad_request"),
        ("not_found", "configuration"),
    ],
)
async def test_a_provider_that_refuses_ends_the_turn_with_a_remedy(
    tmp_path: Path, dialect: Dialect, kind: str, expected: str
) -> None:
    async with rig(tmp_path, fails(kind), say("fine"), dialect=dialect) as turn:
        outcome = await turn.prompt("go")
        assert outcome.stop_reason == "failed"
        assert outcome.error is not None
        assert outcome.error.kind == expected
        assert outcome.error.remedy
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


@every_dialect
@pytest.mark.parametrize("kind", ["rate_limit", "overloaded", "server"])
async def test_a_retryable_error_is_retried_with_a_notice(tmp_path: Path, dialect: Dialect, kind: str) -> None:
    async with rig(tmp_path, fails(kind, retry_after=0.05), say("fine"), dialect=dialect) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert len(turn.provider.requests) == 2
        assert [notice.rpartition("Retrying in")[1] for notice in turn.notices()] == ["Retrying in"]
        turn.check_laws()


async def test_the_rest_of_a_wait_is_not_waited_for_when_someone_is_in_a_hurry(tmp_path: Path) -> None:
    async with rig(tmp_path, fails("rate_limit", retry_after=50), say("fine")) as turn:
        prompt = asyncio.create_task(turn.prompt("go"))
        await until(turn.notices)
        told = [told.record.retry_after for told in turn.updates if isinstance(told.record, NoticeRecord)]
        await turn.engine.retry(turn.session_id)
        assert (await asyncio.wait_for(prompt, 30)).stop_reason == "end_turn"
        assert (told, len(turn.provider.requests)) == ([50.0], 2)
        await turn.engine.retry(turn.session_id)  # nobody waits: nothing happens
        turn.check_laws()


@every_dialect
@pytest.mark.parametrize("end", ["drop", "cut", "garbage"])
async def test_a_stream_that_breaks_off_is_tried_again_and_nothing_shown_is_lost(
    tmp_path: Path, dialect: Dialect, end: str
) -> None:
    broken = say("one ", "two ", "three", after=2, end=end)
    async with rig(tmp_path, broken, say("whole"), say("fine"), dialect=dialect) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        loaded = await turn.engine.load(turn.session_id)
        assert [item.text for item in loaded.items if item.kind == "message"][-1] == "whole"
        shown = turn.text()
        assert "".join(item.text for item in loaded.items if item.kind == "message") == shown
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


async def test_a_stalled_stream_is_noticed(tmp_path: Path) -> None:
    async with rig(tmp_path, say("a", "b", after=1, end="stall"), say("whole"), stallTimeout=0.3) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert len(turn.provider.requests) == 2
        turn.check_laws()


async def test_a_busy_session_rejects_queues_or_is_steered(tmp_path: Path) -> None:
    replies = (
        Reply(parts=(Gate(), *calls(Call("list_dir", {"path": "."})).parts)),
        say("steered"),
        say("queued"),
    )
    async with rig(tmp_path, *replies) as turn:
        first = asyncio.create_task(turn.prompt("first", prompt_id="p1"))
        await turn.provider.received(1)
        with pytest.raises(SessionBusy):
            await turn.prompt("no")
        queued = asyncio.create_task(turn.prompt("queued one", prompt_id="p2", when_busy="queue"))
        dropped = asyncio.create_task(turn.prompt("dropped one", prompt_id="p3", when_busy="queue"))
        steer = asyncio.create_task(turn.prompt("steered one", prompt_id="p4", when_busy="steer"))
        while len(await turn.engine.queue(turn.session_id)) < 3:
            await asyncio.sleep(0.005)
        await turn.engine.withdraw(turn.session_id, "p3")
        assert (await dropped).stop_reason == "cancelled"
        turn.provider.release()
        assert (await first).turn_id == (await steer).turn_id
        assert (await queued).stop_reason == "end_turn"
        bodies = [str(request.body) for request in turn.provider.requests]
        assert ["steered one" in body for body in bodies] == [False, True, True]
        assert ["queued one" in body for body in bodies] == [False, False, True]
        assert not any("dropped one" in body for body in bodies)
        turn.check_laws()


async def test_a_steer_before_the_first_request_is_in_the_transcript(tmp_path: Path) -> None:
    async with rig(tmp_path, say("first"), say("steered"), say("later")) as turn:
        first = asyncio.create_task(turn.prompt("go"))
        while not turn.updates:
            await asyncio.sleep(0)
        steer = asyncio.create_task(turn.prompt("and mind the gap", when_busy="steer"))
        assert (await first).turn_id == (await steer).turn_id
        items = (await turn.engine.load(turn.session_id)).items
        prompts = [item.prompt[0]["text"] for item in items if item.kind == "prompt"]
        assert prompts == ["go", "and mind the gap"]
        await turn.prompt("later")
        assert str(turn.provider.requests[-1].body).count("and mind the gap") == 1


async def test_cancelling_the_request_cancels_the_turn_and_still_answers(tmp_path: Path) -> None:
    async with rig(tmp_path, Reply(parts=(Text("half"), Gate())), say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn.text)
        running.cancel()
        assert (await running).stop_reason == "cancelled"
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


async def test_a_call_written_as_text_is_recovered(tmp_path: Path) -> None:
    text = '<tool_call>{"name": "list_dir", "arguments": {"path": "."}}</tool_call>'
    async with rig(tmp_path, say(text), say("done"), files={"here.txt": ""}) as turn:
        assert (await turn.prompt("list")).stop_reason == "end_turn"
        assert "here.txt" in str(turn.provider.requests[1].body)
        (told,) = [
            t.record.call for t in turn.updates if t.record.type == "tool_call" and t.record.call.status == "completed"
        ]
        assert told.recovered
        turn.check_laws()


@pytest.mark.parametrize(
    "written", ['<tool_call>{"name": "list_dir", "arguments": {"path": "."}}</tool_call>', '{"list_dir": {"path": "."}']
)
async def test_a_recovered_call_is_cut_out_of_the_message_and_never_shown(tmp_path: Path, written: str) -> None:
    async with rig(tmp_path, say("I look.\n", *written), say("done")) as turn:
        await turn.prompt("list")
        assert turn.text() == "I look.\ndone"
        answer = next(message for message in turn.provider.requests[1].messages if message["role"] == "assistant")
        assert (answer["content"].strip(), len(answer["tool_calls"])) == ("I look.", 1)


async def test_held_text_is_shown_when_the_turn_is_cancelled(tmp_path: Path) -> None:
    async with rig(tmp_path, Reply(parts=(Text("So:\n"), Text('{"name": "li'), Gate())), say("fine")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(turn.text)
        await turn.engine.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"
        assert turn.text() == 'So:\n{"name": "li'
        assert (await turn.prompt("again")).stop_reason == "end_turn"


async def test_a_turn_can_be_undone_and_done_again(tmp_path: Path) -> None:
    replies = (call("write_file", path="new.txt", content="new\n"), say("made"))
    async with rig(tmp_path, *replies) as turn:
        await turn.prompt("make")
        assert (turn.root / "new.txt").exists()
        undone = await turn.engine.undo(turn.session_id)
        assert [change.path.name for change in undone.changes] == ["new.txt"]
        assert not (turn.root / "new.txt").exists()
        await turn.engine.redo(turn.session_id)
        assert (turn.root / "new.txt").read_text("utf-8") == "new\n"


async def test_the_end_of_a_turn_is_its_last_update(tmp_path: Path) -> None:
    async with rig(tmp_path, say("x")) as turn:
        outcome = await turn.prompt("go")
        last = turn.updates[-1].record
        assert isinstance(last, TurnEndRecord)
        assert (last.turn_id, last.usage) == (outcome.turn_id, outcome.usage)


async def test_a_steer_withdrawn_before_it_was_sent_never_reaches_the_model(tmp_path: Path) -> None:
    replies = (Reply(parts=(Gate(), *calls(Call("list_dir", {"path": "."})).parts)), say("done"))
    async with rig(tmp_path, *replies) as turn:
        first = asyncio.create_task(turn.prompt("first"))
        await turn.provider.received(1)
        steer = asyncio.create_task(turn.prompt("no, wait", prompt_id="p", when_busy="steer"))
        while not await turn.engine.queue(turn.session_id):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        await turn.engine.withdraw(turn.session_id, "p")
        turn.provider.release()
        assert (await steer).stop_reason == "cancelled"
        assert (await first).stop_reason == "end_turn"
        assert not any("no, wait" in str(request.body) for request in turn.provider.requests)
        turn.check_laws()


@pytest.mark.parametrize("tries", [False, True])
async def test_a_command_is_judged_where_the_one_before_it_has_led(tmp_path: Path, tries: bool) -> None:
    moves, writes = Call("bash", {"command": "cd inner"}, "moves"), Call("bash", {"command": "touch here"}, "writes")
    files = {"inner/a.txt": ""}
    async with rig(tmp_path, calls(moves, writes), say("done"), files=files, tryCommands=tries) as turn:
        await turn.prompt("go")
        asked = [(question.call.id, question.preview.cwd) for question in turn.frontend.asked]
        # What is tried out waits for the calls before it; other questions are asked at once.
        early = [] if tries and find_sandbox().bwrap else [("writes", str(turn.root))]
        assert asked == [*early, ("writes", str(turn.root / "inner"))]
        assert (turn.root / "inner" / "here").exists()
        turn.check_laws()


async def test_ids_that_the_provider_itself_refuses_do_not_end_the_conversation(tmp_path: Path) -> None:
    odd = "functions.read_file:0 " + "x" * 60
    replies = (
        calls(Call("read_file", {"path": "a.txt"}, id=odd)),
        calls(Call("read_file", {"path": "a.txt"}, id=odd + "y")),
        say("read"),
        say("and again"),
    )
    async with rig(tmp_path, *replies, files={"a.txt": "hello"}) as it:
        outcome = await it.prompt("read it")
        assert (outcome.stop_reason, outcome.error) == ("end_turn", None)
        await it.prompt("go on")
        sent = [request.body["messages"] for request in it.provider.requests]
    ids = [[called["id"] for message in messages for called in message.get("tool_calls", ())] for messages in sent]
    assert ids[1] == [odd]
    assert ids[-1] == ids[-2] == [*ids[2], ids[-1][1]]
    assert max(map(len, ids[-1])) <= 40
    returned = [message["tool_call_id"] for message in sent[-1] if message["role"] == "tool"]
    assert returned == ids[-1]


async def test_another_refusal_is_not_tried_again(tmp_path: Path) -> None:
    replies = calls(Call("read_file", {"path": "a.txt"}, id="plain")), fails("bad_request")
    async with rig(tmp_path, *replies, files={"a.txt": "hello"}) as it:
        outcome = await it.prompt("read it")
        assert outcome.stop_reason == "failed"
        assert len(it.provider.requests) == 2


async def test_a_full_disk_is_reported_each_time_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.02)
    long = "words " * 4000
    async with rig(tmp_path, *[say(long) for _ in range(4)]) as turn:
        await turn.prompt("hi")
        for times in (1, 2):
            await _allow_pages(turn, 1)
            await turn.prompt("go on")
            assert turn.notices() == ["The disk with the session database is full."] * times
            await _allow_pages(turn, 1_000_000)
            async with asyncio.timeout(20):
                await until(lambda: not (turn.engine.ledger.unsaved is not None))


async def _allow_pages(turn: Rig, most: int) -> None:
    """SQLite takes the disk for full beyond so many."""
    store = turn.engine.ledger._writer
    disk = store._disk
    assert disk is not None
    await store.read(lambda _: disk.db.execute(f"PRAGMA max_page_count = {most}").fetchall())
