"""What the engine needs of a face (the language server, ACP, a terminal) and tells it, and a turn of its session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pilotfish.conversation.messages import CanonicalToolCall
from pilotfish.conversation.records import Failure, Receipt, Record, StopReason, Usage
from pilotfish.policy.rules import Rule
from pilotfish.tools.tool import Preview
from pilotfish.workspace.editor import Editor

OptionId = Literal["allow_once", "allow_session", "allow_always", "reject", "reject_always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as a face shows it."""

    id: str
    title: str
    workspace_folder: str | None
    """a directory, or None"""
    model: str
    mode: str
    created_at: float
    updated_at: float
    turns: int
    busy: bool
    usage: Usage
    elsewhere: bool = False
    """its turn runs in another process"""


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
    """One numbered thing to tell: a face gives it its own form and sends it, in this order."""

    session_id: str
    turn_id: str
    seq: int
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    id: OptionId
    label: str
    rule: str | None = None
    """the rule that would be written, in words"""
    standing: Rule | None = None
    """the rule itself"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """May this call run? For one digest: exact arguments and the versions of the documents they touch."""

    approval_id: str
    session_id: str
    turn_id: str
    call: CanonicalToolCall
    reason: str
    digest: str
    preview: Preview
    parsed: Sequence[str]
    """for a command: what would run, in words"""
    options: tuple[Option, ...]
    amendable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    option_id: OptionId
    feedback: str | None = None
    args: Mapping[str, Any] | None = None
    """the arguments as the user amended them"""
    by: str = "user"
    """which surface answered"""


class Frontend(Protocol):
    """A client of the engine. One per process."""

    @property
    def editor(self) -> Editor: ...

    def notify(self, update: SessionUpdate) -> None:
        """Send; never blocks."""
        ...

    @property
    def keeps_up(self) -> bool:
        """Whether the client reads as fast as it is told. The engine joins chunks while it does not."""
        ...

    async def room(self) -> None:
        """Returns when the client keeps up again."""
        ...

    def ask(self, question: Question) -> None:
        """Show a question on every surface. Answers come back through `Live.answer`, from any of them."""
        ...

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        """A question is over: clear it everywhere."""
        ...

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        """The tool `ask_user`. None: dismissed, or nobody is there."""
        ...
