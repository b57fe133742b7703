"""The adapter converts pydantic-ai messages to canonical ones and back without loss."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, get_args

import pydantic_ai.messages as vendor
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.usage import RequestUsage
from tests.support.history import broken_histories, parse, sound_histories
from tests.support.tries import tries

from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    OtherPart,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    message_from_json,
    message_to_json,
)
from pilotfish.engine.model.adapter import (
    find_dangling_tool_calls,
    from_canonical,
    get_content,
    to_canonical,
)
from pilotfish.errors import UnreadableMessage

v: Any = vendor  # samples are built as the library allows at run time, which is more than its types do
AT = datetime(2026, 1, 19, 12, 30, 15, 123456, tzinfo=UTC)
PNG = v.BinaryContent(b"\x89PNG\x00\xff", media_type="image/png", identifier="pic", vendor_metadata={"detail": "low"})
PROVIDER: dict[str, Any] = {"id": "i1", "provider_name": "openai", "provider_details": {"k": [1, None, {"x": True}]}}


def samples() -> dict[type, list[Any]]:
    """An instance of every part class, with every field set to something else than its default."""
    call: dict[str, Any] = {
        "args": {"path": "a", "none": None},
        "tool_call_id": "c1",
        "tool_kind": "own.kind",
        **PROVIDER,
    }
    back: dict[str, Any] = {
        "tool_call_id": "c1",
        "metadata": {"m": [1, {"n": None}]},
        "timestamp": AT,
        "tool_kind": "own.kind",
    }
    retry = v.RetryInfo("validation_error", attempt=1, max_retries=3)
    search = {"discovered_tools": [{"name": "t", "description": "d"}]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        legacy = [
            v.RetryPromptPart("try again", tool_name="read", tool_call_id="c1", timestamp=AT),
            v.RetryPromptPart("try again", timestamp=AT, tool_call_id="c9"),
            v.RetryPromptPart(
                [{"type": "missing", "loc": ("a",), "msg": "needed", "input": {}}],
                tool_name="read",
                tool_call_id="c1",
                timestamp=AT,
            ),
        ]
    return {
        v.SystemPromptPart: [
            v.SystemPromptPart(
                "rules", timestamp=AT, dynamic_ref="d", context_id="system_prompt:x", scope="request", metadata={"a": 1}
            )
        ],
        v.UserPromptPart: [
            v.UserPromptPart("hi", timestamp=AT),
            *(_with_content(item) for item in user_content()),
        ],
        v.SpeechPart: [
            v.SpeechPart(
                speaker="assistant",
                transcript="hello",
                audio=v.BinaryContent(b"\x00\x01", media_type="audio/wav"),
                interrupted_at_ms=12,
                timestamps=[v.SpeechTimestamp(text="hello", start_ms=0, duration_ms=9, granularity="segment")],
                **PROVIDER,
            ),
            v.SpeechPart(speaker="user", transcript="hello"),
        ],
        v.ToolSearchCallPart: [v.ToolSearchCallPart(args={"queries": ["q"]}, tool_call_id="c1", **PROVIDER)],
        v.ToolSearchReturnPart: [
            v.ToolSearchReturnPart(content=search, tool_call_id="c1", metadata={"m": 1}, timestamp=AT)
        ],
        v.NativeToolSearchCallPart: [
            v.NativeToolSearchCallPart(args={"queries": ["q"]}, tool_call_id="c1", **PROVIDER)
        ],
        v.NativeToolSearchReturnPart: [
            v.NativeToolSearchReturnPart(
                content=search,
                tool_call_id="c1",
                metadata={"m": 1},
                timestamp=AT,
                provider_name="openai",
                provider_details={"k": 1},
            )
        ],
        v.LoadCapabilityCallPart: [v.LoadCapabilityCallPart(args={"id": "x"}, tool_call_id="c1", **PROVIDER)],
        v.LoadCapabilityReturnPart: [
            v.LoadCapabilityReturnPart(
                content={"instructions": "do"}, tool_call_id="c1", metadata={"m": 1}, timestamp=AT
            )
        ],
        v.ToolReturnPart: [
            v.ToolReturnPart("read", "text", outcome="retried", retry=retry, **back),
            v.ToolReturnPart(
                "read", {"a": [1, None, {"kind": "image-url", "url": "http://x/y.png"}]}, "c2", timestamp=AT
            ),
            v.ToolReturnPart("read", None, "c3", timestamp=AT, outcome="denied"),
            v.ToolReturnPart("read", ["see", *files()], "c4", timestamp=AT, outcome="failed"),
            *(v.ToolReturnPart("read", file, "c5", timestamp=AT, outcome="interrupted") for file in files()),
        ],
        v.RetryPromptPart: legacy,
        v.RetryFeedbackPart: [
            v.RetryFeedbackPart("again", retry=v.RetryInfo("no_output"), timestamp=AT),
            v.RetryFeedbackPart(
                [{"type": "missing", "loc": ("a", 0), "msg": "needed", "input": {}}], retry=retry, timestamp=AT
            ),
        ],
        v.ToolAvailabilityDeltaPart: [v.ToolAvailabilityDeltaPart(tools_added=["t"], tool_call_id="c1")],
        v.CapabilityLoadDeltaPart: [v.CapabilityLoadDeltaPart(loaded=["c"], tool_call_id="c1")],
        v.ModelSettingsDeltaPart: [v.ModelSettingsDeltaPart(settings={"thinking": "high"}, top_level=True)],
        v.InstructionDeltaPart: [
            v.InstructionDeltaPart(id=_instruction_id(), content="new", base_hash="h"),
            v.InstructionDeltaPart(id=_instruction_id(), content=None),
        ],
        v.InstructionBaselinePart: [
            v.InstructionBaselinePart(
                instructions=[
                    v.InstructionPart("do", dynamic=True, on_change="append", name="n", id=_instruction_id()),
                    v.InstructionDigest(id=_instruction_id(), dynamic=True, content_hash="h"),
                ]
            )
        ],
        v.CompactionPart: [
            v.CompactionPart("so far", metadata={"a": 1}, **PROVIDER),
            v.CompactionPart("so far", metadata={"a": 1}),
        ],
        v.TextPart: [
            v.TextPart(
                "hi",
                citations=[
                    v.Citation(
                        [v.WebCitationSource("http://x", title="t", excerpts=["e"])],
                        anchor=v.ContentCitationAnchor(start=0, end=1),
                    )
                ],
                **PROVIDER,
            ),
            v.TextPart("half a pair: \ud83d"),
        ],
        v.ThinkingPart: [
            v.ThinkingPart("hm", signature="sig", **PROVIDER),
            v.ThinkingPart("", signature="redacted"),
        ],
        v.FilePart: [v.FilePart(v.BinaryImage(b"\x00\xff", media_type="image/png"), **PROVIDER)],
        v.ToolCallPart: [
            v.ToolCallPart("read", **call),
            v.ToolCallPart("read", '{"path": "a", "big": 123456789012345678901234567890}', "c2"),
            v.ToolCallPart("read", '{"path": ', "c3"),
            v.ToolCallPart("read", "[1, 2]", "c4"),
            v.ToolCallPart("read", None, "c5"),
            v.ToolCallPart("read", "", "c6"),
        ],
        v.NativeToolCallPart: [v.NativeToolCallPart("web_search", **call)],
        v.NativeToolReturnPart: [
            v.NativeToolReturnPart(
                "web_search", {"r": 1}, outcome="failed", provider_name="openai", provider_details={"k": 1}, **back
            )
        ],
    }


def files() -> list[Any]:
    given: dict[str, Any] = {"media_type": "x/y", "identifier": "f", "vendor_metadata": {"detail": "low"}}
    return [
        v.ImageUrl("https://x/a.png", force_download=True, **given),
        v.AudioUrl("https://x/a.mp3", force_download="allow-local", **given),
        v.DocumentUrl("https://x/noextension"),
        v.VideoUrl("https://x/a.mp4", force_download=True, **given),
        v.BinaryContent(b"\x00\xfe", **{**given, "media_type": "audio/wav"}),
        PNG,
        v.UploadedFile("file-1", "anthropic", **given),
    ]


def user_content() -> list[Any]:
    return [
        "words",
        v.TextContent("tagged", metadata={"a": [1, None]}),
        v.StructuredContent({"a": 1}, tag="state", description="d", metadata={"m": 1}),
        *files(),
        v.CachePoint(ttl="1h"),
    ]


def _with_content(item: Any) -> Any:
    return v.UserPromptPart(["look:", item], timestamp=AT)


def _instruction_id() -> Any:
    return v.InstructionId(v.ToolsetInstructionSource("weather"), name="limits")


def full_request(part: Any) -> ModelRequest:
    return ModelRequest(
        [part],
        timestamp=AT,
        instructions="be brief",
        run_id="r",
        conversation_id="c",
        metadata={"m": {"n": None}},
        state="interrupted",
    )


def full_response(part: Any) -> ModelResponse:
    return ModelResponse(
        [part],
        usage=RequestUsage(
            input_tokens=5, output_tokens=7, cache_read_tokens=3, details={"x": 1}, cost=Decimal("0.25")
        ),
        model_name="m",
        model_id="openai:m",
        timestamp=AT,
        provider_name="openai",
        provider_url="http://x",
        canonical_system="azure",
        provider_details={"k": [None]},
        provider_response_id="resp",
        finish_reason="length",
        run_id="r",
        conversation_id="c",
        metadata={"m": None},
        workspace_ref=v.WorkspaceRef(provider="p", id="i"),
        history_digest="d",
        failed_attempts=[
            v.ModelRequestAttempt(
                model_name="m",
                outcome="error",
                error="E: x",
                timestamp=AT,
                duration=timedelta(seconds=1.5),
                usage=RequestUsage(input_tokens=1),
            )
        ],
        state="interrupted",
    )


def side_classes(union: Any) -> set[type]:
    """The part classes of one side, as the library itself lists them."""
    classes: set[type] = set()
    for member in get_args(get_args(union)[0]):
        found: Any = member
        while hasattr(found, "__metadata__"):
            found = get_args(found)[0]
        classes.add(found)
    return classes


REQUEST_PARTS = side_classes(v.ModelRequestPart)
RESPONSE_PARTS = side_classes(v.ModelResponsePart)
NOT_PARTS_OF_A_MESSAGE = {
    v.BaseToolCallPart,
    v.BaseToolReturnPart,
    v.InstructionPart,
    v.InstructionDigest,
}
MESSAGES: Any = TypeAdapter(v.ModelMessage)


def instances() -> Iterator[Any]:
    for part_class, parts in samples().items():
        for index, part in enumerate(parts):
            for side, build in (("request", full_request), ("response", full_response)):
                classes = REQUEST_PARTS if side == "request" else RESPONSE_PARTS
                if part_class in classes and _may_stand(part, side):
                    yield pytest.param(build(part), id=f"{part_class.__name__}-{index}-{side}")


def _may_stand(part: Any, side: str) -> bool:
    if isinstance(part, v.SpeechPart):
        return part.speaker == ("user" if side == "request" else "assistant")
    if isinstance(part, v.CompactionPart):
        return side == "response" or part.provider_name is None
    return True


def upgraded(message: Any) -> Any:
    """What the library itself reads back: normal arguments, today's parts, text that UTF-8 can hold."""
    value = MESSAGES.dump_python(message, mode="json")
    for part in value["parts"]:
        if part["part_kind"] == "tool-call":
            whole = v.ToolCallPart("x", part["args"])
            valid = "INVALID_JSON" not in whole.args_as_dict()
            part["args"] = whole.args_as_dict() if valid else part["args"]
        if isinstance(part.get("content"), str):
            part["content"] = part["content"].replace("\ud83d", "\ufffd")
    return MESSAGES.validate_python(value)


# ---- Every part class of the installed library ---------------------------------------------------------------------


def test_there_is_a_sample_of_every_part_class_of_the_installed_library() -> None:
    named = {
        found
        for found in vars(vendor).values()
        if isinstance(found, type) and dataclasses.is_dataclass(found) and hasattr(found, "part_kind")
    }
    missing = sorted(
        found.__name__ for found in (named | REQUEST_PARTS | RESPONSE_PARTS) - samples().keys() - NOT_PARTS_OF_A_MESSAGE
    )
    assert missing == [], f"pydantic-ai has parts the adapter is not tested with: {missing}"


def test_the_samples_set_every_field_of_their_class() -> None:
    unset = [
        f"{part_class.__name__}.{field.name}"
        for part_class, parts in samples().items()
        for field in dataclasses.fields(part_class)
        if field.name not in ("part_kind", "tool_name", "tool_kind", "speaker", "outcome", "retry")
        and all(getattr(part, field.name) == field.default for part in parts)
    ]
    assert unset == []


@pytest.mark.parametrize("build", [full_request, full_response])
def test_the_samples_set_every_field_of_a_message(build: Any) -> None:
    message = build(v.UserPromptPart("x"))
    unset = [
        field.name
        for field in dataclasses.fields(message)
        if field.name != "kind" and getattr(message, field.name) == field.default
    ]
    assert unset == []


def test_there_is_a_sample_of_every_kind_of_user_content() -> None:
    kinds: set[type] = {type(item) for item in user_content()}
    listed: set[type] = set()
    pending = list(get_args(v.UserContent))
    while pending:
        member = pending.pop()
        arguments = get_args(member)
        if isinstance(member, type):
            listed.add(member)
        else:
            pending.extend(argument for argument in arguments[:1] if hasattr(member, "__metadata__"))
            pending.extend(arguments if not hasattr(member, "__metadata__") else ())
    assert {found.__name__ for found in listed - kinds} == set()


@pytest.mark.parametrize("message", list(instances()))
def test_every_part_comes_back_as_it_was(message: Any) -> None:
    back = from_canonical(to_canonical(message))
    assert back == upgraded(message)
    assert MESSAGES.dump_python(back) == MESSAGES.dump_python(upgraded(message))
    assert type(back.parts[0]) is type(upgraded(message).parts[0])


@pytest.mark.parametrize("message", list(instances()))
def test_every_part_round_trips_through_json(message: Any) -> None:
    canonical = to_canonical(message)
    assert message_from_json(message_to_json(canonical)) == canonical
    assert from_canonical(to_canonical(from_canonical(canonical))) == from_canonical(canonical)


@pytest.mark.parametrize("message", list(instances()))
def test_the_library_s_own_json_is_read_like_its_objects(message: Any) -> None:
    value = MESSAGES.dump_python(message, mode="json")
    assert from_canonical(to_canonical(value)) == from_canonical(to_canonical(message))


def test_a_plain_message_is_stored_without_default_fields() -> None:
    message = ModelResponse([v.TextPart("hi")], timestamp=AT, usage=RequestUsage(output_tokens=1))
    assert message_to_json(to_canonical(message)) == {
        "role": "assistant",
        "parts": [{"part_kind": "text", "content": "hi"}],
        "timestamp": "2026-01-19T12:30:15.123456Z",
        "usage": {"output_tokens": 1},
    }
    assert from_canonical(to_canonical(message)) == message
    assert from_canonical(to_canonical(ModelResponse([], timestamp=AT))) == ModelResponse([], timestamp=AT)


# ---- Unknown parts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [MessageRole.USER, MessageRole.ASSISTANT])
def test_an_unknown_part_is_sent_as_text_and_restored(role: MessageRole) -> None:
    hologram = OtherPart("hologram", {"frames": [1, {"deep": None}], "content": "…"})
    message = CanonicalMessage(role, (hologram,), {"timestamp": "2026-01-19T12:30:15Z"})
    sent = from_canonical(message)
    part: Any = sent.parts[0]
    assert part.part_kind == ("text" if role is MessageRole.ASSISTANT else "user-prompt")
    assert "hologram" in str(part.content)
    assert to_canonical(sent).parts == (hologram,)


def test_a_part_on_the_wrong_side_is_sent_as_text_and_restored() -> None:
    message = CanonicalMessage(MessageRole.USER, (OtherPart("file", {"content": {"kind": "binary"}}),))
    assert to_canonical(from_canonical(message)).parts == message.parts


# ---- Legacy forms --------------------------------------------------------------------------------------------------


def test_text_and_ids_are_read_from_any_form_of_a_message() -> None:
    forms: list[Any] = [
        CanonicalMessage(MessageRole.ASSISTANT, (TextPart("let me"), ToolCallPart("bash", {}, "tc_1"))),
        ModelResponse([v.TextPart("let me"), v.ToolCallPart("bash", {}, "tc_1")]),
        {
            "kind": "response",
            "parts": [
                {"part_kind": "text", "content": "let me"},
                {"part_kind": "tool-call", "tool_call_id": "tc_1", "tool_name": "bash", "args": {}},
            ],
        },
        {"content": "let me", "tool_calls": [{"id": "tc_1", "function": {"name": "bash", "arguments": "{}"}}]},
    ]
    assert [get_content(form) for form in forms] == ["let me"] * 4
    assert [to_canonical(form).get_tool_call_ids() for form in forms] == [{"tc_1"}] * 4
    assert [to_canonical(form).get_tool_return_ids() for form in forms] == [set[str]()] * 4
    assert [find_dangling_tool_calls([form]) for form in forms] == [{"tc_1"}] * 4


def test_dangling_calls_are_found_over_mixed_forms() -> None:
    messages: Sequence[object] = [
        {"content": "hi"},
        ModelResponse([v.ToolCallPart("a", {}, "1"), v.ToolCallPart("b", {}, "2")]),
        {"role": "tool", "tool_call_id": "1", "content": "done"},
    ]
    assert find_dangling_tool_calls(messages) == {"2"}


def test_legacy_content_and_thoughts_are_read() -> None:
    assert to_canonical({"content": "Hello world"}) == CanonicalMessage(
        MessageRole.USER, (UserPromptPart("Hello world"),)
    )
    assert to_canonical({"thought": "I should think"}) == CanonicalMessage(
        MessageRole.ASSISTANT, (ThoughtPart("I should think"),)
    )
    assert get_content({"thought": "hm", "content": "so", "role": "assistant"}) == "hm so"


def test_an_invalid_message_is_an_error_that_names_the_field() -> None:
    with pytest.raises(UnreadableMessage, match=r"messages\[1\] is not an object but int"):
        find_dangling_tool_calls([{"content": "hi"}, 7])


# ---- Sending -------------------------------------------------------------------------------------------------------


def test_a_message_is_built_once_and_forgotten_with_the_message() -> None:
    (message,) = parse("user: hi")
    assert from_canonical(message) is from_canonical(message)


def test_the_same_history_gives_the_same_value_even_without_timestamps() -> None:
    one, two = parse("user: hi"), parse("user: hi")
    assert from_canonical(one[0]) == from_canonical(two[0])


def test_a_message_the_library_refuses_is_a_clear_error() -> None:
    bad = CanonicalMessage(MessageRole.USER, (OtherPart("compaction", {"content": 7}),))
    with pytest.raises(UnreadableMessage, match="cannot be sent"):
        from_canonical(bad)


def test_an_optional_field_that_the_library_refuses_is_not_sent() -> None:
    strange = CanonicalMessage(
        MessageRole.USER, (UserPromptPart("hi", {"timestamp": "yesterday"}),), {"timestamp": [1], "metadata": 7}
    )
    assert [part.content for part in from_canonical(strange).parts if isinstance(part, vendor.UserPromptPart)] == ["hi"]


@settings(max_examples=tries(120), deadline=None)
@given(st.one_of(broken_histories, sound_histories))
def test_any_canonical_history_can_be_converted(history: tuple[CanonicalMessage, ...]) -> None:
    from pilotfish.conversation.history.sanitizer import repair

    sent = [from_canonical(message) for message in repair(history)]
    again = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(list(sent)))
    assert again == sent


def test_a_return_keeps_the_outcome_the_library_gave_it() -> None:
    part = v.ToolReturnPart("read", "no", "c1", outcome="denied", timestamp=AT)
    assert to_canonical(ModelRequest([part])).parts == (
        ToolReturnPart("read", "no", "c1", "denied", {"timestamp": "2026-01-19T12:30:15.123456Z"}),
    )
