"""The items of a transcript: what a person reads of a session, each with an id that stays."""

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
    """the same in updates, over loads and restarts"""
    turn_id: str
    n: int = 0
    """the last record that changed the item, as the ledger counts them; 0 where none is known"""
    seq: int = 0
    """the last update that changed it, as clients count them; 0 where none did"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptItem(_Item):
    """What the user sent: the wire's ContentBlock list."""

    prompt: tuple[Mapping[str, Any], ...]
    prompt_id: str | None = None
    timestamp: float | None = None
    kind: Literal["prompt"] = "prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageItem(_Item):
    """What the agent said: the chunks with this id, joined."""

    text: str
    kind: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtItem(_Item):
    """What the agent thought: the chunks with this id, joined."""

    text: str
    kind: Literal["thought"] = "thought"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallItem(_Item):
    """A call as it is now; its id is the item's."""

    call: CanonicalToolCall
    kind: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem(_Item):
    """The plan of a turn as it was last."""

    entries: tuple[PlanEntry, ...]
    kind: Literal["plan"] = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeItem(_Item):
    """Something the user was told."""

    level: Literal["info", "warning", "error"]
    message: str
    remedy: str | None = None
    cause: FailureKind | None = None
    kind: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionItem(_Item):
    """History before this was summarised. `before` and `after` are token counts."""

    before: int
    after: int
    summary: str
    kind: Literal["compaction"] = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChangeItem(_Item):
    """A file the turn changed."""

    uri: str
    change: Literal["created", "edited", "deleted", "renamed"]
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    call_id: str | None = None
    old_uri: str | None = None
    kind: Literal["file_change"] = "file_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEndItem(_Item):
    """The end of a turn."""

    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None
    undone: bool = False
    """its files were put back"""
    timestamp: float | None = None
    kind: Literal["turn_end"] = "turn_end"


Item = (
    PromptItem
    | MessageItem
    | ThoughtItem
    | CallItem
    | PlanItem
    | NoticeItem
    | CompactionItem
    | FileChangeItem
    | TurnEndItem
)
