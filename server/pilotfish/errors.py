"""The errors of this program, grouped by who can act on them.

PilotfishError
├── ToolError          the model can act: the call fails, the turn continues
│   ├── StaleEdit      a document has changed since it was read
│   └── Refused        the workspace never does this (outside the roots, binary, device …)
├── TurnError          the user can act: the turn ends with a message and a remedy
├── RequestError       the client can act: a JSON-RPC error (lsp chooses its code)
│   ├── BadRequest     a parameter is wrong; it names the field
│   ├── UnknownSession
│   ├── SessionBusy    a turn is running here, or another process holds the session
│   │   └── TaskInBackground   a task in the background has not ended, or its changes were not taken over
│   ├── NotTrusted
│   ├── UnknownCall    an unknown call, prompt, question or item
│   └── GitError       git refused; the message says what it said
├── StorageError       the user can act on the disk: damaged data is set aside, never overwritten
│   └── MovedOn        another process has written to the session; the writer can renumber its records
└── UnreadableMessage  a value is not a message; the caller can act: it names the place

Any other exception is a bug. It is caught once at the outermost layer, logged with its traceback and shown without it.
Cancellation is an outcome, not an error.
"""

from __future__ import annotations

from typing import Literal

FailureKind = Literal[
    "rate_limit",
    "overloaded",
    "authentication",
    "credit",
    "network",
    "stalled",
    "bad_request",
    "context",
    "empty",
    "configuration",
    "storage",
    "restarted",
    "closed",
    "internal",
]


class PilotfishError(Exception):
    """The base class of all errors that this program raises on purpose. `str(error)` can be shown to the user."""


class ToolError(PilotfishError):
    """A tool call failed. The message tells the model what to do instead."""


class StaleEdit(ToolError):
    """A document has changed since the version that the edit is based on."""


class Refused(ToolError):
    """The workspace never does this, even with approval."""


class TurnError(PilotfishError):
    """A turn cannot continue. `remedy` says what the user can do."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str,
        retryable: bool = False,
        kind: FailureKind = "internal",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.retryable = retryable
        self.kind: FailureKind = kind
        self.retry_after = retry_after


class RequestError(PilotfishError):
    """The request of a client cannot be fulfilled."""


class BadRequest(RequestError):
    """A parameter is wrong."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class UnknownSession(RequestError):
    """No session has this id."""


class SessionBusy(RequestError):
    """A turn is running in this session, or another process holds it."""


class TaskInBackground(SessionBusy):
    """The session belongs to a task in the background: it has not ended, or its changes were not taken over."""


class NotTrusted(RequestError):
    """The request needs a trusted folder, and the folder is not trusted."""


class UnknownCall(RequestError):
    """No call, prompt, question or item has this id."""


class GitError(RequestError):
    """git refused to do its part of a request."""


class StorageError(PilotfishError):
    """The store cannot read or write. `remedy` says what the user can do."""

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class MovedOn(StorageError):
    """New records do not follow the last record of their session. `n` and `seq` are the numbers of that record."""

    def __init__(self, n: int, seq: int) -> None:
        super().__init__(
            f"Another process has written to this session: its last record is {n}, its last update {seq}.",
            remedy="Open the session again.",
        )
        self.n = n
        self.seq = seq


class UnreadableMessage(PilotfishError):
    """A value is not a valid message. `place` says where, for example `messages[3].parts[0]`."""

    def __init__(self, problem: str, *, place: str) -> None:
        super().__init__(f"{place} {problem}")
        self.place = place
