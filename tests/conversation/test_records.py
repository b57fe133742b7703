"""Records are distinguished by their type and survive JSON without loss."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.history import broken_histories, parse
from tests.support.tries import tries

from pilotfish.conversation.messages import (
    CallApproval,
    CallResult,
    CallStatus,
    CanonicalToolCall,
    Category,
    Location,
    message_from_json,
    message_to_json,
)
from pilotfish.conversation.provenance import Source
from pilotfish.conversation.records import (
    SILENT_TYPES,
    ApprovalRecord,
    Attachment,
    ChunkRecord,
    ClaimRecord,
    CompactionRecord,
    Failure,
    FileChangeRecord,
    KilledProcess,
    MessageRecord,
    NoticeRecord,
    OutsideAttachment,
    PlanEntry,
    PlanRecord,
    Receipt,
    Record,
    ReviewRecord,
    SessionRecord,
    StateRecord,
    SteerRecord,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    UndoRecord,
    Usage,
    UsageRecord,
    record_from_json,
    record_to_json,
)

CALL = CanonicalToolCall(
    id="c1",
    name="bash",
    args={"command": "ls", "none": None, "deep": [{"é": 1.5}]},
    status=CallStatus.COMPLETED,
    title="ls",
    category=Category.EXECUTE,
    locations=(Location(uri="file:///a", range=(1, 2, 3, 4)), Location(uri="file:///b")),
    result=CallResult(text="a\nb", truncated=True, bytes=9, blob="hash"),
    diff="--- a",
    error="none",
    started_at=12.5,
    duration_ms=3,
    approval=CallApproval(
        decision="allow",
        by="user",
        reason="asked",
        approval_id="p1",
        option_id="allow_once",
        rule="r",
        digest="d",
        feedback="f",
        amended=True,
    ),
    raw_args="{",
    recovered=True,
)
USAGE = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, requests=4, tool_calls=5, cost=0.25)
NOTES = OutsideAttachment(source=Source(kind="mcp", name="tiny/notes", outside=True), text="milk")

RECORDS: list[Any] = [
    TurnStartRecord(
        turn_id="t",
        prompt=({"type": "text", "text": "hi"}, {"type": "image", "data": "x"}),
        timestamp=1.5,
        prompt_id="p",
        outside=(NOTES,),
        background=True,
    ),
    SteerRecord(
        turn_id="t",
        prompt=({"type": "text", "text": "and"},),
        iteration=2,
        timestamp=1.6,
        prompt_id="s",
        outside=(NOTES,),
    ),
    MessageRecord(
        turn_id="t",
        message_id="m1",
        role="assistant",
        content="hello",
        message=message_to_json(parse("model: hello, call a")[0]),
        timestamp=2.5,
        binary_content=(Attachment(blob="h", mime_type="image/png", name="a.png"),),
        shown_only=True,
    ),
    ToolCallRecord(turn_id="t", call=CALL, timestamp=3.5, message_id="m1"),
    ChunkRecord(turn_id="t", item_id="m1.0", channel="thought", text="hm"),
    StateRecord(turn_id="t", state="tool_execution", iteration=3),
    PlanRecord(turn_id="t", entries=(PlanEntry(content="do", status="completed", priority="high"),), timestamp=4.5),
    FileChangeRecord(
        turn_id="t",
        call_id="c1",
        uri="file:///a",
        change="renamed",
        added=1,
        removed=2,
        via="buffer",
        before="h1",
        after="h2",
        timestamp=5.5,
        old_uri="file:///b",
        background=True,
    ),
    UsageRecord(turn_id="t", usage=USAGE, context_used=10, context_window=100, origin="research"),
    NoticeRecord(
        turn_id="t",
        level="warning",
        message="careful",
        timestamp=6.5,
        remedy="wait",
        retry_after=0.5,
        cause="rate_limit",
    ),
    ClaimRecord(turn_id="t", text="All tests pass.", verdict="supported", timestamp=6.6, evidence="`pytest` succeeded"),
    SessionRecord(turn_id="t", title="a", model="m", mode="ask"),
    CompactionRecord(turn_id="t", before=9, after=1, summary="so far", timestamp=7.5, keep_from="m1"),
    ApprovalRecord(
        turn_id="t",
        call_id="c1",
        tool="bash",
        digest="d",
        decision="deny",
        by="nobody",
        reason="r",
        timestamp=8.5,
        previous="",
        hash="h",
        approval_id="p1",
        option_id="reject",
        rule="x",
        feedback="no",
    ),
    UndoRecord(turn_id="t", direction="redo", uris=("file:///a",), timestamp=9.5),
    ReviewRecord(
        turn_id="t", uri="file:///a", decision="keep", baseline="b", seen="c", timestamp=9.6, old_uri="file:///o"
    ),
    TurnEndRecord(
        turn_id="t",
        stop_reason="failed",
        usage=USAGE,
        timestamp=10.5,
        error=Failure(message="m", remedy="r", retryable=True, kind="network", retry_after=1.5),
        receipt=Receipt(
            turn_id="t",
            took_ms=5,
            cancelled_calls=("c1",),
            killed_processes=(KilledProcess(pid=1, command="sleep"),),
            changed_files=("file:///a",),
        ),
    ),
]


def test_there_is_a_sample_of_every_record_with_every_field_set() -> None:
    assert {type(record) for record in RECORDS} == set(get_args(Record))
    unset = [
        f"{type(record).__name__}.{field.name}"
        for record in RECORDS
        for field in fields(record)
        if field.name != "type" and getattr(record, field.name) == field.default
    ]
    assert unset == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.type)
def test_a_record_is_the_same_after_json(record: Any) -> None:
    read = record_from_json(record_to_json(record))
    assert read == record
    assert type(read) is type(record)
    assert orjson.loads(record_to_json(record))["type"] == record.type


def test_the_type_alone_distinguishes_records() -> None:
    """Two records with the same fields and different types are not equal."""
    notice = orjson.loads(record_to_json(RECORDS[8]))
    with pytest.raises(ValidationError, match="does not match any of the expected tags"):
        record_from_json(orjson.dumps({**notice, "type": "rumour"}))
    with pytest.raises(ValidationError, match="Field required"):
        record_from_json(orjson.dumps({**notice, "type": "undo"}))


def test_only_known_types_are_silent() -> None:
    assert {record.type for record in RECORDS} >= SILENT_TYPES


def test_a_whole_number_beyond_64_bits_is_kept() -> None:
    record = ToolCallRecord(turn_id="t", call=replace(CALL, args={"n": 2**80}), timestamp=1.0)
    assert record_from_json(record_to_json(record)) == record


def test_a_lone_surrogate_loses_a_character_but_not_the_record() -> None:
    record = NoticeRecord(turn_id="t", level="info", message="a\ud800b", timestamp=1.0)
    assert record_from_json(record_to_json(record)) == replace(record, message="a?b")


def test_a_call_record_has_the_documented_fields() -> None:
    record = ToolCallRecord(turn_id="t", call=CALL, timestamp=1.0)
    assert (record.tool_call_id, record.tool_name, record.arguments) == ("c1", "bash", CALL.args)
    assert (record.result, record.success) == ("a\nb", True)
    open_call = ToolCallRecord(turn_id="t", call=replace(CALL, result=None, status=CallStatus.FAILED), timestamp=1.0)
    assert (open_call.result, open_call.success) == (None, False)


def test_usage_adds_up() -> None:
    assert USAGE + Usage(input_tokens=1) == replace(USAGE, input_tokens=2)
    assert Usage() + Usage() == Usage()
    assert (USAGE + USAGE).cost == 0.5


@settings(max_examples=tries(80), deadline=None)
@given(broken_histories, st.text(max_size=20))
def test_messages_inside_records_survive(history: tuple[Any, ...], content: str) -> None:
    for index, message in enumerate(history):
        record = MessageRecord(
            turn_id="t",
            message_id=f"m{index}",
            role=message.role.value,
            content=content.encode("utf-8", "replace").decode(),
            message=message_to_json(message),
            timestamp=0.5,
        )
        read = record_from_json(record_to_json(record))
        assert isinstance(read, MessageRecord)
        assert message_from_json(read.message) == message
        assert read == record
