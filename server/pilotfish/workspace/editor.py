"""The editor, as the workspace sees it: open documents, and edits through them.

`lsp/editor/lsp_editor.py` fills this port; `NoEditor` serves the command line and tests. The workspace knows no LSP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Buffer:
    """A document the editor holds, as it is now."""

    path: Path
    text: str
    version: int
    dirty: bool | None = None
    """whether the editor itself says that this version is not saved; None: it does not say (LSP has no such flag)"""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Replace `text[start:end]` of a document; offsets are code points of its text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Saved:
    """Whether text and disk are equal now; else the reason."""

    saved: bool
    reason: str = ""


class Editor(Protocol):
    """What an editor can do for the workspace. Nothing here may wait without a limit."""

    @property
    def can_edit(self) -> bool:
        """whether edits can go through the editor (`workspace/applyEdit`)"""
        ...

    @property
    def can_save(self) -> bool: ...

    @property
    def encoding(self) -> str:
        """in which `query` counts the characters of a line: utf-8, utf-16 or utf-32"""
        ...

    def buffer(self, path: Path) -> Buffer | None:
        """the open document at this path, or None"""
        ...

    def buffers(self) -> Sequence[Buffer]: ...

    async def hold(self, paths: Sequence[Path]) -> None:
        """Have the editor hold these files as documents, where it can; afterwards `buffer` finds them."""
        ...

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        """Edit one open document at exactly this version, as one undo step. False: refused, read again."""
        ...

    async def save(self, path: Path) -> Saved: ...

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        """Ask the editor's other language servers (`diagnostics`, `definition`, `references`, `symbols`,
        `codeActions`, `rename`), in LSP's own shapes. None when the editor cannot or does not answer in time."""
        ...


class NoEditor:
    """No editor: every file is on disk only."""

    can_edit = False
    can_save = False
    encoding = "utf-16"

    def buffer(self, path: Path) -> Buffer | None:
        del path

    def buffers(self) -> Sequence[Buffer]:
        return ()

    async def hold(self, paths: Sequence[Path]) -> None:
        del paths

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        del path, version, hunks
        return False

    async def save(self, path: Path) -> Saved:
        del path
        return Saved(saved=False, reason="no editor")

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        del method, params, timeout
