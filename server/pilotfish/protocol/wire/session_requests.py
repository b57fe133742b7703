"""Requests about sessions, prompts, undo and the prompt queue."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.protocol.wire.approvals import ApprovalRequest
from pilotfish.protocol.wire.base import Change, Mode, StopReason, Wire
from pilotfish.protocol.wire.content import ContentBlock
from pilotfish.protocol.wire.session import Failure, Receipt, Session, Usage
from pilotfish.protocol.wire.transcript import Item


class SessionNewParams(Wire):
    """A new conversation. Fields that are left out come from the settings."""

    workspace_folder: str | None = None
    """a URI; if absent, the first workspace folder"""
    title: str | None = None
    model: str | None = None
    mode: Mode | None = None


class SessionResult(Wire):
    """The session after the request."""

    session: Session


class SessionListParams(Wire):
    """Selects sessions."""

    workspace_folder: str | None = None
    query: str | None = None
    """searched in titles and texts"""
    cursor: str | None = None
    limit: int = Field(default=50, ge=1)
    """one page has at most 500 sessions"""


class SessionMatch(Wire):
    """Where a query was found in the messages of a session."""

    session_id: str
    text: str
    """the words around the place"""


class SessionListResult(Wire):
    """One page of sessions, newest first."""

    sessions: tuple[Session, ...]
    matches: tuple[SessionMatch, ...] | None = None
    """for a query: the sessions in whose messages it was found, not only in the title"""
    next_cursor: str | None = None


class SessionLoadParams(Wire):
    """Selects the newest items, or the items before one that the client already has."""

    session_id: str
    before: str | None = None
    """the id of the oldest item that the client has"""
    limit: int = Field(default=200, ge=1)
    """one page has at most 2000 items"""


class SessionLoadResult(Wire):
    """One page of the transcript, oldest item first. The next update has the number `lastSeq + 1`."""

    session: Session
    items: tuple[Item, ...]
    has_more: bool
    last_seq: int
    pending_approvals: tuple[ApprovalRequest, ...]


class SessionRenameParams(Wire):
    """Gives a session another title."""

    session_id: str
    title: str


class SessionParams(Wire):
    """Names a session."""

    session_id: str


class SessionForkParams(Wire):
    """Copies a session up to and including one item, or the whole session if `itemId` is absent."""

    session_id: str
    item_id: str | None = None


class SessionExportParams(Wire):
    """Exports a transcript as text."""

    session_id: str
    format: Literal["markdown", "json"]


class SessionExportResult(Wire):
    """The exported text."""

    text: str


class SessionConfigureParams(Wire):
    """Sets the model or the mode, from the next model request on."""

    session_id: str
    model: str | None = None
    mode: Mode | None = None


class PromptParams(Wire):
    """A prompt. The request is answered when its turn has ended."""

    session_id: str
    prompt: tuple[ContentBlock, ...] = Field(min_length=1)
    prompt_id: str | None = None
    """an id that the client chooses"""
    when_busy: Literal["reject", "queue", "steer"] = "reject"
    """what to do while a turn runs: fail with error 2, wait until it ends, or give the prompt to the model at its next
    step"""


class PromptResult(Wire):
    """The outcome of the turn. If the provider fails, `stopReason` is `failed`; that is not a JSON-RPC error."""

    turn_id: str
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None
    reply: str | None = None
    """the answer of a slash command (Markdown); no turn ran, and `turnId` is empty"""
    session_id: str | None = None
    """the session to continue in, if it is another one: after `/clear`, and of an inline edit"""


class CancelParams(Wire):
    """Stops the turn. With `toolCallId` only that call is stopped, and the turn goes on."""

    session_id: str
    tool_call_id: str | None = None


class UndoParams(Wire):
    """Selects the turn whose file changes are undone. Without `turnId` it is the last turn that changed files."""

    session_id: str
    turn_id: str | None = None
    dry_run: bool = False


class UndoneFile(Wire):
    """A file that was restored, or with `dryRun` would be."""

    uri: str
    change: Change
    added: int = 0
    removed: int = 0


class RefusedFile(Wire):
    """A file that was not touched, and why."""

    uri: str
    reason: str


class UndoResult(Wire):
    """The files that were restored, and those that were not. A later edit of the user is never overwritten."""

    changes: tuple[UndoneFile, ...]
    refused: tuple[RefusedFile, ...]
    turn_id: str | None = None
    """the turn that was meant"""
    commands: tuple[str, ...] | None = None
    """commands of the turn that ran where they could change files: what they did is not recorded and stays"""


class RestoreParams(Wire):
    """Selects the turn that is undone together with all later ones."""

    session_id: str
    turn_id: str


class RestoreResult(Wire):
    """The conversation as it was before the turn, in a new session, and what was done to the files. The old session
    keeps everything: `session/redo` applies the changes of its turns again."""

    session: Session
    changes: tuple[UndoneFile, ...]
    refused: tuple[RefusedFile, ...]
    turns: tuple[str, ...]
    """the turns that are not in the new session, oldest first"""
    commands: tuple[str, ...]
    """commands that ran in these turns; their effects are not undone"""


class QueuedPrompt(Wire):
    """A prompt that waits for the running turn to end, or for its next step."""

    prompt_id: str
    prompt: tuple[ContentBlock, ...]
    kind: Literal["queue", "steer"]


class QueueListResult(Wire):
    """The waiting prompts, in the order in which they will run."""

    prompts: tuple[QueuedPrompt, ...]


class QueueRemoveParams(Wire):
    """Withdraws a waiting prompt. Its own request is answered with `cancelled`."""

    session_id: str
    prompt_id: str
