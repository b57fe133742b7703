"""Paths of the `file:` URIs that a client sends."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit


def path_of(uri: str) -> Path | None:
    """The path a `file:` URI names, or None for anything else."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    # Windows: `/c:/x` names a drive, in whatever case the editor writes it.
    if re.match(r"^/[A-Za-z]:", path):
        path = path[1].upper() + path[2:]
    return Path(path) if path and "\0" not in path else None
