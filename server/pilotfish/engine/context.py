"""What is around all sessions of a process: settings, folders and their trust, rules, models and keys, tools of others.

Hides: where each comes from, and that any of it may change at any time. Promises: what is new holds from the next turn
on; keys are kept in memory alone; nothing of a folder is used that is not trusted.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pilotfish.config.rule_store import RuleBook
from pilotfish.config.settings import Settings
from pilotfish.engine.frontend import Frontend
from pilotfish.engine.mcp import Servers
from pilotfish.engine.model.providers import name_of_key
from pilotfish.engine.model.tracing import set_tracing
from pilotfish.engine.pending_approvals import PendingApprovals
from pilotfish.policy.judge import Rule
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import StoreNotice
from pilotfish.workspace.process.sandbox import chosen_sandbox
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from pilotfish.engine.model.catalog import Available

TURN = "pilotfish.engine.turn.orchestrator"  # with everything a turn imports: pydantic-ai above all
MODELS = "pilotfish.engine.model.resolve"


class EngineContext:
    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        face: Frontend,
        *,
        roots: Sequence[Path] = (),
        trusted: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        if settings.telemetry:
            set_tracing(True)
        self.ledger = ledger
        self.catalog = Catalog(ledger)
        self.face = face
        self.clock = clock
        self.book = RuleBook()
        self.mcp = Servers()
        self.asked = PendingApprovals(face)
        self.roots = [root.resolve() for root in roots]
        self.ask_for_trust: Callable[[Path], Awaitable[None]] | None = None
        """for clients that know no workspace trust: asks the user and keeps the answer in the book"""
        self.warmed: asyncio.Event | None = None
        """set once the provider's modules are loaded, where another thread does that"""
        self._trusted = trusted
        self._secrets: dict[str, str] = {}
        self._store_notices: list[StoreNotice] = []
        self._sandbox_words: dict[tuple[str, bool], str] = {}
        self._gate = asyncio.Lock()

    def new_id(self, kind: str) -> str:
        return f"{kind}_{uuid.uuid4().hex[:20]}"

    def set_settings(self, settings: Settings) -> None:
        """New settings hold from the next turn on."""
        if settings.telemetry != self.settings.telemetry:
            set_tracing(settings.telemetry)
        self.settings = settings

    # -- folders --------------------------------------------------------------------------------------------------

    def set_roots(self, roots: Sequence[Path]) -> None:
        """The editor's folders. A session sees new ones from its next turn on."""
        self.roots = [root.resolve() for root in roots]

    def roots_for(self, folder: str | None) -> list[Path]:
        """The session's folder first, then the editor's other folders."""
        roots = [_path(os.path.realpath(folder))] if folder else []
        return roots + [root for root in self.roots if root not in roots]

    def make_workspace(self, folder: str | None) -> Workspace:
        return Workspace(self.roots_for(folder), self.face.editor, sandbox=lambda: chosen_sandbox(self.settings))

    async def sandbox_words(self) -> str:
        """How commands are confined, for people. Trying the machine's sandbox takes a moment, once."""
        wanted = (self.settings.sandbox, self.settings.network)
        if wanted not in self._sandbox_words:  # else no thread: they may all be busy, and a status is wanted at once
            self._sandbox_words[wanted] = (await asyncio.to_thread(chosen_sandbox, self.settings)).words
        return self._sandbox_words[wanted]

    # -- trust and rules ------------------------------------------------------------------------------------------

    def set_trusted(self, trusted: bool) -> None:
        self._trusted = trusted

    def trusted(self, folder: str | None) -> bool:
        """Whether the editor, or the user by name, trusts the folder."""
        return self._trusted or (folder is not None and self.book.trusts(Path(folder)))

    def standing_rules(self, folder: str | None) -> tuple[Rule, ...]:
        return self.book.rules_for(Path(folder) if folder else None, self.settings, trusted=self.trusted(folder))

    def rule_problems(self, folder: str | None) -> tuple[str, ...]:
        """What stands in files of rules and cannot be used."""
        return self.book.problems(Path(folder) if folder else None, trusted=self.trusted(folder))

    def add_rule(self, rule: Rule, folder: str | None) -> None:
        self.book.add(rule, Path(folder) if folder else None)

    def use_mcp(self) -> None:
        """Connect to the MCP servers of the settings, unless that is done; only where something is trusted."""
        config = self.settings.mcp_config
        self.mcp.use(Path(config).expanduser() if config else None)

    # -- models ---------------------------------------------------------------------------------------------------

    def set_secret(self, provider: str, key: str) -> None:
        """A key from the editor's secret store: memory only. The provider as a model string or `models` names it."""
        name = name_of_key(provider)
        if key:
            self._secrets[name] = key
        else:
            self._secrets.pop(name, None)

    def model_for(self, name: str) -> Model:
        """The model of a session; a TurnError with a remedy when it cannot be had."""
        from pilotfish.engine.model import resolve

        return resolve.resolve(name, self.settings, self._secrets)

    async def models(self) -> Sequence[Available]:
        await self.warm()
        from pilotfish.engine.model import resolve

        return await resolve.available(self.settings, self._secrets)

    async def close_models(self) -> None:
        """Close the connections to providers, if there ever were any."""
        if MODELS in sys.modules:
            from pilotfish.engine.model import resolve

            await resolve.aclose()

    async def warm(self) -> None:
        """Returns when the modules of a turn, and of the model's provider, are loaded.

        They take most of a second, so sessions are made, listed and opened without them; and they are loaded in a
        thread, because on the event loop they would hold up everyone. This is the one place that waits for them.
        """
        if self.warmed is not None:
            await self.warmed.wait()
        if TURN not in sys.modules:
            await asyncio.to_thread(importlib.import_module, TURN)

    # -- what all sessions share ----------------------------------------------------------------------------------

    def store_notices(self) -> Sequence[StoreNotice]:
        """What the user should know of the store; each is given once."""
        fresh = [notice for notice in self.ledger.notices if notice not in self._store_notices]
        self._store_notices += fresh
        return fresh

    async def fairness_gate(self) -> None:
        """Lets one turn through in each round of the event loop. Fifty that are woken together, by one commit or one
        packet, would each do their step in a row, and nobody else would be served meanwhile."""
        async with self._gate:
            await asyncio.sleep(0)


@lru_cache(maxsize=64)
def _path(name: str) -> Path:
    """Made once: the folder of a session is looked up before every turn."""
    return Path(name)
