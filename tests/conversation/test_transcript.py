"""The items of a transcript are built from records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.history import parse
from tests.support.records import call, compaction, end, said, spoken, start

from pilotfish.conversation.items import (
    CallItem,
    ClaimItem,
    CompactionItem,
    FileChangeItem,
    Item,
    MessageItem,
    NoticeItem,
    PlanItem,
    PromptItem,
    ThoughtItem,
    TurnEndItem,
)
from pilotfish.conversation.messages import (
    CallResult,
    CallStatus,
    CanonicalMessage,
    UserPromptPart,
)
from pilotfish.conversation.model_history import NEVER_STARTED, STARTED, transcript
from pilotfish.conversation.records import (
    ApprovalRecord,
    ChunkRecord,
    ClaimRecord,
    Entry,
    FileChangeRecord,
    NoticeRecord,
    PlanEntry,
    PlanRecord,
    Record,
    SessionRecord,
    StateRecord,
    UndoRecord,
    Usage,
    UsageRecord,
)

S = CallStatus


def test_the_items_of_a_turn_are_in_order() -> None:
    records: list[Record] = [
        start(),
        *said("user: hi"),
        StateRecord(turn_id="t1", state="assistant", iteration=1),
        ChunkRecord(turn_id="t1", item_id="m2.0", channel="thought", text="hm"),
        ChunkRecord(turn_id="t1", item_id="m2.1", channel="message", text="on "),
        ChunkRecord(turn_id="t1", item_id="m2.1", channel="message", text="it"),
        call("a", S.PENDING),
        ChunkRecord(turn_id="t1", item_id="a", channel="args", text="{}"),
        *said("model: thought hm, on it, call a", first=2),
        PlanRecord(turn_id="t1", entries=(PlanEntry(content="x"),), timestamp=1.0),
        call("a", S.IN_PROGRESS),
        ChunkRecord(turn_id="t1", item_id="a", channel="progress", text="…"),
        FileChangeRecord(
            turn_id="t1",
            call_id="a",
            uri="file:///f",
            change="edited",
            added=1,
            removed=2,
            via="disk",
            before="x",
            after="y",
            timestamp=1.0,
        ),
        call("a", S.COMPLETED, result=CallResult(text="ok")),
        *said("user: return a", first=3),
        PlanRecord(turn_id="t1", entries=(PlanEntry(content="x", status="completed"),), timestamp=1.0),
        NoticeRecord(turn_id="t1", level="info", message="note", timestamp=1.0),
        compaction("m1"),
        ClaimRecord(turn_id="t1", text="All tests pass.", verdict="unsupported", timestamp=1.0, evidence="none ran"),
        UsageRecord(turn_id="t1", usage=Usage(), context_used=1),
        SessionRecord(turn_id="t1", title="a", model="m", mode="ask"),
        *said("model: done", first=4),
        end(),
        UndoRecord(turn_id="t1", direction="undo", uris=("file:///f",), timestamp=3.0),
    ]
    assert [without_numbers(item) for item in transcript(records)] == [
        PromptItem(id="t1.prompt", turn_id="t1", prompt=({"type": "text", "text": "hi"},), timestamp=1.0),
        ThoughtItem(id="m2.0", turn_id="t1", text="hm"),
        MessageItem(id="m2.1", turn_id="t1", text="on it"),
        CallItem(id="a", turn_id="t1", call=call("a", S.COMPLETED, result=CallResult(text="ok")).call),
        PlanItem(id="t1.plan", turn_id="t1", entries=(PlanEntry(content="x", status="completed"),)),
        FileChangeItem(
            id="file.13",
            turn_id="t1",
            uri="file:///f",
            change="edited",
            added=1,
            removed=2,
            via="disk",
            call_id="a",
        ),
        NoticeItem(id="notice.17", turn_id="t1", level="info", message="note"),
        CompactionItem(id="compaction.18", turn_id="t1", before=9, after=1, summary="so far"),
        ClaimItem(id="claim.19", turn_id="t1", text="All tests pass.", verdict="unsupported", evidence="none ran"),
        MessageItem(id="m4.0", turn_id="t1", text="done"),
        TurnEndItem(id="t1.end", turn_id="t1", stop_reason="end_turn", usage=Usage(), undone=True, timestamp=2.0),
    ]


def test_a_redo_reverts_the_undo() -> None:
    undo = UndoRecord(turn_id="t1", direction="undo", uris=(), timestamp=3.0)
    (item,) = transcript([end(), undo, replace(undo, direction="redo")])
    assert isinstance(item, TurnEndItem)
    assert not item.undone


def test_the_text_before_a_call_is_placed_before_it_if_its_record_comes_later() -> None:
    """The ledger drops chunks once the message is stored, and the call is registered while the message is streamed."""
    records = [
        start(),
        call("a", S.PENDING),
        call("b", S.PENDING),
        *said("model: first, call a, then, call b", first=2),
    ]
    assert [item.id for item in transcript(records, running="t1")] == ["t1.prompt", "m2.0", "a", "m2.2", "b"]


def test_chunks_joined_are_the_item_until_its_message_is_stored_and_after() -> None:
    """Law 4."""
    chunks: list[Record] = [
        ChunkRecord(turn_id="t1", item_id="m1.0", channel="message", text=text) for text in ("he", "ll", "o ", "you")
    ]
    assert (
        texts(transcript(chunks)) == texts(transcript([*chunks, *said("model: hello you")])) == [("m1.0", "hello you")]
    )
    assert texts(transcript(said("model: hello you"))) == [("m1.0", "hello you")]


def test_steering_prompts_are_separate_items() -> None:
    records = [start(), *said("user: hi / model: call a / user: return a, wait a moment")]
    prompts = [item for item in transcript(records, running="t1") if isinstance(item, PromptItem)]
    assert [(item.id, item.prompt[0]["text"]) for item in prompts] == [("t1.prompt", "hi"), ("m3.1", "wait a moment")]


def test_the_items_of_an_imported_history_come_from_its_messages() -> None:
    items = transcript(said("user: hi / model: call a, call b, call c / user: return a, denied b / model: done"))
    assert [(item.kind, item.id) for item in items] == [
        ("prompt", "m1.0"),
        ("tool_call", "a"),
        ("tool_call", "b"),
        ("tool_call", "c"),
        ("message", "m4.0"),
    ]
    calls = [item.call for item in items if isinstance(item, CallItem)]
    assert [(call.status, call.error, call.result) for call in calls] == [
        (S.COMPLETED, None, CallResult(text="result of a", bytes=11)),
        (S.DENIED, "result of b", None),
        (S.CANCELLED, NEVER_STARTED, None),
    ]


@pytest.mark.parametrize(("status", "reason"), [(S.IN_PROGRESS, STARTED), (S.PENDING, NEVER_STARTED)])
def test_an_open_call_of_an_ended_turn_is_shown_as_cancelled(status: CallStatus, reason: str) -> None:
    """Law 3, on load after a crash."""
    (item,) = transcript([call("a", status)])
    assert isinstance(item, CallItem)
    assert (item.call.status, item.call.error) == (S.CANCELLED, reason)
    (running,) = transcript([call("a", status)], running="t1")
    assert isinstance(running, CallItem)
    assert running.call.status is status


def test_items_have_the_numbers_of_the_last_record_and_update() -> None:
    entries = [
        Entry(7, 5, start()),
        Entry(8, None, said("user: hi")[0]),
        Entry(9, 6, call("a", S.PENDING)),
        Entry(10, None, spoken(parse("model: so, call a")[0], "m2")),
        Entry(11, 7, call("a", S.IN_PROGRESS)),
        Entry(12, 8, NoticeRecord(turn_id="t1", level="info", message="note", timestamp=1.0)),
    ]
    assert [(item.id, item.n, item.seq) for item in transcript(entries, running="t1")] == [
        ("t1.prompt", 7, 5),
        ("m2.0", 10, 0),
        ("a", 11, 7),
        ("notice.12", 12, 8),
    ]


def test_pages_give_the_same_items_as_the_complete_transcript() -> None:
    records: list[Record] = []
    for turn in ("t1", "t2", "t3"):
        number = len(records)
        records += [
            start(turn),
            *said("user: hi", turn=turn, first=number),
            NoticeRecord(turn_id=turn, level="info", message="note", timestamp=1.0),
            *said("model: hello", turn=turn, first=number + 1),
            end(turn),
        ]
    entries = [Entry(n, n, record) for n, record in enumerate(records, 1)]
    whole = [(item.id, item.n) for item in transcript(entries)]
    for cut in range(1, len(entries)):
        pages = [*transcript(entries[:cut]), *transcript(entries[cut:])]
        assert [(item.id, item.n) for item in pages] == whole


def test_a_page_that_begins_with_a_steering_prompt_shows_it() -> None:
    entries = [Entry(7, None, said("user: return a, wait a moment", first=3)[0])]
    assert [item.id for item in transcript(entries)] == ["m3.1"]


def test_approvals_are_not_items() -> None:
    record = ApprovalRecord(
        turn_id="t",
        call_id="c",
        tool="bash",
        digest="d",
        decision="allow",
        by="user",
        reason="r",
        timestamp=1.0,
        previous="",
        hash="h",
    )
    assert transcript([record]) == ()


def test_the_text_of_a_prompt_with_an_image_comes_from_its_record() -> None:
    part = UserPromptPart(("look", {"kind": "binary", "data": "AAAA", "media_type": "image/png"}))
    record = spoken(CanonicalMessage(parse("user: x")[0].role, (part,)), "m1", content="look at this")
    (item,) = transcript([record])
    assert isinstance(item, PromptItem)
    assert item.prompt == ({"type": "text", "text": "look at this"},)


def without_numbers(item: Item) -> Item:
    return replace(item, n=0, seq=0)


def texts(items: tuple[Item, ...]) -> list[tuple[str, str]]:
    return [(item.id, item.text) for item in items if isinstance(item, MessageItem | ThoughtItem)]
