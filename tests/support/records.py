"""Records for tests, made from the history notation."""

from __future__ import annotations

from typing import Any

from tests.support.history import parse

from pilotfish.conversation.messages import CallStatus, CanonicalMessage, CanonicalToolCall, message_to_json
from pilotfish.conversation.records import (
    CompactionRecord,
    MessageRecord,
    Record,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    Usage,
)


def said(notation: str, *, turn: str = "t1", first: int = 1) -> list[Record]:
    """Return a message record for each message, with the ids `m1`, `m2`, …"""
    return [spoken(message, f"m{number}", turn) for number, message in enumerate(parse(notation), first)]


def spoken(message: CanonicalMessage, message_id: str, turn: str = "t1", content: str | None = None) -> MessageRecord:
    return MessageRecord(
        turn_id=turn,
        message_id=message_id,
        role="assistant" if message.is_response else "user",
        content=message.get_text_content() if content is None else content,
        message=message_to_json(message),
        timestamp=1.0,
    )


def call(call_id: str, status: CallStatus, turn: str = "t1", **fields: Any) -> ToolCallRecord:
    return ToolCallRecord(
        turn_id=turn,
        call=CanonicalToolCall(id=call_id, name="tool", args={"of": call_id}, status=status, **fields),
        timestamp=1.0,
    )


def start(turn: str = "t1", text: str = "hi") -> TurnStartRecord:
    return TurnStartRecord(turn_id=turn, prompt=({"type": "text", "text": text},), timestamp=1.0)


def end(turn: str = "t1") -> TurnEndRecord:
    return TurnEndRecord(turn_id=turn, stop_reason="end_turn", usage=Usage(), timestamp=2.0)


def compaction(keep_from: str, summary: str = "so far") -> CompactionRecord:
    return CompactionRecord(turn_id="t1", before=9, after=1, summary=summary, timestamp=1.0, keep_from=keep_from)
