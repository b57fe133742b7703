"""The records that a turn emits and the ledger stores.

Every record is a frozen value with a `type`. A turn emits records, the session numbers them and the ledger writes them.
Only then are they sent to clients: `protocol/present.py` converts each to its update, if it has one.

The history for the model is built from `MessageRecord`, `ToolCallRecord` and `CompactionRecord`.
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
from pilotfish.conversation.provenance import Source
from pilotfish.errors import FailureKind, TurnError, UnreadableMessage

Role = Literal["system", "user", "assistant"]
StopReason = Literal["end_turn", "max_iterations", "max_tokens", "budget", "refusal", "cancelled", "failed"]
AgentState = Literal["user_input", "assistant", "tool_execution", "response"]
Channel = Literal["message", "thought", "args", "progress"]
RequestOrigin = Literal["turn", "research", "task", "search", "compaction", "title"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens and requests of a turn, or the sum for a session."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    """Of the output tokens."""
    requests: int = 0
    tool_calls: int = 0
    cost: float | None = None
    unpriced_requests: int = 0
    """Requests to models whose price is not known. `cost` does not count them."""

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            requests=self.requests + other.requests,
            tool_calls=self.tool_calls + other.tool_calls,
            cost=sum(costs) if costs else None,
            unpriced_requests=self.unpriced_requests + other.unpriced_requests,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledProcess:
    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a cancellation stopped, and what had already changed."""

    turn_id: str | None = None
    took_ms: int = 0
    cancelled_calls: tuple[str, ...] = ()
    killed_processes: tuple[KilledProcess, ...] = ()
    changed_files: tuple[str, ...] = ()
    """The URIs of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a turn failed, as shown to the user."""

    message: str
    remedy: str
    retryable: bool = False
    kind: FailureKind = "internal"
    retry_after: float | None = None

    @classmethod
    def of(cls, problem: TurnError) -> Failure:
        """Return the failure for the error that ended a turn."""
        return cls(
            message=str(problem),
            remedy=problem.remedy,
            retryable=problem.retryable,
            kind=problem.kind,
            retry_after=problem.retry_after,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Binary content of a message. `blob` is its hash in the store."""

    blob: str
    mime_type: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAttachment:
    """A text from outside the workspace that came with a prompt: a resource or a prompt of an MCP server, a page
    that the client fetched."""

    source: Source
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStartRecord:
    """A turn started with a prompt. `prompt` is the unchanged ContentBlock list of the protocol."""

    turn_id: str
    prompt: tuple[Mapping[str, Any], ...]
    timestamp: float
    prompt_id: str | None = None
    outside: tuple[OutsideAttachment, ...] = ()
    background: bool = False
    """The turn ran in the worktree of a background task."""
    type: Literal["turn_start"] = "turn_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteerRecord:
    """A prompt steered a running turn. The message with the prompt for the model follows."""

    turn_id: str
    prompt: tuple[Mapping[str, Any], ...]
    iteration: int
    timestamp: float
    prompt_id: str | None = None
    outside: tuple[OutsideAttachment, ...] = ()
    type: Literal["steer"] = "steer"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A complete message of the conversation.

    `content` is its text for users and for search. `message` is the canonical message as JSON, which is sent to the
    model. Its part at index i is the transcript item `{message_id}.{i}`.
    """

    turn_id: str
    message_id: str
    role: Role
    content: str
    message: Mapping[str, Any]
    timestamp: float
    binary_content: tuple[Attachment, ...] = ()
    shown_only: bool = False
    """A partial answer before a retry: the user sees it, the model does not."""
    type: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecord:
    """The state of a call. There is one record for each status that the call enters."""

    turn_id: str
    call: CanonicalToolCall
    timestamp: float
    message_id: str = ""
    """The id of the assistant message that made the call."""
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
    """A streamed piece of an item. For args and progress, `item_id` is the id of the call."""

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
    """A file that the turn changed. `before` and `after` are blob hashes; None means that the file did not exist."""

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
    background: bool = False
    """The change was made in the worktree of a background task. The file itself is as it was."""
    type: Literal["file_change"] = "file_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """The usage after a request. Outside a turn (empty `turn_id`) it is the usage of that request alone."""

    turn_id: str
    usage: Usage
    """The usage of the turn so far, including subagents."""
    context_used: int
    context_window: int | None = None
    origin: RequestOrigin = "turn"
    """What the request was for."""
    type: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord:
    turn_id: str
    level: Literal["info", "warning", "error"]
    message: str
    timestamp: float
    remedy: str | None = None
    retry_after: float | None = None
    """Seconds until the next attempt."""
    cause: FailureKind | None = None
    """The kind of failure, if the notice is about one."""
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """A sentence of an answer about tests, builds or files, checked against the calls."""

    turn_id: str
    text: str
    verdict: Literal["supported", "unsupported"]
    timestamp: float
    evidence: str | None = None
    type: Literal["claim"] = "claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """The title, model or mode of the session changed."""

    turn_id: str
    title: str
    model: str
    mode: str
    type: Literal["session"] = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """The earlier history is now sent as `summary`. `before` and `after` are token counts."""

    turn_id: str
    before: int
    after: int
    summary: str
    timestamp: float
    keep_from: str
    """The `message_id` of the first message that is still sent in full."""
    type: Literal["compaction"] = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """A decision in the audit trail. The hash of each entry covers the previous entry."""

    turn_id: str
    call_id: str
    tool: str
    digest: str
    decision: Literal["asked", "allow", "deny"]
    by: Literal["mode", "rule", "user", "nobody"]
    reason: str
    timestamp: float
    previous: str
    """The hash of the previous entry. Empty for the first entry."""
    hash: str
    approval_id: str | None = None
    option_id: str | None = None
    rule: str | None = None
    feedback: str | None = None
    type: Literal["approval"] = "approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """The file changes of a turn were undone or redone."""

    turn_id: str
    direction: Literal["undo", "redo"]
    uris: tuple[str, ...]
    timestamp: float
    type: Literal["undo"] = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRecord:
    """The user kept or undid pending changes of a file. `baseline` and `seen` are blob hashes of its review after that:
    the file without the changes that are still pending, and with them. None means that the file does not exist."""

    turn_id: str
    uri: str
    decision: Literal["keep", "undo"]
    baseline: str | None
    seen: str | None
    timestamp: float
    old_uri: str | None = None
    """Where the file was before a rename that is still pending."""
    type: Literal["review"] = "review"


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
    | ClaimRecord
    | SessionRecord
    | CompactionRecord
    | ApprovalRecord
    | UndoRecord
    | ReviewRecord
    | TurnEndRecord
)

SILENT_TYPES = frozenset({"message", "approval", "undo"})
"""Record types without an update for clients. They have no `seq`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A numbered record.

    `n` counts all records of a session from 1 without gaps. `seq` counts those that are sent to clients in the same
    way, and is None for the others.
    """

    n: int
    seq: int | None
    record: Record


RECORD: TypeAdapter[Record] = TypeAdapter(
    Annotated[Record, Discriminator("type")],
    config=ConfigDict(defer_build=True),  # built at the first use, to keep the start fast
)
"""Parses a record from JSON. `type` selects the class."""


def message_of(record: MessageRecord) -> CanonicalMessage:
    """Return the message of a record. If it is damaged, the message is built from `content`."""
    try:
        return message_from_json(record.message, record.message_id)
    except UnreadableMessage:
        role = MessageRole(record.role)
        part = TextPart(record.content) if role is MessageRole.ASSISTANT else UserPromptPart(record.content)
        return CanonicalMessage(role, (part,))


def record_to_json(record: Record) -> bytes:
    """Return a record as JSON without loss: `record_from_json(record_to_json(r)) == r`.

    The record is not validated again. Values that orjson rejects (integers beyond 64 bits, lone surrogates) are written
    with the json module.
    """
    try:
        return orjson.dumps(record, default=_plain)
    except TypeError:
        return json.dumps(record, default=_plain, ensure_ascii=False).encode("utf-8", "replace")


def record_from_json(body: str | bytes) -> Record:
    """Parse the output of `record_to_json`. Raises pydantic's ValidationError, which names the field."""
    return RECORD.validate_json(body)


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")
