"""A conversation in wire form, made once for each message.

pydantic-ai turns the whole history into OpenAI's form for every request, though only its end is new. Each message is
turned on its own, by two hooks that depend on nothing but it and the model, so what they gave can be kept as long as
the message lives.

Before and after that the library walks the history some twenty times for things that ours hardly ever holds: files in
results, retries, capabilities, thoughts, cache marks. A conversation of plain messages comes out of `prepare_messages`
as it went in, and its wire form is that of its messages one after the other: what was found out about its beginning is
remembered, and only the end is looked at. Anything else goes the library's way.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.settings import ModelSettings

from pilotfish.core.memo import begins_with, count_shared

Wire = dict[str, Any]
HOOKS = ("_map_user_message", "_map_model_response")


def remember(model: object) -> bool:
    """Make a Chat model keep the wire form of messages. False: it is none, or one that maps in its own way."""
    if type(model) is not OpenAIChatModel:
        return False
    kept = Kept()
    of_request = cast("Callable[[ModelRequest], AsyncIterator[Wire]]", model._map_user_message)  # noqa: SLF001  # a hook
    of_response = cast("Callable[[ModelResponse], Wire | None]", model._map_model_response)  # noqa: SLF001  # likewise

    async def request(message: ModelRequest) -> AsyncIterator[Wire]:
        forms = kept.get(message)
        if forms is None:
            forms = kept.put(message, [form async for form in of_request(message)])
        for form in forms:
            yield _copy(form)

    def response(message: ModelResponse) -> Wire | None:
        forms = kept.get(message)
        if forms is None:
            form = of_response(message)
            forms = kept.put(message, [] if form is None else [form])
        return _copy(forms[0]) if forms else None

    for hook, ours in zip(HOOKS, (request, response), strict=True):
        setattr(model, hook, ours)
    _shorten(model, of_request, of_response)
    return True


def _shorten(
    model: OpenAIChatModel,
    of_request: Callable[[ModelRequest], AsyncIterator[Wire]],
    of_response: Callable[[ModelResponse], Wire | None],
) -> None:
    """Spare plain conversations the walks."""
    prepare, map_all = model.prepare_messages, model._map_messages  # noqa: SLF001  # a hook
    last = Conversation()

    def prepare_messages(
        messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        if _sends_as_is(model, model_request_parameters) and last.is_plain(messages):
            return messages
        return prepare(messages, model_request_parameters)

    async def map_messages(
        messages: Sequence[ModelMessage],
        model_request_parameters: ModelRequestParameters,
        *,
        model_settings: ModelSettings | None = None,
    ) -> list[Any]:
        profile: Mapping[str, Any] = model.profile
        settings = cast("Mapping[str, Any]", model_settings or {})
        if (
            not last.is_plain(messages)
            or settings.get("openai_cache_instructions")
            or not profile.get("openai_chat_supports_multiple_system_messages", True)
        ):
            return list(await map_all(messages, model_request_parameters, model_settings=model_settings))
        role = profile.get("openai_system_prompt_role") or "system"
        instructions = model._get_instruction_parts(messages, model_request_parameters) or ()  # noqa: SLF001  # likewise
        forms: list[Wire] = [{"role": role, "content": part.content} for part in instructions]
        for index, message in enumerate(messages):
            known = last.form(index, message)
            if known is None:
                if isinstance(message, ModelRequest):
                    known = [form async for form in of_request(message)]
                else:
                    form = of_response(message)
                    known = [] if form is None else [form]
                last.keep(index, message, known)
            forms += known
        return forms

    model.prepare_messages = prepare_messages
    setattr(model, "_map_messages", map_messages)  # noqa: B010  # a hook, as above


def _sends_as_is(model: OpenAIChatModel, parameters: ModelRequestParameters | None) -> bool:
    """Whether this model is sent plain messages as they are: it takes system prompts anywhere, and ids of any form."""
    profile: Mapping[str, Any] = model.profile
    instructions = (parameters and parameters.instruction_parts) or ()
    return (
        bool(profile.get("supports_inline_system_prompts"))
        and profile.get("tool_call_id_length") is None
        and all(part.on_change == "rewrite" for part in instructions)
    )


class Conversation:
    """The conversation that was looked at last: which of its messages are plain, and their wire forms."""

    def __init__(self) -> None:
        self._known: list[ModelMessage] = []
        self._forms: list[tuple[Sequence[object], list[Wire]] | None] = []

    def is_plain(self, messages: Sequence[ModelMessage]) -> bool:
        """Whether every message is plain. Only what was not there the last time is looked at."""
        same = count_shared(self._known, messages)
        del self._known[same:], self._forms[same:]
        for message in messages[same:]:
            if not is_plain(message, self._known[-1] if self._known else None):
                return False
            self._known.append(message)
            self._forms.append(None)
        return True

    def form(self, index: int, message: ModelMessage) -> list[Wire] | None:
        kept = self._forms[index]
        return kept[1] if kept is not None and _are_same(kept[0], message.parts) else None

    def keep(self, index: int, message: ModelMessage, forms: list[Wire]) -> None:
        self._forms[index] = ([*message.parts], forms)


def _are_same(before: Sequence[object], now: Sequence[object]) -> bool:
    """Whether they are the very same."""
    return len(before) == len(now) and begins_with(now, before)


def is_plain(message: ModelMessage, before: ModelMessage | None) -> bool:
    """Whether a message, after the one before it, holds nothing that the library would turn into something else."""
    if isinstance(message, ModelResponse):
        return bool(message.parts) and all(
            type(part) is ToolCallPart or (type(part) is TextPart and bool(part.content)) for part in message.parts
        )
    for part in message.parts:
        if type(part) is UserPromptPart:
            if type(part.content) is not str and not all(type(item) is str for item in part.content):
                return False
        elif type(part) is not ToolReturnPart or type(part.content) is not str or part.tool_kind is not None:
            return False
    returned = [part.tool_call_id for part in message.parts if type(part) is ToolReturnPart]
    called = [part.tool_call_id for part in before.parts if type(part) is ToolCallPart] if before else []
    return bool(message.parts) and (len(returned) < 2 or returned == called)  # one is in order


@dataclass(frozen=True, slots=True)
class _Entry:
    message: weakref.ref[ModelRequest | ModelResponse]
    parts: Sequence[object]
    """those it had: a message whose parts were replaced is another one"""
    forms: list[Wire]


class Kept:
    """Wire forms by message, gone when the message is."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, message: ModelRequest | ModelResponse) -> list[Wire] | None:
        entry = self._entries.get(id(message))
        if entry is None or entry.message() is not message or not _are_same(entry.parts, message.parts):
            return None
        return entry.forms

    def put(self, message: ModelRequest | ModelResponse, forms: list[Wire]) -> list[Wire]:
        key, entries = id(message), self._entries

        def gone(dead: weakref.ref[ModelRequest | ModelResponse]) -> None:
            if key in entries and entries[key].message is dead:
                del entries[key]

        entries[key] = _Entry(weakref.ref(message, gone), [*message.parts], forms)
        return forms


def _copy(form: Wire) -> Wire:
    """A form that the library may change: it adds fields, and marks pieces of content."""
    out = dict(form)
    content = out.get("content")
    if isinstance(content, list):
        pieces = cast("list[Wire | str]", content)
        out["content"] = [dict(piece) if isinstance(piece, dict) else piece for piece in pieces]
    return out
