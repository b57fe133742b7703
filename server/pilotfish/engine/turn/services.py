"""The services that a turn uses. The session of the turn implements them (`session/turn_services.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pydantic_ai import CancellationToken
from pydantic_ai.toolsets import AbstractToolset

from pilotfish.config.settings import Settings
from pilotfish.conversation.messages import CallApproval, CanonicalMessage
from pilotfish.conversation.records import Record
from pilotfish.conversation.registry import ToolCallRegistry
from pilotfish.engine.frontend import Answer, Question
from pilotfish.engine.turn.compaction import ContextFill
from pilotfish.engine.turn.request_history import RequestHistory
from pilotfish.engine.turn.usage import Meter
from pilotfish.policy.judge import CallFacts, Verdict


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
