"""Streams a response to the client: emits its chunks and announces its calls under unique ids.

Hides: the id of the current message, surrogate pairs that are split between two chunks, duplicate call ids.
Promises: a chunk is never empty and is valid Unicode; a call id is unique in its session; `unrecorded` has the messages
that were streamed and not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from pilotfish.conversation.history.sanitizer import sendable_name
from pilotfish.conversation.message_parser import fit
from pilotfish.conversation.messages import CanonicalToolCall, normalise_args
from pilotfish.conversation.records import ChunkRecord, ToolCallRecord
from pilotfish.engine.turn.services import Ports
from pilotfish.tools import BY_NAME


class ResponseStream:
    """The responses of one turn, one after the other."""

    def __init__(self, ports: Ports, turn_id: str) -> None:
        self.message_id = ""
        """of the message that is being streamed"""
        self.own_calls: dict[str, None] = {}
        """the calls of the turn, in the order of their first record"""
        self.unrecorded: set[str] = set()
        """ids of messages that were streamed and are not recorded yet"""
        self._emit = ports.emit
        self._clock = ports.clock
        self._new_id = ports.new_id
        self._registry = ports.registry
        self._turn_id = turn_id
        self._call_ids: dict[int, str] = {}
        self._halves: dict[str, ChunkRecord] = {}
        """item → the first half of a surrogate pair; the next chunk may have the second half"""

    def begin(self) -> None:
        """Start the next response."""
        self.message_id = self._new_id("msg")
        self._call_ids.clear()
        self._halves.clear()

    def show(self, event: AgentStreamEvent) -> None:
        """Emit the text, thoughts, calls and arguments of a stream event."""
        match event:
            case PartStartEvent(index=index, part=TextPart(content=text)):
                self.text_chunk(index, text)
            case PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=text)):
                self.text_chunk(index, text)
            case PartStartEvent(index=index, part=ThinkingPart(content=text)):
                self._chunk(f"{self.message_id}.{index}", "thought", text)
            case PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=text)):
                self._chunk(f"{self.message_id}.{index}", "thought", text or "")
            case PartStartEvent(index=index, part=ToolCallPart() as part):
                self._announce(index, part.tool_call_id, part.tool_name)
                self._chunk(self._call_ids[index], "args", part.args_as_json_str() if part.args else "")
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(args))) if index in self._call_ids:
                self._chunk(self._call_ids[index], "args", args)
            case _:
                pass

    def text_chunk(self, index: int, text: str) -> None:
        self._chunk(f"{self.message_id}.{index}", "message", text)

    def progress(self, call_id: str, text: str) -> None:
        """Emit output of a running call."""
        self._chunk(call_id, "progress", text)

    def _chunk(self, item_id: str, channel: Literal["message", "thought", "args", "progress"], text: str) -> None:
        if (half := self._halves.pop(item_id, None)) is not None:
            text = half.text + text
        chunk = ChunkRecord(turn_id=self._turn_id, item_id=item_id, channel=channel, text=text)
        if channel in ("message", "thought"):
            self.unrecorded.add(self.message_id)
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[item_id] = replace(chunk, text=text[-1])
            text = text[:-1]
        if text:
            self._emit(replace(chunk, text=fit(text)) if not text.isascii() else chunk)

    def end(self) -> None:
        """End the response: emit surrogates that stayed without their second half."""
        for half in self._halves.values():
            self._emit(replace(half, text=fit(half.text)))
        self._halves.clear()

    # -- calls, until they run ----------------------------------------------------------------------------------

    def _announce(self, index: int, call_id: str, name: str) -> None:
        """Register a call whose arguments are still streamed. A duplicate id is replaced by a new one."""
        if not call_id or call_id in self._registry or call_id in self._call_ids.values():
            call_id = self._new_id("call")
        self._call_ids[index] = call_id
        name = sendable_name(name)
        self._registry.register(call_id, name, {}, **_title_and_category(name, {}))

    def recovered(self, index: int, name: str, args: Mapping[str, Any]) -> ToolCallPart:
        """Register a call that the model wrote as text, marked as recovered."""
        self._call_ids[index] = call_id = self._new_id("call")
        self._registry.register(call_id, name, args, recovered=True, **_title_and_category(name, args))
        return ToolCallPart(name, dict(args), tool_call_id=call_id)

    def with_own_ids(self, response: ModelResponse) -> ModelResponse:
        """Give every call the id it was announced with and a name that can be sent back."""
        parts = list(response.parts)
        for index, part in enumerate(parts):
            if isinstance(part, ToolCallPart):
                if index not in self._call_ids:
                    self._announce(index, part.tool_call_id, part.tool_name)
                own, name = self._call_ids[index], sendable_name(part.tool_name)
                if (own, name) != (part.tool_call_id, part.tool_name):
                    parts[index] = replace(part, tool_call_id=own, tool_name=name)
        return replace(response, parts=parts)

    def written(self, part: ToolCallPart) -> None:
        """Set the arguments of a call from the complete response."""
        self.ensure(part.tool_call_id, part.tool_name)
        args, _ = normalise_args(part.args)
        self._registry.amend(part.tool_call_id, args=args, **_title_and_category(part.tool_name, args))

    def ensure(self, call_id: str, name: str) -> None:
        """Register a call that was not announced."""
        if call_id not in self._registry:
            self._registry.register(call_id, name, {}, **_title_and_category(name, {}))

    def call_changed(self, call: CanonicalToolCall) -> None:
        """Record a change of a call. The registry calls this for every change."""
        self.own_calls[call.id] = None
        now = self._clock()
        self._emit(ToolCallRecord(turn_id=self._turn_id, call=call, timestamp=now, message_id=self.message_id))


def _title_and_category(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The title and category of a call whose arguments may be incomplete."""
    tool = BY_NAME.get(name)
    if tool is None:
        return {"title": name}
    try:
        return {"title": tool.title(tool.args.model_validate(dict(args))), "category": tool.category}
    except ValueError:
        return {"title": name, "category": tool.category}
