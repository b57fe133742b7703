"""The paths of `file:` URIs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit


def path_of(uri: str) -> Path | None:
    """The path a `file:` URI names, or None for anything else."""
    path = windows_path(uri) if sys.platform == "win32" else posix_path(uri)
    return None if path is None else Path(path)


def posix_path(uri: str) -> str | None:
    """The path on a system with one root. It names no file of another host."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    return path if parts.scheme == "file" and parts.netloc in ("", "localhost") and _is_name(path) else None


def windows_path(uri: str) -> str | None:
    """The path on Windows, with `/`: on a drive, whose letter is made upper case, or on the share of a host (UNC)."""
    parts = urlsplit(uri)
    path = unquote(parts.path).replace("\\", "/")
    if parts.scheme != "file" or not _is_name(path):
        return None
    if re.match(r"/[A-Za-z]:(/|$)", path):
        return path[1].upper() + path[2:] if parts.netloc in ("", "localhost") else None
    share = path if parts.netloc in ("", "localhost") else f"//{parts.netloc}{path}"
    return share if re.match(r"//[\w$-][\w.$-]*/[^/]+", share) else None


def _is_name(path: str) -> bool:
    return bool(path) and "\0" not in path
