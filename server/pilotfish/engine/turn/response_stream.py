"""A response while it is made: its pieces are told as they come, its calls announced under ids of their own.

Hides: which message is being made, halves of surrogate pairs between two pieces, ids that a provider uses twice.
Promises: no piece is told that is no text; no call id stands twice in a session; what was told and not recorded is
known (`unrecorded`).
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
        """of the message that is being made"""
        self.own_calls: dict[str, None] = {}
        """the turn's calls, in the order they were first heard of"""
        self.unrecorded: set[str] = set()
        """messages of which pieces were told"""
        self._emit = ports.emit
        self._clock = ports.clock
        self._new_id = ports.new_id
        self._registry = ports.registry
        self._turn_id = turn_id
        self._call_ids: dict[int, str] = {}
        self._halves: dict[str, ChunkRecord] = {}
        """item → half a surrogate pair at the end of its last piece: the next one may bring the other half"""

    def begin(self) -> None:
        """The next response is about to be asked for."""
        self.message_id = self._new_id("msg")
        self._call_ids.clear()
        self._halves.clear()

    def show(self, event: AgentStreamEvent) -> None:
        """Emit what an event of the stream adds to the response: text, thoughts, calls and their arguments."""
        match event:
            case PartStartEvent(index=index, part=TextPart(content=text)):
                self.text_piece(index, text)
            case PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=text)):
                self.text_piece(index, text)
            case PartStartEvent(index=index, part=ThinkingPart(content=text)):
                self._piece(f"{self.message_id}.{index}", "thought", text)
            case PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=text)):
                self._piece(f"{self.message_id}.{index}", "thought", text or "")
            case PartStartEvent(index=index, part=ToolCallPart() as part):
                self._announce(index, part.tool_call_id, part.tool_name)
                self._piece(self._call_ids[index], "args", part.args_as_json_str() if part.args else "")
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(args))) if index in self._call_ids:
                self._piece(self._call_ids[index], "args", args)
            case _:
                pass

    def text_piece(self, index: int, text: str) -> None:
        self._piece(f"{self.message_id}.{index}", "message", text)

    def progress(self, call_id: str, text: str) -> None:
        """A piece of what a running call puts out."""
        self._piece(call_id, "progress", text)

    def _piece(self, item_id: str, channel: Literal["message", "thought", "args", "progress"], text: str) -> None:
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
        """The response is whole: halves whose other half did not come are told as what they are."""
        for half in self._halves.values():
            self._emit(replace(half, text=fit(half.text)))
        self._halves.clear()

    # -- calls, until they run ----------------------------------------------------------------------------------

    def _announce(self, index: int, call_id: str, name: str) -> None:
        """A call has begun to be written. An id that was used before in the session gets a fresh one."""
        if not call_id or call_id in self._registry or call_id in self._call_ids.values():
            call_id = self._new_id("call")
        self._call_ids[index] = call_id
        name = sendable_name(name)
        self._registry.register(call_id, name, {}, **_looks(name, {}))

    def recovered(self, index: int, name: str, args: Mapping[str, Any]) -> ToolCallPart:
        """A call that the model wrote as text: taken as one, and marked."""
        self._call_ids[index] = call_id = self._new_id("call")
        self._registry.register(call_id, name, args, recovered=True, **_looks(name, args))
        return ToolCallPart(name, dict(args), tool_call_id=call_id)

    def with_own_ids(self, response: ModelResponse) -> ModelResponse:
        """Every call under the id it was announced with, and a name that can be sent back: no id stands twice."""
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
        """A call stands in a whole response, with all its arguments."""
        self.ensure(part.tool_call_id, part.tool_name)
        args, _ = normalise_args(part.args)
        self._registry.amend(part.tool_call_id, args=args, **_looks(part.tool_name, args))

    def ensure(self, call_id: str, name: str) -> None:
        """A call that nobody announced is registered all the same."""
        if call_id not in self._registry:
            self._registry.register(call_id, name, {}, **_looks(name, {}))

    def call_changed(self, call: CanonicalToolCall) -> None:
        """The registry's one change notice for every move."""
        self.own_calls[call.id] = None
        now = self._clock()
        self._emit(ToolCallRecord(turn_id=self._turn_id, call=call, timestamp=now, message_id=self.message_id))


def _looks(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """How a call is shown before it is understood: its title and category."""
    tool = BY_NAME.get(name)
    if tool is None:
        return {"title": name}
    try:
        return {"title": tool.title(tool.args.model_validate(dict(args))), "category": tool.category}
    except ValueError:
        return {"title": name, "category": tool.category}
