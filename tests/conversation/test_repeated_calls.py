"""Repeated identical calls lead to a question."""

from __future__ import annotations

from pilotfish.conversation.repeated_calls import Repeats


def test_the_fifth_identical_call_with_the_same_result_asks() -> None:
    repeats = Repeats()
    answers = [repeats.note("grep", {"pattern": "x"}, "nothing") for _ in range(5)]
    assert answers == [
        None,
        None,
        None,
        None,
        "grep was called 5 times with the same arguments and gave the same result each time. Continue?",
    ]


def test_a_different_tool_argument_or_result_is_a_different_call() -> None:
    repeats = Repeats()
    for number in range(20):
        assert repeats.note("bash_output", {"id": "bg1"}, f"line {number}") is None
        assert repeats.note("read_file", {"path": f"{number}"}, "same") is None
    assert repeats.note("bash_output", {"id": "bg1"}, "line 0") is None


def test_two_alternating_calls_are_detected() -> None:
    repeats = Repeats()
    answers = [
        repeats.note(tool, {"b": 1, "a": 2} if turn % 2 else {"a": 2, "b": 1}, "same")
        for turn in range(5)
        for tool in ("a", "b")
    ]
    assert [answer is not None for answer in answers] == [False] * 8 + [True, True]


def test_after_continuing_the_count_starts_again() -> None:
    repeats = Repeats(limit=2)
    assert [repeats.note("a", {}, "x") is not None for _ in range(6)] == [False, True] * 3
