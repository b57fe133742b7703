"""What a turn tells the world and the ledger keeps.

Every record is a frozen value with a `type`. A turn emits records; the live session numbers them, the ledger
writes them, and only then are they shown (`protocol/present.py` gives each its wire form, or none).

`MessageRecord` and `ToolCallRecord` are the core: history is folded from them. The rest is what a turn needs
beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, cast

import orjson
from pydantic import ConfigDict, Discriminator, TypeAdapter

from pilotfish.conversation.messages import (
    CanonicalMessage,
    CanonicalToolCall,
    MessageRole,
    TextPart,
    UserPromptPart,
    message_from_json,
)
from pilotfish.errors import FailureKind, TurnError, UnreadableMessage

Role = Literal["system", "user", "assistant"]
StopReason = Literal["end_turn", "max_iterations", "max_tokens", "budget", "refusal", "cancelled", "failed"]
AgentState = Literal["user_input", "assistant", "tool_execution", "response"]
Channel = Literal["message", "thought", "args", "progress"]
RequestOrigin = Literal["turn", "research", "compaction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and requests; of a turn, or of a session when summed."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            requests=self.requests + other.requests,
            tool_calls=self.tool_calls + other.tool_calls,
            cost=sum(costs) if costs else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledProcess:
    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a cancel stopped, and what had already happened."""

    turn_id: str | None = None
    took_ms: int = 0
    cancelled_calls: tuple[str, ...] = ()
    killed_processes: tuple[KilledProcess, ...] = ()
    changed_files: tuple[str, ...] = ()
    """uris"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a turn failed, for the user."""

    message: str
    remedy: str
    retryable: bool = False
    kind: FailureKind = "internal"
    retry_after: float | None = None

    @classmethod
    def of(cls, problem: TurnError) -> Failure:
        """What a turn ended with."""
        return cls(
            message=str(problem),
            remedy=problem.remedy,
            retryable=problem.retryable,
            kind=problem.kind,
            retry_after=problem.retry_after,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Bytes that came with a message: stored once by hash, named here."""

    blob: str
    mime_type: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStartRecord:
    """A prompt was taken up. `prompt` is the wire's ContentBlock list, as it came."""

    turn_id: str
    prompt: tuple[Mapping[str, Any], ...]
    timestamp: float
    prompt_id: str | None = None
    type: Literal["turn_start"] = "turn_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteerRecord:
    """A prompt reached a turn that was running. The message that brings it to the model follows."""

    turn_id: str
    prompt: tuple[Mapping[str, Any], ...]
    iteration: int
    timestamp: float
    prompt_id: str | None = None
    type: Literal["steer"] = "steer"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message of the conversation, whole.

    `content` is its text for people and for search; `message` is the canonical message as JSON, which the model is
    sent. `message_id` names it; its part at index i is the transcript item `{message_id}.{i}`.
    """

    turn_id: str
    message_id: str
    role: Role
    content: str
    message: Mapping[str, Any]
    timestamp: float
    binary_content: tuple[Attachment, ...] = ()
    shown_only: bool = False
    """a partial answer that was tried again: people see it, the model does not"""
    type: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecord:
    """A call as it is now: one record for each status it enters."""

    turn_id: str
    call: CanonicalToolCall
    timestamp: float
    message_id: str = ""
    """the assistant message that made the call"""
    type: Literal["tool_call"] = "tool_call"

    @property
    def tool_call_id(self) -> str:
        return self.call.id

    @property
    def tool_name(self) -> str:
        return self.call.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.call.args

    @property
    def result(self) -> str | None:
        return self.call.result.text if self.call.result else None

    @property
    def success(self) -> bool:
        return self.call.status == "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """A piece of an item while it is being made. For args and progress `item_id` is the call's id."""

    turn_id: str
    item_id: str
    channel: Channel
    text: str
    type: Literal["chunk"] = "chunk"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    turn_id: str
    state: AgentState
    iteration: int
    type: Literal["state"] = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    turn_id: str
    entries: tuple[PlanEntry, ...]
    timestamp: float
    type: Literal["plan"] = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChangeRecord:
    """A file the turn changed. `before` and `after` are blob hashes; None means the file did not exist."""

    turn_id: str
    call_id: str
    uri: str
    change: Literal["created", "edited", "deleted", "renamed"]
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    before: str | None
    after: str | None
    timestamp: float
    old_uri: str | None = None
    type: Literal["file_change"] = "file_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """The usage after a request. Outside a turn (no `turn_id`) it is that of the request alone."""

    turn_id: str
    usage: Usage
    """of the turn so far, whoever made its requests"""
    context_used: int
    context_window: int | None = None
    origin: RequestOrigin = "turn"
    """who made the request"""
    type: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord:
    turn_id: str
    level: Literal["info", "warning", "error"]
    message: str
    timestamp: float
    remedy: str | None = None
    retry_after: float | None = None
    """seconds until it is tried again"""
    cause: FailureKind | None = None
    """what went wrong, if something did"""
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """The session's own fields changed (title, model, mode)."""

    turn_id: str
    title: str
    model: str
    mode: str
    type: Literal["session"] = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """History before this point is sent as `summary` from now on. `before` and `after` are token counts."""

    turn_id: str
    before: int
    after: int
    summary: str
    timestamp: float
    keep_from: str
    """message_id of the first message still sent whole"""
    type: Literal["compaction"] = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """A decision, for the audit trail: each entry's hash covers the one before it."""

    turn_id: str
    call_id: str
    tool: str
    digest: str
    decision: Literal["asked", "allow", "deny"]
    by: Literal["mode", "rule", "user", "nobody"]
    reason: str
    timestamp: float
    previous: str
    """hash of the entry before, empty for the first"""
    hash: str
    approval_id: str | None = None
    option_id: str | None = None
    rule: str | None = None
    feedback: str | None = None
    type: Literal["approval"] = "approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """A turn's files were put back (`undo`) or forward again (`redo`)."""

    turn_id: str
    direction: Literal["undo", "redo"]
    uris: tuple[str, ...]
    timestamp: float
    type: Literal["undo"] = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEndRecord:
    turn_id: str
    stop_reason: StopReason
    usage: Usage
    timestamp: float
    error: Failure | None = None
    receipt: Receipt | None = None
    type: Literal["turn_end"] = "turn_end"


Record = (
    TurnStartRecord
    | SteerRecord
    | MessageRecord
    | ToolCallRecord
    | ChunkRecord
    | StateRecord
    | PlanRecord
    | FileChangeRecord
    | UsageRecord
    | NoticeRecord
    | SessionRecord
    | CompactionRecord
    | ApprovalRecord
    | UndoRecord
    | TurnEndRecord
)

SILENT_TYPES = frozenset({"message", "approval", "undo"})
"""Record types with no wire update of their own: they take no `seq`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record in its place. `n` counts the session's records from 1 without a gap; `seq` counts those that are
    told to a client, likewise, and is None for the silent ones."""

    n: int
    seq: int | None
    record: Record


RECORD: TypeAdapter[Record] = TypeAdapter(
    Annotated[Record, Discriminator("type")],
    config=ConfigDict(defer_build=True),  # the first to read pays, not every start
)
"""reads a record from JSON: `type` says which"""


def message_of(record: MessageRecord) -> CanonicalMessage:
    """A record's message. If that is damaged, its words are still there beside it."""
    try:
        return message_from_json(record.message, record.message_id)
    except UnreadableMessage:
        role = MessageRole(record.role)
        words = TextPart(record.content) if role is MessageRole.ASSISTANT else UserPromptPart(record.content)
        return CanonicalMessage(role, (words,))


def record_to_json(record: Record) -> bytes:
    """A record as JSON, without loss: `record_from_json(record_to_json(r)) == r`.

    It was a valid value when it was made, so it is not validated again. What the fast writer refuses (whole numbers
    beyond 64 bits, half a surrogate pair) is written the slow way.
    """
    try:
        return orjson.dumps(record, default=_plain)
    except TypeError:
        return json.dumps(record, default=_plain, ensure_ascii=False).encode("utf-8", "replace")


def record_from_json(body: str | bytes) -> Record:
    """Read what `record_to_json` wrote. Raises pydantic's ValidationError, which names the field."""
    return RECORD.validate_json(body)


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")
