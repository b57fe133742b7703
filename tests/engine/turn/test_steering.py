"""Steers are sent once, in order, and are not lost if a run ends before it sends them."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai import AgentRun

from pilotfish.engine.turn.steering import Steering


class FakeRun:
    """Of the library's run, what steering uses."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def enqueue(self, *content: str) -> str:
        self.given += content
        return "id"


def give(steering: Steering) -> list[str]:
    """What the next run is given."""
    run = FakeRun()
    steering.give(cast("AgentRun[Any, Any]", run))
    return run.given


def test_steers_are_sent_once_in_order_and_reported_when_recorded() -> None:
    steering, recorded = Steering(), list[str]()
    for words in ("one", "two", "three"):
        steering.steer([words], lambda words=words: recorded.append(words))
    assert (give(steering), give(steering)) == (["one", "two", "three"], [])
    steering.recording(0)
    steering.recording(2)
    assert recorded == ["one", "two"]
    steering.recording(5)
    assert recorded == ["one", "two", "three"]


def test_words_that_a_run_did_not_read_are_given_to_the_next_one() -> None:
    steering, recorded = Steering(), list[str]()
    steering.steer(["read"], lambda: recorded.append("read"))
    steering.steer(["unread"], lambda: recorded.append("unread"))
    give(steering)
    steering.recording(1)
    steering.steer(["later"], lambda: None)
    steering.run_ended()
    assert (recorded, give(steering)) == (["read"], ["unread", "later"])


def test_a_steer_can_be_withdrawn_until_a_run_has_it_and_again_when_the_run_ended_without_sending_it() -> None:
    steering = Steering()
    early, late = steering.steer(["early"], lambda: None), steering.steer(["late"], lambda: None)
    assert early()
    assert give(steering) == ["late"]
    assert not late()
    steering.run_ended()
    assert late()
    assert give(steering) == []
