"""What all sessions of a process share: settings, folders and their trust, rules, models and keys, MCP servers.

Hides: where each comes from, and that each may change at any time. Promises: changes hold from the next turn on; keys
are kept in memory only; rules of a folder are used only if it is trusted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pilotfish.config.managed_policy import REMEDY, ManagedPolicy, managed_policy
from pilotfish.config.rule_store import RuleBook
from pilotfish.config.settings import Mode, Settings, mcp_path
from pilotfish.conversation.relocation import Relocation
from pilotfish.engine.frontend import Frontend
from pilotfish.engine.library_imports import import_library
from pilotfish.engine.mcp.servers import Servers
from pilotfish.engine.model.catalog.providers import name_of_key, split
from pilotfish.engine.model.editor.editor_models import EditorModels
from pilotfish.engine.model.tracing import set_tracing
from pilotfish.engine.questions.pending_approvals import PendingApprovals
from pilotfish.errors import TurnError
from pilotfish.policy.rules import Rule
from pilotfish.store.catalog import Catalog, SessionRow
from pilotfish.store.controls import Controls
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import StoreNotice
from pilotfish.store.tables.jobs import JobRow
from pilotfish.store.usage import spent_today
from pilotfish.workspace.editor import LanguageQueries
from pilotfish.workspace.own_programs import distrust
from pilotfish.workspace.own_servers import OwnLanguageServers, ServedWorkspace
from pilotfish.workspace.sandbox.sandbox import Sandbox, chosen_sandbox
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from pilotfish.engine.model.catalog.listing import Available

TURN = "pilotfish.engine.turn.orchestrator"  # imports pydantic-ai, which is slow
MODELS = "pilotfish.engine.model.resolve"


@dataclass(frozen=True, slots=True)
class WorkingCopy:
    """The worktree in which the turns of this process work instead of the user's repository."""

    top: Path
    """the top folder of the user's repository; on another machine it does not exist here"""
    tree: Path

    def place(self, folder: Path) -> Path:
        return self.tree / folder.relative_to(self.top)

    @property
    def relocation(self) -> Relocation:
        """For what is recorded: to the user's files."""
        return Relocation(self.tree.as_uri(), self.top.as_uri())


MCP_INPUT = "input:"  # begins the names of secrets that entries of MCP servers mention


class EngineContext:
    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        frontend: Frontend,
        *,
        roots: Sequence[Path] = (),
        trusted: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._tightened: tuple[ManagedPolicy, Settings, Settings] | None = None
        """a policy and settings, and what the policy permits of them"""
        if settings.telemetry:
            set_tracing(True)
        self.ledger = ledger
        self.catalog = Catalog(ledger)
        self.frontend = frontend
        self.clock = clock
        self.book = RuleBook()
        self.mcp = Servers(self.mcp_roots, self.mcp_inputs, self.server_fault)
        self.controls = Controls(ledger)
        self.asked = PendingApprovals(frontend, self.controls)
        self.may_continue: Callable[[SessionRow], bool] = lambda _: True
        """whether this process may continue a turn whose process has ended"""
        self.set_roots(roots)
        self.copy: WorkingCopy | None = None
        """set in a process that runs a background task"""
        self.writes_titles = False
        """whether the client lists sessions, so that a title is worth a request"""
        self.ask_for_trust: Callable[[Path], Awaitable[None]] | None = None
        """for clients without workspace trust: asks the user and saves the answer in the rule book"""
        self.editor_models: EditorModels | None = None
        """the language models of the client, if it has any"""
        self.language_servers: OwnLanguageServers | None = None
        """the language servers that we start ourselves; set by a client that lets us"""
        self.warmed: asyncio.Event | None = None
        """set when another thread has loaded the provider's modules; None if no thread loads them"""
        self._trusted = trusted
        self._secrets: dict[str, str] = {}
        self._store_notices: list[StoreNotice] = []
        self._sandbox_words: dict[tuple[str, bool, tuple[str, ...]], str] = {}
        self._gate = asyncio.Lock()
        self.files_changed: Callable[[], Awaitable[None]] | None = None
        """told of files that a turn has changed"""
        self.attribution_problems: Callable[[], Sequence[str]] = tuple
        """why commits do not say which turns wrote them, though the user wants that"""

    def new_id(self, kind: str) -> str:
        return f"{kind}_{uuid.uuid4().hex[:20]}"

    def set_settings(self, settings: Settings) -> None:
        """Replace the settings, from the next turn on."""
        if settings.telemetry != self.settings.telemetry:
            set_tracing(settings.telemetry)
        self._settings = settings

    @property
    def managed(self) -> ManagedPolicy:
        """The policy of the organisation, as it is now."""
        return managed_policy()

    @property
    def settings(self) -> Settings:
        """The user's settings as far as the policy of the organisation permits them."""
        managed = self.managed
        if self._tightened is None or self._tightened[:2] != (managed, self._settings):
            self._tightened = (managed, self._settings, managed.tighten(self._settings))
        return self._tightened[2]

    def permitted_mode(self, mode: str) -> Mode:
        """The mode of a session as far as the policy of the organisation permits it."""
        return self.managed.mode(cast("Mode", mode))

    async def turn_settings(self) -> Settings:
        """The settings of a turn that starts now, with what the user has left of the day's budget. Raises TurnError if
        nothing is left."""
        settings, managed = self.settings, self.managed
        if not managed.limits_use:
            return settings
        spent = await spent_today(self.ledger, self.clock())
        budget = managed.budget_left(settings.budget, spent.input_tokens + spent.output_tokens, spent.cost or 0.0)
        if budget is None:
            message = "Your organisation's budget of a user for one day is used up."
            raise TurnError(message, remedy="Go on tomorrow, or ask its administrator.", kind="credit")
        return settings.model_copy(update={"budget": budget})

    # -- folders --------------------------------------------------------------------------------------------------

    def set_roots(self, roots: Sequence[Path]) -> None:
        """Replace the editor's folders, from the next turn of each session on."""
        self.roots = [root.resolve() for root in roots]
        distrust(self.roots)

    def roots_for(self, folder: str | None) -> list[Path]:
        """The session's folder first, then the editor's other folders. For a background task: its worktree."""
        if self.copy is not None and folder:
            return [self.copy.place(_path(folder))]
        roots = [_path(os.path.realpath(folder))] if folder else []
        return roots + [root for root in self.roots if root not in roots]

    def make_workspace(self, folder: str | None, session_id: str | None = None) -> Workspace:
        editor = self.frontend.editor if session_id is None else self.frontend.editor.for_session(session_id)
        return Workspace(
            self.roots_for(folder),
            editor,
            sandbox=self.sandbox,
            own_servers=self._own_servers,
        )

    def _own_servers(self, workspace: ServedWorkspace) -> LanguageQueries | None:
        servers = self.language_servers
        return None if servers is None else servers.for_workspace(workspace, self._may_run_servers)

    def _may_run_servers(self, root: Path) -> bool:
        """Whether our own language servers may run in a folder: they may run its code, and need the sandbox."""
        wanted = self.settings.language_servers == "auto" and self.settings.sandbox != "off"
        return wanted and self.trusted(str(root))

    def sandbox(self) -> Sandbox:
        """What commands run in, as the settings ask now. Blocking, the first time."""
        return chosen_sandbox(self.settings)

    async def sandbox_words(self) -> str:
        """A description of the sandbox for the user. The first call probes the sandbox, which takes a moment."""
        wanted = (self.settings.sandbox, self.settings.network, self.settings.allowed_hosts)
        if wanted not in self._sandbox_words:  # answer from the cache without a thread: all threads may be busy
            self._sandbox_words[wanted] = (await asyncio.to_thread(chosen_sandbox, self.settings)).words
        return self._sandbox_words[wanted]

    async def close_language_servers(self) -> None:
        if self.language_servers is not None:
            await self.language_servers.aclose()

    # -- trust and rules ------------------------------------------------------------------------------------------

    def set_trusted(self, trusted: bool) -> None:
        self._trusted = trusted

    def trusted(self, folder: str | None) -> bool:
        """Whether the editor trusts the workspace, or the user trusts this folder."""
        return self._trusted or (folder is not None and self.book.trusts(Path(folder)))

    def standing_rules(self, folder: str | None) -> tuple[Rule, ...]:
        return self.book.rules_for(Path(folder) if folder else None, self.settings, trusted=self.trusted(folder))

    def rule_problems(self, folder: str | None) -> tuple[str, ...]:
        """Descriptions of invalid entries in the rule files."""
        return self.book.problems(Path(folder) if folder else None, trusted=self.trusted(folder))

    def add_rule(self, rule: Rule, folder: str | None) -> None:
        self.book.add(rule, Path(folder) if folder else None)

    def use_mcp(self) -> None:
        """Connect to the MCP servers of the settings, if not connected yet. Call only for a trusted folder."""
        path = mcp_path(self.settings)
        self.mcp.use(path if self.settings.mcp_config or path.is_file() else None)

    def server_fault(self, name: str) -> str | None:
        """Why an MCP server may not be used."""
        return self.managed.server_fault(name)

    def mcp_roots(self) -> Sequence[Path]:
        """The folders that MCP servers are told of."""
        return self.roots

    def mcp_inputs(self) -> Mapping[str, str]:
        """The secrets of MCP servers that the client holds, by id."""
        named = self._secrets.items()
        return {name.removeprefix(MCP_INPUT): key for name, key in named if name.startswith(MCP_INPUT)}

    # -- models ---------------------------------------------------------------------------------------------------

    def set_secret(self, provider: str, key: str) -> None:
        """Set or clear an API key, in memory only. `provider` is named as in a model string or in `models`."""
        name = name_of_key(provider)
        if key:
            self._secrets[name] = key
        else:
            self._secrets.pop(name, None)
        if name.startswith(MCP_INPUT):
            self.mcp.reload()

    @property
    def secrets(self) -> Mapping[str, str]:
        """The keys that the client has set."""
        return self._secrets

    def model_for(self, name: str) -> Model:
        """Resolve a model. Raises TurnError with a remedy if that fails or the organisation's policy forbids it."""
        return self.resolve(name, self.settings)

    def resolve(self, name: str, settings: Settings) -> Model:
        """`model_for` with other settings than those that are in use."""
        from pilotfish.engine.model import resolve

        wanted = tuple(filter(None, (name, settings.fallback_model)))
        faults = [self.managed.model_fault(_names(model)) for model in wanted]
        if not any(faults):
            model = resolve.resolve(name, settings, self._secrets, self.editor_models)
            faults = [self.managed.address_fault(address) for address in resolve.addresses(model)]
            if not any(faults):
                return model
        raise forbidden(next(filter(None, faults)))

    def completion_model(self) -> Model:
        """Resolve the model of inline completions: without a fallback and without the thinking of conversations,
        because both take longer than a user waits. Raises TurnError as `model_for` does."""
        settings = self.settings.model_copy(update={"fallback_model": None, "thinking": None})
        return self.resolve(settings.completion_model, settings)

    async def models(self) -> Sequence[Available]:
        await self.warm()
        from pilotfish.engine.model import resolve

        found = await resolve.available(self.settings, self._secrets, self.editor_models)
        return [model for model in found if self.managed.model_fault(_names(model.id)) is None]

    async def close_models(self) -> None:
        """Close the connections to providers."""
        if MODELS in sys.modules:
            from pilotfish.engine.model import resolve

            await resolve.aclose()

    async def warm(self) -> None:
        """Return when the modules of a turn, and of the model's provider, are loaded.

        The import takes most of a second, so sessions are created, listed and opened without it. It runs in a thread to
        keep the event loop free. Only this method waits for it. Raises TurnError if a library cannot be loaded.
        """
        if self.warmed is not None:
            await self.warmed.wait()
        if TURN not in sys.modules:
            try:
                await asyncio.to_thread(import_library, TURN)
            except ImportError as error:
                remedy = "Install the versions that it was tested with: pip install --force-reinstall pilotfish."
                message = f"A library that Pilotfish needs could not be loaded: {error}."
                raise TurnError(message, remedy=remedy, kind="configuration") from error

    # -- store, scheduling ----------------------------------------------------------------------------------------

    def store_notices(self) -> Sequence[StoreNotice]:
        """New notices of the store for the user. Each is returned once."""
        fresh = [notice for notice in self.ledger.notices if notice not in self._store_notices]
        self._store_notices += fresh
        return fresh

    async def job_of(self, session_id: str) -> JobRow | None:
        """The background task of a session."""
        return await self.ledger.read(lambda tables: tables.jobs.get(session_id))

    async def fairness_gate(self) -> None:
        """Let one turn pass per iteration of the event loop. Otherwise many turns that wake up together, by one commit
        or one packet, would block all other work until each has made its step."""
        async with self._gate:
            await asyncio.sleep(0)


def forbidden(fault: str) -> TurnError:
    """What the organisation's policy does not permit."""
    return TurnError(fault[:1].upper() + fault[1:], remedy=REMEDY, kind="configuration")


def _names(model: str) -> tuple[str, ...]:
    """The names under which a policy may know a model: with its prefix, and with that of its provider."""
    prefix, name = split(model)
    return tuple(dict.fromkeys((f"{prefix}:{name}", f"{name_of_key(prefix)}:{name}"))) if prefix else (model,)


@lru_cache(maxsize=64)
def _path(name: str) -> Path:
    """Cached, because every turn looks up the folder of its session."""
    return Path(name)
