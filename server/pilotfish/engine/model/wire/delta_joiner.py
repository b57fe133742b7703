"""Joins streamed deltas that arrived together: the SDKs and pydantic-ai spend far more on a delta than on its length.

Server-sent events go in and come out as bytes. Adjacent deltas of one text become one longer delta; every other event
passes unchanged and in order, except for what `quirks.py` corrects. The four dialects (OpenAI Chat and Responses,
Anthropic, Google) differ only in where an event keeps its text (`_find_text`).

Two deltas are joined only if their events are equal except for that text, so another id, model or part is a barrier.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

import orjson

from pilotfish.engine.model.wire.quirks import CallChunks, corrected_event

Json = dict[str, Any]

_CUMULATIVE = ("sequence_number", "usageMetadata")
"""fields that change with every event; the last value replaces the earlier ones"""
_RESPONSES = frozenset(
    {
        "response.output_text.delta",
        "response.function_call_arguments.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
    }
)
_ANTHROPIC = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_CHAT_TEXTS = frozenset({"content", "reasoning_content", "reasoning"})
_CHAT_CHUNK = re.compile(rb'"choices"\s*:')
_CHAT_END = re.compile(rb'"finish_reason"\s*:\s*"|"error"\s*:|^data: ?\[DONE\]', re.MULTILINE)


class DeltaJoiner:
    """Joins the deltas of one event stream: `feed` bytes as they arrive, `take` the complete events."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._carriage_return = b""
        self._events: list[bytes] = []
        self._delta: _Delta | None = None
        self._texts: list[str] = []
        self._is_chat = False
        self._chat_ended = False
        self._calls = CallChunks()
        self.only_deltas = True
        """whether all buffered events are deltas, which may be delayed to be joined"""

    @property
    def is_cut_off(self) -> bool:
        """Whether this is a Chat stream without a finish reason, an error or the end marker.

        pydantic-ai treats such a stream as a complete answer. The other dialects mark the end of an answer.
        """
        return self._is_chat and not self._chat_ended

    def feed(self, chunk: bytes) -> None:
        chunk = self._carriage_return + chunk
        self._carriage_return = b""
        if b"\r" in chunk:
            if chunk.endswith(b"\r"):  # the line feed that belongs to it may be in the next chunk
                chunk, self._carriage_return = chunk[:-1], b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        searched = max(len(self._partial) - 1, 0)
        self._partial.extend(chunk)
        end = self._partial.rfind(b"\n\n", searched)
        if end < 0:
            return
        block = bytes(self._partial[:end])
        del self._partial[: end + 2]
        for event in block.split(b"\n\n"):
            self._add(event)

    def take(self) -> bytes:
        """The complete events that were fed since the last call."""
        self._flush()
        events, self._events = self._events, []
        self.only_deltas = True
        return b"".join([event + b"\n\n" for event in events])

    def close(self) -> bytes:
        """Everything that is left at the end of the stream, an incomplete event included."""
        events = self.take()
        rest = bytes(self._partial) + self._carriage_return
        self._partial.clear()
        self._carriage_return = b""
        self._note_chat(rest)
        return events + rest

    def _add(self, event: bytes) -> None:
        event = self._calls.correct(corrected_event(event)).rstrip(b"\n")
        delta = _parse(event)
        if delta is None:
            self._flush()
            self._events.append(event)
            self._note_chat(event)
            self.only_deltas = False
        elif self._delta is not None and self._delta.can_be_followed_by(delta):
            self._texts.append(delta.text)
            self._delta.cumulative = delta.cumulative
        else:
            self._flush()
            self._delta, self._texts = delta, [delta.text]

    def _flush(self) -> None:
        delta, self._delta = self._delta, None
        if delta is None:
            return
        self._is_chat = self._is_chat or "choices" in delta.event
        self._events.append(delta.raw if len(self._texts) == 1 else delta.with_text("".join(self._texts)))

    def _note_chat(self, event: bytes) -> None:
        self._is_chat = self._is_chat or _CHAT_CHUNK.search(event) is not None
        self._chat_ended = self._chat_ended or _CHAT_END.search(event) is not None


@dataclass(slots=True)
class _Delta:
    """An event whose only relevant content is one text."""

    raw: bytes
    prefix: bytes
    """the line with the event's name, if it has one"""
    event: Json
    """without its text and without its cumulative fields"""
    holder: Json
    """the object inside `event` that holds the text"""
    key: str
    text: str
    cumulative: Json

    def can_be_followed_by(self, other: _Delta) -> bool:
        return (
            self.prefix == other.prefix
            and self.event == other.event
            and _shape(self.cumulative) == _shape(other.cumulative)
            and (self.key != "content" or (_may_start_run(self.text) and _may_be_joined(other.text)))
        )

    def with_text(self, text: str) -> bytes:
        self.holder[self.key] = text
        # ASCII: httpx2's line reader, which Google's SDK uses, ends a line at U+2028 too.
        return self.prefix + b"data: " + json.dumps({**self.event, **self.cumulative}).encode("ascii")


def _may_be_joined(text: str) -> bool:
    """pydantic-ai compares a whole Chat delta with the thinking tags: a delta that is a tag must not be joined, and
    joining must not create one."""
    return not (text.startswith("<") or text.endswith(">"))


def _may_start_run(text: str) -> bool:
    """pydantic-ai drops a Chat delta of white space only at the start of a text, so nothing may be appended to it."""
    return _may_be_joined(text) and not text.isspace()


def _shape(value: Any) -> Any:
    """What must be equal in cumulative fields: everything but the counts. Zero means "not reported" in some."""
    match value:
        case dict():
            return {key: _shape(inner) for key, inner in cast("Json", value).items()}
        case list():
            return [_shape(inner) for inner in cast("list[Any]", value)]
        case int():
            return bool(value)
        case _:
            return value


def _parse(raw: bytes) -> _Delta | None:
    """The event as a delta; None if it is not one."""
    prefix, data = b"", raw
    if raw.startswith(b"event: "):
        line, _, data = raw.partition(b"\n")
        prefix = line + b"\n"
    if not data.startswith(b"data: {") or b"\n" in data:
        return None
    try:
        event = orjson.loads(data[6:])
        holder, key = _find_text(event)
    except (ValueError, LookupError, TypeError, AttributeError):  # not JSON, or not the shape of a delta
        return None
    text = holder[key]
    if not isinstance(text, str) or not text:
        return None
    holder[key] = ""
    event.pop("obfuscation", None)  # random padding
    cumulative = {name: event.pop(name) for name in _CUMULATIVE if name in event}
    return _Delta(raw, prefix, event, holder, key, text, cumulative)


def _find_text(event: Json) -> tuple[Json, str]:
    """The object and the key that hold the text of a delta.

    Raises LookupError, ValueError, TypeError or AttributeError if the event is not a delta or carries more than its
    text: values that pydantic-ai accumulates (usage, log probabilities, annotations) must not be lost by joining.
    """
    if "choices" in event:
        return _find_in_chat(event)
    if "candidates" in event:
        return _find_in_google(event)
    if event["type"] == "content_block_delta":
        delta: Json = event["delta"]
        _require(len(delta) == 2)
        return delta, _ANTHROPIC[delta["type"]]
    _require(event["type"] in _RESPONSES and not event.get("logprobs"))
    return event, "delta"


def _find_in_chat(event: Json) -> tuple[Json, str]:
    [choice] = event["choices"]
    _require(not (event.get("usage") or choice.get("finish_reason") or choice.get("logprobs")))
    delta: Json = choice["delta"]
    [name] = [name for name, value in delta.items() if value and name != "role"]
    if name == "tool_calls":
        [call] = delta["tool_calls"]
        function: Json = call["function"]
        _require(not (call.get("id") or function.get("name")))
        return function, "arguments"
    _require(name in _CHAT_TEXTS)
    return delta, name


def _find_in_google(event: Json) -> tuple[Json, str]:
    [candidate] = event["candidates"]
    content: Json = candidate["content"]
    [part] = content["parts"]
    _require(candidate.keys() <= {"content", "index"} and part.keys() <= {"text", "thought"})
    return part, "text"


def _require(condition: bool) -> None:
    if not condition:
        raise LookupError("not a delta")
