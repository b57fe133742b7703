"""The interface to the language servers that Pilotfish starts itself, for editors that cannot answer for theirs.

`pilotfish.language_servers` implements it; the engine gives it to each workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from pilotfish.workspace.editor import Buffer, LanguageQueries
from pilotfish.workspace.files.view import View


class ServedWorkspace(Protocol):
    """The part of a workspace that language servers need: its folders and the texts as the user sees them."""

    roots: tuple[Path, ...]

    def open_documents(self) -> Sequence[Buffer]: ...

    async def look(self, path: Path) -> View: ...


class OwnLanguageServers(Protocol):
    """The language servers of this process. They are started when they are first needed."""

    def for_workspace(self, workspace: ServedWorkspace, allowed: Callable[[Path], bool]) -> LanguageQueries:
        """The answers for one workspace. A server is started only in a folder for which `allowed` is true."""
        ...

    async def aclose(self) -> None: ...
