"""Regression tests for promises of the protocol that an external client found broken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from tests.support.engine import rig, texts
from tests.support.provider import Call, Gate, Reply, call, calls, fails, say
from tests.support.provider_script import Pause, Raw, Refusal, Text
from tests.support.waiting import until

from pilotfish.conversation.items import MessageItem
from pilotfish.conversation.model_history import Item
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Answer, OptionId, Question
from pilotfish.engine.turn.orchestrator import RequestOrchestrator
from pilotfish.engine.turn.recording import Recording
from pilotfish.engine.turn.recovery import NOT_FORKED


async def test_a_failure_that_does_not_pass_ends_the_turn_after_twelve_tries(tmp_path: Path) -> None:
    async with rig(tmp_path, *(fails("server", retry_after=0.01) for _ in range(12)), say("fine")) as turn:
        outcome = await turn.prompt("go")
        assert outcome.error is not None
        assert (outcome.stop_reason, outcome.error.retryable, len(turn.provider.requests)) == ("failed", True, 12)
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


@pytest.mark.parametrize(
    ("reply", "said"), [(Reply(parts=(Refusal("I will not."),)), "I will not."), (Reply(finish="content_filter"), "")]
)
async def test_a_refusal_is_no_empty_answer(tmp_path: Path, reply: Reply, said: str) -> None:
    async with rig(tmp_path, reply, say("fine")) as turn:
        assert (await turn.prompt("go")).stop_reason == "refusal"
        assert (turn.text(), len(turn.provider.requests)) == (said, 1)
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()


@pytest.mark.parametrize(
    ("reply", "is_named"), [(Reply(body="<html>Sign in</html>", content_type="text/html"), True), (Reply(), False)]
)
async def test_an_address_that_answers_with_a_page_is_named(tmp_path: Path, reply: Reply, is_named: bool) -> None:
    async with rig(tmp_path, otherwise=reply) as turn:
        error = (await turn.prompt("go")).error
        assert error is not None
        assert (error.kind, "baseUrl" in error.remedy) == ("empty", is_named)


async def test_a_steer_that_is_withdrawn_at_once_is_answered_and_the_turn_continues(tmp_path: Path) -> None:
    async with rig(tmp_path, Reply(parts=(Gate(), Text("whole"))), otherwise=say("whole")) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await turn.provider.received(1)
        steering = asyncio.create_task(turn.prompt("look at @work", when_busy="steer"))
        while not await turn.engine.queue(turn.session_id):
            await asyncio.sleep(0)
        steering.cancel()
        assert (await steering).stop_reason == "cancelled"
        turn.provider.release()
        assert (await running).stop_reason == "end_turn"
        turn.check_laws()


async def test_stopping_one_call_says_which_processes_were_killed(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="echo up; sleep 30"), say("went on"), mode="auto") as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: not ("up" not in turn.text("progress")))
        receipt = await turn.engine.cancel(turn.session_id, next(iter(turn.statuses())))
        assert [process.command for process in receipt.killed_processes] == ["echo up; sleep 30"]
        assert (await running).stop_reason == "end_turn"


async def test_what_can_never_be_allowed_for_good_can_be_denied_for_good(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def deny(question: Question) -> Answer:
        asked.append([option.id for option in question.options])
        return Answer(option_id="reject_always")

    reply = call("bash", command="rmdir gone")
    async with rig(tmp_path, reply, say("ok"), reply, say("ok"), choose=deny) as turn:
        await turn.prompt("go")
        await turn.prompt("go")
        assert asked == [["allow_once", "reject", "reject_always"]]
        assert [rule.decision for rule in turn.engine.rules()] == ["deny"]
        turn.engine.remove_rule(turn.engine.rules()[0], str(turn.root))


@pytest.mark.parametrize(("option", "status"), [("allow_always", "completed"), ("reject_always", "denied")])
async def test_an_answer_for_good_holds_though_its_rule_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: OptionId, status: str
) -> None:
    (tmp_path / "broken.toml").write_text("broken = = ")
    monkeypatch.setenv("PILOTFISH_CONFIG", str(tmp_path / "broken.toml"))
    replies = (call("bash", command="touch made"), say("ok"))
    async with rig(tmp_path, *replies, choose=lambda _: Answer(option_id=option)) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert [line[-1] for line in turn.statuses().values()] == [status]
        assert [rule.scope for rule in turn.engine.rules(turn.session_id) if rule.tool == "bash"] == ["session"]
        turn.check_laws()


async def _pages(engine: Engine, session_id: str, limit: int) -> list[Item]:
    items: list[Item] = []
    before: str | None = None
    while True:
        page = await engine.load(session_id, before, limit)
        assert 0 < len(page.items) <= limit
        items = [*page.items, *items]
        if not page.has_more:
            return items
        before = items[0].id


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_the_joined_pages_are_the_whole_transcript(tmp_path: Path, limit: int) -> None:
    both = calls(Call("list_dir", {"path": "."}), Call("write_file", {"path": "a.txt", "content": "a\n"}))
    async with rig(tmp_path, both, say("one"), both, say("two", thoughts=("hm",)), say("three")) as turn:
        for text in ("first", "second", "third"):
            await turn.prompt(text)
        whole = (await turn.engine.load(turn.session_id)).items
        assert await _pages(turn.engine, turn.session_id, limit) == list(whole)


async def test_a_fork_at_the_last_message_has_the_turn_as_it_ended(tmp_path: Path) -> None:
    async with rig(tmp_path, say("one")) as turn:
        await turn.prompt("go")
        whole = (await turn.engine.load(turn.session_id)).items
        fork = await turn.engine.fork(turn.session_id, whole[1].id)
        assert [item.kind for item in whole] == ["prompt", "message", "turn_end"]
        assert (await turn.engine.load(fork.id)).items == whole


async def test_a_fork_in_the_middle_of_a_turn_is_cancelled_and_asks_nothing_again(tmp_path: Path) -> None:
    async with rig(tmp_path, call("write_file", path="a.txt", content="a\n"), say("fine"), choose=None) as turn:
        running = asyncio.create_task(turn.engine.prompt(turn.session_id, texts(["go"])))
        await until(turn.engine.questions)
        fork = await turn.engine.fork(turn.session_id)
        items = (await turn.engine.load(fork.id)).items
        ends = [item.stop_reason for item in items if item.kind == "turn_end"]
        assert (ends, [item.call.error for item in items if item.kind == "tool_call"]) == (["cancelled"], [NOT_FORKED])
        assert [question.session_id for question in turn.engine.questions()] == [turn.session_id]
        turn.answer(turn.engine.questions()[0], Answer(option_id="reject"))
        assert (await running).stop_reason == "end_turn"


async def test_a_deleted_session_takes_its_transcript_with_it(tmp_path: Path) -> None:
    async with rig(tmp_path) as turn:
        path = turn.engine.transcript_path(turn.session_id)
        path.parent.mkdir()
        path.write_text("what was said")
        await turn.engine.delete(turn.session_id)
        assert not path.exists()


async def test_streamed_text_is_kept_if_its_message_could_not_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Recording.record_new

    def no_memory(recording: Recording, messages: Sequence[ModelMessage], *, keep_partial: bool) -> None:
        if any(isinstance(message, ModelResponse) for message in messages):
            raise MemoryError
        whole(recording, messages, keep_partial=keep_partial)

    async with rig(tmp_path, say("shown ", "so far", end="drop"), otherwise=say("fine")) as turn:
        monkeypatch.setattr(Recording, "record_new", no_memory)
        outcome = await turn.prompt("go")
        assert outcome.stop_reason == "failed"
        monkeypatch.undo()
        loaded = await turn.engine.load(turn.session_id)
        assert [item.text for item in loaded.items if isinstance(item, MessageItem)] == ["shown so far"]
        assert (await turn.prompt("and now?")).stop_reason == "end_turn"
        turn.check_laws()


async def test_a_surrogate_pair_in_two_chunks_is_emitted_as_it_is_stored(tmp_path: Path) -> None:
    def piece(text: str) -> Raw:
        return Raw(f'data: {{"id":"x","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}\n\n')

    parts = (Text("a"), piece("\\ud83d"), Pause(0.3), piece("\\ude00"), piece("\\ud83d"))
    async with rig(tmp_path, Reply(parts=parts)) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        loaded = await turn.engine.load(turn.session_id)
        assert turn.text() == "a\U0001f600\ufffd"
        assert [item.text for item in loaded.items if isinstance(item, MessageItem)] == [turn.text()]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # it is no number of tokens, as the SDK says itself
async def test_no_number_of_tokens_is_too_large_for_the_ledger(tmp_path: Path) -> None:
    counted = f'"usage":{{"prompt_tokens":{10**30},"completion_tokens":7,"total_tokens":{10**30}}}'
    head = '"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[]'
    absurd = Reply(parts=(Text("a"), Raw(f"data: {{{head},{counted}}}\n\n")))
    async with rig(tmp_path, absurd, otherwise=say("fine")) as turn:
        assert (await turn.prompt("go")).usage.input_tokens == 1 << 40
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        listed = await turn.engine.list()
        assert [session.id for session in listed.sessions] == [turn.session_id]


async def test_a_turn_that_could_not_be_ended_is_repaired_as_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_end(*_: object) -> None:
        raise RuntimeError

    async with rig(tmp_path, say("shown ", "so far"), otherwise=say("fine")) as turn:
        monkeypatch.setattr(RequestOrchestrator, "_end", no_end)
        with pytest.raises(RuntimeError):
            await turn.prompt("go")
        monkeypatch.undo()
        loaded = await turn.engine.load(turn.session_id)
        assert [item.text for item in loaded.items if isinstance(item, MessageItem)] == ["shown so far"]
        assert (await turn.prompt("and now?")).stop_reason == "end_turn"
        turn.check_laws()
