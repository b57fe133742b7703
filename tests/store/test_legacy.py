from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.store.makers import opened

from pilotfish.conversation.history.validation import find_faults
from pilotfish.conversation.items import CallItem, MessageItem, PromptItem
from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.model_history import get_messages_for_llm, transcript
from pilotfish.errors import BadRequest

RECORDS: list[dict[str, Any]] = [
    {"type": "message", "role": "system", "content": "You mend nets.", "timestamp": "2026-01-05T10:00:00"},
    {"type": "message", "role": "user", "content": "Mend the net", "timestamp": "2026-01-05T10:00:01"},
    {"type": "message", "role": "assistant", "content": "I look first.", "timestamp": "2026-01-05T10:00:02"},
    {
        "type": "tool_call",
        "tool_call_id": "call_1",
        "tool_name": "grep",
        "arguments": {"pattern": "hole"},
        "result": {"found": 3},
        "success": True,
        "timestamp": "2026-01-05T10:00:03+00:00",
    },
    {
        "type": "tool_call",
        "tool_call_id": "call_1",
        "tool_name": "edit",
        "arguments": '{"path": "net.py"}',
        "result": "no such file",
        "success": False,
        "timestamp": "2026-01-05T10:00:04Z",
    },
    {"type": "tool_call", "tool_name": "read", "arguments": "not json", "result": None, "success": True},
    {"type": "message", "role": "assistant", "content": "Mended.", "timestamp": 1767607206.5},
    {"type": "message", "role": "user", "content": "Thanks", "binary_content": []},
]


def _file(records: list[dict[str, Any]] = RECORDS, **fields: Any) -> str:
    file = {
        "id": "old",
        "title": None,
        "created_at": "2026-01-05T10:00:00",
        "updated_at": "2026-01-05T10:05:00",
        "records": records,
    }
    return json.dumps(file | fields)


async def test_an_older_session_is_imported_completely():
    async with opened() as (ledger, catalog):
        row = await catalog.import_legacy(_file(), "new", workspace="/project", model="demo:fish")
        assert (row.id, row.title, row.workspace, row.model, row.mode) == (
            "new",
            "Mend the net",
            "/project",
            "demo:fish",
            "ask",
        )
        assert (row.created_at, row.updated_at, row.turns) == (1767607200.0, 1767607500.0, 2)
        records = [entry.record for entry in await ledger.history("new")]
        assert [record.type for record in records] == [
            "message",
            *("turn_start", "message", "message", "tool_call", "tool_call", "tool_call", "message", "message"),
            *("turn_end", "turn_start", "message", "turn_end"),
        ]
        texts = [
            item.text if isinstance(item, MessageItem) else item.prompt[0]["text"]
            for item in transcript(records)
            if isinstance(item, MessageItem | PromptItem)
        ]
        assert texts == ["Mend the net", "I look first.", "Mended.", "Thanks"]
        heads = await ledger.heads("new")
        assert (heads.n, heads.seq) == (13, 7)


async def test_calls_keep_their_arguments_and_results_and_get_ids_of_their_own():
    async with opened() as (ledger, catalog):
        await catalog.import_legacy(_file(), "new")
        records = [entry.record for entry in await ledger.history("new")]
        calls = [item.call for item in transcript(records) if isinstance(item, CallItem)]
        summaries = [
            (call.id, call.name, call.args, call.raw_args, call.status, call.result and call.result.text, call.error)
            for call in calls
        ]
        assert summaries == [
            ("call_1", "grep", {"pattern": "hole"}, None, CallStatus.COMPLETED, '{"found":3}', None),
            ("call_1_2", "edit", {"path": "net.py"}, None, CallStatus.FAILED, None, "no such file"),
            ("call_2", "read", {}, "not json", CallStatus.COMPLETED, "", None),
        ]


async def test_an_older_session_can_be_sent_to_a_model():
    async with opened() as (ledger, catalog):
        await catalog.import_legacy(_file(), "new")
        messages = get_messages_for_llm([entry.record for entry in await ledger.history("new")])
        assert find_faults(messages) == ()
        assert "You mend nets." not in str(messages)
        assert "no such file" in str(messages)


async def test_images_are_imported_and_unreadable_ones_are_reported():
    picture = base64.b64encode(b"\x89PNG").decode()
    prompt: dict[str, Any] = {
        "type": "message",
        "role": "user",
        "content": "Look",
        "binary_content": [
            {"data": picture, "mime_type": "image/png"},
            f"data:image/gif;base64,{picture}",
            {"url": "https://example.org/x.png"},
            {"data": "%%%", "media_type": "image/png"},
        ],
    }
    async with opened() as (ledger, catalog):
        await catalog.import_legacy(_file([prompt]), "new")
        records = [entry.record for entry in await ledger.history("new")]
        (message,) = [record for record in records if record.type == "message"]
        assert [attached.mime_type for attached in message.binary_content] == ["image/png", "image/gif"]
        assert await ledger.get_blob(message.binary_content[0].blob) == b"\x89PNG"
        (notice,) = [record for record in records if record.type == "notice"]
        assert notice.message == "2 of this prompt's attachments could not be read and were not imported."


async def test_a_title_is_kept_and_an_empty_session_is_accepted():
    async with opened() as (ledger, catalog):
        row = await catalog.import_legacy(_file([], title="Old nets"), "new")
        assert row.title == "Old nets"
        assert await ledger.history("new") == []


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "text"),
        ('{"records": []}', "id"),
        (_file([{"type": "message", "role": "robot"}]), "records.0.message.role"),
        (_file([{"type": "dance"}]), "records.0"),
    ],
)
async def test_the_error_names_the_wrong_field_of_an_older_file(text: str, field: str):
    async with opened() as (_, catalog):
        with pytest.raises(BadRequest) as caught:
            await catalog.import_legacy(text, "new")
        assert caught.value.field == field
