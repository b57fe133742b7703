"""Reads files whose text is given to the model as instructions: of a trusted workspace, or of the user's config folder.

Promises: links are resolved first, and a file outside its place or a secret is never read; secrets inside a text are
masked; a text has a limit. A file is read again when it has changed.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pilotfish.errors import PilotfishError
from pilotfish.policy.secrets import mask
from pilotfish.workspace.workspace import Workspace

MAX_CHARS = 16_000  # limit of one file


class GuardedFiles:
    """The files of one place: the workspace, or a folder of the user."""

    def __init__(self, workspace: Workspace, folder: Path | None = None) -> None:
        self._workspace = workspace
        self._folder = folder

    def path(self, file: Path) -> Path | None:
        """The resolved path. None if the file does not exist or may not be read."""
        try:
            if not file.is_file():  # most files do not exist, and this is cheaper than resolving
                return None
            place = self._workspace.resolve(str(file))
            within = place.inside if self._folder is None else place.path.is_relative_to(self._folder.resolve())
        except (PilotfishError, OSError):
            return None
        return place.path if within and not place.secret else None

    def read(self, file: Path, limit: int = MAX_CHARS) -> tuple[Path, str] | None:
        """The resolved path and the masked text. None if the file does not exist, is empty or may not be read."""
        path = self.path(file)
        if path is None:
            return None
        try:
            stat = path.stat()
            text = _text(path, stat.st_mtime_ns, stat.st_size, limit)
        except OSError:
            return None
        return (path, text) if text else None


@lru_cache(maxsize=256)
def _text(file: Path, changed: int, size: int, limit: int) -> str:
    """`changed` and `size` are a part of the cache's key."""
    del changed, size
    with file.open(encoding="utf-8", errors="replace") as opened:
        whole = opened.read(limit + 1)
    text = mask(whole)[0].strip()
    return text + "\n[cut here: the file is longer]" if len(whole) > limit else text
