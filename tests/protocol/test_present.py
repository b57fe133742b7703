"""Every kind of record and item is converted to its wire type."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from pilotfish.conversation import items, messages, records
from pilotfish.protocol import present, wire

USAGE = records.Usage(
    input_tokens=1, output_tokens=2, cached_tokens=3, requests=4, tool_calls=5, cost=0.5, reasoning_tokens=6
)
CALL = messages.CanonicalToolCall(
    id="c1",
    name="update_file",
    args={"path": "a.py", "nothing": None},
    status=messages.CallStatus.COMPLETED,
    title="Edit a.py",
    category=messages.Category.WRITE,
    locations=(messages.Location(uri="file:///a.py", range=(1, 2, 3, 4)), messages.Location(uri="file:///b.py")),
    result=messages.CallResult(text="done", truncated=True, bytes=9),
    diff="@@",
    started_at=1.5,
    duration_ms=7,
    approval=messages.CallApproval(decision="allow", by="user", reason="you", option_id="allow_once", amended=True),
)
CALL_JSON: dict[str, Any] = {
    "id": "c1",
    "name": "update_file",
    "title": "Edit a.py",
    "category": "write",
    "status": "completed",
    "args": {"path": "a.py", "nothing": None},
    "locations": [
        {"uri": "file:///a.py", "range": {"start": {"line": 1, "character": 2}, "end": {"line": 3, "character": 4}}},
        {"uri": "file:///b.py"},
    ],
    "result": {"text": "done", "truncated": True, "bytes": 9},
    "diff": "@@",
    "startedAt": "1970-01-01T00:00:01.500Z",
    "durationMs": 7,
    "approval": {"decision": "allow", "by": "user", "reason": "you", "optionId": "allow_once", "amended": True},
    "recovered": False,
}
USAGE_JSON = {
    "inputTokens": 1,
    "outputTokens": 2,
    "cachedTokens": 3,
    "requests": 4,
    "toolCalls": 5,
    "cost": 0.5,
    "reasoningTokens": 6,
    "unpricedRequests": 0,
}
FAILURE = records.Failure(message="m", remedy="r", retryable=True, kind="rate_limit", retry_after=2.0)
RECEIPT = records.Receipt(
    turn_id="t",
    took_ms=3,
    cancelled_calls=("c1",),
    killed_processes=(records.KilledProcess(pid=9, command="sleep"),),
    changed_files=("file:///a.py",),
)
END_JSON: dict[str, Any] = {
    "stopReason": "failed",
    "usage": USAGE_JSON,
    "error": {"message": "m", "remedy": "r", "retryable": True, "kind": "rate_limit", "retryAfter": 2.0},
    "receipt": {
        "turnId": "t",
        "tookMs": 3,
        "cancelledCalls": ["c1"],
        "killedProcesses": [{"pid": 9, "command": "sleep"}],
        "changedFiles": ["file:///a.py"],
    },
}
PROMPT = ({"type": "text", "text": "hi"}, {"type": "image", "data": "aa", "mimeType": "image/png"})
SESSION = wire.Session(
    id="s",
    title="",
    workspace_folder=None,
    model="m",
    mode="ask",
    created_at="",
    updated_at="",
    turns=0,
    busy=True,
    usage=wire.Usage(),
)
ENTRY = records.PlanEntry(content="do", status="completed", priority="high")
ENTRY_JSON = {"content": "do", "status": "completed", "priority": "high"}
CHANGE: dict[str, Any] = {"uri": "file:///a.py", "change": "edited", "added": 1, "removed": 2, "via": "buffer"}


def chunk(channel: records.Channel) -> records.ChunkRecord:
    return records.ChunkRecord(turn_id="t", item_id="i", channel=channel, text="x")


UPDATES: list[tuple[records.Record, dict[str, Any] | None]] = [
    (
        records.TurnStartRecord(turn_id="t", prompt=PROMPT, timestamp=1.0, prompt_id="p"),
        {"kind": "turn_started", "promptId": "p", "prompt": list(PROMPT)},
    ),
    (
        records.StateRecord(turn_id="t", state="assistant", iteration=2),
        {"kind": "state", "state": "assistant", "iteration": 2},
    ),
    (
        records.SteerRecord(turn_id="t", prompt=(), iteration=2, timestamp=1.0, prompt_id="s"),
        {"kind": "state", "state": "user_input", "iteration": 2, "promptId": "s", "prompt": []},
    ),
    (chunk("message"), {"kind": "agent_message_chunk", "itemId": "i", "text": "x"}),
    (chunk("thought"), {"kind": "agent_thought_chunk", "itemId": "i", "text": "x"}),
    (chunk("args"), {"kind": "tool_call_args_chunk", "callId": "i", "text": "x"}),
    (chunk("progress"), {"kind": "tool_progress", "callId": "i", "text": "x"}),
    (records.ToolCallRecord(turn_id="t", call=CALL, timestamp=1.0), {"kind": "tool_call", "call": CALL_JSON}),
    (records.PlanRecord(turn_id="t", entries=(ENTRY,), timestamp=1.0), {"kind": "plan", "entries": [ENTRY_JSON]}),
    (
        records.FileChangeRecord(
            turn_id="t", call_id="c1", before="x", after="y", timestamp=1.0, old_uri="o", **CHANGE
        ),
        {"kind": "file_changed", "callId": "c1", "oldUri": "o", **CHANGE},
    ),
    (
        records.ReviewRecord(turn_id="", uri="file:///a", decision="keep", baseline="b", seen="c", timestamp=1.0),
        {"kind": "review_changed", "files": [{"uri": "file:///a", "decision": "keep"}]},
    ),
    (
        records.UsageRecord(turn_id="t", usage=USAGE, context_used=10, context_window=20),
        {"kind": "usage", "usage": USAGE_JSON, "contextUsed": 10, "contextWindow": 20},
    ),
    (
        records.NoticeRecord(
            turn_id="t", level="info", message="m", timestamp=1.0, remedy="r", retry_after=2.5, cause="network"
        ),
        {"kind": "notice", "level": "info", "message": "m", "remedy": "r", "retryAfter": 2.5, "cause": "network"},
    ),
    (
        records.SessionRecord(turn_id="", title="", model="m", mode="ask"),
        {"kind": "session_info", "session": SESSION.model_dump(mode="json", by_alias=True, exclude_none=True)},
    ),
    (
        records.ClaimRecord(turn_id="t", text="x", verdict="unsupported", timestamp=1.0, evidence="e"),
        {"kind": "claim", "text": "x", "verdict": "unsupported", "evidence": "e"},
    ),
    (
        records.CompactionRecord(turn_id="t", before=9, after=3, summary="s", timestamp=1.0, keep_from="m1"),
        {"kind": "compaction", "before": 9, "after": 3, "summary": "s"},
    ),
    (
        records.TurnEndRecord(
            turn_id="t", stop_reason="failed", usage=USAGE, timestamp=1.0, error=FAILURE, receipt=RECEIPT
        ),
        {"kind": "turn_ended", **END_JSON},
    ),
]

ITEMS: list[tuple[items.Item, dict[str, Any]]] = [
    (
        items.PromptItem(id="i", turn_id="t", seq=1, prompt=PROMPT, prompt_id="p", timestamp=0.0),
        {"kind": "prompt", "prompt": list(PROMPT), "promptId": "p", "at": "1970-01-01T00:00:00.000Z"},
    ),
    (items.MessageItem(id="i", turn_id="t", seq=1, text="x"), {"kind": "message", "text": "x"}),
    (items.ThoughtItem(id="i", turn_id="t", seq=1, text="x"), {"kind": "thought", "text": "x"}),
    (items.CallItem(id="i", turn_id="t", seq=1, call=CALL), {"kind": "tool_call", "call": CALL_JSON}),
    (items.PlanItem(id="i", turn_id="t", seq=1, entries=(ENTRY,)), {"kind": "plan", "entries": [ENTRY_JSON]}),
    (
        items.NoticeItem(id="i", turn_id="t", seq=1, level="error", message="m", remedy="r", cause="storage"),
        {"kind": "notice", "level": "error", "message": "m", "remedy": "r", "cause": "storage"},
    ),
    (
        items.ClaimItem(id="i", turn_id="t", seq=1, text="x", verdict="supported", evidence="e"),
        {"kind": "claim", "text": "x", "verdict": "supported", "evidence": "e"},
    ),
    (
        items.CompactionItem(id="i", turn_id="t", seq=1, before=9, after=3, summary="s"),
        {"kind": "compaction", "before": 9, "after": 3, "summary": "s"},
    ),
    (
        items.FileChangeItem(id="i", turn_id="t", seq=1, call_id="c1", old_uri="o", **CHANGE),
        {"kind": "file_change", "callId": "c1", "oldUri": "o", **CHANGE},
    ),
    (
        items.TurnEndItem(
            id="i",
            turn_id="t",
            seq=1,
            stop_reason="failed",
            usage=USAGE,
            error=FAILURE,
            receipt=RECEIPT,
            undone=True,
            timestamp=1.0,
        ),
        {"kind": "turn_end", "undone": True, "at": "1970-01-01T00:00:01.000Z", **END_JSON},
    ),
]


def dump(payload: wire.Wire) -> dict[str, Any]:
    return payload.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_every_record_is_converted_to_its_update():
    for record, expected in UPDATES:
        update = present.update(record, SESSION)
        assert (None if update is None else dump(update)) == expected


def test_every_record_has_an_update_or_no_number():
    converted = {record.type for record, _ in UPDATES}
    every = {cls.__dataclass_fields__["type"].default for cls in get_args(records.Record)}
    assert every - converted == set(records.SILENT_TYPES)


def test_every_item_is_converted():
    for item, expected in ITEMS:
        assert dump(present.item(item)) == {"id": "i", "turnId": "t", "seq": 1, **expected}
    assert {type(item) for item, _ in ITEMS} == set(get_args(items.Item))


def test_a_block_of_an_unknown_shape_becomes_its_text():
    prompt = [{"type": "text", "text": "a"}, {"type": "audio", "text": "b"}, {"type": "resource"}]
    assert [dump(block) for block in present.blocks(prompt)] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "text", "text": ""},
    ]


def test_a_call_without_a_title_has_its_name_as_title():
    bare = dataclasses.replace(CALL, title="")
    assert present.call(bare).title == "update_file"
