"""Streams a response to the client: emits its chunks and announces its calls under unique ids.

Hides: the id of the current message, surrogate pairs that are split between two chunks, duplicate call ids.
Promises: a chunk is never empty and is valid Unicode; a call id is unique in its session; `unrecorded` has the messages
that were streamed and not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
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

from pilotfish.conversation.answer_text.text_call_hold import TextCallHold
from pilotfish.conversation.answer_text.text_calls import find_calls
from pilotfish.conversation.history.sanitizer import sendable_name
from pilotfish.conversation.message_parser import fit
from pilotfish.conversation.messages import CanonicalToolCall, normalise_args
from pilotfish.conversation.records import ChunkRecord, ToolCallRecord
from pilotfish.engine.turn.services import Ports
from pilotfish.tools import BY_NAME
from pilotfish.tools.incoming.calls import own_name, read_call
from pilotfish.tools.tool import Tool

MAX_OUTPUT = 20_000  # characters of a running call that are kept for the case that it is stopped


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
        self.foreign_tools: frozenset[str] = frozenset()
        """the tools of MCP servers that the model was offered"""
        self._call_ids: dict[int, str] = {}
        self._halves: dict[str, ChunkRecord] = {}
        """item → the first half of a surrogate pair; the next chunk may have the second half"""
        self._outputs: dict[str, str] = {}
        self.ended = False
        """whether the turn has ended; a background command may go on and has no client to show its output to"""
        self._holds: dict[int, TextCallHold] = {}
        self._shown: dict[int, str] = {}
        """part → its text so far, without what is held back"""

    def begin(self) -> None:
        """Start the next response."""
        self.message_id = self._new_id("msg")
        self._call_ids.clear()
        self._halves.clear()
        self._holds.clear()
        self._shown.clear()

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
        """Emit text of a part, except what may be a call written as text."""
        hold = self._holds.get(index)
        if hold is None:
            hold = self._holds[index] = TextCallHold(BY_NAME, _has_call)
        shown = hold.feed(text)
        self._shown[index] = self._shown.get(index, "") + shown
        self.unrecorded.add(self.message_id)
        self._chunk(f"{self.message_id}.{index}", "message", shown)

    def show_rest(self, index: int, text: str) -> None:
        """Emit what was held back of a part, whose final text is given."""
        self._holds.pop(index, None)
        shown = self._shown.pop(index, "")
        if text.startswith(shown):
            self._chunk(f"{self.message_id}.{index}", "message", text[len(shown) :])

    def progress(self, call_id: str, text: str) -> None:
        """Emit output of a running call. Nothing of a turn is emitted after its end."""
        if self.ended:
            return
        self._outputs[call_id] = (self._outputs.get(call_id, "") + text)[-MAX_OUTPUT:]
        self._chunk(call_id, "progress", text)

    def output_of(self, call_id: str) -> str:
        """The end of the output that a call has emitted."""
        return self._outputs.get(call_id, "")

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
            self._emit(chunk if text is chunk.text and text.isascii() else replace(chunk, text=fit(text)))

    def end(self) -> None:
        """End the response: emit text that was held back, and surrogates that stayed without their second half."""
        for index, hold in self._holds.items():
            self._chunk(f"{self.message_id}.{index}", "message", hold.close())
        self._holds.clear()
        for half in self._halves.values():
            self._emit(replace(half, text=fit(half.text)))
        self._halves.clear()

    # -- calls, until they run ----------------------------------------------------------------------------------

    def _announce(self, index: int, call_id: str, name: str) -> None:
        """Register a call whose arguments are still streamed. A duplicate id is replaced by a new one."""
        if not call_id or call_id in self._registry or call_id in self._call_ids.values():
            call_id = self._new_id("call")
        self._call_ids[index] = call_id
        name = self.own_name(name) or sendable_name(name)
        self._registry.register(call_id, name, {}, **_title_and_category(name, {}))

    def own_name(self, name: str) -> str | None:
        """Our tool that the model means by a name, which may be another agent's; None for any other tool."""
        return None if name in self.foreign_tools else own_name(name)

    def recovered(self, index: int, name: str, args: Mapping[str, Any]) -> ToolCallPart:
        """Register a call that the model wrote as text, marked as recovered."""
        self._call_ids[index] = call_id = self._new_id("call")
        self._registry.register(call_id, name, args, recovered=True, **_title_and_category(name, args))
        return ToolCallPart(name, dict(args), tool_call_id=call_id)

    def child(self, part: ToolCallPart, parent_id: str, *, may_ask: bool) -> None:
        """Register a call that the subagent of another call made."""
        name, (args, _) = part.tool_name, normalise_args(part.args)
        if self.own_name(name) and (call := read_call(BY_NAME, name, args)).problem is None:
            name, args = call.name, dict(call.args)
        about = _title_and_category(name, args)
        self._registry.register(part.tool_call_id, name, args, parent_id=parent_id, may_ask=may_ask, **about)

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
        name, (args, _) = part.tool_name, normalise_args(part.args)
        if self.own_name(name) and (call := read_call(BY_NAME, name, args)).problem is None:
            name, args = call.name, dict(call.args)
        self._registry.amend(part.tool_call_id, name=name, args=args, **_title_and_category(name, args))

    def ensure(self, call_id: str, name: str) -> None:
        """Register a call that was not announced."""
        if call_id not in self._registry:
            self._registry.register(call_id, name, {}, **_title_and_category(name, {}))

    def call_changed(self, call: CanonicalToolCall) -> None:
        """Record a change of a call. The registry calls this for every change."""
        self.own_calls[call.id] = None
        now = self._clock()
        message_id = self.message_id if call.parent_id is None else ""  # a subagent's messages are not recorded
        self._emit(ToolCallRecord(turn_id=self._turn_id, call=call, timestamp=now, message_id=message_id))


@cache
def tools_by_args() -> Mapping[str, Callable[[Mapping[str, Any]], bool]]:
    """Every tool by name, with a check of arguments that a model wrote as text."""
    return {name: partial(_accepts, tool) for name, tool in BY_NAME.items()}


def _accepts(tool: Tool[Any], args: Mapping[str, Any]) -> bool:
    try:
        tool.args.model_validate(dict(args))
    except ValueError:
        return False
    return True


def _has_call(text: str) -> bool:
    return bool(find_calls(text, tools_by_args()))


def _title_and_category(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The title and category of a call whose arguments may be incomplete."""
    tool = BY_NAME.get(name)
    if tool is None:
        return {"title": name}
    try:
        return {"title": tool.title(tool.args.model_validate(dict(args))), "category": tool.category}
    except ValueError:
        return {"title": name, "category": tool.category}
