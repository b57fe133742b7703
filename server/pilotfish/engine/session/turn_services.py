"""Implements the services that a session offers to its turns (`turn/services.py`).

Hides: which rules hold, when the user is asked to trust a folder, where titles and outputs come from.
Promises: the user is asked for trust at most once per turn; rules and MCP servers of a folder are used only when it is
trusted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pilotfish.conversation.messages import CanonicalMessage
from pilotfish.conversation.records import NoticeRecord, Record, SessionRecord, SteerRecord, TurnStartRecord
from pilotfish.conversation.registry import ToolCallRegistry
from pilotfish.engine.context import EngineContext
from pilotfish.engine.extensions.hooks import Event, HookOutcome, Hooks, workspace_hooks
from pilotfish.engine.frontend import Answer, Question, UserQuestion
from pilotfish.engine.mcp.config import ServerDefinition
from pilotfish.engine.mcp.servers import Servers
from pilotfish.engine.session.briefing import Briefing
from pilotfish.engine.session.session_history import SessionHistory
from pilotfish.engine.turn.context_window import WindowLimit
from pilotfish.errors import FailureKind, StorageError, ToolError
from pilotfish.policy.rules import CallFacts, Rule
from pilotfish.policy.verdict import Verdict
from pilotfish.store.catalog import SessionRow
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai import CancellationToken
    from pydantic_ai.models import Model
    from pydantic_ai.toolsets import AbstractToolset

    from pilotfish.config.settings import Mode, Settings
    from pilotfish.engine.turn.context_window import ContextFill
    from pilotfish.engine.turn.history.request_history import RequestHistory
    from pilotfish.engine.turn.usage import Meter


class ServedSession(Protocol):
    """The session whose turns use the services. `session.LiveSession` implements it."""

    row: SessionRow
    rules: list[Rule]
    mcp: Servers
    mcp_servers: tuple[ServerDefinition, ...]

    @property
    def engine(self) -> EngineContext: ...
    @property
    def conversation(self) -> SessionHistory: ...
    @property
    def workspace(self) -> Workspace: ...
    @property
    def briefing(self) -> Briefing: ...
    @property
    def hooks(self) -> Hooks: ...
    @property
    def turn_id(self) -> str | None:
        """The id of the running turn."""
        ...

    def model(self) -> Model: ...
    def approval_asked(self, call_id: str) -> None: ...


class TurnServices:
    """The services for all turns of one session."""

    def __init__(self, session: ServedSession) -> None:
        self._session = session
        self._engine = engine = session.engine
        self._conversation = conversation = session.conversation
        self._asking_for_trust = asyncio.Lock()
        self._trust_asked_in = ""
        self._trust_question: asyncio.Future[None] | None = None
        self.clock = engine.clock
        self._request_history: RequestHistory | None = None
        self.window = WindowLimit()
        self._reported_problems: set[str] = set()
        self.begun_turn = ""
        """the last turn whose prompt is recorded"""
        self._reported_servers: set[str] = set()
        """MCP servers that the user was told are not available"""
        self.new_id = engine.new_id
        self.fairness_gate = engine.fairness_gate
        self.store_blob = engine.ledger.put_blob
        self.emit = conversation.emit
        self.wait_written = conversation.wait_written
        self.wait_durable = conversation.wait_durable
        self.backpressure = conversation.backpressure
        self.unrecorded_chunks = conversation.unrecorded_chunks
        self.audit = conversation.audit

    @property
    def session_id(self) -> str:
        return self._session.row.id

    @property
    def mode(self) -> Mode:
        return self._engine.permitted_mode(self._session.row.mode)

    @property
    def imported(self) -> bool:
        return self._session.row.imported > 0

    @property
    def history(self) -> list[CanonicalMessage]:
        return self._conversation.history

    @property
    def prompts(self) -> Sequence[TurnStartRecord | SteerRecord]:
        return self._conversation.prompts

    @property
    def file_records(self) -> Sequence[Record]:
        return self._conversation.file_records

    def request_history(self, settings: Settings) -> RequestHistory:
        from pilotfish.engine.turn.history.request_history import (
            RequestHistory,  # a slow import that a turn has made already
        )

        if self._request_history is None or not self._request_history.fits(settings):
            self._request_history = RequestHistory(settings)
        return self._request_history

    @property
    def registry(self) -> ToolCallRegistry:
        return self._conversation.registry

    async def prompt_emitted(self, turn_id: str) -> None:
        """Emit warnings and the title that the first prompt gave, ask for trust, connect MCP servers."""
        session, engine = self._session, self._engine
        self.begun_turn = turn_id
        self._warn_of_rules(turn_id)
        await self._warn_of_small_window(turn_id)
        if not session.row.title:
            await self.wait_written()
        for notice in engine.store_notices():
            self._warn(turn_id, notice.message, notice.remedy, "storage")
        if not session.row.title:
            session.row = row = await engine.catalog.get(session.row.id)
            if row.title:
                self.emit(SessionRecord(turn_id=turn_id, title=row.title, model=row.model, mode=row.mode))
        if self.trust_undecided and session.briefing.rules.there(self._open_paths()):
            await self._ask_for_trust()
        if self.trusted:
            self._announce_hooks(turn_id)
            engine.use_mcp()
            session.mcp.use(session.mcp_servers)
            await asyncio.gather(engine.mcp.settled(), session.mcp.settled())
            self.warn_of_servers(turn_id)

    def _announce_hooks(self, turn_id: str) -> None:
        """Tell the user once that the workspace runs commands of its own."""
        for file in workspace_hooks(self._session.workspace):
            name = self._session.workspace.relative(file)
            if name not in self._reported_problems:
                self._reported_problems.add(name)
                self._note(turn_id, f"This workspace has hooks that run during turns: {name}.")

    def _warn_of_rules(self, turn_id: str) -> None:
        """Warn once about each invalid entry in the rule files."""
        for problem in self._engine.rule_problems(self._session.row.workspace):
            self._warn_once(turn_id, f"{problem}.", "Correct the file.")
        for problem in self._engine.attribution_problems():
            self._warn_once(turn_id, f"{problem}.", "Set gitAttribution to notes, which needs no hook.")

    async def files_changed(self) -> None:
        if self._engine.files_changed is not None:
            await self._engine.files_changed()

    def _warn_once(self, turn_id: str, problem: str, remedy: str) -> None:
        if problem not in self._reported_problems:
            self._reported_problems.add(problem)
            self._warn(turn_id, problem, remedy, "configuration")

    def warn_of_servers(self, turn_id: str) -> None:
        """Warn once of each MCP server that is not there, and tell when it is back."""
        for server in (*self._engine.mcp.found.values(), *self._session.mcp.found.values()):
            if server.available and server.name in self._reported_servers:
                self._reported_servers.discard(server.name)
                message, now = f"The MCP server {server.name} is connected again.", self.clock()
                self.emit(NoticeRecord(turn_id=turn_id, level="info", message=message, timestamp=now))
            elif not server.available and not server.connecting and server.name not in self._reported_servers:
                self._reported_servers.add(server.name)
                message = f"The MCP server {server.name} is not available: {server.reason}."
                self._warn(turn_id, message, "Check its configuration with `pilotfish doctor`.", "configuration")

    async def _warn_of_small_window(self, turn_id: str) -> None:
        """Warn once if the model is loaded with too small a context window."""
        model = self._model_name
        if not model.startswith("ollama:") or model in self._reported_problems:
            return
        from pilotfish.engine.model.catalog.listing import small_window

        if (window := await small_window(model)) is not None:
            self._reported_problems.add(model)
            message = f"Ollama has loaded {model} with a context window of {window:,} tokens, which is too small."
            remedy = "Start Ollama with OLLAMA_CONTEXT_LENGTH=32768 or more; it drops what does not fit."
            self._warn(turn_id, message, remedy, "configuration")

    def _note(self, turn_id: str, message: str) -> None:
        self.emit(NoticeRecord(turn_id=turn_id, level="info", message=message, timestamp=self.clock()))

    def _warn(self, turn_id: str, message: str, remedy: str | None, cause: FailureKind | None) -> None:
        now = self.clock()
        self.emit(
            NoticeRecord(turn_id=turn_id, level="warning", message=message, remedy=remedy, cause=cause, timestamp=now)
        )

    async def wait_for_client(self) -> None:
        await self._engine.frontend.room()

    async def read_output(self, call_id: str, first: int, count: int) -> str:
        call = self.registry.find(call_id)
        if call is None or call.result is None:
            raise ToolError(f"no call {call_id!r} has output; use the id of an earlier call")
        text = call.result.text
        if call.result.blob:
            text = (await self._engine.ledger.get_blob(call.result.blob)).decode("utf-8", "replace")
        lines = text.split("\n")
        page = lines[max(0, first - 1) : max(0, first - 1) + count]
        return "\n".join(page) + f"\n[lines {first}-{first + len(page) - 1} of {len(lines)}]"

    async def read_skill(self, name: str, file: str) -> str:
        return await asyncio.to_thread(self._session.briefing.skills.read, name, file, trusted=self.trusted)

    def instructions(self) -> str:
        return self._session.briefing.instructions()

    async def run_hooks(self, event: Event, tool: str, fields: Mapping[str, Any]) -> HookOutcome:
        session, turn_id = self._session, self._session.turn_id or ""
        own = {"session_id": session.row.id, "turn_id": turn_id, "permission_mode": self.mode}
        outcome = await session.hooks.run(event, tool, own | dict(fields), session.workspace, trusted=self.trusted)
        for message in outcome.messages:
            self._note(turn_id, message)
        for problem in outcome.problems:
            self._warn_once(turn_id, problem, "Correct the hook, or remove it from hooks.json.")
        return outcome

    def unused_tools(self) -> frozenset[str]:
        return frozenset() if self._session.briefing.has_skills else frozenset({"read_skill"})

    def news(self) -> str:
        return self._session.briefing.news()

    def use_text_calls(self) -> bool:
        from pilotfish.engine.model.catalog.listing import note_lacking_tools  # a slow import that a turn has made

        return note_lacking_tools(self._model_name)

    def takes_images(self) -> bool:
        from pilotfish.engine.model.catalog.listing import takes_images  # a slow import that a turn has made

        return takes_images(self._model_name, self._engine.editor_models)

    @property
    def _model_name(self) -> str:
        return self._session.row.model or self._engine.settings.model

    def toolsets(self) -> Sequence[AbstractToolset[Any]]:
        if not self.trusted:
            return ()
        return tuple({**self._engine.mcp.toolsets, **self._session.mcp.toolsets}.values())

    @property
    def context(self) -> ContextFill:
        return self._conversation.context

    async def compact(self, turn_id: str, meter: Meter, token: CancellationToken) -> bool:
        from pilotfish.engine.turn.history.summaries import summarise  # a slow import that a turn has made already

        window = self.window.size or self._engine.settings.context_window
        self._session.briefing.forget()
        return await self._conversation.compact(
            turn_id, window, self.window.fixed, lambda old: summarise(old, self._session.model(), meter, token, window)
        )

    # -- approvals and trust --------------------------------------------------------------------------------------

    def judge(self, facts: CallFacts) -> Verdict:
        return self._judge(facts, self.trusted)

    def _judge(self, facts: CallFacts, trusted: bool) -> Verdict:
        return self._engine.managed.judge(facts, self.mode, self._rules(), trusted)

    @property
    def trusted(self) -> bool:
        return self._engine.trusted(self._session.row.workspace)

    @property
    def trust_undecided(self) -> bool:
        folder = self._session.row.workspace
        if self._engine.ask_for_trust is None or folder is None or self.trusted:
            return False
        return self._engine.book.trust_of(Path(folder)) is None

    async def ask_for_trust(self, facts: CallFacts) -> bool:
        if not self.trust_undecided or self._judge(facts, trusted=True).decision == "deny":
            return False
        await self._ask_for_trust()
        return self.trusted

    async def _ask_for_trust(self) -> None:
        """Ask the user for trust, once per turn. If there is no answer, the next turn asks again."""
        folder, ask, turn_id = self._session.row.workspace, self._engine.ask_for_trust, self._session.turn_id or ""
        async with self._asking_for_trust:
            if self.trust_undecided and ask and folder and self._trust_asked_in != turn_id:
                self._trust_asked_in = turn_id
                self._trust_question = asyncio.ensure_future(ask(Path(folder)))
                try:
                    await asyncio.wait((self._trust_question,))
                finally:
                    self._trust_question.cancel()
                self._warn_of_rules(turn_id)  # rules of the folder hold from now on

    def cancel_trust_question(self) -> None:
        """Cancel an open trust question, because the turn stops."""
        if self._trust_question is not None:
            self._trust_question.cancel()

    async def ask(self, question: Question) -> Answer | None:
        self._session.approval_asked(question.call.id)
        answer = await self._engine.asked.ask(question)
        rule = answer and next((option.standing for option in question.options if option.id == answer.option_id), None)
        if rule is not None:
            self._add_rule(rule)
        return answer

    def _add_rule(self, rule: Rule) -> None:
        """Save the rule of an answer. A rule that cannot be saved holds in this session."""
        session = self._session
        if rule.scope == "session":
            session.rules.append(rule)
            return
        try:
            self._engine.add_rule(rule, session.row.workspace)
        except StorageError as error:
            session.rules.append(replace(rule, scope="session"))
            if session.turn_id is not None:
                self._warn(session.turn_id, f"{error} The rule holds in this session only.", error.remedy, None)

    async def ask_user(self, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        asked = UserQuestion(
            id=self._engine.new_id("ask"),
            session_id=self.session_id,
            turn_id=turn_id,
            question=question,
            options=tuple(options),
        )
        return await self._engine.asked.ask_user(asked)

    def _rules(self) -> tuple[Rule, ...]:
        return (*self._session.rules, *self._engine.standing_rules(self._session.row.workspace))

    def _open_paths(self) -> list[Path]:
        return [buffer.path for buffer in self._session.workspace.open_documents()]
