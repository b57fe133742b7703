"""Tells the model of a session where it works: with every request, with each prompt, and between requests.

Promises: instructions stay the same over a session, so that the provider's prompt cache stays valid; what changes is
said in messages, once; instruction files of a folder are used only when it is trusted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

from pilotfish.conversation.messages import as_news
from pilotfish.conversation.records import FileChangeRecord
from pilotfish.engine.context import EngineContext
from pilotfish.engine.environment import Situation, instructions, mode_text, situation_text
from pilotfish.engine.extensions.instruction_files import InstructionFiles
from pilotfish.engine.extensions.memory import Memory
from pilotfish.engine.extensions.skills import Skills
from pilotfish.engine.session.session_history import SessionHistory
from pilotfish.store.catalog import SessionRow
from pilotfish.text.uris import path_of
from pilotfish.workspace.git.summary import GitSummary, summarise
from pilotfish.workspace.sandbox.sandbox import clean_environment
from pilotfish.workspace.workspace import Workspace

GIT_SECONDS = 0.3  # a prompt does not wait longer for git


class BriefedSession(Protocol):
    """The session whose model is briefed. `session.LiveSession` implements it."""

    row: SessionRow

    @property
    def engine(self) -> EngineContext: ...
    @property
    def conversation(self) -> SessionHistory: ...
    @property
    def workspace(self) -> Workspace: ...


class Briefing:
    """What the model of one session knows beside the conversation."""

    def __init__(self, session: BriefedSession) -> None:
        self._session = session
        self._rules = InstructionFiles(session.workspace, session.engine.settings.instruction_files)
        self._rules_of = (session.workspace, session.engine.settings.instruction_files)
        self._opened_by_user: set[Path] = set()
        self._told_mode = self._mode
        self._told_trust = self._trusted
        self.has_skills = False
        """whether the last instructions named any"""

    @property
    def _mode(self) -> str:
        return self._session.engine.permitted_mode(self._session.row.mode)

    @property
    def memory(self) -> Memory:
        return Memory(self._session.workspace)

    @property
    def skills(self) -> Skills:
        return Skills(self._session.workspace)

    @property
    def rules(self) -> InstructionFiles:
        session, names = self._session, self._session.engine.settings.instruction_files
        if self._rules_of != (session.workspace, names):
            self._rules = InstructionFiles(session.workspace, names)
            self._rules_of = (session.workspace, names)
        return self._rules

    def instructions(self) -> str:
        """The instructions of every request."""
        session = self._session
        return instructions(session.row.model, session.workspace, self._extensions())

    async def with_prompt(self, context: Mapping[str, Any], *, trusted: bool) -> str:
        """What is said with a prompt. `context` is `ContextBlock` of the wire."""
        session, workspace = self._session, self._session.workspace
        self._told_mode, self._told_trust = self._mode, self._trusted
        git = await self._git() if context.get("git", True) else None
        active = path_of(str(cast("Mapping[str, Any]", context.get("active") or {}).get("uri", "")))
        opened = self._files_of_user(active)
        near = opened if active is None else (active, *opened)
        situation = Situation(
            today=datetime.fromtimestamp(session.engine.clock(), UTC).date(),
            mode=self._mode,
            trusted=trusted,
            context=context,
            open_files=opened,
            git=git,
            rules=self.rules.text_for(near) if self._trusted else "",
            first=not any(message.is_response for message in session.conversation.history),
        )
        return await situation_text(situation, workspace)

    def news(self) -> str:
        """What has changed since the last request. Each change is said once."""
        lines: list[str] = []
        if self._mode != self._told_mode:
            self._told_mode = self._mode
            lines.append(f"{mode_text(self._told_mode)} (changed by the user)")
        if self._trusted:
            if not self._told_trust:
                self._told_trust = True
                lines += ["The user trusts the workspace now.", self._extensions()]
            lines.append(self.rules.text_for(self._session.workspace.known_files))
        text = "\n".join(filter(None, lines))
        return as_news(text) if text else ""

    def _extensions(self) -> str:
        """What the user and a trusted workspace add to the instructions."""
        skills = self.skills.text(trusted=self._trusted)
        self.has_skills = bool(skills)
        rules = self.rules.text() if self._trusted else ""
        return "\n\n".join(filter(None, (rules, self.memory.text(trusted=self._trusted), skills)))

    def forget(self) -> None:
        """Say again what a summary has replaced."""
        self.rules.forget()

    @property
    def _trusted(self) -> bool:
        return self._session.engine.trusted(self._session.row.workspace)

    async def _git(self) -> GitSummary | None:
        """The state of the repository, if git says it in time."""
        roots = self._session.workspace.roots
        if not roots:
            return None
        asked = asyncio.ensure_future(
            asyncio.to_thread(summarise, roots[0], clean_environment(os.environ), trusted=self._trusted)
        )
        await asyncio.wait((asked,), timeout=GIT_SECONDS)
        return asked.result() if asked.done() else None

    def _files_of_user(self, active: Path | None) -> Sequence[Path]:
        """Open files of the workspace, without those that are open only because the agent has opened or changed them.
        Documents outside the workspace are private."""
        workspace = self._session.workspace
        records = self._session.conversation.file_records
        touched = {path_of(record.uri) for record in records if isinstance(record, FileChangeRecord)}
        documents = workspace.open_documents()
        touched.update(buffer.path for buffer in documents if buffer.held)
        opened = [buffer.path for buffer in documents if any(map(buffer.path.is_relative_to, workspace.roots))]
        self._opened_by_user.update(path for path in opened if path not in touched or path == active)
        return tuple(path for path in opened if path in self._opened_by_user)
