"""How full a conversation is, and where it may be cut when its older part is summarised (`subagents.summarise`).

The ledger loses nothing; only what is sent changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pilotfish.conversation.messages import CanonicalMessage
from pilotfish.conversation.records import CompactionRecord, MessageRecord, Record, UsageRecord

FULL = 0.85  # of the context window: above it the next prompt begins with a summary
KEEP_MESSAGES = 6  # the newest messages stay as they are
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class _Spoken:
    message_id: str
    can_begin: bool
    """the user's own words: history may begin here"""


class ContextFill(NamedTuple):
    """How many tokens of the model's context window are used, and its size where that is known."""

    used: int = 0
    window: int | None = None


class Fill:
    """How full a conversation is, and where it may be cut: kept along with its records."""

    def __init__(self) -> None:
        self.context = ContextFill()
        """after the last answer"""
        self._spoken: list[_Spoken] = []
        self._last: UsageRecord | None = None
        """how full the context was after the last answer"""

    def note(self, record: Record) -> None:
        match record:
            case MessageRecord():
                self._spoken.append(_Spoken(record.message_id, _own_words(record)))
            case UsageRecord(origin="turn"):
                self._last = record
                self.context = ContextFill(record.context_used, record.context_window)
            case CompactionRecord(keep_from=keep_from):
                at = [spoken.message_id for spoken in self._spoken].index(keep_from)
                self._spoken = self._spoken[at:]
                self._last = None
            case _:
                pass

    def nearly_full(self, window: int | None) -> bool:
        """Whether little is left of the context window: of this size, or of the one the provider said."""
        last = self._last
        window = last and (window or last.context_window)
        return last is not None and bool(window) and last.context_used > FULL * window

    def keep_from(self) -> str | None:
        """The message that the kept tail begins with. None: there is nothing to summarise before any."""
        cut = split([spoken.can_begin for spoken in self._spoken])
        return self._spoken[cut].message_id if cut else None


def _own_words(record: MessageRecord) -> bool:
    return record.role == "user" and not any(
        part.get("part_kind") in ("tool-return", "retry-prompt", "retry-feedback")
        for part in record.message.get("parts", ())
    )


def split(can_begin: Sequence[bool]) -> int:
    """Where the kept tail begins: at the user's own words, if possible KEEP_MESSAGES from the end. 0: nowhere."""
    places = [index for index, fits in enumerate(can_begin) if fits and index > 0]
    early = [index for index in places if index <= len(can_begin) - KEEP_MESSAGES]
    return early[-1] if early else (places[0] if places else 0)


def tokens(messages: Sequence[CanonicalMessage]) -> int:
    """A rough count, good enough to say how much was saved."""
    return sum(len(readable(message)) for message in messages) // CHARS_PER_TOKEN


def readable(message: CanonicalMessage) -> str:
    """A message as a reader of the conversation would see it."""
    lines = [f"{'Agent' if message.is_response else 'User'}: {message.get_text_content()}"]
    lines += [f"[call {call.tool_name} {dict(call.args)}]" for call in message.calls]
    lines += [f"[result of {part.tool_name}] {part.text[:2000]}" for part in message.returns]
    return "\n".join(lines)
