"""Converts records, transcript items, questions and prompt blocks between our types and ACP's. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import acp
from acp import schema
from pilotfish.conversation.items import CallItem, MessageItem, PromptItem, ThoughtItem
from pilotfish.conversation.messages import CallStatus, CanonicalToolCall, Category
from pilotfish.conversation.model_history import Item
from pilotfish.conversation.records import (
    ChunkRecord,
    ClaimRecord,
    FileChangeRecord,
    NoticeRecord,
    PlanRecord,
    Record,
    SessionRecord,
    StopReason,
    ToolCallRecord,
    Usage,
    UsageRecord,
)
from pilotfish.engine.commands import Command
from pilotfish.engine.frontend import Option, Question, Session
from pilotfish.errors import BadRequest
from pilotfish.text.display_safe import display_safe, exact, one_line
from pilotfish.text.uris import path_of

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
    | schema.ConfigOptionUpdate
    | schema.UsageUpdate
)
ToolContent = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent

FINAL = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.DENIED, CallStatus.CANCELLED})

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
    "apply_patch": "edit",
    "move_file": "move",
    "delete_file": "delete",
    "bash": "execute",
    "bash_output": "execute",
    "web_fetch": "fetch",
    "web_search": "search",
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
LIVE_CHARS = 4_000  # of the newest output of a running call
MAX_DIFF_BYTES = 1_000_000  # a longer file is shown as the text of its diff


class Presentation:
    """The updates of one connection. It remembers what the client knows of the calls that run."""

    def __init__(self) -> None:
        self._announced: set[str] = set()
        self._output: dict[str, str] = {}
        """running call → the end of its output so far"""
        self._diffs: dict[str, list[schema.FileEditToolCallContent]] = {}
        """running call → the changes it has made"""

    def updates(self, record: Record) -> Iterator[Update]:
        """The updates to send for a record."""
        match record:
            case ChunkRecord(channel="message", text=text):
                yield acp.update_agent_message_text(text)
            case ChunkRecord(channel="thought", text=text):
                yield acp.update_agent_thought_text(text)
            case ChunkRecord(channel="progress", item_id=call_id, text=text) if call_id in self._announced:
                self._output[call_id] = shown = (self._output.get(call_id, "") + text)[-LIVE_CHARS:]
                yield acp.update_tool_call(call_id, content=[_output(shown)])
            case ToolCallRecord(call=call):
                yield _call(call, first=call.id not in self._announced, diffs=self._diffs.get(call.id, ()))
                self._announced.add(call.id)
                if call.status in FINAL:
                    self._output.pop(call.id, None)
                    self._diffs.pop(call.id, None)
            case PlanRecord(entries=entries):
                yield acp.update_plan(
                    [acp.plan_entry(entry.content, priority=entry.priority, status=entry.status) for entry in entries]
                )
            case ClaimRecord(verdict="unsupported", text=text, evidence=evidence):
                yield acp.update_agent_thought_text(f"Not verified: “{text}” ({evidence})\n")
            case NoticeRecord(message=message, remedy=remedy):
                yield acp.update_agent_thought_text(f"{message} {remedy or ''}".rstrip() + "\n")
            case SessionRecord(title=title, mode=mode):
                yield schema.SessionInfoUpdate(session_update="session_info_update", title=title)
                yield schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
            case _:
                pass

    def changed(self, change: FileChangeRecord, before: bytes | None, after: bytes | None) -> Iterator[Update]:
        """The update for a file that a call has changed, with its bytes. None: there is no file."""
        path = path_of(change.uri)
        old, new = _text(before), _text(after)
        if path is None or change.call_id not in self._announced or (before is not None and old is None):
            return
        diffs = self._diffs.setdefault(change.call_id, [])
        diffs.append(acp.tool_diff_content(str(path), new or "", old))
        yield acp.update_tool_call(change.call_id, content=list[ToolContent](diffs))


def usage(spent: Usage) -> schema.Usage:
    return schema.Usage(
        total_tokens=spent.input_tokens + spent.output_tokens,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        thought_tokens=spent.reasoning_tokens,
        cached_read_tokens=spent.cached_tokens,
    )


def usage_update(record: UsageRecord, before: Usage) -> schema.UsageUpdate | None:
    """How full the context is, and what the session has cost: before this turn, and in it. None if the size of the
    context is not known."""
    if record.context_window is None:
        return None
    cost = (before + record.usage).cost
    return schema.UsageUpdate(
        session_update="usage_update",
        used=record.context_used,
        size=record.context_window,
        cost=None if cost is None else schema.Cost(amount=cost, currency="USD"),
    )


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
    """The call that the client shows beside the options: the changes it would make, its command, or its arguments."""
    preview = asked.preview
    content: list[ToolContent] = [
        acp.tool_diff_content(str(file.path), file.after or "", file.before) for file in preview.files
    ]
    words = preview.text if preview.kind == "text" else ""
    if preview.kind == "command":
        tried = preview.tried
        seen = [display_safe(tried.output), tried.note] if tried is not None else []
        limit = "" if preview.timeout is None else f", stopped after {preview.timeout:g} s"
        place = f"in {one_line(preview.cwd)}{limit}"
        # A diff of ACP has no way to say that a file goes.
        gone = [f"deletes {preview.name_of(file)}" for file in preview.files if file.after is None]
        words = "\n".join([f"$ {exact(preview.command)}", place, *asked.parsed, *gone, *filter(None, seen)])
    words = "\n\n".join(filter(None, (words, asked.reason)))
    if words:
        content.append(acp.tool_content(acp.text_block(words)))
    return schema.ToolCallUpdate(
        tool_call_id=asked.call.id,
        title=asked.call.title,
        kind=_kind(asked.call),
        status="pending",
        content=content or None,
        raw_input=dict(asked.call.args),
    )


def options(offered: Sequence[Option]) -> list[schema.PermissionOption]:
    """One option of each kind, because clients choose by kind. A rule for good comes before one for the session. To
    allow a command that was tried out means to apply what was shown, so "Run it for real" is not offered."""
    by_kind: dict[schema.PermissionOptionKind, Option] = {
        OPTION_KINDS[option.id]: option for option in offered if option.id in OPTION_KINDS
    }
    return [
        schema.PermissionOption(
            option_id=option.id,
            name=option.label if option.rule is None else f"{option.label}: {option.rule}",
            kind=kind,
        )
        for kind, option in by_kind.items()
    ]


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


def _call(
    call: CanonicalToolCall, *, first: bool, diffs: Sequence[schema.FileEditToolCallContent] = ()
) -> schema.ToolCallStart | schema.ToolCallProgress:
    content: list[ToolContent] = list(diffs)
    kind = _kind(call)
    texts: list[str] = []
    if call.diff and not diffs:
        texts.append(f"```diff\n{call.diff}\n```")
    if call.error:
        texts.append(call.error)
    elif call.result and (kind == "execute" or not (call.diff or diffs)):  # a command has an output beside its changes
        texts.append(call.result.text)
    content += [acp.tool_content(acp.text_block(text)) for text in texts if text]
    locations = [
        schema.ToolCallLocation(path=str(path)) for place in call.locations if (path := path_of(place.uri)) is not None
    ]
    make = acp.start_tool_call if first else acp.update_tool_call
    return make(
        call.id,
        title=call.title or call.name,
        kind=kind,
        status=STATUSES[call.status],
        content=content or None,
        locations=locations or None,
        raw_input=dict(call.args),
    )


def _output(text: str) -> schema.ContentToolCallContent:
    return acp.tool_content(acp.text_block(f"```\n{text}\n```"))


def _text(data: bytes | None) -> str | None:
    """The text of a file, or None if there is none, or if it is not text or too long."""
    if data is None or len(data) > MAX_DIFF_BYTES:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _kind(call: CanonicalToolCall) -> schema.ToolKind:
    return KINDS.get(call.name) or BY_CATEGORY.get(call.category, "other")
