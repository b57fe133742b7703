"""The interface between the engine and its frontends (language server, ACP, terminal)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pilotfish.conversation.messages import CanonicalToolCall
from pilotfish.conversation.records import Failure, Receipt, Record, StopReason, Usage
from pilotfish.policy.rules import Rule
from pilotfish.store.tables.jobs import JobState
from pilotfish.tools.tool import Preview
from pilotfish.workspace.editor import Editor

ANSWERED_BY_PROMPT = (
    "[The question was shown to the user as text. The user answers with the next prompt: end your turn now, without an "
    "answer of your own.]"
)
"""what `Frontend.ask_user` returns in a client that can show a question and cannot ask it"""

OptionId = Literal["allow_once", "allow_real", "allow_session", "allow_always", "reject", "reject_always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """The state of a background task, for the user."""

    state: JobState | Literal["interrupted"]
    """`interrupted`: its process is gone, and nothing runs it"""
    place: str
    note: str
    has_changes: bool
    """there is a result to take over"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as a frontend shows it."""

    id: str
    title: str
    workspace_folder: str | None
    """path of a directory"""
    model: str
    mode: str
    created_at: float
    updated_at: float
    turns: int
    busy: bool
    usage: Usage
    elsewhere: bool = False
    """its turn runs in another process"""
    background: Background | None = None
    """its task in the background"""
    imported: bool = False
    """it came from a file, which anybody may have written"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a turn ended."""

    turn_id: str
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """One numbered update. A frontend translates it and sends it, in the order of `seq`."""

    session_id: str
    turn_id: str
    seq: int
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    id: OptionId
    label: str
    rule: str | None = None
    """description of the rule that this option saves"""
    standing: Rule | None = None
    """the rule that this option saves"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Asks the user whether a call may run. An approval holds for one digest: exact arguments and document versions."""

    approval_id: str
    session_id: str
    turn_id: str
    call: CanonicalToolCall
    reason: str
    digest: str
    preview: Preview
    parsed: Sequence[str]
    """for a command: a description of each part that would run"""
    options: tuple[Option, ...]
    amendable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    option_id: OptionId
    feedback: str | None = None
    args: Mapping[str, Any] | None = None
    """the arguments if the user amended them"""
    by: str = "user"
    """the part of the user interface that answered"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuestion:
    """A question of the tool `ask_user`."""

    id: str
    session_id: str
    turn_id: str
    question: str
    options: tuple[str, ...]


class Frontend(Protocol):
    """A client of the engine. One per process."""

    @property
    def editor(self) -> Editor: ...

    def notify(self, update: SessionUpdate) -> None:
        """Send an update. Never blocks."""
        ...

    @property
    def keeps_up(self) -> bool:
        """Whether the client reads updates as fast as they are sent. While it does not, the engine joins chunks."""
        ...

    async def room(self) -> None:
        """Return when the client keeps up again."""
        ...

    def ask(self, question: Question) -> None:
        """Show a question in every part of the user interface. The answer comes through `Engine.answer`."""
        ...

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        """Remove a question that was answered or cancelled."""
        ...

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        """Ask for the tool `ask_user`. None if the user dismissed the question or no client is connected;
        ANSWERED_BY_PROMPT if the question was only shown."""
        ...
