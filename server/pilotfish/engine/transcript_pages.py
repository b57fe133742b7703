"""Reads a transcript page by page, and finds the record of an item.

Hides: that items are folded from records, and that the records of an item are not adjacent. Promises: the joined pages
are the whole transcript, in order, each item once.
"""

from __future__ import annotations

import asyncio

from pilotfish.conversation.model_history import Item, transcript
from pilotfish.conversation.records import SteerRecord, TurnEndRecord, TurnStartRecord
from pilotfish.errors import UnknownCall
from pilotfish.store.ledger import Ledger

LONG = 2000  # from this many records on, fold in a thread to keep the event loop free

Items = tuple[Item, ...]


async def newest(ledger: Ledger, session_id: str, limit: int, running: str | None) -> tuple[Items, bool]:
    """The last items, and whether there are more."""
    size = 4 * limit
    while True:
        items, has_more = await _upto(ledger, session_id, None, size, running)
        if len(items) >= limit or not has_more:
            return items[-limit:], has_more or len(items) > limit
        size *= 4


async def older(ledger: Ledger, session_id: str, before: str, limit: int, running: str | None) -> tuple[Items, bool]:
    """The last items before the item `before`, and whether there are more. Reads only its turn and the turns that fill
    the page."""
    end = await _after(ledger, session_id, before)
    size = 4 * limit
    while True:
        items, has_more = await _upto(ledger, session_id, end, size, running)
        place = next((at for at, item in enumerate(items) if item.id == before), None)
        if place is not None and (place >= limit or not has_more):
            return items[max(0, place - limit) : place], has_more or place > limit
        if not has_more and end is None:
            raise UnknownCall(f"No item has the id {before!r}.")
        if not has_more:
            end = None  # the record that names the item is not at its place
        size *= 4


async def _upto(ledger: Ledger, session_id: str, end: int | None, size: int, running: str | None) -> tuple[Items, bool]:
    """The items of the last `size` records before the record `end`, and whether there are more. The items
    begin with the start of a turn: the place of an item is that of its first record, so a partial turn would have
    another order than the whole turn."""
    page = await ledger.page(session_id, end, size)
    whole = 0
    if page.has_more:
        starts = (at for at, entry in enumerate(page.entries) if isinstance(entry.record, TurnStartRecord))
        whole = next(starts, len(page.entries))
    entries = page.entries[whole:]
    if end is not None:
        entries = (*entries, *await ledger.read(lambda tables: tables.undone_since(session_id, end)))
    items = (
        transcript(entries, running=running)
        if len(entries) < LONG
        else await asyncio.to_thread(transcript, entries, running=running)
    )
    return items, page.has_more


async def _after(ledger: Ledger, session_id: str, item_id: str) -> int | None:
    """The number of a record that is after all records of an item. None for the end of the ledger."""
    stem, _, tail = item_id.rpartition(".")
    if stem in ("file", "notice", "compaction", "steer") and tail.isdecimal():
        return await ledger.read(lambda tables: tables.next_turn(session_id, int(tail)))
    return await ledger.read(lambda tables: tables.turn_after(session_id, (item_id, stem) if stem else (item_id,)))


async def end_of(ledger: Ledger, session_id: str, item_id: str) -> int:
    """The number of the last record of an item, or of the end of its turn if nothing else follows the item."""
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
            place += 1  # the message of the steer
        elif entry.n > place:
            if isinstance(entry.record, TurnEndRecord):
                return entry.n
            if transcript([entry]) or isinstance(entry.record, TurnStartRecord):
                break
    return place
