"""The items of a transcript, which clients show to the user. Each has a stable id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pilotfish.conversation.messages import CanonicalToolCall
from pilotfish.conversation.records import Failure, PlanEntry, Receipt, StopReason, Usage
from pilotfish.errors import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    id: str
    """The id stays the same in updates and after a reload or restart."""
    turn_id: str
    n: int = 0
    """The number of the last record in the ledger that changed the item. 0 if unknown."""
    seq: int = 0
    """The `seq` of the last update that changed the item. 0 if no update did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptItem(_Item):
    """A prompt of the user, as the list of ContentBlocks of the protocol."""

    prompt: tuple[Mapping[str, Any], ...]
    prompt_id: str | None = None
    timestamp: float | None = None
    kind: Literal["prompt"] = "prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageItem(_Item):
    """Text of the agent: the joined chunks with this id."""

    text: str
    kind: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtItem(_Item):
    """A thought of the agent: the joined chunks with this id."""

    text: str
    kind: Literal["thought"] = "thought"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallItem(_Item):
    """The current state of a call. The item has the id of the call."""

    call: CanonicalToolCall
    kind: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem(_Item):
    """The last plan of a turn."""

    entries: tuple[PlanEntry, ...]
    kind: Literal["plan"] = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeItem(_Item):
    """A notice for the user."""

    level: Literal["info", "warning", "error"]
    message: str
    remedy: str | None = None
    cause: FailureKind | None = None
    kind: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimItem(_Item):
    """A sentence of the answer before it, checked against the calls."""

    text: str
    verdict: Literal["supported", "unsupported"]
    evidence: str | None = None
    kind: Literal["claim"] = "claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionItem(_Item):
    """The earlier history was summarised. `before` and `after` are token counts."""

    before: int
    after: int
    summary: str
    kind: Literal["compaction"] = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChangeItem(_Item):
    """A file that the turn changed."""

    uri: str
    change: Literal["created", "edited", "deleted", "renamed"]
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    call_id: str | None = None
    old_uri: str | None = None
    background: bool = False
    kind: Literal["file_change"] = "file_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEndItem(_Item):
    """The end of a turn."""

    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None
    undone: bool = False
    """The file changes of the turn were undone."""
    timestamp: float | None = None
    kind: Literal["turn_end"] = "turn_end"


Item = (
    PromptItem
    | MessageItem
    | ThoughtItem
    | CallItem
    | PlanItem
    | NoticeItem
    | ClaimItem
    | CompactionItem
    | FileChangeItem
    | TurnEndItem
)
