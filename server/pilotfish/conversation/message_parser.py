"""Parses messages from other sources: any JSON value becomes a canonical message or an error that names the place.

It accepts canonical JSON, serialised messages of all pydantic-ai versions, messages in the formats of OpenAI and
Anthropic, and legacy formats (`{"content": …}`, `{"thought": …}`, `tool_calls` beside `parts`). Arguments are
normalised, calls without an id get one, and text is made valid UTF-8. Nothing is dropped silently.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pilotfish.conversation.messages import (
    NO_EXTRA,
    OUTCOMES,
    CanonicalMessage,
    Extra,
    MessageRole,
    OtherPart,
    Outcome,
    Part,
    RetryPart,
    SystemPromptPart,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    json_text,
    normalise_args,
)
from pilotfish.errors import UnreadableMessage

Fields = Mapping[str, Any]
MAX_DEPTH = 200  # of nested values; every JSON writer in use supports this depth


def read_message(value: object, place: str = "message") -> CanonicalMessage:
    """Parse one message in any supported format. Raises `UnreadableMessage`."""
    if isinstance(value, CanonicalMessage):
        return value
    if not isinstance(value, Mapping):
        raise UnreadableMessage(f"is not an object but {_kind_of(value)}", place=place)
    fields = cast("Fields", value)
    role = _role(fields, place)
    parts: list[Part] = []
    if fields.get("thought") is not None:
        parts.append(ThoughtPart(_text(fields["thought"], f"{place}.thought")))
    raw_parts = fields.get("parts")
    if raw_parts is not None:
        if isinstance(raw_parts, str) or not isinstance(raw_parts, Sequence):
            raise UnreadableMessage("is not a list", place=f"{place}.parts")
        parts.extend(
            read_part(part, role, index, f"{place}.parts[{index}]")
            for index, part in enumerate(cast("Sequence[object]", raw_parts))
        )
    parts.extend(_content_parts(fields, role, place))
    parts.extend(_listed_calls(fields, parts, place))
    if not parts and raw_parts is None:
        raise UnreadableMessage("holds no parts, content, thought or tool_calls", place=place)
    read = _READ | _RETURN_FIELDS if _is_return(fields) else _READ
    extra = {key: item for key, item in fields.items() if key not in read and item is not None}
    return CanonicalMessage(role, tuple(parts), _clean_extra(extra, place))


def read_part(value: object, role: MessageRole, index: int, place: str) -> Part:
    """Parse one part. `role` decides the kind of plain text; `index` is used for the id of a call without one."""
    if isinstance(value, str):
        return _text_part(role, fit(value))
    if not isinstance(value, Mapping):
        raise UnreadableMessage(f"is not an object but {_kind_of(value)}", place=place)
    fields = cast("Fields", value)
    named = next((key for key in ("part_kind", "kind", "type") if fields.get(key) is not None), "part_kind")
    kind = fields.get(named)
    if not isinstance(kind, str):
        raise UnreadableMessage("has no part_kind", place=place)
    rest = {key: item for key, item in fields.items() if key not in ("part_kind", named)}
    match kind:
        case "text":
            key = _first(rest, "content", "text")
            return _text_part(role, _text(rest.get(key), place), _rest(rest, key, place=place))
        case "user-prompt":
            content = _user_content(rest.get("content"), place)
            extra = _rest(rest, "content", place=place)
            if role is MessageRole.ASSISTANT and isinstance(content, str):
                return TextPart(content, extra)
            return UserPromptPart(content, extra)
        case "thinking" | "thought":
            key = _first(rest, "content", "thought", "thinking")
            return ThoughtPart(_text(rest.get(key), place), _rest(rest, key, place=place))
        case "system-prompt":
            return SystemPromptPart(_text(rest.get("content"), place), _rest(rest, "content", place=place))
        case "tool-call" | "tool_use":
            return _call(rest, index, place)
        case "tool-return":
            return _return(rest, place)
        case "tool_result":
            outcome = "failed" if rest.get("is_error") else "success"
            content = _clean(rest.get("content"), f"{place}.content")
            return _return({"tool_call_id": rest.get("tool_use_id"), "content": content, "outcome": outcome}, place)
        case "retry-prompt":
            return _retry(rest, place)
        case "retry-feedback":
            return RetryPart(_clean(rest.get("content"), place), _rest(rest, "content", place=place))
        case _:
            return OtherPart(fit(kind), {fit(key): _clean(item, place) for key, item in rest.items()})


def _role(fields: Fields, place: str) -> MessageRole:
    named = fields.get("role", fields.get("kind"))
    if named is None:
        if fields.get("thought") is not None or fields.get("tool_calls") is not None:
            return MessageRole.ASSISTANT
        return MessageRole.USER
    role = _ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        raise UnreadableMessage(f"has an unknown role {named!r}", place=place)
    return role


def _is_return(fields: Fields) -> bool:
    """Whether the message is a single return, as in the chat format."""
    return fields.get("parts") is None and (fields.get("role") == "tool" or fields.get("tool_call_id") is not None)


def _content_parts(fields: Fields, role: MessageRole, place: str) -> list[Part]:
    """Parse the field `content` beside or instead of `parts`."""
    content = fields.get("content")
    if content is None:
        return []
    if _is_return(fields):
        named = {"tool_name": fields.get("name"), **fields}
        return [_return({key: item for key, item in named.items() if key in _RETURN_FIELDS - {"name"}}, place)]
    if isinstance(content, str):
        return [_text_part(role, _text(content, f"{place}.content"))]
    if role is MessageRole.USER and not _holds_results(content):
        return [UserPromptPart(_user_content(content, f"{place}.content"))]
    if isinstance(content, Sequence):
        return [
            read_part(item, role, index, f"{place}.content[{index}]")
            for index, item in enumerate(cast("Sequence[object]", content))
        ]
    raise UnreadableMessage(f"is neither text nor a list but {_kind_of(content)}", place=f"{place}.content")


def _holds_results(content: object) -> bool:
    """Whether the content of a user message is a list of blocks that includes tool results."""
    if not isinstance(content, list):
        return False
    blocks = cast("list[object]", content)
    return any(isinstance(item, Mapping) and cast("Fields", item).get("type") == "tool_result" for item in blocks)


def _listed_calls(fields: Fields, parts: Sequence[Part], place: str) -> list[Part]:
    """Parse the calls in `tool_calls` that `parts` does not contain."""
    listed = fields.get("tool_calls")
    if listed is None:
        return []
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise UnreadableMessage("is not a list", place=f"{place}.tool_calls")
    known = {part.tool_call_id for part in parts if isinstance(part, ToolCallPart)}
    calls: list[Part] = []
    for index, item in enumerate(cast("Sequence[object]", listed)):
        where = f"{place}.tool_calls[{index}]"
        if not isinstance(item, Mapping):
            raise UnreadableMessage(f"is not an object but {_kind_of(item)}", place=where)
        call = _call(cast("Fields", item), len(parts) + index, where)
        if call.tool_call_id not in known:
            calls.append(call)
    return calls


def _call(fields: Fields, index: int, place: str) -> ToolCallPart:
    function = fields.get("function")
    inner = cast("Fields", function) if isinstance(function, Mapping) else fields
    name = inner.get("tool_name", inner.get("name", ""))
    name = _text("" if name is None else name, f"{place}.tool_name")
    written = next((inner[key] for key in ("args", "arguments", "input") if key in inner), None)
    args, raw = normalise_args(_clean(written, f"{place}.args"))
    kept = fields.get("raw_args")
    if isinstance(kept, str) and not args:
        raw = fit(kept)
    call_id = fields.get("tool_call_id", fields.get("id") if "tool_name" not in fields else None)
    if call_id is None or call_id == "":
        call_id = _missing_id(name, args, raw, index)
    call_id = _text(call_id, f"{place}.tool_call_id")
    used = ("tool_name", "name", "args", "arguments", "input", "raw_args", "tool_call_id", "function")
    dropped = (*used, "type") if "tool_name" in fields else (*used, "type", "id")
    return ToolCallPart(name, args, call_id, raw, _rest(fields, *dropped, place=place))


def _return(fields: Fields, place: str) -> ToolReturnPart:
    outcome = fields.get("outcome", "success")
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise UnreadableMessage(f"has an unknown outcome {outcome!r}", place=place)
    return ToolReturnPart(
        _text(fields.get("tool_name") or "", f"{place}.tool_name"),
        _clean(fields.get("content"), f"{place}.content"),
        _text(fields.get("tool_call_id") or "", f"{place}.tool_call_id"),
        cast("Outcome", outcome),
        _rest(fields, "tool_name", "content", "tool_call_id", "outcome", place=place),
    )


def _retry(fields: Fields, place: str) -> Part:
    """Convert an old `retry-prompt` to a return with the outcome `retried`, or to feedback without a call."""
    content = _clean(fields.get("content"), f"{place}.content")
    if fields.get("tool_name") is not None:
        part = _return({**fields, "outcome": "retried"}, place)
        if isinstance(content, str):
            return part
        return ToolReturnPart(
            part.tool_name, content, part.tool_call_id, "retried", {**part.extra, "retry": _VALIDATION}
        )
    retry = {"cause": "model_retry"} if isinstance(content, str) else _VALIDATION
    extra = _rest(fields, "content", "tool_name", "tool_call_id", place=place)
    return RetryPart(content, {**extra, "retry": retry})


def _text_part(role: MessageRole, text: str, extra: Extra = NO_EXTRA) -> Part:
    match role:
        case MessageRole.ASSISTANT:
            return TextPart(text, extra)
        case MessageRole.SYSTEM:
            return SystemPromptPart(text, extra)
        case MessageRole.USER:
            return UserPromptPart(text, extra)


def _user_content(content: object, place: str) -> str | tuple[str | Extra, ...]:
    if isinstance(content, str):
        return fit(content)
    if not isinstance(content, Sequence):
        raise UnreadableMessage(f"has content that is neither text nor a list but {_kind_of(content)}", place=place)
    items: list[str | Extra] = []
    for index, item in enumerate(cast("Sequence[object]", content)):
        where = f"{place}.content[{index}]"
        if isinstance(item, str):
            items.append(fit(item))
        elif not isinstance(item, Mapping):
            raise UnreadableMessage(f"is neither text nor an object but {_kind_of(item)}", place=where)
        else:
            part = cast("Fields", item)
            text = part.get("text")
            # {"type": "text", "text": …} is how chat messages spell a string
            plain = part.get("type") == "text" and isinstance(text, str)
            items.append(fit(cast("str", text)) if plain else cast("Extra", _clean(part, where)))
    return tuple(items)


def _first(fields: Fields, *names: str) -> str:
    """Return the name of the first of these fields that is present. The others are kept as extra fields."""
    return next((name for name in names if name in fields), names[-1])


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise UnreadableMessage(f"is not text but {_kind_of(value)}", place=place)
    return fit(value)


def fit(text: str) -> str:
    """Return the text with lone surrogates replaced, so that UTF-8 can encode it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _rest(fields: Fields, *read: str, place: str) -> Extra:
    """Return the other fields of a part. Fields with the value None count as absent."""
    extra = {key: item for key, item in fields.items() if key not in read and key != "part_kind" and item is not None}
    return _clean_extra(extra, place)


def _clean_extra(extra: Fields, place: str) -> Extra:
    return cast("Extra", _clean(extra, place)) if extra else NO_EXTRA


def _clean(value: object, place: str, depth: int = 0) -> Any:
    """Convert to plain JSON values: tuples become lists, text valid UTF-8, and infinite numbers and NaN text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return fit(value)
    if depth > MAX_DEPTH:
        raise UnreadableMessage(f"is nested more than {MAX_DEPTH} deep", place=place.partition(".")[0])
    if isinstance(value, Mapping):
        cleaned: dict[str, Any] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise UnreadableMessage(f"has a key that is not text: {key!r}", place=place)
            cleaned[fit(key)] = _clean(item, f"{place}.{key}", depth + 1)
        return cleaned
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        items = cast("Sequence[object]", value)
        return [_clean(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(items)]
    raise UnreadableMessage(f"holds {_kind_of(value)}, which JSON cannot represent", place=place)


def _missing_id(name: str, args: Fields, raw: str | None, index: int) -> str:
    """Return an id for a call without one. The same call at the same index gets the same id."""
    digest = hashlib.sha256(json_text([name, args, raw, index]).encode()).hexdigest()
    return f"call_{digest[:16]}"


def _kind_of(value: object) -> str:
    return "null" if value is None else type(value).__name__


_ROLES: dict[str, MessageRole] = {
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
    "user": MessageRole.USER,
    "tool": MessageRole.USER,
    "request": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
    "model": MessageRole.ASSISTANT,
    "response": MessageRole.ASSISTANT,
}
_READ = frozenset({"role", "kind", "parts", "content", "thought", "tool_calls"})
_RETURN_FIELDS = frozenset({"tool_name", "name", "content", "tool_call_id", "outcome"})
_VALIDATION: Extra = {"cause": "validation_error"}
