"""Memory: notes in Markdown files that the user can see and edit, given to the model with every request.

The user's file is used everywhere, the one of a workspace when it is trusted. The agent adds notes with the tool
`remember`, which always asks. Promises: the files are read under the rules of `guarded_files.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.config.settings import WORKSPACE_MEMORY, memory_path
from pilotfish.engine.extensions.guarded_files import GuardedFiles
from pilotfish.engine.prompting.prompt import without_tags
from pilotfish.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file of notes. `text` is empty if there is none yet."""

    scope: Literal["user", "workspace"]
    path: Path
    text: str


class Memory:
    """The notes of the user, and those of a workspace while it is trusted."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def files(self, *, trusted: bool) -> Iterator[MemoryFile]:
        own = memory_path()
        read = GuardedFiles(self._workspace, own.parent).read(own)
        yield MemoryFile("user", own, read[1] if read else "")
        for root in self._workspace.roots if trusted else ():
            read = GuardedFiles(self._workspace).read(root / WORKSPACE_MEMORY)
            yield MemoryFile("workspace", root / WORKSPACE_MEMORY, read[1] if read else "")

    def text(self, *, trusted: bool) -> str:
        """The notes, for every request."""
        return "\n\n".join(
            f'<memory of="{file.scope}">\n{without_tags(file.text)}\n</memory>'
            for file in self.files(trusted=trusted)
            if file.text
        )
