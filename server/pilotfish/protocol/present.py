"""Converts records and transcript items to protocol messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, assert_never

from pydantic import TypeAdapter, ValidationError

from pilotfish.conversation import items as core_items
from pilotfish.conversation import messages, records
from pilotfish.protocol import wire

_BLOCK: TypeAdapter[wire.ContentBlock] = TypeAdapter(wire.ContentBlock)


def update(record: records.Record, session: wire.Session | None) -> wire.Update | None:
    """The update that a client receives for a record, or None if it receives none. `session` is its current state."""
    match record:
        case records.ChunkRecord():
            return _chunk(record)
        case records.ToolCallRecord():
            return wire.CallUpdate(call=call(record.call))
        case records.StateRecord():
            return wire.StateChanged(state=record.state, iteration=record.iteration)
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
            return wire.PlanUpdate(entries=_plan(record.entries))
        case records.FileChangeRecord():
            return wire.FileChanged(
                uri=record.uri,
                change=record.change,
                added=record.added,
                removed=record.removed,
                via=record.via,
                call_id=record.call_id,
                old_uri=record.old_uri,
            )
        case records.UsageRecord():
            return wire.UsageUpdate(
                usage=usage(record.usage),
                context_used=record.context_used,
                context_window=record.context_window,
            )
        case records.NoticeRecord():
            return wire.Notice(
                level=record.level,
                message=record.message,
                remedy=record.remedy,
                retry_after=record.retry_after,
                cause=record.cause,
            )
        case records.CompactionRecord():
            return wire.Compaction(before=record.before, after=record.after, summary=record.summary)
        case records.SessionRecord():
            return None if session is None else wire.SessionInfo(session=session)
        case records.TurnEndRecord():
            return wire.TurnEnded(
                stop_reason=record.stop_reason,
                usage=usage(record.usage),
                error=failure(record.error),
                receipt=receipt(record.receipt),
            )
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
        case core_items.MessageItem():
            return wire.MessageItem(id=item.id, turn_id=item.turn_id, seq=item.seq, text=item.text)
        case core_items.ThoughtItem():
            return wire.ThoughtItem(id=item.id, turn_id=item.turn_id, seq=item.seq, text=item.text)
        case core_items.CallItem():
            return wire.CallItem(id=item.id, turn_id=item.turn_id, seq=item.seq, call=call(item.call))
        case core_items.PlanItem():
            return wire.PlanItem(id=item.id, turn_id=item.turn_id, seq=item.seq, entries=_plan(item.entries))
        case core_items.NoticeItem():
            return wire.NoticeItem(
                id=item.id,
                turn_id=item.turn_id,
                seq=item.seq,
                level=item.level,
                message=item.message,
                remedy=item.remedy,
                cause=item.cause,
            )
        case core_items.CompactionItem():
            return wire.CompactionItem(
                id=item.id,
                turn_id=item.turn_id,
                seq=item.seq,
                before=item.before,
                after=item.after,
                summary=item.summary,
            )
        case core_items.FileChangeItem():
            return wire.FileChangeItem(
                id=item.id,
                turn_id=item.turn_id,
                seq=item.seq,
                uri=item.uri,
                change=item.change,
                added=item.added,
                removed=item.removed,
                via=item.via,
                call_id=item.call_id,
                old_uri=item.old_uri,
            )
        case core_items.TurnEndItem():
            return wire.TurnEndItem(
                id=item.id,
                turn_id=item.turn_id,
                seq=item.seq,
                stop_reason=item.stop_reason,
                usage=usage(item.usage),
                error=failure(item.error),
                receipt=receipt(item.receipt),
                undone=item.undone,
                at=moment(item.timestamp),
            )
        case _:
            assert_never(item)


def call(value: messages.CanonicalToolCall) -> wire.ToolCall:
    """Convert the current state of a call."""
    result, approval = value.result, value.approval
    return wire.ToolCall(
        id=value.id,
        name=value.name,
        title=value.title or value.name,
        category=value.category.value,
        status=value.status.value,
        args=dict(value.args),
        locations=tuple(_location(location) for location in value.locations),
        result=result and wire.CallResult(text=result.text, truncated=result.truncated, bytes=result.bytes),
        diff=value.diff,
        error=value.error,
        started_at=moment(value.started_at),
        duration_ms=value.duration_ms,
        approval=approval
        and wire.CallApproval(
            decision=approval.decision,
            by=approval.by,
            reason=approval.reason,
            approval_id=approval.approval_id,
            option_id=approval.option_id,
            rule=approval.rule,
            digest=approval.digest,
            feedback=approval.feedback,
            amended=approval.amended,
        ),
        raw_args=value.raw_args,
        recovered=value.recovered,
    )


def usage(value: records.Usage) -> wire.Usage:
    return wire.Usage(
        input_tokens=value.input_tokens,
        output_tokens=value.output_tokens,
        cached_tokens=value.cached_tokens,
        requests=value.requests,
        tool_calls=value.tool_calls,
        cost=value.cost,
    )


def failure(value: records.Failure | None) -> wire.Failure | None:
    return value and wire.Failure(
        message=value.message,
        remedy=value.remedy,
        retryable=value.retryable,
        kind=value.kind,
        retry_after=value.retry_after,
    )


def receipt(value: records.Receipt | None) -> wire.Receipt | None:
    return value and wire.Receipt(
        turn_id=value.turn_id,
        took_ms=value.took_ms,
        cancelled_calls=value.cancelled_calls,
        killed_processes=tuple(
            wire.KilledProcess(pid=process.pid, command=process.command) for process in value.killed_processes
        ),
        changed_files=value.changed_files,
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


def _plan(entries: Iterable[records.PlanEntry]) -> tuple[wire.PlanEntry, ...]:
    return tuple(
        wire.PlanEntry(content=entry.content, status=entry.status, priority=entry.priority) for entry in entries
    )


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
