"""Converts between canonical messages and pydantic-ai messages, without loss in either direction.

The conversion uses pydantic-ai's own serialisation, so fields and parts that a new release adds are kept. A part that
the installed release does not know is sent as a placeholder text that carries the part, and is restored on the way
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
)
from pydantic_core import PydanticSerializationError, from_json

from pilotfish.conversation.history.validation import find_dangling_tool_call_ids
from pilotfish.conversation.memo import Memo
from pilotfish.conversation.message_parser import read_message
from pilotfish.conversation.messages import (
    CanonicalMessage,
    OtherPart,
    Part,
    TextPart,
    ToolCallPart,
    UserPromptPart,
    json_text,
    part_to_json,
)
from pilotfish.errors import UnreadableMessage

UNKNOWN_PART = "pilotfish_unknown_part"
"""Key under which a placeholder carries a part that the installed pydantic-ai does not know."""

_EPOCH = "1970-01-01T00:00:00Z"


def to_canonical(message: object, place: str = "message") -> CanonicalMessage:
    """The canonical form of a canonical message, a pydantic-ai message, or JSON of any version
    (`conversation/message_parser.py`).

    Raises `UnreadableMessage`, which names the invalid field.
    """
    if isinstance(message, CanonicalMessage):
        return message
    if not isinstance(message, ModelRequest | ModelResponse):
        return read_message(message, place)
    read = read_message(_dump(message), place)
    if any(_carries_unknown(part) for part in read.parts):
        parts = tuple(_unwrapped(part) for part in read.parts)
        return CanonicalMessage(read.role, parts, read.extra)
    return read


def from_canonical(message: CanonicalMessage) -> ModelRequest | ModelResponse:
    """The pydantic-ai message. The result is cached for each message value, so resending a long history is cheap.

    The object is shared: do not modify it. (The library sets `instructions` and `timestamp` on the last request of a
    run. It overwrites both in the next run, and our code does not read them.)
    """
    return _build(message)


def to_canonical_all(messages: Iterable[object]) -> tuple[CanonicalMessage, ...]:
    return tuple(to_canonical(message, f"messages[{index}]") for index, message in enumerate(messages))


def get_content(message: object) -> str:
    """The text of a message in any form."""
    return to_canonical(message).get_text_content()


def find_dangling_tool_calls(messages: Sequence[object]) -> set[str]:
    """The ids of calls without a return, over messages in any form."""
    return find_dangling_tool_call_ids(to_canonical_all(messages))


# ---- to pydantic-ai ------------------------------------------------------------------------------------------------


def _construct(message: CanonicalMessage) -> ModelRequest | ModelResponse:
    value: dict[str, Any] = {
        **message.extra,
        "kind": "response" if message.is_response else "request",
        "parts": [_vendor_part(part, message) for part in message.parts],
    }
    if message.is_response:
        value.setdefault("timestamp", _EPOCH)
    try:
        return _MESSAGE.validate_python(value)
    except ValidationError as error:
        try:
            return _MESSAGE.validate_python(_without_refused_extras(value, error))
        except ValidationError as still:
            first = still.errors(include_url=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            raise UnreadableMessage(f"cannot be sent: {first['msg']}", place=f"message.{place}") from still


def _without_refused_extras(value: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """The message without the optional fields that the library refuses. Imported histories may hold any value."""
    value["parts"] = [dict(part) for part in value["parts"]]
    for problem in error.errors(include_url=False):
        match problem["loc"]:
            case (_, "parts", int() as index, "retry-feedback", "content", *_):
                value["parts"][index]["content"] = json_text(value["parts"][index].get("content"))
            case (_, "parts", int() as index, _, str() as name, *_):
                if name == "retry":
                    value["parts"][index]["retry"] = {"cause": "model_retry"}
                elif name not in _ESSENTIAL:
                    value["parts"][index].pop(name, None)
            case (_, str() as name, *_) if name != "parts":
                value.pop(name, None)
            case _:
                pass
    return value


_ESSENTIAL = frozenset({"part_kind", "content", "tool_name", "tool_call_id", "args"})


_MESSAGE: TypeAdapter[ModelRequest | ModelResponse] = TypeAdapter(
    ModelMessage, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)
_build: Memo[CanonicalMessage, ModelRequest | ModelResponse] = Memo(_construct)


def _vendor_part(part: Part, message: CanonicalMessage) -> dict[str, Any]:
    value = part_to_json(part)
    match part:
        case OtherPart() if part.kind not in _kinds(message.is_response):
            return _wrapped(part, message.is_response)
        case ToolCallPart():
            raw = value.pop("raw_args", None)
            if raw is not None:
                value["args"] = raw
        case OtherPart() | TextPart():
            return value
        case _:
            pass
    if value["part_kind"] in _TIMED and "timestamp" not in value:
        # the library's default is the current time, but equal histories must give equal messages
        value["timestamp"] = message.extra.get("timestamp", _EPOCH)
    return value


_TIMED = frozenset({"user-prompt", "system-prompt", "tool-return", "retry-feedback"})


def _wrapped(part: OtherPart, is_response: bool) -> dict[str, Any]:
    text = f"[a part of kind {part.kind!r}, which cannot be shown here]"
    data = {"kind": part.kind, "data": part.data}
    if is_response:
        return {
            "part_kind": "text",
            "content": text,
            "provider_name": "pilotfish",
            "provider_details": {UNKNOWN_PART: data},
        }
    item = {"kind": "text-content", "content": text, "metadata": {UNKNOWN_PART: data}}
    return {"part_kind": "user-prompt", "content": [item], "timestamp": _EPOCH}


@cache
def _kinds(is_response: bool) -> frozenset[str]:
    """The part kinds that the installed library knows in responses, or in requests."""
    union: Any = ModelResponsePart if is_response else ModelRequestPart
    members = get_args(get_args(union)[0])
    return frozenset(part_class.part_kind for part_class in map(_part_class, members))


def _part_class(member: Any) -> Any:
    while hasattr(member, "__metadata__"):
        member = get_args(member)[0]
    return member


# ---- from pydantic-ai ----------------------------------------------------------------------------------------------


def _dump(message: ModelRequest | ModelResponse) -> dict[str, Any]:
    try:
        value: dict[str, Any] = from_json(_MESSAGE.dump_json(message))
    except PydanticSerializationError:
        # text that is not valid UTF-8: `read_message` replaces it
        value = _MESSAGE.dump_python(message, mode="json")
    # default values, which need not be stored with every message
    if value.get("state") == "complete":
        del value["state"]
    if "usage" in value:
        value["usage"] = {name: count for name, count in value["usage"].items() if count} or None
    return value


def _carries_unknown(part: Part) -> bool:
    return _unknown_inside(part) is not None


def _unwrapped(part: Part) -> Part:
    inside = _unknown_inside(part)
    return part if inside is None else OtherPart(inside["kind"], inside["data"])


def _unknown_inside(part: Part) -> Mapping[str, Any] | None:
    match part:
        case TextPart() if part.extra:
            return _inside(part.extra.get("provider_details"))
        case UserPromptPart(content=(Mapping() as item,)):
            return _inside(item.get("metadata"))
        case _:
            return None


def _inside(value: object) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value).get(UNKNOWN_PART) if isinstance(value, Mapping) else None
