"""Canonical messages are frozen, computed from their parts, and survive JSON without loss."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from tests.support.history import broken_histories, parse
from tests.support.tries import tries

from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    OtherPart,
    RetryPart,
    SystemPromptPart,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    message_from_json,
    message_to_json,
)
from pilotfish.errors import UnreadableMessage

EVERY_PART = CanonicalMessage(
    MessageRole.ASSISTANT,
    (
        TextPart("words", {"id": "t1", "provider_name": "openai"}),
        ThoughtPart("hm", {"signature": "s"}),
        UserPromptPart("hi", {"timestamp": "1"}),
        UserPromptPart(("look", {"kind": "image-url", "url": "http://x/a.png"})),
        SystemPromptPart("rules", {"scope": "request"}),
        ToolCallPart("read", {"path": "a", "none": None}, "c1"),
        ToolCallPart("read", {}, "c2", '{"path": ', {"id": "fc_1"}),
        ToolReturnPart("read", {"lines": [1, None]}, "c1", "failed", {"metadata": {"m": 1}}),
        RetryPart("again", {"retry": {"cause": "no_output"}}),
        OtherPart("hologram", {"frames": [1, 2], "content": None}),
    ),
    {"usage": {"input_tokens": 1}, "model_name": "m"},
)


def test_every_part_survives_json() -> None:
    text = orjson.dumps(message_to_json(EVERY_PART))
    assert message_from_json(orjson.loads(text)) == EVERY_PART


@settings(max_examples=tries(100), deadline=None)
@given(broken_histories)
def test_any_message_survives_json(history: tuple[CanonicalMessage, ...]) -> None:
    for message in history:
        assert message_from_json(orjson.loads(orjson.dumps(message_to_json(message)))) == message


def test_the_json_of_a_message() -> None:
    (message,) = parse("model: on it, call a")
    assert message_to_json(message) == {
        "role": "assistant",
        "parts": [
            {"part_kind": "text", "content": "on it"},
            {"part_kind": "tool-call", "tool_name": "tool", "args": {"of": "a"}, "tool_call_id": "a"},
        ],
    }


def test_messages_and_parts_are_frozen() -> None:
    (message,) = parse("user: hi")
    with pytest.raises(FrozenInstanceError):
        message.role = MessageRole.SYSTEM  # pyright: ignore[reportAttributeAccessIssue] -- the test expects the error
    with pytest.raises(FrozenInstanceError):
        EVERY_PART.parts[0].content = "x"  # pyright: ignore[reportAttributeAccessIssue] -- the test expects the error


def test_text_and_ids_are_computed_from_the_parts() -> None:
    assert EVERY_PART.get_text_content() == "words hm hi look"
    assert EVERY_PART.get_tool_call_ids() == {"c1", "c2"}
    assert EVERY_PART.get_tool_return_ids() == {"c1"}


def test_images_are_not_part_of_the_text() -> None:
    content = ("one", {"kind": "text-content", "content": "two"}, {"kind": "binary", "content": "no"}, {"content": 3})
    assert UserPromptPart(content).text == "one\ntwo"


def test_a_return_that_is_not_text_is_shown_as_json() -> None:
    assert ToolReturnPart("t", {"a": [1, None]}, "c").text == '{"a":[1,null]}'


UNREADABLE: list[tuple[dict[str, Any], str]] = [
    ({}, "message has no known role, or no parts"),
    ({"role": "pirate", "parts": []}, "message has no known role, or no parts"),
    ({"role": [], "parts": []}, "message has no known role, or no parts"),
    ({"role": "user", "parts": {}}, "message parts is not a list"),
    ({"role": "user", "parts": [7]}, "message.parts[0] is not an object"),
    ({"role": "user", "parts": [{}]}, "message.parts[0] has no part_kind"),
    ({"role": "user", "parts": [{"part_kind": "text"}]}, "message.parts[0] content is not text"),
    (
        {"role": "user", "parts": [{"part_kind": "user-prompt", "content": 1}]},
        "message.parts[0] content is neither text nor a list",
    ),
    (
        {"role": "user", "parts": [{"part_kind": "user-prompt", "content": ["a", 1]}]},
        "message.parts[0].content[1] is neither text nor an object",
    ),
    (
        {
            "role": "assistant",
            "parts": [{"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": "{}"}],
        },
        "message.parts[0] has arguments that are not an object",
    ),
    (
        {
            "role": "user",
            "parts": [{"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "outcome": "?"}],
        },
        "message.parts[0] has an unknown outcome '?'",
    ),
]


@pytest.mark.parametrize(("value", "complaint"), UNREADABLE)
def test_an_invalid_message_is_an_error_that_names_the_place(value: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnreadableMessage) as raised:
        message_from_json(value)
    assert str(raised.value) == complaint
