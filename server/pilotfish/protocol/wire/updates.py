"""The updates that `session/update` carries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pilotfish.protocol.wire.base import AgentState, Change, FailureKind, StopReason, Wire
from pilotfish.protocol.wire.content import ContentBlock
from pilotfish.protocol.wire.session import Failure, PlanEntry, Receipt, Session, ToolCall, Usage


class TurnStarted(Wire):
    """A turn started with this prompt."""

    kind: Literal["turn_started"] = "turn_started"
    prompt_id: str | None = None
    prompt: tuple[ContentBlock, ...]


class StateChanged(Wire):
    """The turn entered another state."""

    kind: Literal["state"] = "state"
    state: AgentState
    iteration: int
    prompt_id: str | None = None
    prompt: tuple[ContentBlock, ...] | None = None
    """with `user_input` while a turn runs: the steered prompt that the model reads next"""


class MessageChunk(Wire):
    """The next piece of the agent's answer."""

    kind: Literal["agent_message_chunk"] = "agent_message_chunk"
    item_id: str
    text: str


class ThoughtChunk(Wire):
    """The next piece of the agent's reasoning."""

    kind: Literal["agent_thought_chunk"] = "agent_thought_chunk"
    item_id: str
    text: str


class CallUpdate(Wire):
    """A call is new or changed. The update always carries the whole call."""

    kind: Literal["tool_call"] = "tool_call"
    call: ToolCall


class ArgsChunk(Wire):
    """The next piece of a call's arguments, while the model writes them."""

    kind: Literal["tool_call_args_chunk"] = "tool_call_args_chunk"
    call_id: str
    text: str


class Progress(Wire):
    """Live output of a call, or the steps of a subagent."""

    kind: Literal["tool_progress"] = "tool_progress"
    call_id: str
    text: str


class PlanUpdate(Wire):
    """The plan changed. The update always carries the whole plan."""

    kind: Literal["plan"] = "plan"
    entries: tuple[PlanEntry, ...]


class FileChanged(Wire):
    """The turn changed a file, through the editor's buffer or on disk."""

    kind: Literal["file_changed"] = "file_changed"
    uri: str
    change: Change
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    call_id: str | None = None
    old_uri: str | None = None
    background: bool | None = None
    """true if the change is in the worktree of a background task, and the file itself is as it was"""


class DecidedFile(Wire):
    """A file of which pending changes were kept or undone."""

    uri: str
    decision: Literal["keep", "undo"]


class ReviewChanged(Wire):
    """Pending changes were kept or undone. `review/list` has what is still pending."""

    kind: Literal["review_changed"] = "review_changed"
    files: tuple[DecidedFile, ...]


class UsageUpdate(Wire):
    """The turn's usage so far, and how much of the model's context window is used."""

    kind: Literal["usage"] = "usage"
    usage: Usage
    context_used: int
    context_window: int | None = None


class Notice(Wire):
    """A message for the user, with what to do about it."""

    kind: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    message: str
    remedy: str | None = None
    retry_after: float | None = None
    """seconds until the provider is asked again; `session/retry` asks at once"""
    cause: FailureKind | None = None
    """the kind of failure, if something failed; the same remedies apply as for a failed turn"""


class ClaimChecked(Wire):
    """A sentence of the answer about tests, builds or files, checked against the calls. `unsupported`: no call shows
    it, and the model is told so once."""

    kind: Literal["claim"] = "claim"
    text: str
    verdict: Literal["supported", "unsupported"]
    evidence: str | None = None
    """which call shows it, or what is missing"""


class SessionInfo(Wire):
    """Fields of the session itself changed, such as its title, model or mode."""

    kind: Literal["session_info"] = "session_info"
    session: Session


class Compaction(Wire):
    """From now on the model receives a summary in place of the history before this point. Counts are tokens."""

    kind: Literal["compaction"] = "compaction"
    before: int
    after: int
    summary: str


class TurnEnded(Wire):
    """The last update of a turn."""

    kind: Literal["turn_ended"] = "turn_ended"
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None


Update = Annotated[
    TurnStarted
    | StateChanged
    | MessageChunk
    | ThoughtChunk
    | CallUpdate
    | ArgsChunk
    | Progress
    | PlanUpdate
    | FileChanged
    | ReviewChanged
    | UsageUpdate
    | Notice
    | ClaimChecked
    | SessionInfo
    | Compaction
    | TurnEnded,
    Field(discriminator="kind"),
]


class UpdateParams(Wire):
    """One update of a session. `seq` starts at 1 in each session and grows by exactly 1."""

    session_id: str
    turn_id: str
    """empty if the update belongs to no turn"""
    seq: int
    update: Update
