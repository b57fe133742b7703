"""Turns what another process has stored into the updates that it has sent.

The chunks of an item are deleted when the item is stored whole, so who reads later finds gaps in the numbers. Each gap
is filled with as many chunks or states as are missing: first the rest of the texts, then repetitions of the state. The
numbers have no gap, and the chunks of an item, joined, are the item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pilotfish.conversation.messages import TextPart, ThoughtPart
from pilotfish.conversation.records import (
    SILENT_TYPES,
    ChunkRecord,
    Entry,
    MessageRecord,
    Record,
    StateRecord,
    TurnEndRecord,
    TurnStartRecord,
    message_of,
)


class CatchUp:
    """How much of the running turn a client was shown, as of one record."""

    def __init__(self, unfinished: Sequence[Record] = ()) -> None:
        self._shown: dict[str, int] = {}
        """item → how many characters of it the client has, while its message is not stored"""
        self._state = StateRecord(turn_id="", state="assistant", iteration=1)
        for record in unfinished:
            self._note(record)

    def fill(self, n: int, seq: int, stored: Sequence[Entry]) -> list[Entry]:
        """What was sent after record `n` and update `seq`: the stored entries, with what is missing between them."""
        filled: list[Entry] = []
        free: list[int] = []
        """places in `filled` for the texts of the next message"""
        for entry in stored:
            self._begin(entry.record)
            for missing in range(n + 1, entry.n):
                seq += 1
                free.append(len(filled))
                filled.append(Entry(missing, seq, self._state))
            n = entry.n
            seq += entry.record.type not in SILENT_TYPES
            if isinstance(entry.record, MessageRecord):
                for place, chunk in zip(free, self._rest(entry.record), strict=False):
                    filled[place] = replace(filled[place], record=chunk)
                free.clear()
            self._note(entry.record)
            filled.append(entry)
        return filled

    def _begin(self, record: Record) -> None:
        if record.turn_id and record.turn_id != self._state.turn_id:
            self._state = StateRecord(turn_id=record.turn_id, state="assistant", iteration=1)

    def _rest(self, message: MessageRecord) -> Iterator[ChunkRecord]:
        """What the client does not have of a message."""
        if message.role != "assistant":
            return
        for index, part in enumerate(message_of(message).parts):
            if isinstance(part, TextPart | ThoughtPart):
                item_id = f"{message.message_id}.{index}"
                text = part.content[self._shown.get(item_id, 0) :]
                channel = "thought" if isinstance(part, ThoughtPart) else "message"
                if text:
                    yield ChunkRecord(turn_id=message.turn_id, item_id=item_id, channel=channel, text=text)

    def _note(self, record: Record) -> None:
        match record:
            case ChunkRecord(channel="message" | "thought"):
                self._shown[record.item_id] = self._shown.get(record.item_id, 0) + len(record.text)
            case StateRecord():
                self._state = record
            case MessageRecord():
                for item_id in [item for item in self._shown if item.startswith(f"{record.message_id}.")]:
                    del self._shown[item_id]
            case TurnStartRecord() | TurnEndRecord():
                self._shown.clear()
            case _:
                pass
