"""Pages of a transcript: joined they are the whole transcript, and a page reads only the records it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.store.makers import TURN, Pen, call, chunk, end, opened, said, session, start

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.model_history import transcript
from pilotfish.conversation.records import Entry, NoticeRecord, Record, SteerRecord, UndoRecord
from pilotfish.engine import transcript_pages
from pilotfish.errors import UnknownCall
from pilotfish.store.ledger import Ledger

TURNS = 60


def turn(number: int) -> list[Record]:
    """A turn with every kind of item whose id names its record, its turn or its message."""
    turn_id = f"t{number}x"
    words: dict[str, Any] = {"turn_id": turn_id, "timestamp": 1.0}
    return [
        start(f"prompt {number}", turn_id=turn_id),
        said(f"prompt {number}", by="user", message_id=f"q{number}", turn_id=turn_id),
        said(f"answer {number}", message_id=f"m{number}", turn_id=turn_id),
        _in(turn_id, call(f"c{number}", CallStatus.IN_PROGRESS)),
        _in(turn_id, call(f"c{number}")),
        SteerRecord(prompt=({"type": "text", "text": "and"},), iteration=1, **words),
        said("and", by="user", message_id=f"s{number}", turn_id=turn_id),
        NoticeRecord(level="info", message="so", **words),
        end(turn_id=turn_id),
    ]


def _in(turn_id: str, record: Any) -> Record:
    return replace(record, turn_id=turn_id)


async def written(ledger: Ledger) -> list[Entry]:
    pen = Pen()
    entries = [entry for number in range(TURNS) for entry in pen(*turn(number))]
    entries += pen(UndoRecord(turn_id="t3x", direction="undo", uris=(), timestamp=2.0))
    entries += pen(start("last"), chunk("half an answer", item_id="mx.0"))
    await ledger.append("s", entries)
    return entries


@pytest.mark.parametrize("limit", [1, 3, 7, 100, 5000])
async def test_the_joined_pages_are_the_whole_transcript(limit: int) -> None:
    async with opened() as (ledger, catalog):
        await catalog.create(session("s"))
        whole = transcript(await written(ledger), running=TURN)
        items, has_more = await transcript_pages.newest(ledger, "s", limit, TURN)
        while has_more:
            before, has_more = await transcript_pages.older(ledger, "s", items[0].id, limit, TURN)
            assert len(before) <= limit
            items = (*before, *items)
        assert items == whole


async def test_the_page_before_an_item_has_the_items_before_it() -> None:
    async with opened() as (ledger, catalog):
        await catalog.create(session("s"))
        whole = transcript(await written(ledger), running=TURN)
        for place in range(0, len(whole), 5):
            found, has_more = await transcript_pages.older(ledger, "s", whole[place].id, 10, TURN)
            assert (found, has_more) == (whole[max(0, place - 10) : place], place > 10)


async def test_a_page_in_the_middle_reads_only_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as (ledger, catalog):
        await catalog.create(session("s"))
        entries = await written(ledger)
        read = 0
        page = Ledger.page

        async def counted(self: Ledger, *args: Any) -> Any:
            nonlocal read
            found = await page(self, *args)
            read += len(found.entries)
            return found

        monkeypatch.setattr(Ledger, "page", counted)
        found, has_more = await transcript_pages.older(ledger, "s", "t30x.prompt", 6, None)
        assert ([item.turn_id for item in found], has_more) == (["t29x"] * 6, True)
        assert read < len(entries) / 10


async def test_an_unknown_item_is_an_error_even_if_a_record_names_it() -> None:
    async with opened() as (ledger, catalog):
        await catalog.create(session("s"))
        await written(ledger)
        for item_id in ("nobody", "prompt 3", "t3x.nothing", "notice.1", "q3.0"):
            with pytest.raises(UnknownCall):
                await transcript_pages.older(ledger, "s", item_id, 5, None)
