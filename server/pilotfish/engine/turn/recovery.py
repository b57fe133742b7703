"""Closes a turn that a crash or a fork left open. No call runs again, and streamed text is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pilotfish.conversation.messages import (
    FINAL_STATUSES,
    CallStatus,
    CanonicalMessage,
    CanonicalToolCall,
    MessageRole,
    Part,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    message_to_json,
)
from pilotfish.conversation.records import (
    ChunkRecord,
    Failure,
    FileChangeRecord,
    MessageRecord,
    NoticeRecord,
    Record,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    Usage,
    UsageRecord,
)

STARTED = "the server stopped; started, result unknown"
NOT_STARTED = "the server stopped before it ran"
RESTARTED = Failure(
    message="Pilotfish restarted; the last step may be incomplete.",
    remedy="Say “continue” to go on.",
    retryable=True,
    kind="restarted",
)
CLOSED = Failure(
    message="The editor was closed or reloaded; the last step may be incomplete.",
    remedy="Say “continue” to go on.",
    retryable=True,
    kind="closed",
)
NOT_FORKED = "the copy was made before it ended"


def close_open_turn(
    records: Sequence[Record], unrecorded: Sequence[Record], *, now: float, forked: bool = False
) -> list[Record]:
    """The records that end the last turn if it is open, after a crash or a fork. Empty if it has ended."""
    turn_id = _open_turn(records)
    if turn_id is None:
        return []
    own = [record for record in records if record.turn_id == turn_id]
    calls: dict[str, ToolCallRecord] = {record.call.id: record for record in own if isinstance(record, ToolCallRecord)}
    recorded = {record.message_id for record in own if isinstance(record, MessageRecord)}
    closing: list[Record] = [*partial_messages(turn_id, unrecorded, list(calls.values()), recorded, now)]
    closing += [
        replace(record, call=_closed(record.call, forked=forked), timestamp=now)
        for record in calls.values()
        if record.call.status not in FINAL_STATUSES
    ]
    usage = next((record.usage for record in reversed(own) if isinstance(record, UsageRecord)), Usage())
    closing.append(
        TurnEndRecord(
            turn_id=turn_id,
            stop_reason="cancelled" if forked else "failed",
            usage=usage,
            timestamp=now,
            error=None if forked else CLOSED if _was_left_open(own) else RESTARTED,
        )
    )
    return closing


def turn_awaiting_approval(records: Sequence[Record], unrecorded: Sequence[Record]) -> str | None:
    """The id of the interrupted turn if it only waited for an approval, so that it can be resumed. Else None."""
    turn_id = _open_turn(records)
    if turn_id is None or any(isinstance(record, ChunkRecord) and record.channel != "args" for record in unrecorded):
        return None
    messages = [record for record in records if isinstance(record, MessageRecord) and not record.shown_only]
    calls = {record.call.id: record.call for record in records if isinstance(record, ToolCallRecord)}
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or last.turn_id != turn_id:
        return None
    # The call of a subagent cannot be asked about again, because the subagent is gone.
    open_calls = [call for call in calls.values() if call.parent_id is None]
    waiting = [call for call in open_calls if call.status is CallStatus.AWAITING_APPROVAL]
    return turn_id if waiting else None


def _was_left_open(records: Sequence[Record]) -> bool:
    """Whether the turn was left to the next process on purpose, and not resumed since."""
    last = next((record for record in reversed(records) if not isinstance(record, FileChangeRecord)), None)
    return isinstance(last, NoticeRecord) and last.cause == "closed"


def _open_turn(records: Sequence[Record]) -> str | None:
    for record in reversed(records):
        if isinstance(record, TurnEndRecord):
            return None
        if isinstance(record, TurnStartRecord):
            return record.turn_id
    return None


def _closed(call: CanonicalToolCall, *, forked: bool) -> CanonicalToolCall:
    error = STARTED if call.status is CallStatus.IN_PROGRESS else NOT_STARTED
    error = NOT_FORKED if forked else error
    return replace(call, status=CallStatus.CANCELLED, error=error)


def partial_messages(
    turn_id: str,
    unrecorded: Sequence[Record],
    calls: Sequence[ToolCallRecord],
    recorded: Collection[str],
    now: float,
) -> list[MessageRecord]:
    """Build messages from the chunks of responses that were not recorded, with their parts in order."""
    chunks_by_message: dict[str, dict[int, list[ChunkRecord]]] = {}
    for record in unrecorded:
        if isinstance(record, ChunkRecord) and record.channel in ("message", "thought"):
            message_id, _, index = record.item_id.rpartition(".")
            if message_id not in recorded and index.isdecimal():
                chunks_by_message.setdefault(message_id, {}).setdefault(int(index), []).append(record)
    messages: list[MessageRecord] = []
    for message_id, chunks_by_index in chunks_by_message.items():
        parts = {index: _text_part(chunks) for index, chunks in chunks_by_index.items()}
        made = iter([record.call for record in calls if record.message_id == message_id])
        ordered = [parts.get(index) or _call_part(next(made, None)) for index in range(max(parts) + 1)]
        ordered += [_call_part(call) for call in made]
        message = CanonicalMessage(
            MessageRole.ASSISTANT, tuple(part for part in ordered if part is not None), {"state": "interrupted"}
        )
        messages.append(
            MessageRecord(
                turn_id=turn_id,
                message_id=message_id,
                role="assistant",
                content=message.get_text_content(),
                message=message_to_json(message),
                timestamp=now,
            )
        )
    return messages


def _text_part(chunks: Sequence[ChunkRecord]) -> Part:
    kind = TextPart if chunks[0].channel == "message" else ThoughtPart
    return kind("".join(chunk.text for chunk in chunks))


def _call_part(call: CanonicalToolCall | None) -> Part | None:
    return None if call is None else ToolCallPart(call.name, call.args, call.id)
