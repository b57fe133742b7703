"""Finds the faults of a history. `conversation/history/sanitizer.py` repairs them.

A sound history is one that every provider accepts:
- It alternates requests and responses, and begins with a request.
- No message and no part is empty.
- Every call has a valid name and a unique id.
- The request after a response begins with the returns of its calls, in their order. There are no other returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Literal, NamedTuple

from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    OtherPart,
    Part,
    RetryPart,
    SystemPromptPart,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

Side = Literal["request", "response"]
SENDABLE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")  # the tool names that every provider accepts
NO_OUTPUT = "[no output]"


class FaultKind(StrEnum):
    """The kinds of faults, and how `repair` handles each."""

    DANGLING_CALL = "dangling_call"
    """A call has no return in the next request. A return is added there."""
    DUPLICATE_CALL_ID = "duplicate_call_id"
    """A call has no id, or the id of an earlier call. It gets a new id, and returns are matched by position."""
    UNNAMED_CALL = "unnamed_call"
    """A call without a name cannot be closed. All parts with its id are removed."""
    WRONG_NAME = "wrong_name"
    """A name is invalid, or a return has another name than its call. The name is replaced."""
    STRAY_RETURN = "stray_return"
    """A return has no call, is a second one or is in the wrong place. It is moved to its call or removed."""
    BLANK_PART = "blank_part"
    """A part is blank. It is removed; the content of a blank return is replaced by a note."""
    EMPTY_MESSAGE = "empty_message"
    """A message has no parts. It is removed."""
    CONSECUTIVE_REQUESTS = "consecutive_requests"
    """Two requests follow each other. They are joined in order."""
    CONSECUTIVE_RESPONSES = "consecutive_responses"
    """Two responses follow each other. They are joined in order."""
    WRONG_SIDE = "wrong_side"
    """A part of the model is in a request, or the reverse. It is moved into a message of its own."""
    NO_BEGINNING = "no_beginning"
    """The first request is missing or has only system prompts. A prompt that says so is added."""
    SYSTEM_ONLY_REQUEST = "system_only_request"
    """A request between two responses has only system prompts. A prompt is added: Google and Anthropic take system
    prompts out of the conversation, and a call may not follow another response."""


class Fault(NamedTuple):
    """One fault, at `messages[message].parts[part]`."""

    kind: FaultKind
    message: int
    part: int | None = None
    tool_call_id: str | None = None

    def __str__(self) -> str:
        where = f"messages[{self.message}]" + ("" if self.part is None else f".parts[{self.part}]")
        return f"{where}: {self.kind}" + (f" {self.tool_call_id}" if self.tool_call_id else "")


def find_faults(messages: Sequence[CanonicalMessage]) -> tuple[Fault, ...]:
    """Return all faults in the order of detection."""
    return tuple(iter_faults(messages))


def is_sound(messages: Sequence[CanonicalMessage]) -> bool:
    return next(iter_faults(messages), None) is None


def find_dangling_tool_call_ids(messages: Sequence[CanonicalMessage]) -> set[str]:
    """Return the ids of calls that no later return answers.

    A return answers the oldest open call with its id. If a later response reuses the id, the earlier open calls with
    that id are dangling.
    """
    open_at: dict[str, list[int]] = {}
    dangling: set[str] = set()
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                waiting = open_at.setdefault(part.tool_call_id, [])
                if waiting and waiting[-1] != index:
                    dangling.add(part.tool_call_id)
                    waiting.clear()
                waiting.append(index)
            elif isinstance(part, ToolReturnPart) and (waiting := open_at.get(part.tool_call_id)):
                waiting.pop(0)
    dangling.update(call_id for call_id, waiting in open_at.items() if waiting)
    return dangling


def iter_faults(messages: Sequence[CanonicalMessage]) -> Iterator[Fault]:
    """Yield faults in one pass over all parts. Taking only the first is cheap."""
    seen: set[str] = set()
    expected: list[_Expected] = []  # the calls of the last response
    previous: bool | None = None  # whether the last message was a response
    for index, message in enumerate(messages):
        if not message.parts:
            yield Fault(FaultKind.EMPTY_MESSAGE, index)
        if message.role is MessageRole.ASSISTANT:
            yield from _unanswered(expected)
            expected = []
            if previous:
                yield Fault(FaultKind.CONSECUTIVE_RESPONSES, index)
            elif index < 2 and not begins(messages):
                yield Fault(FaultKind.NO_BEGINNING, 0)
            elif index >= 2 and is_system_only(messages[index - 1]):
                yield Fault(FaultKind.SYSTEM_ONLY_REQUEST, index - 1)
            for place, part in enumerate(message.parts):
                if type(part) is ToolCallPart:
                    call_id = part.tool_call_id
                    if not call_id or call_id in seen:
                        yield Fault(FaultKind.DUPLICATE_CALL_ID, index, place, call_id)
                    if not part.tool_name:
                        yield Fault(FaultKind.UNNAMED_CALL, index, place, call_id)
                    elif not SENDABLE_NAME.match(part.tool_name):
                        yield Fault(FaultKind.WRONG_NAME, index, place, call_id)
                    seen.add(call_id)
                    expected.append(_Expected(index, place, call_id, part.tool_name))
                elif (kind := _fault_of(part, "response")) is not None:
                    yield Fault(kind, index, place)
            previous = True
        else:
            if previous is False:
                yield Fault(FaultKind.CONSECUTIVE_REQUESTS, index)
            answered = 0
            for place, part in enumerate(message.parts):
                if type(part) is ToolReturnPart:
                    call_id = part.tool_call_id
                    if answered == place < len(expected) and expected[place].call_id == call_id:
                        answered += 1
                        if expected[place].name != part.tool_name:
                            yield Fault(FaultKind.WRONG_NAME, index, place, call_id)
                        if is_blank(part.content):
                            yield Fault(FaultKind.BLANK_PART, index, place, call_id)
                    else:
                        yield Fault(FaultKind.STRAY_RETURN, index, place, call_id)
                elif (kind := _fault_of(part, "request")) is not None:
                    yield Fault(kind, index, place)
            yield from _unanswered(expected[answered:])
            expected = []
            previous = False
    yield from _unanswered(expected)


def begins(messages: Sequence[CanonicalMessage]) -> bool:
    """Whether the first message is a request with more than system prompts, which are sent separately."""
    return not messages[0].is_response and not is_system_only(messages[0])


def is_system_only(message: CanonicalMessage) -> bool:
    """Whether a message has nothing but system prompts."""
    return all(type(part) is SystemPromptPart for part in message.parts)


def side_of(part: Part) -> Side | None:
    """Return the side to which a part belongs. None if it may be on either side."""
    return _SIDES[type(part)]


def without_blanks(part: Part) -> Part | None:
    """Return the part without blank content: None if it is blank, the same object if nothing is blank.

    A part with a signature or another field that a provider needs back is not blank. A return is never removed.
    """
    if isinstance(part, _SPOKEN):
        return None if not part.extra and is_blank(part.content) else part
    if isinstance(part, _NEVER_BLANK):
        return part
    if isinstance(part, ToolReturnPart):
        return replace(part, content=NO_OUTPUT) if is_blank(part.content) else part
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        items = tuple(item for item in part.content if not is_blank(item))
        return None if not items else part if len(items) == len(part.content) else replace(part, content=items)
    return None if is_blank(part.content) else part


def is_blank(content: object) -> bool:
    """Whether content is None, empty or only white space."""
    return (not content or content.isspace()) if isinstance(content, str) else content is None or content == []


_SPOKEN = (TextPart, ThoughtPart)  # constants, because building a union for every part takes as long as the check
_NEVER_BLANK = (ToolCallPart, OtherPart)


class _Expected(NamedTuple):
    message: int
    part: int
    call_id: str
    name: str


_SIDES: dict[type[Part], Side | None] = {
    TextPart: "response",
    ThoughtPart: "response",
    ToolCallPart: "response",
    UserPromptPart: "request",
    SystemPromptPart: "request",
    ToolReturnPart: "request",
    RetryPart: "request",
    OtherPart: None,
}


def _fault_of(part: Part, side: Side) -> FaultKind | None:
    if _SIDES[type(part)] not in (side, None):
        return FaultKind.WRONG_SIDE
    return FaultKind.BLANK_PART if without_blanks(part) is not part else None


def _unanswered(calls: Sequence[_Expected]) -> Iterator[Fault]:
    for call in calls:
        yield Fault(FaultKind.DANGLING_CALL, call.message, call.part, call.call_id)
