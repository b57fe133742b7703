"""The interface that the workspace needs from an editor: open documents, edits, saving, queries.

`lsp/editor/lsp_editor.py` and `acp/editor.py` implement it; `NoEditor` is for the command line and tests. It does not
depend on a protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self


@dataclass(frozen=True, slots=True)
class Buffer:
    """A document that is open in the editor, in its current state."""

    path: Path
    text: str
    version: int
    dirty: bool | None = None
    """whether the editor reports this version as unsaved; None if it does not report it (LSP has no such flag)"""
    held: bool = False
    """whether it is open only because it was asked for (`hold`)"""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Replace `text[start:end]` of a document; offsets are code points of its text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Saved:
    """Whether the disk has the text of the document now; otherwise the reason."""

    saved: bool
    reason: str = ""


class LanguageQueries(Protocol):
    """Answers from language servers: those of the editor, or our own."""

    @property
    def encoding(self) -> str:
        """the unit in which `query` counts characters of a line: utf-8, utf-16 or utf-32"""
        ...

    def can_answer(self, method: str) -> bool:
        """whether this method of `query` is answered at all"""
        ...

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        """Ask language servers (`diagnostics`, `definition`, `references`, `symbols`, `codeActions`, `rename`), with
        LSP's own types. None if there is no answer, or none in time."""
        ...


class Editor(LanguageQueries, Protocol):
    """What an editor can do for the workspace. Every method must return within a time limit."""

    def for_session(self, session_id: str) -> Editor:
        """the editor as one session uses it; protocols without sessions return the editor itself"""
        ...

    @property
    def can_edit(self) -> bool:
        """whether edits can go through the editor"""
        ...

    @property
    def can_save(self) -> bool: ...

    def buffer(self, path: Path) -> Buffer | None:
        """the open document at this path, or None"""
        ...

    def buffers(self) -> Sequence[Buffer]: ...

    async def refresh(self, path: Path) -> None:
        """Bring `buffer(path)` up to date, where the editor does not report changes by itself."""
        ...

    async def hold(self, paths: Sequence[Path]) -> None:
        """Open these files as documents, if the editor supports it; `buffer` finds them afterwards."""
        ...

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        """Edit one open document at exactly this version, as one undo step. False if the editor refused."""
        ...

    async def save(self, path: Path) -> Saved: ...

    async def allows_disk_writes(self, paths: Sequence[Path]) -> bool:
        """Whether the workspace may write the text of these documents to disk, because the editor cannot save. The user
        may be asked."""
        ...


class NoEditor:
    """No editor: every file is on disk only."""

    can_edit = False
    can_save = False
    encoding = "utf-16"

    def for_session(self, session_id: str) -> Self:
        del session_id
        return self

    def buffer(self, path: Path) -> Buffer | None:
        del path

    def buffers(self) -> Sequence[Buffer]:
        return ()

    async def refresh(self, path: Path) -> None:
        del path

    async def hold(self, paths: Sequence[Path]) -> None:
        del paths

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        del path, version, hunks
        return False

    async def save(self, path: Path) -> Saved:
        del path
        return Saved(saved=False, reason="no editor")

    async def allows_disk_writes(self, paths: Sequence[Path]) -> bool:
        del paths
        return False

    def can_answer(self, method: str) -> bool:
        del method
        return False

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        del method, params, timeout
