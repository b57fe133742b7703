"""A transcript page by page, and where in the ledger an item stands.

Hides: that items are folded from records, and that an item's records lie apart. Promises: pages joined are the whole
transcript, in order, each item once.
"""

from __future__ import annotations

import asyncio

from pilotfish.core.fold import Item, transcript
from pilotfish.core.records import SteerRecord, TurnEndRecord, TurnStartRecord
from pilotfish.errors import UnknownCall
from pilotfish.store.ledger import Ledger

EVERYTHING = 1 << 40  # more records than any session has

Items = tuple[Item, ...]


async def newest(ledger: Ledger, session_id: str, limit: int, running: str | None) -> tuple[Items, bool]:
    """The last items, and whether there are more. Read from the start of a turn: an item's place is that of its first
    record, so half a turn would show its items in other places than the whole one."""
    size = 4 * limit
    while True:
        page = await ledger.page(session_id, None, size)
        whole = 0
        if page.has_more:
            starts = (at for at, entry in enumerate(page.entries) if isinstance(entry.record, TurnStartRecord))
            whole = next(starts, len(page.entries))
        items = transcript(page.entries[whole:], running=running)
        if len(items) >= limit or not page.has_more:
            return items[-limit:], page.has_more or len(items) > limit
        size *= 4


async def older(ledger: Ledger, session_id: str, before: str, limit: int, running: str | None) -> tuple[Items, bool]:
    """The last items before another one, and whether there are more."""
    page = await ledger.page(session_id, None, EVERYTHING)
    items = await asyncio.to_thread(transcript, page.entries, running=running)
    end = next((at for at, item in enumerate(items) if item.id == before), None)
    if end is None:
        raise UnknownCall(f"No item has the id {before!r}.")
    return items[max(0, end - limit) : end], end > limit


async def end_of(ledger: Ledger, session_id: str, item_id: str) -> int:
    """The record that an item ends with; the end of its turn, when nothing but the end comes after it."""
    entries = await ledger.history(session_id)
    place: int | None = None
    message_id = item_id.rpartition(".")[0]
    for entry in entries:
        record = entry.record
        match record.type:
            case "message" if record.message_id in (item_id, message_id):
                place = entry.n
            case "tool_call" if record.call.id == item_id:
                place = entry.n
            case _:
                pass
    if place is None:
        for entry in entries:
            if any(item.id == item_id for item in transcript([entry])):
                place = entry.n
    if place is None:
        raise UnknownCall(f"No item has the id {item_id!r}.")
    for entry in entries:
        if entry.n == place and isinstance(entry.record, SteerRecord):
            place += 1  # the message that brings the words to the model
        elif entry.n > place:
            if isinstance(entry.record, TurnEndRecord):
                return entry.n
            if transcript([entry]) or isinstance(entry.record, TurnStartRecord):
                break
    return place
