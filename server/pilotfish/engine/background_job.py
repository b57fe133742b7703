"""What a background task needs to run, as it is stored with its session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from pilotfish.config.settings import Settings
from pilotfish.errors import GitError
from pilotfish.policy.rules import Rule
from pilotfish.workspace.git.worktrees import Repository
from pilotfish.workspace.sandbox.sandbox import clean_environment, remove_folder

PROMPT_ID: Final = "background"
"""the id of a task's prompt"""

TRAVELLING: Final = (
    "max_iterations",
    "tool_history_rounds",
    "protect_tokens",
    "minimum_saved_tokens",
    "tool_timeout",
    "max_tool_output",
    "budget",
    "titles",
    "verify_claims",
    "try_commands",
    "context_window",
    "thinking",
    "temperature",
)
"""the settings of the user that hold on a worker too. The others are the worker's: its models and keys, its sandbox,
its network."""


class JobSpec(BaseModel):
    """A task: a prompt, the commit that it starts from, and the permissions that came with it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: tuple[Mapping[str, Any], ...]
    commit: str = Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")
    """never an option of git: who may queue a job writes this"""
    top: str
    """the top folder of the repository on the user's machine"""
    remote: str | None
    trusted: bool
    rules: tuple[Rule, ...]
    settings: Mapping[str, Any]
    """of `TRAVELLING`"""

    @property
    def top_folder(self) -> Path:
        return Path(self.top)


def travelling(settings: Settings) -> Mapping[str, Any]:
    return settings.model_dump(mode="json", include=set(TRAVELLING))


def tree_of(directory: Path, session_id: str) -> Path:
    """The worktree of a task, below a state directory."""
    return directory / "background" / session_id / "tree"


def users_repository(spec: JobSpec) -> Repository:
    """The repository of the user, on this machine. Blocking. Raises GitError if it is not there."""
    return Repository.of(spec.top_folder, clean_environment(os.environ))


def drop_results(spec: JobSpec, directory: Path, session_id: str) -> None:
    """Remove what a task left on this machine: its worktree, its result, its log. Blocking."""
    try:
        repository = users_repository(spec)
    except GitError:  # the repository is gone, or on another machine
        pass
    else:
        repository.remove_worktree(tree_of(directory, session_id))
        repository.forget(session_id)
    remove_folder(directory / "background" / session_id)
