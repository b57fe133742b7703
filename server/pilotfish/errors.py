"""The error tree, by who can act.

PilotfishError
├── ToolError          the model can act: a failed return, the turn goes on
│   ├── StaleEdit      a document moved on since it was read
│   └── Refused        the workspace will not do this (outside the roots, binary, device …)
├── TurnError          the user can act: the turn ends with a message and a remedy
├── RequestError       the client can act: a JSON-RPC error (its code is chosen in lsp)
│   ├── BadRequest     a parameter is wrong; names the field
│   ├── UnknownSession
│   ├── SessionBusy    a turn is running here, or another process holds the session
│   ├── NotTrusted
│   └── UnknownCall    an unknown call, prompt, question or item
├── StorageError       the disk can be acted on: damaged data is kept aside, never overwritten
│   └── MovedOn        somebody else has written to the session; whoever writes can number anew
└── UnreadableMessage  a value is no message; whoever holds the value can act: it names the place

Anything else is a bug: caught once at the edge, logged with its traceback, shown without it.
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
    "internal",
]


class PilotfishError(Exception):
    """Every error this program raises on purpose. `str(error)` is fit to be shown to a person."""


class ToolError(PilotfishError):
    """A tool could not do what it was asked. The text tells the model what to do instead."""


class StaleEdit(ToolError):
    """A document has changed since the version the edit was made against."""


class Refused(ToolError):
    """The workspace does not do this at all, whoever asks."""


class TurnError(PilotfishError):
    """A turn cannot go on. `remedy` says what the user can do."""

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
    """A client asked for something that cannot be given."""


class BadRequest(RequestError):
    """A parameter is wrong."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class UnknownSession(RequestError):
    """No session has this id."""


class SessionBusy(RequestError):
    """A turn is running in this session, or another process holds it."""


class NotTrusted(RequestError):
    """The folder is not trusted, and this needs trust."""


class UnknownCall(RequestError):
    """No call, prompt, question or item has this id."""


class StorageError(PilotfishError):
    """The store cannot read or write. `remedy` says what the user can do."""

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class MovedOn(StorageError):
    """Records do not follow the last one of their session, which has these numbers."""

    def __init__(self, n: int, seq: int) -> None:
        super().__init__(
            f"The session has moved on elsewhere: it stands at record {n}, update {seq}.",
            remedy="Open the session again.",
        )
        self.n = n
        self.seq = seq


class UnreadableMessage(PilotfishError):
    """A value that should be a message is none. `place` says where, as in `messages[3].parts[0]`."""

    def __init__(self, problem: str, *, place: str) -> None:
        super().__init__(f"{place} {problem}")
        self.place = place
