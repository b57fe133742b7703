"""Converts records, transcript items, questions and prompt blocks between our types and ACP's. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import acp
from acp import schema
from pilotfish.conversation.items import CallItem, MessageItem, PromptItem, ThoughtItem
from pilotfish.conversation.messages import CallStatus, CanonicalToolCall, Category
from pilotfish.conversation.model_history import Item
from pilotfish.conversation.records import (
    ChunkRecord,
    NoticeRecord,
    PlanRecord,
    Record,
    SessionRecord,
    StopReason,
    ToolCallRecord,
)
from pilotfish.engine.commands import Command
from pilotfish.engine.frontend import Option, Question, Session
from pilotfish.errors import BadRequest

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.CurrentModeUpdate
    | schema.SessionInfoUpdate
    | schema.AvailableCommandsUpdate
)

STOP_REASONS: Mapping[StopReason, schema.StopReason] = {
    "end_turn": "end_turn",
    "max_iterations": "max_turn_requests",
    "max_tokens": "max_tokens",
    "budget": "max_turn_requests",
    "refusal": "refusal",
    "cancelled": "cancelled",
    "failed": "end_turn",
}
STATUSES: Mapping[CallStatus, schema.ToolCallStatus] = {
    CallStatus.PENDING: "pending",
    CallStatus.AWAITING_APPROVAL: "pending",
    CallStatus.IN_PROGRESS: "in_progress",
    CallStatus.COMPLETED: "completed",
    CallStatus.FAILED: "failed",
    CallStatus.DENIED: "failed",
    CallStatus.CANCELLED: "failed",
}
KINDS: Mapping[str, schema.ToolKind] = {
    "read_file": "read",
    "list_dir": "read",
    "read_output": "read",
    "grep": "search",
    "glob": "search",
    "write_file": "edit",
    "update_file": "edit",
    "bash": "execute",
    "bash_output": "execute",
    "web_fetch": "fetch",
    "research_codebase": "search",
    "update_plan": "think",
}
BY_CATEGORY: Mapping[Category, schema.ToolKind] = {
    Category.READ_ONLY: "read",
    Category.RESEARCH: "search",
    Category.WRITE: "edit",
    Category.EXECUTE: "execute",
}
OPTION_KINDS: Mapping[str, schema.PermissionOptionKind] = {
    "allow_once": "allow_once",
    "allow_session": "allow_always",
    "allow_always": "allow_always",
    "reject": "reject_once",
    "reject_always": "reject_always",
}
MODES = {
    "ask": ("Ask", "Reads run; changes and commands are asked."),
    "plan": ("Plan", "Nothing is changed; the agent makes a plan."),
    "edit": ("Edit", "Edits in the workspace run; commands are asked."),
    "auto": ("Auto", "Everything runs that no rule forbids."),
}


def updates(record: Record, announced: set[str]) -> Iterator[Update]:
    """The updates to send for a record. `announced` holds the calls that the client knows already."""
    match record:
        case ChunkRecord(channel="message", text=text):
            yield acp.update_agent_message_text(text)
        case ChunkRecord(channel="thought", text=text):
            yield acp.update_agent_thought_text(text)
        case ToolCallRecord(call=call):
            yield _call(call, first=call.id not in announced)
            announced.add(call.id)
        case PlanRecord(entries=entries):
            yield acp.update_plan(
                [acp.plan_entry(entry.content, priority=entry.priority, status=entry.status) for entry in entries]
            )
        case NoticeRecord(message=message, remedy=remedy):
            yield acp.update_agent_thought_text(f"{message} {remedy or ''}".rstrip() + "\n")
        case SessionRecord(title=title, mode=mode):
            yield schema.SessionInfoUpdate(session_update="session_info_update", title=title)
            yield schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
        case _:
            pass


def replayed(item: Item) -> Iterator[Update]:
    """A transcript item, for a client that loads the session."""
    match item:
        case PromptItem(prompt=prompt):
            for part in prompt:
                if part.get("type") == "text":
                    yield acp.update_user_message_text(str(part.get("text", "")))
        case MessageItem(text=text):
            yield acp.update_agent_message_text(text)
        case ThoughtItem(text=text):
            yield acp.update_agent_thought_text(text)
        case CallItem(call=call):
            yield _call(call, first=True)
        case _:
            pass


def question(asked: Question) -> schema.ToolCallUpdate:
    """The call that the client shows beside the options, with the changes it would make."""
    content: list[Any] = [
        acp.tool_diff_content(str(file.path), file.after or "", file.before) for file in asked.preview.files
    ]
    if asked.preview.kind == "command":
        content.append(acp.tool_content(acp.text_block("\n".join([f"$ {asked.preview.command}", *asked.parsed]))))
    return schema.ToolCallUpdate(
        tool_call_id=asked.call.id,
        title=asked.call.title,
        kind=_kind(asked.call),
        status="pending",
        content=content or None,
        raw_input=dict(asked.call.args),
    )


def option(offered: Option) -> schema.PermissionOption:
    name = offered.label if offered.rule is None else f"{offered.label}: {offered.rule}"
    return schema.PermissionOption(option_id=offered.id, name=name, kind=OPTION_KINDS[offered.id])


def modes(current: str) -> schema.SessionModeState:
    return schema.SessionModeState(
        current_mode_id=current,
        available_modes=[
            schema.SessionMode(id=mode, name=name, description=description)
            for mode, (name, description) in MODES.items()
        ],
    )


def offered(commands: Iterable[Command]) -> Update:
    """The slash commands that the client may offer."""
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(
                name=command.name, description=command.description, input=_hint(command.argument_hint)
            )
            for command in commands
        ],
    )


def _hint(hint: str | None) -> schema.AvailableCommandInput | None:
    return None if hint is None else schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint))


def session(value: Session) -> schema.SessionInfo:
    return schema.SessionInfo(
        session_id=value.id,
        cwd=value.workspace_folder or "/",
        title=value.title or None,
        updated_at=datetime.fromtimestamp(value.updated_at, UTC).isoformat(),
    )


def block(value: Any) -> Mapping[str, Any]:
    """Convert an ACP prompt block to a wire block."""
    match value:
        case schema.TextContentBlock(text=text):
            return {"type": "text", "text": text}
        case schema.ImageContentBlock(data=data, mime_type=mime_type):
            return {"type": "image", "data": data, "mimeType": mime_type}
        case schema.ResourceContentBlock(uri=uri):
            return {"type": "resource", "uri": uri}
        case schema.EmbeddedResourceContentBlock(resource=resource):
            text = getattr(resource, "text", None)
            if text is None:
                raise BadRequest("prompt: only text can be embedded", field="prompt")
            return {"type": "resource", "uri": resource.uri, "text": text}
        case _:
            raise BadRequest(f"prompt: {getattr(value, 'type', 'this')} is not supported", field="prompt")


def _call(call: CanonicalToolCall, *, first: bool) -> schema.ToolCallStart | schema.ToolCallProgress:
    content = [acp.tool_content(acp.text_block(text))] if (text := _result(call)) else None
    locations = [schema.ToolCallLocation(path=unquote(urlsplit(place.uri).path)) for place in call.locations]
    make = acp.start_tool_call if first else acp.update_tool_call
    return make(
        call.id,
        title=call.title or call.name,
        kind=_kind(call),
        status=STATUSES[call.status],
        content=content,
        locations=locations or None,
        raw_input=dict(call.args),
    )


def _result(call: CanonicalToolCall) -> str:
    if call.diff:
        return f"```diff\n{call.diff}\n```"
    return call.error or (call.result.text if call.result else "")


def _kind(call: CanonicalToolCall) -> schema.ToolKind:
    return KINDS.get(call.name) or BY_CATEGORY.get(call.category, "other")
