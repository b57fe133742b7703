"""The services that a turn uses. The session of the turn implements them (`session/turn_services.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic_ai import CancellationToken
from pydantic_ai.toolsets import AbstractToolset

from pilotfish.config.settings import Settings
from pilotfish.conversation.messages import CallApproval, CanonicalMessage
from pilotfish.conversation.records import Record, SteerRecord, TurnStartRecord
from pilotfish.conversation.registry import ToolCallRegistry
from pilotfish.engine.extensions.hooks import Event, HookOutcome
from pilotfish.engine.frontend import Answer, Question
from pilotfish.engine.turn.context_window import ContextFill, WindowLimit
from pilotfish.engine.turn.history.request_history import RequestHistory
from pilotfish.engine.turn.usage import Meter
from pilotfish.policy.rules import CallFacts
from pilotfish.policy.verdict import Verdict


class Ports(Protocol):
    """The services of a session for its turns."""

    @property
    def session_id(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def trusted(self) -> bool: ...
    @property
    def imported(self) -> bool:
        """Whether the session came from a file, which anybody may have written."""
        ...

    @property
    def history(self) -> list[CanonicalMessage]:
        """The conversation so far. The turn appends to it."""
        ...

    @property
    def prompts(self) -> Sequence[TurnStartRecord | SteerRecord]:
        """The user's prompts so far, without those of an imported file."""
        ...

    @property
    def file_records(self) -> Sequence[Record]:
        """The records of changed files of all turns so far."""
        ...

    def request_history(self, settings: Settings) -> RequestHistory:
        """The messages to send under these settings. The same object, with its caches, serves later turns."""
        ...

    @property
    def registry(self) -> ToolCallRegistry:
        """The calls of the session. It reports changes to `ResponseStream.call_changed` of the running turn."""
        ...

    async def prompt_emitted(self, turn_id: str) -> None:
        """Called after the prompt was emitted: emits warnings and the title, asks for trust, connects MCP servers."""
        ...

    def emit(self, record: Record) -> None: ...
    async def wait_written(self) -> None:
        """Wait until all emitted records are written and shown. They survive the end of the process."""
        ...

    async def wait_durable(self) -> None:
        """Wait until all emitted records are written and shown, and survive a power cut."""
        ...

    async def backpressure(self) -> None:
        """Called between the chunks of a response. Waits while too many chunks are not written and shown yet."""
        ...

    async def wait_for_client(self) -> None:
        """Wait until the client keeps up with the updates."""
        ...

    async def fairness_gate(self) -> None:
        """Wait until no other turn has passed the gate in this iteration of the event loop."""
        ...

    async def unrecorded_chunks(self) -> Sequence[Record]:
        """Chunks that were emitted and whose message is not recorded."""
        ...

    async def files_changed(self) -> None:
        """Called after a call that changed files, before its result goes on."""
        ...

    async def store_blob(self, data: bytes) -> str: ...
    async def read_output(self, call_id: str, first: int, count: int) -> str: ...
    async def read_skill(self, name: str, file: str) -> str: ...
    def judge(self, facts: CallFacts) -> Verdict: ...
    @property
    def trust_undecided(self) -> bool:
        """Whether the user has not decided yet if the folder is trusted, and can be asked."""
        ...

    async def ask_for_trust(self, facts: CallFacts) -> bool:
        """Ask the user to trust the folder if only missing trust forbids the call. Returns whether trust was given."""
        ...

    async def ask(self, question: Question) -> Answer | None:
        """The user's answer. None if no client can answer."""
        ...

    async def ask_user(self, turn_id: str, question: str, options: Sequence[str]) -> str | None: ...
    def audit(self, turn_id: str, call_id: str, tool: str, approval: CallApproval) -> None: ...
    def instructions(self) -> str:
        """The instructions of every request. They stay the same over a session, unless their files change."""
        ...

    def unused_tools(self) -> frozenset[str]:
        """The tools that have nothing to work on in this session, so that the model is not offered them."""
        ...

    async def run_hooks(self, event: Event, tool: str, fields: Mapping[str, Any]) -> HookOutcome:
        """Run the hooks of an event. The user is notified of what they report and of those that failed."""
        ...

    def news(self) -> str:
        """What the model must know since the last request: another mode, rules of a folder. Empty if nothing."""
        ...

    def use_text_calls(self) -> bool:
        """From now on the model is told to write its calls as text. Returns False if it was told so already."""
        ...

    def takes_images(self) -> bool:
        """Whether the model is known to take images."""
        ...

    def toolsets(self) -> Sequence[AbstractToolset[Any]]:
        """The tools of MCP servers."""
        ...

    def new_id(self, kind: str) -> str: ...
    def clock(self) -> float: ...
    @property
    def context(self) -> ContextFill:
        """How full the model's context was after the last response."""
        ...

    @property
    def window(self) -> WindowLimit:
        """The context window of the model, as far as it is known."""
        ...

    async def compact(self, turn_id: str, meter: Meter, token: CancellationToken) -> bool:
        """Summarise the older messages; `meter` counts the request. Returns False if there is nothing to summarise."""
        ...
