"""Replies of the scripted provider, as values. The JSON form is described in `provider.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thought:
    text: str


@dataclass(frozen=True)
class Refusal:
    text: str


@dataclass(frozen=True)
class Call:
    """A tool call. `args` as a string is sent unchanged, even invalid JSON; `split` is characters per delta."""

    name: str
    args: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None
    split: int = 0

    @property
    def json(self) -> str:
        return self.args if isinstance(self.args, str) else json.dumps(self.args, ensure_ascii=False)

    @property
    def pieces(self) -> list[str]:
        text, step = self.json, self.split or max(len(self.json), 1)
        return [text[at : at + step] for at in range(0, len(text), step)]


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Gate:
    """Wait until the test calls `release`."""


@dataclass(frozen=True)
class Raw:
    """Bytes that are written to the event stream unchanged: comments, unknown events or invalid ones."""

    text: str


@dataclass(frozen=True)
class Search:
    """A search of the provider itself, and the pages that it found: address and title."""

    query: str
    pages: Sequence[tuple[str, str]] = ()


Part = Text | Thought | Refusal | Call | Search | Pause | Gate | Raw


@dataclass(frozen=True, kw_only=True)
class Tokens:
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """How the provider answers one request."""

    parts: Sequence[Part] = ()
    times: int = 1
    interleave: bool = False
    finish: str | None = None
    usage: Tokens | None = None
    delay: float = 0.0
    wait: float = 0.0
    after: int | None = None
    end: str = "done"
    error: str | None = None
    status: int = 200
    retry_after: float | None = None
    message: str | None = None
    code: str | None = None
    body: str | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    wire: str | None = None
    when: str | None = None
    repeat: int = 1
    reasoning_field: str = "reasoning_content"
    """where Chat servers put thoughts: `reasoning_content`, or `reasoning`"""


NAMES: Final = {
    "retryAfter": "retry_after",
    "contentType": "content_type",
    "reasoningField": "reasoning_field",
}
SPOKEN: Final = ("thoughts", "text", "refusal", "calls", "parts", "usage")


def reply_from(data: Mapping[str, Any]) -> Reply:
    """A reply from its JSON form. Raises TypeError for an unknown field."""
    fields = {NAMES.get(name, name): value for name, value in data.items() if name not in SPOKEN}
    usage = Tokens(**data["usage"]) if "usage" in data else None
    return Reply(parts=tuple(_parts(data)), usage=usage, **fields)


def _parts(data: Mapping[str, Any]) -> Iterator[Part]:
    for part in data.get("parts", ()):
        yield from _part(part)
    yield from map(Thought, _pieces(data.get("thoughts")))
    yield from map(Text, _pieces(data.get("text")))
    yield from map(Refusal, _pieces(data.get("refusal")))
    for call in data.get("calls", ()):
        yield Call(**call)


def _part(data: Mapping[str, Any]) -> Iterator[Part]:
    ((name, value),) = data.items()
    match name:
        case "text":
            yield from map(Text, _pieces(value))
        case "thought":
            yield from map(Thought, _pieces(value))
        case "refusal":
            yield from map(Refusal, _pieces(value))
        case "call":
            yield Call(**value)
        case "pause":
            yield Pause(value)
        case "gate":
            yield Gate()
        case "raw":
            yield Raw(value)
        case _:
            raise TypeError(f"a part of a reply is not called {name!r}")


def _pieces(value: str | list[str] | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value
