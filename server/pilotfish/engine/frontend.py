"""What the engine needs of a face (the language server, ACP, a terminal) and tells it, and a turn of its session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pilotfish.conversation.messages import CallApproval, CanonicalMessage, CanonicalToolCall
from pilotfish.conversation.records import Failure, Receipt, Record, StopReason, Usage
from pilotfish.conversation.registry import ToolCallRegistry
from pilotfish.policy.judge import CallFacts, Verdict
from pilotfish.policy.rules import Rule
from pilotfish.tools.tool import Preview
from pilotfish.workspace.editor import Editor

if TYPE_CHECKING:
    from pydantic_ai import CancellationToken
    from pydantic_ai.toolsets import AbstractToolset

    from pilotfish.config.settings import Settings
    from pilotfish.engine.turn.compaction import ContextFill
    from pilotfish.engine.turn.request_history import RequestHistory
    from pilotfish.engine.turn.usage import Meter

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


class Ports(Protocol):
    """What a turn may touch of its session. `session_ports.py` fills it."""

    @property
    def session_id(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def trusted(self) -> bool: ...
    @property
    def history(self) -> list[CanonicalMessage]:
        """the conversation so far; the turn appends to it"""
        ...

    def sending(self, settings: Settings) -> RequestHistory:
        """what of it is sent under these settings; it remembers what it has looked at"""
        ...

    @property
    def registry(self) -> ToolCallRegistry:
        """the calls of the session; its changes come to `call_changed` of the running turn"""
        ...

    async def taken_up(self, turn_id: str) -> None:
        """the prompt has been emitted; it is written after the next `wait_written`"""
        ...

    def emit(self, record: Record) -> None: ...
    async def wait_written(self) -> None:
        """what was emitted has been written and shown: it survives the end of the process"""
        ...

    async def wait_durable(self) -> None:
        """what was emitted has been written and shown, and survives a power cut"""
        ...

    async def backpressure(self) -> None:
        """called between the chunks of an answer: waits while too many wait to be written and shown"""
        ...

    async def room(self) -> None:
        """the client keeps up with what it is told"""
        ...

    async def fairness_gate(self) -> None:
        """other turns do no long step in this round of the event loop"""
        ...

    async def left_over(self) -> Sequence[Record]:
        """pieces that were told and whose message is not recorded"""
        ...

    async def keep(self, data: bytes) -> str: ...
    async def read_output(self, call_id: str, first: int, count: int) -> str: ...
    def judge(self, facts: CallFacts) -> Verdict: ...
    @property
    def undecided(self) -> bool:
        """nobody has said yet whether the folder is trusted, and somebody can be asked"""
        ...

    async def gains_trust(self, facts: CallFacts) -> bool:
        """ask for trust, when nothing but that forbids a call; whether it is there now"""
        ...

    async def ask(self, question: Question) -> Answer | None:
        """the user's answer; None: nobody can answer"""
        ...

    async def ask_user(self, turn_id: str, question: str, options: Sequence[str]) -> str | None: ...
    def audit(self, turn_id: str, call_id: str, tool: str, approval: CallApproval) -> None: ...
    def rules_text(self) -> str:
        """the AGENTS.md rules that hold now"""
        ...

    def toolsets(self) -> Sequence[AbstractToolset[Any]]:
        """tools of MCP servers"""
        ...

    def new_id(self, kind: str) -> str: ...
    def clock(self) -> float: ...
    @property
    def context(self) -> ContextFill:
        """how full the model's context was after the last answer"""
        ...

    @property
    def nearly_full(self) -> bool:
        """the conversation fills the model's context window, but for little"""
        ...

    async def compact(self, turn_id: str, meter: Meter, token: CancellationToken) -> bool:
        """Summarise what is old, counted by `meter`. Returns False if there is nothing left to summarise."""
        ...
