"""Requests about tasks in the background."""

from __future__ import annotations

from pydantic import Field

from pilotfish.protocol.wire.base import Mode, Wire
from pilotfish.protocol.wire.content import ContentBlock
from pilotfish.protocol.wire.session import Session


class BackgroundStartParams(Wire):
    """A task for the background. It starts from the folder's current commit; what is not committed stays behind."""

    prompt: tuple[ContentBlock, ...] = Field(min_length=1)
    workspace_folder: str | None = None
    """a URI; if absent, the first workspace folder"""
    model: str | None = None
    mode: Mode | None = None


class BackgroundStartResult(Wire):
    """The new session, in whose list entry the state of the task is."""

    session: Session
    notes: tuple[str, ...]
    """what the user should know, such as changes that stayed behind"""


class BackgroundBranchParams(Wire):
    """Makes a branch of the task's changes."""

    session_id: str
    name: str | None = None
    """if absent, a name made from the title"""


class BackgroundBranchResult(Wire):
    """The new branch."""

    name: str
