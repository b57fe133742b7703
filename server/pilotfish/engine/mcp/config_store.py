"""Changes the configuration file of MCP servers: adds, removes and switches servers, and keeps everything else.

A file with comments is not changed, because writing it would lose them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from pilotfish.config.config_file import locked, write_private
from pilotfish.engine.mcp.config import KEYS, find_servers, parse, without_comments
from pilotfish.errors import BadRequest, StorageError


def store_server(path: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Add a server, or replace the one of the same name. Raises StorageError."""

    def change(servers: dict[str, Any]) -> None:
        servers[name] = dict(entry)

    _change(path, change)


def remove_server(path: Path, name: str) -> None:
    """Raises StorageError, or BadRequest if the file has no such server."""

    def change(servers: dict[str, Any]) -> None:
        _entry(servers, name)
        del servers[name]

    _change(path, change)


def switch_server(path: Path, name: str, *, enabled: bool) -> None:
    """Switch a server on or off. Raises StorageError, or BadRequest if the file has no such server."""

    def change(servers: dict[str, Any]) -> None:
        entry = _entry(servers, name)
        if enabled:
            entry.pop("disabled", None)
        else:
            entry["disabled"] = True

    _change(path, change)


def _entry(servers: dict[str, Any], name: str) -> dict[str, Any]:
    found = servers.get(name)
    if not isinstance(found, dict):
        raise BadRequest(f"name: the file has no server {name}", field="name")
    return cast("dict[str, Any]", found)


def _change(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = Path(os.path.realpath(path))  # a symbolic link stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path):
            text = path.read_text("utf-8") if path.exists() else ""
            if without_comments(text) != text:
                raise StorageError(
                    f"{path.name} has comments, which would be lost.", remedy="Change the file yourself."
                )
            whole = parse(text) if text.strip() else {}
            if not any(key in whole for key in KEYS):
                whole[KEYS[0]] = {}
            _, servers = find_servers(whole)
            change(servers)
            write_private(path, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    except BadRequest as error:
        if error.field == "name":
            raise
        raise StorageError(f"{path.name} cannot be changed: {error}.", remedy=f"Correct {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path.name} cannot be changed: {error}.", remedy=f"Check {path}.") from None
