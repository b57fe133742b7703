"""Sessions, turns and tool calls as clients see them."""

from __future__ import annotations

from typing import Any, Literal

from pilotfish.protocol.wire.base import CallStatus, Category, FailureKind, Location, Mode, Whole, Wire


class Usage(Wire):
    """Tokens and requests, of a turn or of a session."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """of the input tokens: read from the provider's prompt cache"""
    reasoning_tokens: int = 0
    """of the output tokens: spent on thinking"""
    requests: int = 0
    tool_calls: int = 0
    cost: float | None = None
    """in US dollars, if the price is known"""
    unpriced_requests: int = 0
    """requests to models whose price is not known; `cost` does not count them. Models on this machine cost nothing"""


class Background(Whole):
    """The task of a session that runs in the background, in a worktree and a process of its own."""

    state: Literal["queued", "running", "interrupted", "done", "failed", "cancelled", "applied", "discarded"]
    """`interrupted`: its process is gone; `background/resume` continues it. `applied`: its changes were taken over"""
    place: str
    """where it runs, for the user; empty before it does"""
    note: str
    """what the user should know: what stayed behind, why it failed"""
    has_changes: bool
    """whether there are changes to take over"""


class Session(Whole):
    """A conversation, usually about one workspace folder."""

    id: str
    title: str
    workspace_folder: str | None
    """a URI, or null if the session belongs to no folder"""
    model: str
    mode: Mode
    created_at: str
    updated_at: str
    turns: int
    busy: bool
    """whether a turn is running"""
    usage: Usage
    elsewhere: bool | None = None
    """true if another process runs the turn. It is followed, answered, steered and stopped here like a turn of this
    process"""
    background: Background | None = None
    """its task in the background, if it has one"""
    imported: bool | None = None
    """true if the session came from a file, which anybody may have written"""


class Failure(Wire):
    """The reason why a turn failed, in words for the user."""

    message: str
    remedy: str
    retryable: bool = False
    kind: FailureKind = "internal"
    retry_after: float | None = None
    """seconds to wait before a retry"""


class KilledProcess(Wire):
    """A command that was killed together with its process group."""

    pid: int
    command: str


class Receipt(Wire):
    """What a cancel stopped, and what had already happened."""

    turn_id: str | None = None
    took_ms: int = 0
    cancelled_calls: tuple[str, ...] = ()
    """ids of the calls that were stopped"""
    killed_processes: tuple[KilledProcess, ...] = ()
    changed_files: tuple[str, ...] = ()
    """URIs of the files that the turn had changed before it was stopped"""


class CallResult(Wire):
    """The output of a call. `text` is what the model receives."""

    text: str
    truncated: bool = False
    bytes: int = 0
    """size of the whole output"""


class CallApproval(Wire):
    """Who allowed or denied a call, and why."""

    decision: Literal["allow", "deny"]
    by: Literal["mode", "rule", "user", "nobody"]
    reason: str
    approval_id: str | None = None
    option_id: str | None = None
    rule: str | None = None
    """the rule that decided, in words"""
    digest: str | None = None
    feedback: str | None = None
    amended: bool = False
    """whether the user changed the arguments; then `args` are the changed ones"""


class ToolCall(Wire):
    """The whole state of a call.

    `status` starts at `pending`, may pass through `awaiting_approval` and `in_progress`, and ends in one of the last
    four values, which are final.
    """

    id: str
    name: str
    title: str
    category: Category
    status: CallStatus
    args: dict[str, Any]
    locations: tuple[Location, ...] = ()
    result: CallResult | None = None
    diff: str | None = None
    """unified diff of the changes that the call made"""
    error: str | None = None
    started_at: str | None = None
    duration_ms: int | None = None
    approval: CallApproval | None = None
    raw_args: str | None = None
    """the arguments as the model wrote them, if they were not a JSON object"""
    recovered: bool = False
    """whether the model wrote the call as text and it was recognised there"""
    parent_id: str | None = None
    """the call whose subagent made this one"""


class PlanEntry(Wire):
    """One step of the agent's plan."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"
