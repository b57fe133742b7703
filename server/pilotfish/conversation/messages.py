"""Canonical messages and their parts as frozen values.

Guarantees:
- `parts` is the only source of the content of a message; everything else is computed from it.
- Nothing is lost: unknown fields are kept in `extra`, and unknown parts as `OtherPart`.
  `message_from_json(message_to_json(m)) == m`.
- Mappings and sequences inside these values never change; a change makes a new value. So the identity of a message can
  be the key of a cache (`conversation/memo.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, cast

from pilotfish.conversation.calls import (
    FINAL_STATUSES,
    CallApproval,
    CallResult,
    CallStatus,
    CanonicalToolCall,
    Category,
    Location,
    json_text,
    normalise_args,
)
from pilotfish.errors import UnreadableMessage

__all__ = [  # includes the values of calls, which are part of the conversation
    "FINAL_STATUSES",
    "NO_EXTRA",
    "OUTCOMES",
    "CallApproval",
    "CallResult",
    "CallStatus",
    "CanonicalMessage",
    "CanonicalToolCall",
    "Category",
    "Extra",
    "Location",
    "MessageRole",
    "OtherPart",
    "Outcome",
    "Part",
    "RetryPart",
    "SystemPromptPart",
    "TextPart",
    "ThoughtPart",
    "ToolCallPart",
    "ToolReturnPart",
    "UserPromptPart",
    "as_news",
    "is_news",
    "json_text",
    "message_from_json",
    "message_to_json",
    "normalise_args",
    "part_from_json",
    "part_to_json",
    "text_of",
    "with_parts",
]

Extra = Mapping[str, Any]
NO_EXTRA: Extra = MappingProxyType({})

Outcome = Literal["success", "failed", "denied", "interrupted", "retried"]
OUTCOMES: frozenset[str] = frozenset({"success", "failed", "denied", "interrupted", "retried"})
"""How a call ended, as the model sees it. `interrupted` means that there is no result."""


class MessageRole(StrEnum):
    """The author of a message. System and user messages are requests to the model, assistant messages its responses."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of the model."""

    content: str
    extra: Extra = field(default_factory=lambda: NO_EXTRA)


@dataclass(frozen=True, slots=True)
class ThoughtPart:
    """A thought of the model. `extra` may hold a signature, which is valid only for its provider."""

    content: str
    extra: Extra = field(default_factory=lambda: NO_EXTRA)


@dataclass(frozen=True, slots=True)
class UserPromptPart:
    """A prompt of the user. Items that are not text (images, files) are mappings with a `kind`."""

    content: str | tuple[str | Extra, ...]
    extra: Extra = field(default_factory=lambda: NO_EXTRA)

    @property
    def text(self) -> str:
        """The text without other items."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(text for item in self.content if (text := _text_of_item(item)))


@dataclass(frozen=True, slots=True)
class SystemPromptPart:
    """A system prompt."""

    content: str
    extra: Extra = field(default_factory=lambda: NO_EXTRA)


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A tool call of the model. If its arguments are not a JSON object, `args` is empty and `raw_args` has the text."""

    tool_name: str
    args: Extra
    tool_call_id: str
    raw_args: str | None = None
    extra: Extra = field(default_factory=lambda: NO_EXTRA)


@dataclass(frozen=True, slots=True)
class ToolReturnPart:
    """The result of a call. `content` is any JSON value, usually text."""

    tool_name: str
    content: Any
    tool_call_id: str
    outcome: Outcome = "success"
    extra: Extra = field(default_factory=lambda: NO_EXTRA)

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else json_text(self.content)


@dataclass(frozen=True, slots=True)
class RetryPart:
    """A request to answer again that belongs to no call. `content` is text or a list of errors."""

    content: Any
    extra: Extra = field(default_factory=lambda: NO_EXTRA)


@dataclass(frozen=True, slots=True)
class OtherPart:
    """A part that this program only passes on: files, audio, a provider's own calls, compaction, unknown kinds."""

    kind: str
    data: Extra


Part = (
    TextPart | ThoughtPart | UserPromptPart | SystemPromptPart | ToolCallPart | ToolReturnPart | RetryPart | OtherPart
)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CanonicalMessage:
    """One message. `extra` has the vendor's other fields (usage, model, timestamps …) as JSON values."""

    role: MessageRole
    parts: tuple[Part, ...]
    extra: Extra = field(default_factory=lambda: NO_EXTRA)

    @property
    def is_response(self) -> bool:
        return self.role is MessageRole.ASSISTANT

    def get_text_content(self) -> str:
        """Return the texts, thoughts and prompts of the message, joined by a space."""
        return " ".join(text for part in self.parts if (text := text_of(part)) is not None)

    def get_tool_call_ids(self) -> set[str]:
        return {part.tool_call_id for part in self.parts if isinstance(part, ToolCallPart)}

    def get_tool_return_ids(self) -> set[str]:
        return {part.tool_call_id for part in self.parts if isinstance(part, ToolReturnPart)}

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def returns(self) -> tuple[ToolReturnPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolReturnPart))


def text_of(part: Part) -> str | None:
    """Return the text of a text, thought or user prompt. None for other parts."""
    match part:
        case TextPart() | ThoughtPart():
            return part.content
        case UserPromptPart():
            return part.text
        case SystemPromptPart() | ToolCallPart() | ToolReturnPart() | RetryPart() | OtherPart():
            return None


def as_news(text: str) -> str:
    """Mark a text that tells the model what has changed around it. Users do not see it."""
    return f"<environment>\n{text}\n</environment>"


def is_news(text: str) -> bool:
    return text.startswith("<environment>\n") and text.endswith("\n</environment>")


def with_parts(message: CanonicalMessage, parts: Sequence[Part]) -> CanonicalMessage:
    """Return the message with these parts, or the same object if it already has them."""
    changed = tuple(parts)
    # parts are compared by identity first, so this is cheap if nothing changed
    return message if changed == message.parts else replace(message, parts=changed)


# ---- JSON ----------------------------------------------------------------------------------------------------------

_FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("content",),
    "thinking": ("content",),
    "user-prompt": ("content",),
    "system-prompt": ("content",),
    "tool-call": ("tool_name", "args", "tool_call_id", "raw_args"),
    "tool-return": ("tool_name", "content", "tool_call_id", "outcome"),
    "retry-feedback": ("content",),
}
"""The known fields of each kind of part. All other fields of its JSON are `extra`."""


def message_to_json(message: CanonicalMessage) -> dict[str, Any]:
    """Return the message as JSON values: `role`, `parts` and the extra fields."""
    return {"role": message.role.value, **message.extra, "parts": [part_to_json(part) for part in message.parts]}


def part_to_json(part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"part_kind": "text", "content": part.content, **part.extra}
        case ToolReturnPart():
            return {
                "part_kind": "tool-return",
                "tool_name": part.tool_name,
                "content": part.content,
                "tool_call_id": part.tool_call_id,
                "outcome": part.outcome,
                **part.extra,
            }
        case ToolCallPart():
            call = {
                "part_kind": "tool-call",
                "tool_name": part.tool_name,
                "args": part.args,
                "tool_call_id": part.tool_call_id,
                **part.extra,
            }
            return call if part.raw_args is None else {**call, "raw_args": part.raw_args}
        case UserPromptPart():
            content = part.content if isinstance(part.content, str) else list(part.content)
            return {"part_kind": "user-prompt", "content": content, **part.extra}
        case ThoughtPart():
            return {"part_kind": "thinking", "content": part.content, **part.extra}
        case SystemPromptPart():
            return {"part_kind": "system-prompt", "content": part.content, **part.extra}
        case RetryPart():
            return {"part_kind": "retry-feedback", "content": part.content, **part.extra}
        case OtherPart():
            return {"part_kind": part.kind, **part.data}


def message_from_json(value: Mapping[str, Any], place: str = "message") -> CanonicalMessage:
    """Parse the output of `message_to_json`. `conversation/message_parser.py` parses other formats.

    Raises `UnreadableMessage`, which names the place.
    """
    try:
        role = _ROLES[value["role"]]
        raw_parts = value["parts"]
    except (KeyError, TypeError):
        raise UnreadableMessage("has no known role, or no parts", place=place) from None
    if not isinstance(raw_parts, list):
        raise UnreadableMessage("parts is not a list", place=place)
    parts = tuple(
        part_from_json(raw, f"{place}.parts[{index}]") for index, raw in enumerate(cast("list[Any]", raw_parts))
    )
    extra = {key: item for key, item in value.items() if key not in _MESSAGE_FIELDS}
    return CanonicalMessage(role, parts, extra or NO_EXTRA)


def part_from_json(value: Any, place: str = "part") -> Part:
    """Parse the output of `part_to_json`."""
    if not isinstance(value, Mapping):
        raise UnreadableMessage("is not an object", place=place)
    fields = cast("Mapping[str, Any]", value)
    kind = fields.get("part_kind")
    if not isinstance(kind, str):
        raise UnreadableMessage("has no part_kind", place=place)
    known = _FIELDS.get(kind)
    if known is None:
        return OtherPart(kind, {key: item for key, item in fields.items() if key != "part_kind"})
    extra: Extra = {key: item for key, item in fields.items() if key != "part_kind" and key not in known} or NO_EXTRA
    match kind:
        case "tool-return":
            outcome = fields.get("outcome", "success")
            if not isinstance(outcome, str) or outcome not in OUTCOMES:
                raise UnreadableMessage(f"has an unknown outcome {outcome!r}", place=place)
            return ToolReturnPart(
                _text(fields, "tool_name", place),
                fields.get("content"),
                _text(fields, "tool_call_id", place),
                cast("Outcome", outcome),
                extra,
            )
        case "tool-call":
            args = fields.get("args")
            raw_args = fields.get("raw_args")
            if not isinstance(args, Mapping) or not (raw_args is None or isinstance(raw_args, str)):
                raise UnreadableMessage("has arguments that are not an object", place=place)
            return ToolCallPart(
                _text(fields, "tool_name", place),
                cast("Mapping[str, Any]", args),
                _text(fields, "tool_call_id", place),
                raw_args,
                extra,
            )
        case "text":
            return TextPart(_text(fields, "content", place), extra)
        case "thinking":
            return ThoughtPart(_text(fields, "content", place), extra)
        case "system-prompt":
            return SystemPromptPart(_text(fields, "content", place), extra)
        case "user-prompt":
            return UserPromptPart(_user_content(fields.get("content"), place), extra)
        case _:
            return RetryPart(fields.get("content"), extra)


_ROLES: dict[object, MessageRole] = {role.value: role for role in MessageRole}
_MESSAGE_FIELDS = frozenset({"role", "parts", "kind"})


def _text(fields: Mapping[str, Any], name: str, place: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise UnreadableMessage(f"{name} is not text", place=place)
    return value


def _user_content(content: object, place: str) -> str | tuple[str | Extra, ...]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UnreadableMessage("content is neither text nor a list", place=place)
    items = cast("list[object]", content)
    for index, item in enumerate(items):
        if not isinstance(item, str | Mapping):
            raise UnreadableMessage("is neither text nor an object", place=f"{place}.content[{index}]")
    return cast("tuple[str | Extra, ...]", tuple(items))


def _text_of_item(item: str | Extra) -> str:
    if isinstance(item, str):
        return item
    content = item.get("content")
    return content if item.get("kind") in ("text-content", "structured-content") and isinstance(content, str) else ""
