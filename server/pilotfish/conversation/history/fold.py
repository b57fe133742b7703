"""Folds rounds of tool calls whose content is no longer sent: one short line for each call.

A round is a response with its calls and the request with their returns. Folding keeps the words of the model and of the
user. The lines go into the request, because a model repeats calls that it finds as text in its own messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    OtherPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

MAX_SUBJECT = 80  # characters of the path, command or query of a call
SUBJECTS = ("path", "command", "pattern", "query", "url", "symbol", "question", "call_id", "id")
"""the arguments that say what a call is about, most telling first"""


def fold(messages: Sequence[CanonicalMessage], folded: AbstractSet[str]) -> list[CanonicalMessage]:
    """Return the history with the rounds folded whose calls are all in `folded`. Other messages stay the same
    objects."""
    sent: list[CanonicalMessage] = []
    calls: dict[str, ToolCallPart] = {}
    lines: list[str] = []
    for message in messages:
        if is_folded(message, folded):
            calls = {call.tool_call_id: call for call in message.calls}
            texts = [part.content for part in message.parts if isinstance(part, TextPart) and part.content.strip()]
            if texts:
                _add_lines(sent, lines)
                sent.append(replace(message, parts=tuple(map(TextPart, texts))))
            continue
        if calls and not message.is_response:
            lines += [_line(calls[part.tool_call_id], part) for part in message.returns if part.tool_call_id in calls]
            rest = tuple(part for part in message.parts if not _returns(part, calls))
            calls = {}
            if rest:
                _add_lines(sent, lines)
                _add_request(sent, replace(message, parts=rest))
            continue
        _add_lines(sent, lines)
        sent.append(message)
    _add_lines(sent, lines)
    return sent


def is_folded(message: CanonicalMessage, folded: AbstractSet[str]) -> bool:
    """Whether every call of this response is in `folded`, and it has no part that must be sent unchanged."""
    return (
        message.is_response
        and any(type(part) is ToolCallPart for part in message.parts)
        and all(
            part.tool_call_id in folded if isinstance(part, ToolCallPart) else not isinstance(part, OtherPart)
            for part in message.parts
        )
    )


def subject(call: ToolCallPart) -> str:
    """What a call is about, in one short line: its path, command or query."""
    value = next((call.args[name] for name in SUBJECTS if isinstance(call.args.get(name), str)), "")
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_SUBJECT else f"{text[: MAX_SUBJECT - 1]}…"


def _returns(part: Part, calls: dict[str, ToolCallPart]) -> bool:
    return isinstance(part, ToolReturnPart) and part.tool_call_id in calls


def _line(call: ToolCallPart, answer: ToolReturnPart) -> str:
    outcome = "" if answer.outcome == "success" else f" ({answer.outcome})"
    return f"[left out: {' '.join((call.tool_name, subject(call))).strip()}{outcome}, call_id {call.tool_call_id}]"


def _add_lines(sent: list[CanonicalMessage], lines: list[str]) -> None:
    """Add the collected lines to the last request, or as a request if the last message is a response."""
    if lines:
        part = UserPromptPart("\n".join(lines))
        _add_request(sent, CanonicalMessage(MessageRole.USER, (part,)))
        lines.clear()


def _add_request(sent: list[CanonicalMessage], request: CanonicalMessage) -> None:
    if sent and not sent[-1].is_response:
        sent[-1] = replace(sent[-1], parts=(*sent[-1].parts, *request.parts))
    else:
        sent.append(request)
