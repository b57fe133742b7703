"""Validation finds every fault with its kind and place."""

from __future__ import annotations

import pytest
from tests.support.history import parse

from pilotfish.conversation.history.validation import (
    Fault,
    FaultKind,
    find_dangling_tool_call_ids,
    find_faults,
    is_sound,
)
from pilotfish.conversation.messages import CanonicalMessage, MessageRole, TextPart, ToolReturnPart, UserPromptPart

K = FaultKind


@pytest.mark.parametrize(
    "history",
    [
        "",
        "user: hi",
        "user: hi / model: hello",
        "user: hi / model: call a / user: return a",
        "user: hi / model: thought hm, on it, call a, call b / user: return a, failed b, and then? / model: done",
        "system: system rules, hi / model: hello",
        "system: system rules",
        "user: hi / model: call a, and more / user: interrupted a / model: other file",
    ],
)
def test_a_sound_history_has_no_faults(history: str) -> None:
    assert find_faults(parse(history)) == ()
    assert is_sound(parse(history))


@pytest.mark.parametrize(
    ("history", "faults"),
    [
        ("user: hi / model: call a", [Fault(K.DANGLING_CALL, 1, 0, "a")]),
        ("user: hi / model: call a / user: stop", [Fault(K.DANGLING_CALL, 1, 0, "a")]),
        ("user: hi / model: call a, call b / user: return a", [Fault(K.DANGLING_CALL, 1, 1, "b")]),
        (
            "user: hi / model: call a / model: on / user: return a",
            [
                Fault(K.DANGLING_CALL, 1, 0, "a"),
                Fault(K.CONSECUTIVE_RESPONSES, 2),
                Fault(K.STRAY_RETURN, 3, 0, "a"),
            ],
        ),
        (
            "user: hi / model: call a, call b / user: return b, return a",
            [
                Fault(K.STRAY_RETURN, 2, 0, "b"),
                Fault(K.STRAY_RETURN, 2, 1, "a"),
                Fault(K.DANGLING_CALL, 1, 0, "a"),
                Fault(K.DANGLING_CALL, 1, 1, "b"),
            ],
        ),
        (
            "user: hi / model: call a / user: words first, return a",
            [Fault(K.STRAY_RETURN, 2, 1, "a"), Fault(K.DANGLING_CALL, 1, 0, "a")],
        ),
        ("user: return z", [Fault(K.STRAY_RETURN, 0, 0, "z")]),
        ("user: hi / model: call a / user: return a, return a", [Fault(K.STRAY_RETURN, 2, 1, "a")]),
        ("user: hi / model: call a, call a / user: return a, return a", [Fault(K.DUPLICATE_CALL_ID, 1, 1, "a")]),
        (
            "user: hi / model: call a / user: return a / model: call a / user: return a",
            [Fault(K.DUPLICATE_CALL_ID, 3, 0, "a")],
        ),
        ("user: hi / model: call ? / user: return ?", [Fault(K.DUPLICATE_CALL_ID, 1, 0, "")]),
        ("user: hi / model: call a what? / user: return a what?", [Fault(K.WRONG_NAME, 1, 0, "a")]),
        ("user: hi / model: call a read / user: return a write", [Fault(K.WRONG_NAME, 2, 0, "a")]),
        ("user: hi / model: call a ? / user: return a ?", [Fault(K.UNNAMED_CALL, 1, 0, "a")]),
        ("user: hi / model:", [Fault(K.EMPTY_MESSAGE, 1)]),
        ("user: / model: hi", [Fault(K.EMPTY_MESSAGE, 0), Fault(K.NO_BEGINNING, 0)]),
        ("user: hi / model: blank, hello", [Fault(K.BLANK_PART, 1, 0)]),
        ("user: hi / user: ho", [Fault(K.CONSECUTIVE_REQUESTS, 1)]),
        ("user: hi / model: a / model: b", [Fault(K.CONSECUTIVE_RESPONSES, 2)]),
        ("user: hi / model: prompt words", [Fault(K.WRONG_SIDE, 1, 0)]),
        ("user: text words", [Fault(K.WRONG_SIDE, 0, 0)]),
        ("model: hello", [Fault(K.NO_BEGINNING, 0)]),
        ("system: system rules / model: hello", [Fault(K.NO_BEGINNING, 0)]),
        ("user: hi / model: a / system: system rules / model: b", [Fault(K.SYSTEM_ONLY_REQUEST, 2)]),
    ],
)
def test_each_fault_is_named_with_its_place(history: str, faults: list[Fault]) -> None:
    assert list(find_faults(parse(history))) == faults


def test_a_blank_return_is_a_fault() -> None:
    history = (
        *parse("user: hi / model: call a"),
        CanonicalMessage(MessageRole.USER, (ToolReturnPart("tool", "", "a"),)),
    )
    assert find_faults(history) == (Fault(K.BLANK_PART, 2, 0, "a"),)


def test_a_blank_item_in_a_prompt_is_a_fault() -> None:
    history = (CanonicalMessage(MessageRole.USER, (UserPromptPart(("hi", " ")),)),)
    assert find_faults(history) == (Fault(K.BLANK_PART, 0, 0),)


def test_a_blank_part_with_a_provider_field_is_not_a_fault() -> None:
    signed = CanonicalMessage(MessageRole.ASSISTANT, (TextPart("", {"provider_details": {"signature": "s"}}),))
    assert find_faults((*parse("user: hi"), signed)) == ()


def test_a_fault_is_shown_with_its_place_and_name() -> None:
    assert str(Fault(K.DANGLING_CALL, 1, 0, "a")) == "messages[1].parts[0]: dangling_call a"
    assert str(Fault(K.EMPTY_MESSAGE, 3)) == "messages[3]: empty_message"


@pytest.mark.parametrize(
    ("history", "ids"),
    [
        ("user: hi / model: call a, call b / user: return b", {"a"}),
        ("user: hi / model: call a / user: stop / model: sorry / user: return a", set[str]()),
        ("user: return a / model: call a", {"a"}),
        ("user: hi / model: call a / user: no / model: call a / user: return a", {"a"}),
        ("user: hi / model: call a, call a / user: return a", {"a"}),
    ],
)
def test_dangling_calls_are_those_that_no_return_answers(history: str, ids: set[str]) -> None:
    assert find_dangling_tool_call_ids(parse(history)) == ids
