"""The prompt queue: one turn at a time, each prompt answered once, and a stop ends the intended turn."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from pilotfish.conversation.records import StopReason, Usage
from pilotfish.engine.frontend import Outcome
from pilotfish.engine.session.prompt_queue import WITHDRAWN, PromptQueue, WaitingPrompt
from pilotfish.errors import SessionBusy


def outcome(prompt_id: str, stop: StopReason = "end_turn") -> Outcome:
    return Outcome(turn_id=f"turn of {prompt_id}", stop_reason=stop, usage=Usage())


@dataclass
class Played:
    """A line whose turns end when they are told to, or are cut short."""

    ran: list[str] = field(default_factory=list[str])
    end: asyncio.Event = field(default_factory=asyncio.Event)
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """what comes after a turn's answer may end"""
    fails: Exception | None = None

    def __post_init__(self) -> None:
        self.go_on.set()
        self.line = PromptQueue("line", self.run, self.ended)

    async def run(self, waiting: WaitingPrompt) -> Outcome:
        self.ran.append(waiting.prompt_id)
        self.cut.clear()
        ways = [asyncio.ensure_future(event.wait()) for event in (self.end, self.cut)]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        if self.fails is not None:
            raise self.fails
        return outcome(waiting.prompt_id, "cancelled" if self.cut.is_set() else "end_turn")

    async def ended(self) -> None:
        await self.go_on.wait()

    def submit(self, prompt_id: str) -> WaitingPrompt:
        waiting = WaitingPrompt(prompt_id, (), "queue", asyncio.get_running_loop().create_future())
        self.line.submit(waiting)
        return waiting

    async def stop(self) -> Outcome | None:
        return await asyncio.wait_for(self.line.stop(self.cut.set), 30)


async def test_prompts_run_one_after_the_other_in_their_order():
    played = Played()
    played.end.set()
    waiting = [played.submit(name) for name in ("a", "b", "c")]
    assert await asyncio.gather(*(each.answer for each in waiting)) == [outcome("a"), outcome("b"), outcome("c")]
    await played.line.aclose(played.cut.set)
    assert (played.ran, played.line.busy) == (["a", "b", "c"], False)


async def test_a_stop_right_behind_a_prompt_stops_it_before_it_has_begun():
    played = Played()
    waiting = played.submit("a")
    assert (played.line.current, played.line.busy) == (None, True)
    assert await played.stop() == outcome("a", "cancelled") == await waiting.answer


async def test_a_stop_between_two_turns_stops_the_second_and_does_not_look_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
):
    played = Played()
    played.go_on.clear()
    first, second = played.submit("a"), played.submit("b")
    await asyncio.sleep(0)
    played.end.set()
    assert await first.answer == outcome("a")
    played.end.clear()
    stop = asyncio.ensure_future(played.stop())
    loop, handles = asyncio.get_running_loop(), 0
    call_soon = loop.call_soon

    def counted(*args: object, **options: object) -> asyncio.Handle:
        nonlocal handles
        handles += 1
        return call_soon(*args, **options)  # pyright: ignore[reportArgumentType] -- passed on as they are

    monkeypatch.setattr(loop, "call_soon", counted)
    await asyncio.sleep(0.2)
    assert handles < 20  # nothing happens: nobody is woken
    monkeypatch.undo()
    played.go_on.set()
    assert await stop == outcome("b", "cancelled") == await second.answer


async def test_a_stop_of_a_prompt_that_is_withdrawn_before_it_begins_finds_nothing():
    played = Played()
    waiting = played.submit("a")
    stop = asyncio.ensure_future(played.stop())
    assert played.line.withdraw(waiting)
    assert (await stop, await waiting.answer, played.ran) == (None, WITHDRAWN, [])


async def test_prompts_behind_a_stopped_turn_wait_for_the_user():
    played = Played()
    first, second = played.submit("a"), played.submit("b")
    assert await played.stop() == outcome("a", "cancelled") == await first.answer
    await asyncio.sleep(0.05)
    assert (played.ran, played.line.busy, played.line.waiting) == (["a"], False, [second])
    assert await played.stop() is None
    played.end.set()
    played.line.go_on()
    assert await second.answer == outcome("b")


async def test_a_steer_that_was_sent_gets_the_outcome_of_the_turn_and_others_get_their_own_turn():
    played = Played()
    first, queued = played.submit("a"), played.submit("q")
    await asyncio.sleep(0)
    read, unread = (
        WaitingPrompt(name, (), "steer", asyncio.get_running_loop().create_future()) for name in ("read", "unread")
    )
    for words in (read, unread):
        played.line.submit_steer(words)
    assert played.line.waiting == [read, unread, queued]
    played.line.was_read(read)
    played.end.set()
    answers = await asyncio.gather(*(each.answer for each in (first, read, unread, queued)))
    assert answers == [outcome("a"), outcome("a"), outcome("unread"), outcome("q")]


async def test_a_turn_that_cannot_be_run_is_answered_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch):
    played = Played()
    played.end.set()
    run = played.run

    async def fails_once(waiting: WaitingPrompt) -> Outcome:
        if waiting.prompt_id == "a":
            raise SessionBusy("another process runs it")
        return await run(waiting)

    monkeypatch.setattr(played.line, "_run", fails_once)
    first, second = played.submit("a"), played.submit("b")
    with pytest.raises(SessionBusy):
        await first.answer
    assert await second.answer == outcome("b")


async def test_a_line_that_is_closed_answers_everyone():
    played = Played()
    first, second = played.submit("a"), played.submit("b")
    await asyncio.sleep(0)
    await asyncio.wait_for(played.line.aclose(played.cut.set), 30)
    assert (await first.answer, await second.answer) == (outcome("a", "cancelled"), WITHDRAWN)
    assert (played.line.current, played.line.waiting) == (None, [])


async def test_a_steer_that_was_sent_is_answered_when_the_turn_fails():
    played = Played()
    waiting = played.submit("a")
    await asyncio.sleep(0.01)
    steered = WaitingPrompt("b", (), "steer", asyncio.get_running_loop().create_future())
    played.line.submit_steer(steered)
    played.line.was_read(steered)
    played.fails = SessionBusy("no")
    played.end.set()
    for each in (waiting, steered):
        with pytest.raises(SessionBusy):
            await asyncio.wait_for(each.answer, 30)


async def test_a_stop_of_a_turn_that_comes_to_nothing_gives_nothing():
    played = Played(fails=SessionBusy("no"))
    waiting = played.submit("a")
    assert await played.stop() is None
    with pytest.raises(SessionBusy):
        await waiting.answer


async def test_a_prompt_for_a_closed_queue_is_withdrawn():
    played = Played()
    running = played.submit("a")
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(played.line.aclose(played.cut.set))
    await asyncio.sleep(0)
    behind, beside = played.submit("b"), WaitingPrompt("c", (), "steer", asyncio.get_running_loop().create_future())
    played.line.submit_steer(beside)
    await asyncio.wait_for(closing, 30)
    late = played.submit("d")
    assert [await each.answer for each in (running, behind, beside, late)] == [
        outcome("a", "cancelled"),
        *[WITHDRAWN] * 3,
    ]
    assert (played.ran, played.line.busy) == (["a"], False)
