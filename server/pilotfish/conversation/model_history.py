"""Builds the history that is sent to a model from the records of the ledger.

`conversation/transcript.py` builds what the user sees from the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilotfish.conversation.history.sanitizer import NEVER_STARTED, STARTED, Closing, repair
from pilotfish.conversation.items import Item
from pilotfish.conversation.messages import CallStatus, CanonicalMessage, CanonicalToolCall, MessageRole, OtherPart
from pilotfish.conversation.provenance import fenced
from pilotfish.conversation.records import CompactionRecord, MessageRecord, Record, ToolCallRecord, message_of
from pilotfish.conversation.transcript import transcript

__all__ = ["NEVER_STARTED", "STARTED", "Item", "closing_of", "get_messages_for_llm", "transcript"]


def get_messages_for_llm(records: Iterable[Record]) -> tuple[CanonicalMessage, ...]:
    """Return the history for the model: sound, compacted, and with a return for every call.

    Trimming is a separate step (`conversation/history/trim.py`), because it depends on settings.
    """
    messages: list[tuple[str, CanonicalMessage]] = []
    closings: dict[str, Closing] = {}
    compaction: tuple[int, CompactionRecord] | None = None
    for record in records:
        match record:
            case MessageRecord(shown_only=False):
                messages.append((record.message_id, message_of(record)))
            case ToolCallRecord():
                closings[record.call.id] = closing_of(record.call, record.turn_id)
            case CompactionRecord():
                compaction = (len(messages), record)
            case _:
                pass
    kept = [message for _, message in messages]
    if compaction is not None:
        kept = _compacted(messages, *compaction)
    return repair(kept, closings)


def closing_of(call: CanonicalToolCall, turn_id: str) -> Closing:
    """Return how to close a call whose return was never written: with its result, if that is known."""
    text = call.result.text if call.result is not None else None
    if text is not None and call.source is not None:
        text = fenced(text, call.source, turn_id)
    match call.status:
        case CallStatus.COMPLETED:
            return Closing(text or "", "success")
        case CallStatus.FAILED:
            return Closing(text or call.error or "[failed]", "failed")
        case CallStatus.DENIED:
            feedback = call.approval.feedback if call.approval is not None else None
            return Closing(f"[denied] {feedback}" if feedback else f"[{call.error or 'denied'}]", "denied")
        case CallStatus.CANCELLED:
            reason = f"[{call.error or 'aborted by user'}]"
            return Closing(f"{text}\n{reason}" if text else reason, "interrupted")
        case CallStatus.IN_PROGRESS:
            return Closing(f"[{STARTED}]", "interrupted")
        case CallStatus.PENDING | CallStatus.AWAITING_APPROVAL:
            return Closing(f"[{NEVER_STARTED}]", "interrupted")


def _compacted(
    messages: Sequence[tuple[str, CanonicalMessage]], position: int, record: CompactionRecord
) -> list[CanonicalMessage]:
    """Replace the messages before `keep_from` with the summary, or those before the record if that id is unknown."""
    first = next((index for index, (message_id, _) in enumerate(messages) if message_id == record.keep_from), position)
    summary = CanonicalMessage(MessageRole.USER, (OtherPart("compaction", {"content": record.summary}),))
    kept = [message for _, message in messages[first:]]
    count = max(0, position - first)
    return [summary, *map(_without_usage, kept[:count]), *kept[count:]]


def _without_usage(message: CanonicalMessage) -> CanonicalMessage:
    """Drop the provider's count, which includes the messages that the summary replaces."""
    if "usage" not in message.extra:
        return message
    return replace(message, extra={name: value for name, value in message.extra.items() if name != "usage"})
