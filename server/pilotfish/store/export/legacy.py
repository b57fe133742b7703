"""Imports sessions of the older format, `sessions/{id}.json`: a list of messages and calls.

{"id", "title", "created_at", "updated_at", "records": [
    {"type": "message", "role", "content", "binary_content", "timestamp"},
    {"type": "tool_call", "tool_call_id", "tool_name", "arguments", "result", "success", "timestamp"}, …]}
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, FiniteFloat, ValidationError

from pilotfish.conversation.calls import fresh_id
from pilotfish.conversation.messages import (
    CallResult,
    CallStatus,
    CanonicalMessage,
    CanonicalToolCall,
    MessageRole,
    Part,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    json_text,
    message_to_json,
    normalise_args,
)
from pilotfish.conversation.records import (
    SILENT_TYPES,
    Attachment,
    Entry,
    MessageRecord,
    NoticeRecord,
    Record,
    Role,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    Usage,
)
from pilotfish.errors import BadRequest
from pilotfish.store.export.archive import SessionArchive
from pilotfish.store.rows import SessionRow
from pilotfish.store.tables.blobs import hash_of
from pilotfish.store.titles import title_of

Time = FiniteFloat | datetime | None


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["message"]
    role: Role
    content: str | None = None
    binary_content: list[Any] | None = None
    timestamp: Time = None


class _ToolCall(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["tool_call"]
    tool_call_id: str | None = None
    tool_name: str
    arguments: Any = None
    result: Any = None
    success: bool = True
    timestamp: Time = None


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    title: str | None = None
    created_at: Time = None
    updated_at: Time = None
    records: list[Annotated[_Message | _ToolCall, Discriminator("type")]] = Field(
        default_factory=list[_Message | _ToolCall]
    )


def from_legacy(text: str, *, workspace: str | None, model: str, mode: str) -> SessionArchive:
    """Parse a session of the older format. Every prompt becomes a turn; no message or call is left out."""
    try:
        file = _File.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "text"
        raise BadRequest(f"{place}: {first['msg']}", field=place) from error
    created = _seconds(file.created_at, 0.0)
    conversion = _Conversion(created)
    for raw in file.records:
        conversion.add(raw)
    conversion.end_turn()
    return SessionArchive(
        row=SessionRow(
            id=file.id,
            title=file.title or conversion.title,
            workspace=workspace,
            model=model,
            mode=mode,
            created_at=created,
            updated_at=_seconds(file.updated_at, conversion.now),
        ),
        entries=_numbered(conversion.records),
        blobs=conversion.blobs,
    )


@dataclass(slots=True)
class _Conversion:
    """Converts old records to ledger records, in order."""

    now: float
    records: list[Record] = field(default_factory=list[Record])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    title: str = ""
    _turns: int = 0
    _messages: int = 0
    _turn_open: bool = False
    _agent_message: _Message | None = None
    """a message of the agent, held back because calls that belong to it may follow"""
    _calls: list[_ToolCall] = field(default_factory=list[_ToolCall])
    _ids: set[str] = field(default_factory=set[str])

    def add(self, raw: _Message | _ToolCall) -> None:
        self.now = _seconds(raw.timestamp, self.now)
        match raw:
            case _ToolCall():
                self._calls.append(raw)
            case _Message(role="assistant"):
                self._flush_agent_message()
                self._agent_message = raw
            case _Message(role="system"):
                self._flush_agent_message()
                # Current instructions are sent with every request; the old ones are only shown.
                self._message("system", raw.content or "", (SystemPromptPart(raw.content or ""),), shown_only=True)
            case _:
                self.end_turn()
                self._add_prompt(raw)

    def end_turn(self) -> None:
        self._flush_agent_message()
        if self._turn_open:
            self._turn_open = False
            self.records.append(
                TurnEndRecord(turn_id=self._turn_id, stop_reason="end_turn", usage=Usage(), timestamp=self.now)
            )

    @property
    def _turn_id(self) -> str:
        return f"turn-{self._turns}"

    def _add_prompt(self, raw: _Message) -> None:
        self._turns += 1
        self._turn_open = True
        text = raw.content or ""
        blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}] if text else []
        content: list[str | Mapping[str, Any]] = [text] if text else []
        attached: list[Attachment] = []
        unread = 0
        for item in raw.binary_content or ():
            found = _binary(item)
            if found is None:
                unread += 1
                continue
            data, mime_type = found
            encoded = base64.b64encode(data).decode()
            self.blobs[hash_of(data)] = data
            attached.append(Attachment(blob=hash_of(data), mime_type=mime_type))
            blocks.append({"type": "image", "data": encoded, "mimeType": mime_type})
            content.append({"kind": "binary", "data": encoded, "media_type": mime_type})
        self.title = self.title or title_of(blocks)
        self.records.append(TurnStartRecord(turn_id=self._turn_id, prompt=tuple(blocks), timestamp=self.now))
        prompt = UserPromptPart(text if not attached else tuple(content))
        self._message("user", text, (prompt,), binary_content=tuple(attached))
        if unread:
            self.records.append(
                NoticeRecord(
                    turn_id=self._turn_id,
                    level="warning",
                    message=f"{unread} of this prompt's attachments could not be read and were not imported.",
                    timestamp=self.now,
                )
            )

    def _flush_agent_message(self) -> None:
        """Add the pending message of the agent with the calls that follow it, and then the results of the calls."""
        message, self._agent_message = self._agent_message, None
        raw_calls, self._calls = self._calls, []
        if message is None and not raw_calls:
            return
        text = (message.content or "") if message is not None else ""
        calls = [self._call(raw) for raw in raw_calls]
        parts: list[Part] = [TextPart(text)] if text else []
        parts += [ToolCallPart(call.name, call.args, call.id, call.raw_args) for call in calls]
        message_id = self._message("assistant", text, tuple(parts))
        self.records += [
            ToolCallRecord(turn_id=self._turn_id, call=call, timestamp=self.now, message_id=message_id)
            for call in calls
        ]
        if calls:
            returns = tuple(
                ToolReturnPart(
                    call.name,
                    (call.result.text if call.result else call.error) or "",
                    call.id,
                    "success" if call.status is CallStatus.COMPLETED else "failed",
                )
                for call in calls
            )
            self._message("user", "", returns)

    def _call(self, raw: _ToolCall) -> CanonicalToolCall:
        wanted = raw.tool_call_id or "call"
        call_id = wanted if raw.tool_call_id and wanted not in self._ids else fresh_id(wanted, self._ids)
        self._ids.add(call_id)
        args, raw_args = normalise_args(raw.arguments)
        text = raw.result if isinstance(raw.result, str) else "" if raw.result is None else json_text(raw.result)
        return CanonicalToolCall(
            id=call_id,
            name=raw.tool_name,
            args=args,
            raw_args=raw_args,
            title=raw.tool_name,
            status=CallStatus.COMPLETED if raw.success else CallStatus.FAILED,
            result=CallResult(text=text, bytes=len(text.encode("utf-8", "replace"))) if raw.success else None,
            error=None if raw.success else text or "failed",
            started_at=self.now,
        )

    def _message(
        self,
        role: Role,
        content: str,
        parts: tuple[Part, ...],
        *,
        binary_content: tuple[Attachment, ...] = (),
        shown_only: bool = False,
    ) -> str:
        self._messages += 1
        message_id = f"message-{self._messages}"
        self.records.append(
            MessageRecord(
                turn_id=self._turn_id,
                message_id=message_id,
                role=role,
                content=content,
                message=message_to_json(CanonicalMessage(MessageRole(role), parts)),
                timestamp=self.now,
                binary_content=binary_content,
                shown_only=shown_only,
            )
        )
        return message_id


def _numbered(records: list[Record]) -> list[Entry]:
    entries: list[Entry] = []
    seq = 0
    for n, record in enumerate(records, 1):
        silent = record.type in SILENT_TYPES
        seq += not silent
        entries.append(Entry(n, None if silent else seq, record))
    return entries


def _seconds(time: Time, default: float) -> float:
    match time:
        case None:
            return default
        case datetime():
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        case _:
            return time


def _binary(item: Any) -> tuple[bytes, str] | None:
    """The bytes and MIME type of a data URL, or of an object with base64 `data` and a MIME type."""
    match item:
        case str() if item.startswith("data:"):
            head, _, text = item[5:].partition(",")
            mime_type = head.partition(";")[0]
        case {"data": str(text), "mime_type": str(mime_type)}:
            pass
        case {"data": str(text), "media_type": str(mime_type)}:
            pass
        case {"data": str(text), "mimeType": str(mime_type)}:
            pass
        case _:
            return None
    try:
        return base64.b64decode(text, validate=True), mime_type
    except binascii.Error:
        return None
