"""A conversation as the library would repair it before it is sent, at one look when it is sound.

Ours is repaired in its canonical form already (`core/sanitizer.py`), so it nearly always is; the library looks at it
six times over all the same. Anything that is not plainly sound goes its way.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart, repair_messages


def repaired(messages: list[ModelMessage]) -> list[ModelMessage]:
    """What `repair_messages` makes of a conversation; the very list when it is sound."""
    return messages if _is_sound(messages) else repair_messages(messages)


def _is_sound(messages: Sequence[ModelMessage]) -> bool:
    """Whether requests and answers alternate, and each request begins with the results of the calls before it."""
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ModelResponse) is not bool(index % 2):
            return False
        if isinstance(message, ModelResponse):
            open_calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
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
