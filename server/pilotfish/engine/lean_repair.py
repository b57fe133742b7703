"""A conversation as the library would repair it before it is sent, at one look when it is sound.

Ours is repaired in its canonical form already (`core/sanitizer.py`), so it nearly always is; the library looks at it
six times over all the same. Anything that is not plainly sound goes its way.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart, repair_messages

from pilotfish.core.memo import count_shared


class Repair:
    """Of one conversation. What was found sound is not looked at again when it is the beginning of another one."""

    def __init__(self) -> None:
        self._sound: list[ModelMessage] = []

    def __call__(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """What `repair_messages` makes of a conversation; the very list when it is sound."""
        known = count_shared(self._sound, messages)
        if not _is_sound(messages, known):
            return repair_messages(messages)
        self._sound[known:] = messages[known:]
        return messages


def _is_sound(messages: Sequence[ModelMessage], known: int) -> bool:
    """Whether requests and answers alternate, and each request begins with the results of the calls before it, when
    that is so of the first `known`."""
    open_calls = _calls_of(messages[known - 1]) if known else []
    for index in range(known, len(messages)):
        message = messages[index]
        if isinstance(message, ModelResponse) is not bool(index % 2):
            return False
        if isinstance(message, ModelResponse):
            open_calls = _calls_of(message)
            continue
        for place, part in enumerate(message.parts):
            if part.part_kind == "retry-prompt":
                return False
            if isinstance(part, ToolReturnPart) and (
                place >= len(open_calls) or open_calls[place] != part.tool_call_id
            ):
                return False
        answered = message.parts[: len(open_calls)]
        if len(answered) < len(open_calls) or not all(isinstance(part, ToolReturnPart) for part in answered):
            return False
        open_calls = []
    return not open_calls


def _calls_of(message: ModelMessage) -> list[str]:
    if not isinstance(message, ModelResponse):
        return []
    return [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
