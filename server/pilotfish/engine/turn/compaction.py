"""Decides when a conversation needs a summary and which messages the summary replaces (`subagents.summarise`).

The ledger keeps every message; only the messages that are sent change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pilotfish.conversation.messages import CanonicalMessage
from pilotfish.conversation.records import CompactionRecord, MessageRecord, Record, UsageRecord

FULL = 0.85  # of the context window; above it, the next turn starts with a summary
KEEP_MESSAGES = 6  # the newest messages are not summarised
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class _Message:
    message_id: str
    can_begin: bool
    """written by the user, so the history may begin here"""


class ContextFill(NamedTuple):
    """How many tokens of the model's context window are used, and its size where that is known."""

    used: int = 0
    window: int | None = None


class Fill:
    """Tracks, from the records of a conversation, how full its context is and where it can be cut."""

    def __init__(self) -> None:
        self.context = ContextFill()
        """after the last response"""
        self._messages: list[_Message] = []
        self._last: UsageRecord | None = None
        """usage after the last response; None after a summary"""

    def note(self, record: Record) -> None:
        match record:
            case MessageRecord():
                self._messages.append(_Message(record.message_id, _is_user_prompt(record)))
            case UsageRecord(origin="turn"):
                self._last = record
                self.context = ContextFill(record.context_used, record.context_window)
            case CompactionRecord(keep_from=keep_from):
                at = [message.message_id for message in self._messages].index(keep_from)
                self._messages = self._messages[at:]
                self._last = None
            case _:
                pass

    def nearly_full(self, window: int | None) -> bool:
        """Whether the context is over FULL of `window`, or of the window that the provider reported."""
        last = self._last
        window = last and (window or last.context_window)
        return last is not None and bool(window) and last.context_used > FULL * window

    def keep_from(self) -> str | None:
        """The id of the first message to keep. None if there is nothing to summarise."""
        cut = split([message.can_begin for message in self._messages])
        return self._messages[cut].message_id if cut else None


def _is_user_prompt(record: MessageRecord) -> bool:
    return record.role == "user" and not any(
        part.get("part_kind") in ("tool-return", "retry-prompt", "retry-feedback")
        for part in record.message.get("parts", ())
    )


def split(can_begin: Sequence[bool]) -> int:
    """The index of the first message to keep: a user prompt, if possible KEEP_MESSAGES from the end. 0 if none fits."""
    places = [index for index, fits in enumerate(can_begin) if fits and index > 0]
    early = [index for index in places if index <= len(can_begin) - KEEP_MESSAGES]
    return early[-1] if early else (places[0] if places else 0)


def tokens(messages: Sequence[CanonicalMessage]) -> int:
    """A rough estimate, to report how much a summary saved."""
    return sum(len(readable(message)) for message in messages) // CHARS_PER_TOKEN


def readable(message: CanonicalMessage) -> str:
    """A message as plain text, for the summary."""
    lines = [f"{'Agent' if message.is_response else 'User'}: {message.get_text_content()}"]
    lines += [f"[call {call.tool_name} {dict(call.args)}]" for call in message.calls]
    lines += [f"[result of {part.tool_name}] {part.text[:2000]}" for part in message.returns]
    return "\n".join(lines)
