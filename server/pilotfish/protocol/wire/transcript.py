"""The items of a transcript, as `session/load` returns them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Change, FailureKind, StopReason, Wire
from pilotfish.protocol.wire.content import ContentBlock
from pilotfish.protocol.wire.session import Failure, PlanEntry, Receipt, ToolCall, Usage


class ItemBase(Wire):
    """The fields that every transcript item has."""

    id: str
    """stable: the same in updates, and after every load and restart"""
    turn_id: str
    seq: int = 0
    """number of the last update that changed the item, or 0"""


class PromptItem(ItemBase):
    """A prompt of the user."""

    kind: Literal["prompt"] = "prompt"
    prompt: tuple[ContentBlock, ...]
    prompt_id: str | None = None
    at: str | None = None


class MessageItem(ItemBase):
    """An answer of the agent: all chunks with this `itemId`, joined."""

    kind: Literal["message"] = "message"
    text: str


class ThoughtItem(ItemBase):
    """Reasoning of the agent: all chunks with this `itemId`, joined."""

    kind: Literal["thought"] = "thought"
    text: str


class CallItem(ItemBase):
    """A tool call. `id` is the id of the call."""

    kind: Literal["tool_call"] = "tool_call"
    call: ToolCall


class PlanItem(ItemBase):
    """The plan as it was at the end of its turn."""

    kind: Literal["plan"] = "plan"
    entries: tuple[PlanEntry, ...]


class NoticeItem(ItemBase):
    """A notice that was shown to the user."""

    kind: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    message: str
    remedy: str | None = None
    cause: FailureKind | None = None
    """the kind of failure, if something failed"""


class ClaimItem(ItemBase):
    """A sentence of the answer before it, checked against the calls."""

    kind: Literal["claim"] = "claim"
    text: str
    verdict: Literal["supported", "unsupported"]
    evidence: str | None = None


class CompactionItem(ItemBase):
    """The history before this item was summarised."""

    kind: Literal["compaction"] = "compaction"
    before: int
    after: int
    summary: str


class FileChangeItem(ItemBase):
    """A file that the turn changed."""

    kind: Literal["file_change"] = "file_change"
    uri: str
    change: Change
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    call_id: str | None = None
    old_uri: str | None = None
    background: bool | None = None
    """true if the change is in the worktree of a background task, and the file itself is as it was"""


class TurnEndItem(ItemBase):
    """The end of a turn."""

    kind: Literal["turn_end"] = "turn_end"
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None
    undone: bool = False
    """whether the turn's file changes were undone"""
    at: str | None = None


Item = Annotated[
    PromptItem
    | MessageItem
    | ThoughtItem
    | CallItem
    | PlanItem
    | NoticeItem
    | ClaimItem
    | CompactionItem
    | FileChangeItem
    | TurnEndItem,
    Field(discriminator="kind"),
]
