"""Any JSON value becomes a canonical message or a clear error."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json
from tests.support.history import broken_histories, show
from tests.support.tries import tries

from pilotfish.conversation.history.sanitizer import repair
from pilotfish.conversation.message_parser import read_message
from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    OtherPart,
    Part,
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

USER, MODEL, SYSTEM = MessageRole.USER, MessageRole.ASSISTANT, MessageRole.SYSTEM


def check(value: Any, role: MessageRole, *parts: Part) -> None:
    assert read_message(value) == CanonicalMessage(role, parts)


def test_plain_content_is_a_prompt_and_a_plain_thought_belongs_to_the_model() -> None:
    check({"content": "Hello"}, USER, UserPromptPart("Hello"))
    check({"thought": "hm"}, MODEL, ThoughtPart("hm"))
    check({"thought": "hm", "content": "so"}, MODEL, ThoughtPart("hm"), TextPart("so"))


def test_chat_messages_are_parsed() -> None:
    check({"role": "system", "content": "rules"}, SYSTEM, SystemPromptPart("rules"))
    check({"role": "developer", "content": "rules"}, SYSTEM, SystemPromptPart("rules"))
    check({"role": "user", "content": [{"type": "text", "text": "hi"}, "ho"]}, USER, UserPromptPart(("hi", "ho")))
    check(
        {
            "role": "assistant",
            "content": "on it",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"p": 1}'}}],
        },
        MODEL,
        TextPart("on it"),
        ToolCallPart("read", {"p": 1}, "c1"),
    )
    check(
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "read"}}]},
        MODEL,
        ToolCallPart("read", {}, "c1"),
    )
    check({"role": "tool", "tool_call_id": "c1", "content": "done"}, USER, ToolReturnPart("", "done", "c1"))
    check(
        {"role": "tool", "tool_call_id": "c1", "name": "read", "content": "ok"},
        USER,
        ToolReturnPart("read", "ok", "c1"),
    )


def test_messages_with_content_blocks_are_parsed() -> None:
    check(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "on it"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"p": 1}},
            ],
        },
        MODEL,
        ThoughtPart("hm", {"signature": "s"}),
        TextPart("on it"),
        ToolCallPart("read", {"p": 1}, "t1"),
    )
    check(
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
                {"type": "text", "text": "well?"},
            ],
        },
        USER,
        ToolReturnPart("", "no", "t1", "failed"),
        UserPromptPart("well?"),
    )


def test_calls_beside_parts_are_added_unless_parts_contain_them() -> None:
    check(
        {
            "kind": "response",
            "parts": [{"part_kind": "tool-call", "tool_name": "a", "args": {}, "tool_call_id": "1"}],
            "tool_calls": [
                {"tool_name": "a", "args": {}, "tool_call_id": "1"},
                {"tool_name": "b", "args": '{"x": 2}', "tool_call_id": "2"},
            ],
        },
        MODEL,
        ToolCallPart("a", {}, "1"),
        ToolCallPart("b", {"x": 2}, "2"),
    )


@pytest.mark.parametrize(
    ("args", "normal", "raw"),
    [({"a": 1}, {"a": 1}, None), ('{"a": 1}', {"a": 1}, None), (None, {}, None), ("{", {}, "{"), ([1], {}, "[1]")],
)
def test_arguments_of_every_form_are_normalised(args: Any, normal: dict[str, Any], raw: str | None) -> None:
    part = {"part_kind": "tool-call", "tool_name": "t", "args": args, "tool_call_id": "c"}
    check({"kind": "response", "parts": [part]}, MODEL, ToolCallPart("t", normal, "c", raw))


def test_a_call_without_an_id_always_gets_the_same_id() -> None:
    part: Any = {"part_kind": "tool-call", "tool_name": "t", "args": {}}
    value: Any = {"kind": "response", "parts": [part, part]}
    one, two = read_message(value).calls
    assert one.tool_call_id.startswith("call_")
    assert one.tool_call_id != two.tool_call_id
    assert read_message(value) == read_message(value)


def test_a_call_and_a_return_without_ids_are_matched() -> None:
    values: list[Any] = [
        {"content": "hi"},
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "t", "args": {}}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "t", "content": "done"}]},
    ]
    history = tuple(map(read_message, values))
    call_id = history[1].calls[0].tool_call_id
    assert show(repair(history)) == f"user: hi / model: call {call_id} t / user: return {call_id} t = done"


def test_an_old_retry_prompt_is_converted() -> None:
    retry = {"part_kind": "retry-prompt", "content": "no", "tool_name": "t", "tool_call_id": "c"}
    check({"kind": "request", "parts": [retry]}, USER, ToolReturnPart("t", "no", "c", "retried"))
    feedback = {"part_kind": "retry-prompt", "content": "no", "tool_call_id": "c"}
    check({"kind": "request", "parts": [feedback]}, USER, RetryPart("no", {"retry": {"cause": "model_retry"}}))
    errors = {"part_kind": "retry-prompt", "content": [{"msg": "x"}]}
    check(
        {"kind": "request", "parts": [errors]},
        USER,
        RetryPart([{"msg": "x"}], {"retry": {"cause": "validation_error"}}),
    )


def test_plain_text_becomes_the_part_of_its_role() -> None:
    check({"kind": "request", "parts": [{"part_kind": "text", "content": "hi"}]}, USER, UserPromptPart("hi"))
    check({"kind": "response", "parts": [{"part_kind": "user-prompt", "content": "hi"}]}, MODEL, TextPart("hi"))
    check({"role": "user", "parts": ["hi"]}, USER, UserPromptPart("hi"))
    check({"role": "system", "parts": [{"part_kind": "text", "content": "rules"}]}, SYSTEM, SystemPromptPart("rules"))


def test_unknown_fields_and_parts_are_kept() -> None:
    value = {
        "kind": "response",
        "parts": [
            {"part_kind": "hologram", "frames": [1, None]},
            {"part_kind": "text", "content": "x", "glow": 1, "id": None},
        ],
        "model_name": "m",
        "run_id": None,
    }
    assert read_message(value) == CanonicalMessage(
        MODEL, (OtherPart("hologram", {"frames": [1, None]}), TextPart("x", {"glow": 1})), {"model_name": "m"}
    )


def test_lone_surrogates_are_replaced() -> None:
    message = read_message({"content": "a\ud800b", "x": {"k\udfff": ["\ud83d\ude00"]}})
    assert message == CanonicalMessage(USER, (UserPromptPart("a\ufffdb"),), {"x": {"k\ufffd": ["😀"]}})
    orjson.dumps(message_to_json(message))


def test_lone_surrogates_are_replaced_in_plain_text_and_other_parts() -> None:
    message = read_message({"role": "assistant", "parts": ["\udfff", {"part_kind": "\ud800", "\ud800": 1}]})
    other = OtherPart("\ufffd", {"\ufffd": 1})
    assert message == CanonicalMessage(MessageRole.ASSISTANT, (TextPart("\ufffd"), other))


def test_an_alternative_text_field_is_kept_as_an_extra_field() -> None:
    message = read_message({"role": "assistant", "parts": [{"part_kind": "text", "content": "a", "text": "b"}]})
    assert message == CanonicalMessage(MessageRole.ASSISTANT, (TextPart("a", {"text": "b"}),))
    assert read_message(message_to_json(message)) == message


def test_nan_and_infinity_become_text() -> None:
    message = read_message({"content": "a", "x": [float("nan"), float("-inf"), 0.5]})
    assert message == CanonicalMessage(USER, (UserPromptPart("a"),), {"x": ["nan", "-inf", 0.5]})


UNREADABLE: list[tuple[Any, str]] = [
    (None, "message is not an object but null"),
    (7, "message is not an object but int"),
    ("hi", "message is not an object but str"),
    ([], "message is not an object but list"),
    ({}, "message holds no parts, content, thought or tool_calls"),
    ({"role": "pirate", "content": "arr"}, "message has an unknown role 'pirate'"),
    ({"role": 7, "content": "x"}, "message has an unknown role 7"),
    ({"content": 7}, "message.content has content that is neither text nor a list but int"),
    ({"role": "assistant", "content": 7}, "message.content is neither text nor a list but int"),
    ({"thought": 7}, "message.thought is not text but int"),
    ({"parts": "x"}, "message.parts is not a list"),
    ({"parts": [7]}, "message.parts[0] is not an object but int"),
    ({"parts": [{}]}, "message.parts[0] has no part_kind"),
    ({"parts": [{"part_kind": "tool-return", "outcome": []}]}, "message.parts[0] has an unknown outcome []"),
    ({"parts": [{"part_kind": "text"}]}, "message.parts[0] is not text but null"),
    ({"tool_calls": 7}, "message.tool_calls is not a list"),
    ({"tool_calls": [7]}, "message.tool_calls[0] is not an object but int"),
    ({"tool_calls": [{"tool_name": 7}]}, "message.tool_calls[0].tool_name is not text but int"),
    ({"content": "x", "extra": {1: 2}}, "message.extra has a key that is not text: 1"),
    ({"content": "x", "extra": {"deep": [b"raw"]}}, "message.extra.deep[0] holds bytes, which JSON cannot represent"),
]


@pytest.mark.parametrize(("value", "complaint"), UNREADABLE)
def test_an_unreadable_value_is_an_error_that_names_the_place(value: object, complaint: str) -> None:
    with pytest.raises(UnreadableMessage) as raised:
        read_message(value)
    assert str(raised.value) == complaint


def test_a_value_that_is_nested_too_deeply_is_an_error() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(UnreadableMessage, match="message is nested more than 200 deep"):
        read_message({"content": "x", "extra": deep})


# ---- Fuzz ----------------------------------------------------------------------------------------------------------

_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6)
)
_json: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
_kinds = st.sampled_from(
    [
        "text",
        "thinking",
        "user-prompt",
        "system-prompt",
        "tool-call",
        "tool-return",
        "retry-prompt",
        "retry-feedback",
        "file",
        "?",
    ]
)
_part_fields = st.sampled_from(
    [
        "content",
        "text",
        "tool_name",
        "name",
        "args",
        "arguments",
        "tool_call_id",
        "id",
        "outcome",
        "raw_args",
        "function",
        "extra",
    ]
)


def _part(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"part_kind": kind, **fields}


_parts: st.SearchStrategy[Any] = st.one_of(
    _json, st.builds(_part, _kinds, st.dictionaries(_part_fields, st.one_of(st.text(max_size=6), _json), max_size=5))
)


def _message(parts: list[Any]) -> dict[str, Any]:
    return {"kind": "response" if len(parts) % 2 else "request", "parts": parts}


_structured = st.lists(_parts, min_size=1, max_size=4)
_messages: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "tool", "developer", "?", 7]),
        "kind": st.sampled_from(["request", "response", "?", None]),
        "parts": st.one_of(st.lists(_parts, max_size=4), _json),
        "content": st.one_of(st.text(max_size=6), st.lists(_parts, max_size=3), _json),
        "thought": st.one_of(st.text(max_size=6), _json),
        "tool_calls": st.one_of(st.lists(_parts, max_size=3), _json),
        "tool_call_id": _scalars,
        "name": _scalars,
        "usage": _json,
    },
)


@settings(max_examples=tries(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(_messages, st.builds(_message, _structured), _json))
def test_any_json_value_is_a_message_or_a_clear_error(value: Any) -> None:
    try:
        message = read_message(value)
    except UnreadableMessage as error:
        complaint = str(error)
    else:
        written = message_to_json(message)
        assert message_from_json(from_json(to_json(written))) == message
        assert read_message(written) == message
        complaint = "message"
    assert complaint.startswith("message")


@settings(max_examples=tries(100), deadline=None)
@given(broken_histories)
def test_canonical_json_is_parsed_without_changes(history: tuple[CanonicalMessage, ...]) -> None:
    for message in history:
        read = read_message(message_to_json(message))
        assert message_to_json(read)["role"] == message.role
        assert read.get_tool_return_ids() == message.get_tool_return_ids()
