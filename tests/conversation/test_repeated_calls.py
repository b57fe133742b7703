"""Repeated identical calls lead to a warning and a question."""

from __future__ import annotations

from pilotfish.conversation.repeated_calls import Repeats


def test_the_fifth_identical_call_with_the_same_result_asks() -> None:
    repeats = Repeats()
    answers = [repeats.succeeded("grep", {"pattern": "x"}, "nothing", changed=False).question for _ in range(5)]
    asked = "grep was called 5 times with the same arguments and gave the same result each time. Continue?"
    assert answers == [None, None, None, None, asked]


def test_a_call_that_fails_again_is_warned_about_and_the_fourth_asks() -> None:
    repeats = Repeats()
    answers = [repeats.failed("grep", {"pattern": "x"}, "error") for _ in range(5)]
    assert [answer.warning is not None for answer in answers] == [False, True, True, True, False]
    assert [answer.question for answer in answers[:3]] == [None, None, None]
    assert answers[3].question == "grep was called 4 times with the same arguments and failed each time. Continue?"


def test_a_change_of_a_file_may_mend_what_failed() -> None:
    repeats = Repeats()
    repeats.failed("bash", {"command": "make"}, "error")
    repeats.succeeded("write_file", {}, "written", changed=True)
    assert repeats.failed("bash", {"command": "make"}, "error").warning is None


def test_a_different_tool_argument_or_result_is_a_different_call() -> None:
    repeats = Repeats()
    for number in range(20):
        assert repeats.succeeded("bash_output", {"id": "bg1"}, f"line {number}", changed=False).question is None
        assert repeats.failed("read_file", {"path": f"{number}"}, "same").warning is None
    assert repeats.succeeded("bash_output", {"id": "bg1"}, "line 0", changed=False).question is None


def test_two_alternating_calls_are_detected() -> None:
    repeats = Repeats()
    answers = [
        repeats.succeeded(tool, {"b": 1, "a": 2} if turn % 2 else {"a": 2, "b": 1}, "same", changed=False).question
        for turn in range(10)
        for tool in ("a", "b")
    ]
    assert [answer is not None for answer in answers] == ([False] * 8 + [True, True]) * 2
