"""A conversation in wire form, message by message, kept as long as the message lives.

pydantic-ai turns the whole history into OpenAI's form for every request, though only its end is new. Each message is
turned on its own, by two hooks that depend on nothing but it and the model, so what they gave can be kept.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel

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
    return True


@dataclass(frozen=True, slots=True)
class _Entry:
    message: weakref.ref[ModelRequest | ModelResponse]
    parts: tuple[int, ...]
    """which parts it had: a message whose parts were replaced is another one"""
    forms: list[Wire]


class Kept:
    """Wire forms by message, gone when the message is."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, message: ModelRequest | ModelResponse) -> list[Wire] | None:
        entry = self._entries.get(id(message))
        if entry is None or entry.message() is not message or entry.parts != tuple(map(id, message.parts)):
            return None
        return entry.forms

    def put(self, message: ModelRequest | ModelResponse, forms: list[Wire]) -> list[Wire]:
        key, entries = id(message), self._entries

        def gone(dead: weakref.ref[ModelRequest | ModelResponse]) -> None:
            if key in entries and entries[key].message is dead:
                del entries[key]

        entries[key] = _Entry(weakref.ref(message, gone), tuple(map(id, message.parts)), forms)
        return forms


def _copy(form: Wire) -> Wire:
    """A form that the library may change: it adds fields, and marks pieces of content."""
    out = dict(form)
    content = out.get("content")
    if isinstance(content, list):
        pieces = cast("list[Wire | str]", content)
        out["content"] = [dict(piece) if isinstance(piece, dict) else piece for piece in pieces]
    return out
