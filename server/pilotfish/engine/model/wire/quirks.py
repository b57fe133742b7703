"""Corrects answers that deviate from the API of their dialect, before an SDK reads them.

What servers and gateways do, and the SDKs do not expect: a whole JSON answer where a stream was asked for; an error
with status 200 or in an SSE field `error`; the name of a tool in every chunk, or several calls under one index; a
refusal of the model's own malformed call (Groq), which the model should read and not the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

Json = dict[str, Any]
MALFORMED = "tool_use_failed"
UNKNOWN_TOOL = "unknown_tool"


@dataclass(frozen=True, slots=True)
class Corrected:
    """An answer as it should have been sent. `events`: the body is an event stream."""

    status: int
    body: bytes
    events: bool = False


def corrected(status: int, body: bytes, request: bytes, *, streamed: bool) -> Corrected:
    """The answer with JSON `body` to a request, corrected. Raises ValueError for a streamed answer that is no JSON."""
    try:
        answer: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        if streamed and status == 200 and not body.lstrip().startswith((b"data:", b"event:", b":")):
            raise ValueError("the answer is not valid JSON") from None
        return Corrected(status, body, events=streamed and status == 200)
    error = cast("Json", answer).get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict) and streamed and cast("Json", error).get("code") == MALFORMED:
        return Corrected(200, _stream(_malformed_call(cast("Json", error), request)), events=True)
    if status != 200:
        return Corrected(status, body)
    if error:
        return Corrected(_status_in(error), body)
    if streamed and (events := _as_events(answer)):
        return Corrected(200, _stream(events), events=True)
    return Corrected(status, body)


def _status_in(error: Any) -> int:
    """The status that an error names in its `code`, or in its `status` (Azure). 500 if it names none."""
    named = [cast("Json", error).get(field) for field in ("code", "status")] if isinstance(error, dict) else []
    return next((status for status in named if isinstance(status, int) and 400 <= status < 600), 500)


def corrected_event(event: bytes) -> bytes:
    """A server-sent event with its error in the data, where SDKs look for it."""
    if event.startswith(b"error:"):
        return _data(_error_in(event.removeprefix(b"error:").strip()))
    return event


class CallChunks:
    """Corrects the tool calls in the chunks of one Chat stream."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._used: set[int] = set()

    def correct(self, event: bytes) -> bytes:
        """The event with each name once and one index for each call."""
        if b'"tool_calls"' not in event or not event.startswith(b"data: {"):
            return event
        try:
            chunk: Json = orjson.loads(event[6:])
            calls = [call for choice in chunk["choices"] for call in choice["delta"].get("tool_calls") or ()]
            changed = [self._correct(call) for call in calls]
        except (ValueError, LookupError, TypeError, AttributeError):
            return event  # not a chunk of a Chat stream
        return _data(chunk).rstrip() if any(changed) else event

    def _correct(self, call: Json) -> bool:
        index, call_id = call.get("index") or 0, call.get("id")
        function: Json = call.get("function") or {}
        name = function.get("name")
        known = self._calls.get(index)
        if known is None or (call_id and known.id and call_id != known.id and name):
            self._calls[index] = known = _Call(self._free(index), call_id, name or "")
        elif name and (name == known.name or known.has_arguments):
            function["name"] = None
        elif name:
            known.name += name
        known.has_arguments = known.has_arguments or bool(function.get("arguments"))
        changed = call.get("index") != known.index or (bool(name) and function.get("name") is None)
        call["index"] = known.index
        return changed

    def _free(self, index: int) -> int:
        """The index itself, unless another call has it already."""
        while index in self._used:
            index += 1
        self._used.add(index)
        return index


@dataclass(slots=True)
class _Call:
    index: int
    id: str | None
    name: str
    has_arguments: bool = False


def _error_in(data: bytes) -> Json:
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {"error": {"message": data.decode("utf-8", "replace")}}
    if isinstance(value, dict) and "error" in value:
        return cast("Json", value)
    return {"error": value if isinstance(value, dict) else {"message": str(value)}}


def _malformed_call(error: Json, request: bytes) -> list[Json]:
    """The call that the provider refused, as the model made it: its validation tells the model what is wrong."""
    generated = str(error.get("failed_generation") or "")
    try:
        value: Any = orjson.loads(generated)
    except orjson.JSONDecodeError:
        value = _call_in_text(generated, re.findall(rb'"name": ?"([\w.-]+)"', request))
    calls = cast("list[Any]", value if isinstance(value, list) else [value])
    made = [cast("Json", call) for call in calls if isinstance(call, dict)]
    named = [(str(call.get("name") or UNKNOWN_TOOL), call.get("arguments", {})) for call in made]
    return _chat_chunk(
        {"id": "malformed", "model": ""},
        {
            "role": "assistant",
            "content": "" if named else generated,
            "tool_calls": [
                {
                    "id": f"call_{index}_{abs(hash(generated)):x}",
                    "type": "function",
                    "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
                }
                for index, (name, args) in enumerate(named)
            ],
        },
        "tool_calls" if named else "stop",
    )


def _call_in_text(text: str, tools: Iterable[bytes]) -> Json | None:
    """A call in a text that is not JSON: the name of a tool, and what follows it in braces."""
    places = sorted((text.find(name), name) for name in {tool.decode() for tool in tools} if name in text)
    if not places:
        return None
    at, name = places[0]
    start, end = text.find("{", at), text.rfind("}")
    return {"name": name, "arguments": text[start : end + 1] if 0 <= start < end else text[at + len(name) :] or "{}"}


# ---- A whole answer as a stream ------------------------------------------------------------------------------------


def _as_events(answer: Any) -> list[Json]:
    """The events that carry a whole answer. Empty if it is not an answer of a known dialect. Raises ValueError for an
    answer that is only promised."""
    if isinstance(answer, list):  # Google without SSE
        chunks = cast("list[Json]", answer)
        return chunks if chunks and "candidates" in chunks[0] else []
    if not isinstance(answer, dict):
        return []
    whole = cast("Json", answer)
    if "candidates" in whole:
        return [whole]
    choices = cast("list[Json]", whole.get("choices") or [{}])
    if "message" in choices[0]:
        return _chat_chunk(whole, choices[0]["message"], choices[0].get("finish_reason"))
    if whole.get("type") == "message" and isinstance(blocks := whole.get("content"), list):
        return list(_anthropic_events(cast("list[Json]", blocks), whole))
    if whole.get("object") == "response" and whole.get("status") in ("queued", "in_progress"):
        raise ValueError("the answer is not finished")
    if whole.get("object") == "response" and isinstance(items := whole.get("output"), list):
        return list(_responses_events(cast("list[Json]", items), whole))
    return []


THINK = re.compile(r"(</?think>)")


def _chat_chunk(rest: Mapping[str, Any], message: Json, finish: str | None) -> list[Json]:
    """The chunks of one answer. The library looks for thoughts in the text only where their tags are chunks."""
    made: list[Json] = message.get("tool_calls") or []
    calls: list[Json] = [{**call, "index": index} for index, call in enumerate(made)]
    text = message.get("content")
    pieces: list[str] = THINK.split(text) if isinstance(text, str) and text.startswith("<think>") else []
    spoken: list[Json] = [{"content": piece} for piece in pieces if piece]
    last: Json = {**message, "tool_calls": calls or None}
    if spoken:
        last["content"] = None
    chunk: Json = {"created": 0, **rest, "object": "chat.completion.chunk"}
    between: Json = {**chunk, "usage": None}
    return [
        *({**between, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in spoken),
        {**chunk, "choices": [{"index": 0, "delta": last, "finish_reason": finish or "stop"}]},
    ]


def _anthropic_events(blocks: list[Json], rest: Mapping[str, Any]) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**rest, "content": []}}
    for index, block in enumerate(blocks):
        deltas: list[Json] = []
        start = dict(block)
        match block["type"]:
            case "text":
                start["text"] = ""
                deltas = [{"type": "text_delta", "text": block["text"]}]
            case "thinking":
                start |= {"thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
                deltas += [{"type": "signature_delta", "signature": block.get("signature", "")}]
            case _ if isinstance(block.get("input"), dict):  # a call, of ours or of a tool of the provider
                start["input"] = {}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            case _:
                pass
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": rest.get("stop_reason"), "stop_sequence": rest.get("stop_sequence")}
    yield {"type": "message_delta", "delta": delta, "usage": rest.get("usage") or {"output_tokens": 0}}
    yield {"type": "message_stop"}


def _responses_events(items: list[Json], response: Json) -> Iterator[Json]:
    yield {"type": "response.created", "sequence_number": 0, "response": {**response, "output": []}}
    for index, item in enumerate(items):
        place: Json = {"sequence_number": 0, "output_index": index}
        is_mcp = item["type"] == "mcp_call"
        yield {"type": "response.output_item.added", **place, "item": {**item, "arguments": ""} if is_mcp else item}
        place["item_id"] = item.get("id")
        if item["type"] == "message":
            for number, part in enumerate(item["content"]):
                if part["type"] == "output_text":
                    text: Json = {**place, "content_index": number, "delta": part["text"], "logprobs": []}
                    yield {"type": "response.output_text.delta", **text}
        elif item["type"] == "reasoning":
            for number, part in enumerate(item.get("summary") or ()):
                text = {**place, "summary_index": number, "delta": part["text"]}
                yield {"type": "response.reasoning_summary_text.delta", **text}
        elif is_mcp:
            yield {"type": "response.mcp_call_arguments.delta", **place, "delta": item["arguments"]}
            yield {"type": "response.mcp_call_arguments.done", **place, "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", **place, "item": item}
    ended = "response.incomplete" if response.get("status") == "incomplete" else "response.completed"
    yield {"type": ended, "sequence_number": 0, "response": response}


def _stream(events: Iterable[Json]) -> bytes:
    body = b"".join(
        (f"event: {event['type']}\n".encode() if "type" in event else b"") + _data(event) for event in events
    )
    return body + (b"data: [DONE]\n\n" if b'"chat.completion.chunk"' in body else b"")


def _data(event: Json) -> bytes:
    return b"data: " + json.dumps(event).encode("ascii") + b"\n\n"
