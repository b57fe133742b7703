"""Converts records and transcript items to protocol messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, assert_never

from pydantic import TypeAdapter, ValidationError

from pilotfish.conversation import items as core_items
from pilotfish.conversation import messages, records
from pilotfish.protocol import wire

_BLOCK: TypeAdapter[wire.ContentBlock] = TypeAdapter(wire.ContentBlock)
W = TypeVar("W", bound=wire.Wire)


def same(shape: type[W], value: object) -> W:
    """Convert a value whose attributes have the names and types of the shape's fields, nested values included."""
    return shape.model_validate(value, from_attributes=True, by_name=True)


def update(record: records.Record, session: wire.Session | None) -> wire.Update | None:
    """The update that a client receives for a record, or None if it receives none. `session` is its current state."""
    match record:
        case records.ChunkRecord():
            return _chunk(record)
        case records.ToolCallRecord():
            return wire.CallUpdate(call=call(record.call))
        case records.StateRecord():
            return same(wire.StateChanged, record)
        case records.SteerRecord():
            return wire.StateChanged(
                state="user_input",
                iteration=record.iteration,
                prompt_id=record.prompt_id,
                prompt=blocks(record.prompt),
            )
        case records.TurnStartRecord():
            return wire.TurnStarted(prompt_id=record.prompt_id, prompt=blocks(record.prompt))
        case records.PlanRecord():
            return same(wire.PlanUpdate, record)
        case records.FileChangeRecord():
            return same(wire.FileChanged, record).model_copy(update={"background": record.background or None})
        case records.ReviewRecord():
            return wire.ReviewChanged(files=(same(wire.DecidedFile, record),))
        case records.UsageRecord():
            return same(wire.UsageUpdate, record)
        case records.NoticeRecord():
            return same(wire.Notice, record)
        case records.ClaimRecord():
            return same(wire.ClaimChecked, record)
        case records.CompactionRecord():
            return same(wire.Compaction, record)
        case records.SessionRecord():
            return None if session is None else wire.SessionInfo(session=session)
        case records.TurnEndRecord():
            return same(wire.TurnEnded, record)
        case records.MessageRecord() | records.ApprovalRecord() | records.UndoRecord():
            return None
        case _:
            assert_never(record)


def item(item: core_items.Item) -> wire.Item:
    """Convert an item of the transcript."""
    match item:
        case core_items.PromptItem():
            return wire.PromptItem(
                id=item.id,
                turn_id=item.turn_id,
                seq=item.seq,
                prompt=blocks(item.prompt),
                prompt_id=item.prompt_id,
                at=moment(item.timestamp),
            )
        case core_items.CallItem():
            return wire.CallItem(id=item.id, turn_id=item.turn_id, seq=item.seq, call=call(item.call))
        case core_items.TurnEndItem():
            return same(wire.TurnEndItem, item).model_copy(update={"at": moment(item.timestamp)})
        case core_items.MessageItem():
            return same(wire.MessageItem, item)
        case core_items.ThoughtItem():
            return same(wire.ThoughtItem, item)
        case core_items.PlanItem():
            return same(wire.PlanItem, item)
        case core_items.NoticeItem():
            return same(wire.NoticeItem, item)
        case core_items.ClaimItem():
            return same(wire.ClaimItem, item)
        case core_items.CompactionItem():
            return same(wire.CompactionItem, item)
        case core_items.FileChangeItem():
            return same(wire.FileChangeItem, item).model_copy(update={"background": item.background or None})
        case _:
            assert_never(item)


def call(value: messages.CanonicalToolCall) -> wire.ToolCall:
    """Convert the current state of a call."""
    return wire.ToolCall(
        id=value.id,
        name=value.name,
        title=value.title or value.name,
        category=value.category.value,
        status=value.status.value,
        args=dict(value.args),
        locations=tuple(_location(location) for location in value.locations),
        result=value.result and same(wire.CallResult, value.result),
        diff=value.diff,
        error=value.error,
        started_at=moment(value.started_at),
        duration_ms=value.duration_ms,
        approval=value.approval and same(wire.CallApproval, value.approval),
        raw_args=value.raw_args,
        recovered=value.recovered,
        parent_id=value.parent_id,
    )


def blocks(prompt: Iterable[Mapping[str, Any]]) -> tuple[wire.ContentBlock, ...]:
    """Convert a prompt. A block with an unknown shape, from an imported session, becomes a text block."""
    found: list[wire.ContentBlock] = []
    for block in prompt:
        try:
            found.append(_BLOCK.validate_python(dict(block)))
        except ValidationError:
            found.append(wire.TextBlock(text=str(block.get("text", ""))))
    return tuple(found)


def moment(seconds: float | None) -> str | None:
    """Convert a time to ISO 8601 in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _chunk(record: records.ChunkRecord) -> wire.Update:
    match record.channel:
        case "message":
            return wire.MessageChunk(item_id=record.item_id, text=record.text)
        case "thought":
            return wire.ThoughtChunk(item_id=record.item_id, text=record.text)
        case "args":
            return wire.ArgsChunk(call_id=record.item_id, text=record.text)
        case "progress":
            return wire.Progress(call_id=record.item_id, text=record.text)
        case _:
            assert_never(record.channel)


def _location(value: messages.Location) -> wire.Location:
    if value.range is None:
        return wire.Location(uri=value.uri)
    line, character, end_line, end_character = value.range
    return wire.Location(
        uri=value.uri,
        range=wire.Range(
            start=wire.Position(line=line, character=character),
            end=wire.Position(line=end_line, character=end_character),
        ),
    )
