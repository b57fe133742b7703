"""Detection: what is wrong with a history, and where. Nothing is changed here; `conversation/history/sanitizer.py`
repairs.

A sound history alternates requests and responses and begins with a request; nothing in it is empty; every call has a
name and an id of its own; the request after a response begins with the returns of its calls, in their order, and no
return stands anywhere else. That is what every provider accepts.
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
SENDABLE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")  # what every provider takes as the name of a tool
NO_OUTPUT = "[no output]"


class FaultKind(StrEnum):
    """What can be wrong, and what repair does about it."""

    DANGLING_CALL = "dangling_call"
    """a call with no return in its place: closed in place"""
    DUPLICATE_CALL_ID = "duplicate_call_id"
    """a call with no id, or with an earlier call's: given one of its own, returns paired by position"""
    UNNAMED_CALL = "unnamed_call"
    """a call without a name cannot be closed: removed, with every part of its id"""
    WRONG_NAME = "wrong_name"
    """a name no provider takes, or a return under another name than its call: mended"""
    STRAY_RETURN = "stray_return"
    """a return without a call, a second one, or one in the wrong place: moved to its call, or removed"""
    BLANK_PART = "blank_part"
    """a part that says nothing: removed; a return that says nothing: says so"""
    EMPTY_MESSAGE = "empty_message"
    """a message with no parts: removed"""
    CONSECUTIVE_REQUESTS = "consecutive_requests"
    """joined, in order"""
    CONSECUTIVE_RESPONSES = "consecutive_responses"
    """joined, in order"""
    WRONG_SIDE = "wrong_side"
    """a model's part in a request or the reverse: split off into a message of its own"""
    NO_BEGINNING = "no_beginning"
    """a history whose first request is missing, or holds the operator's words alone: it is told so in a prompt"""
    SYSTEM_ONLY_REQUEST = "system_only_request"
    """a request between two responses that holds system prompts only: given a prompt, because Google and Anthropic take
    system prompts out of the conversation, and a call may not follow another response"""


class Fault(NamedTuple):
    """One thing wrong, at `messages[message].parts[part]`."""

    kind: FaultKind
    message: int
    part: int | None = None
    tool_call_id: str | None = None

    def __str__(self) -> str:
        where = f"messages[{self.message}]" + ("" if self.part is None else f".parts[{self.part}]")
        return f"{where}: {self.kind}" + (f" {self.tool_call_id}" if self.tool_call_id else "")


def find_faults(messages: Sequence[CanonicalMessage]) -> tuple[Fault, ...]:
    """Every fault, each where it is noticed, in order."""
    return tuple(iter_faults(messages))


def is_sound(messages: Sequence[CanonicalMessage]) -> bool:
    return next(iter_faults(messages), None) is None


def find_dangling_tool_call_ids(messages: Sequence[CanonicalMessage]) -> set[str]:
    """The ids of calls that no return answers, wherever it stands after them.

    A return answers the oldest open call of its id; a call in a later response that takes the id over leaves the
    earlier ones dangling.
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
    """The faults as they are found: asking for the first alone is cheap. One look at every part, no more."""
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
    """Whether the first message says something to the model; system prompts travel apart from the conversation."""
    return not messages[0].is_response and not is_system_only(messages[0])


def is_system_only(message: CanonicalMessage) -> bool:
    """Whether a message holds nothing but system prompts."""
    return all(type(part) is SystemPromptPart for part in message.parts)


def side_of(part: Part) -> Side | None:
    """The side a part belongs to; None when it may stand on either."""
    return _SIDES[type(part)]


def without_blanks(part: Part) -> Part | None:
    """The part without what says nothing; None when it says nothing at all, itself when there is nothing to leave out.

    A signature or another field that a provider needs back is something. A return is never left out.
    """
    if isinstance(part, _SPOKEN):
        return None if not part.extra and is_blank(part.content) else part
    if isinstance(part, _NEVER_BLANK):
        return part
    if isinstance(part, ToolReturnPart):
        return replace(part, content=NO_OUTPUT) if is_blank(part.content) else part
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        said = tuple(item for item in part.content if not is_blank(item))
        return None if not said else part if len(said) == len(part.content) else replace(part, content=said)
    return None if is_blank(part.content) else part


def is_blank(content: object) -> bool:
    """Whether a content says nothing: none, empty, or white space alone."""
    return (not content or content.isspace()) if isinstance(content, str) else content is None or content == []


_SPOKEN = (TextPart, ThoughtPart)  # every part of every history comes here: making a union each time costs as much
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
