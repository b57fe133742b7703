"""Reads which MCP servers to use: Claude's `mcpServers` and VS Code's `servers`, with comments as VS Code allows them.

Nothing is started or written here. A definition that cannot be used says why in `problem`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from pilotfish.errors import BadRequest

KEYS = ("mcpServers", "servers")
_TOKEN = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)
_VARIABLE = re.compile(r"\$\{(env:)?([^}:]+)(?::-([^}]*))?\}|\$\{(input:[^}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDefinition:
    """How to start or reach one server."""

    name: str
    transport: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    trusted: bool = False
    """the user believes what the server says about its tools: those that only read run without a question"""
    problem: str = ""
    """why it cannot be used"""

    @property
    def prefix(self) -> str:
        """What begins the names of its tools: the providers allow only these characters."""
        return re.sub(r"[^A-Za-z0-9_-]", "_", self.name)


def read_config(
    path: Path, roots: Sequence[Path] = (), inputs: Mapping[str, str] | None = None
) -> tuple[ServerDefinition, ...]:
    """The servers of a configuration file that are not switched off. `inputs` has the secrets that the client holds,
    by id in lower case. Raises OSError, or BadRequest if the file is no such configuration."""
    entries = read_entries(path)
    return tuple(definition_of(name, entry, roots, inputs) for name, entry in entries.items() if not is_disabled(entry))


def read_entries(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """The entries of a configuration file, as they are written there, by name. Raises as `read_config` does."""
    _, entries = find_servers(parse(path.read_text("utf-8")))
    return {
        name: cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else {} for name, entry in entries.items()
    }


def parse(text: str) -> dict[str, Any]:
    """The object in a configuration file. Raises BadRequest."""
    try:
        loaded: Any = json.loads(without_comments(text))
    except ValueError as error:
        raise BadRequest(f"it is not JSON: {error}", field="mcpConfig") from None
    return cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}


def without_comments(text: str) -> str:
    """JSON with neither comments nor commas before a closing bracket."""
    return _TOKEN.sub(lambda match: match.group(1) or "", text)


def find_servers(named: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The key and the value of the object that has the servers. Raises BadRequest if there is none."""
    key = next((key for key in KEYS if key in named), "")
    if not isinstance(named.get(key), dict):
        raise BadRequest("it has neither `mcpServers` nor `servers`", field="mcpConfig")
    return key, cast("dict[str, Any]", named[key])


def is_disabled(entry: Mapping[str, Any]) -> bool:
    return entry.get("disabled") is True


def place_of(entry: Mapping[str, Any]) -> str:
    """The command line or the address of an entry, for the user. Secrets in it are not filled in."""
    words = [entry.get("command"), *(entry.get("args") or ())] if "command" in entry else [entry.get("url")]
    return " ".join(str(word) for word in words if word is not None)


def inputs_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the secrets that an entry needs."""
    found = (match.group(4) for match in _VARIABLE.finditer(json.dumps(entry)))
    return tuple(dict.fromkeys(asked.removeprefix("input:") for asked in found if asked is not None))


def definition_of(
    name: str, entry: Mapping[str, Any], roots: Sequence[Path], inputs: Mapping[str, str] | None = None
) -> ServerDefinition:
    """How to start or reach the server of an entry. `problem` says why it cannot be used."""
    definition = ServerDefinition(name=name)
    fill = partial(_expand, roots=roots, inputs=inputs or {})
    try:
        command, url = entry.get("command"), entry.get("url")
        kind = str(entry.get("type") or ("sse" if str(url).rstrip("/").endswith("/sse") else "http"))
        definition = replace(definition, trusted=entry.get("trusted") is True)
        if command is not None:
            return replace(
                definition,
                command=fill(command),
                args=tuple(fill(word) for word in entry.get("args") or ()),
                env={key: fill(value) for key, value in dict(entry.get("env") or {}).items()},
                cwd=fill(entry["cwd"]) if entry.get("cwd") else None,
            )
        if url is not None:
            return replace(
                definition,
                transport="sse" if kind == "sse" else "http",
                url=fill(url),
                headers={key: fill(value) for key, value in dict(entry.get("headers") or {}).items()},
            )
        return replace(definition, problem="it has neither `command` nor `url`")
    except (TypeError, ValueError, AttributeError) as error:
        return replace(definition, problem=str(error))


def _expand(value: object, *, roots: Sequence[Path], inputs: Mapping[str, str]) -> str:
    """`${NAME}`, `${env:NAME}`, `${NAME:-default}`, `${workspaceFolder}`, `${userHome}`, and `${input:ID}`
    if the client has the secret. Raises ValueError."""

    def fill(match: re.Match[str]) -> str:
        _, name, default, asked = match.groups()
        if asked is not None:
            known = inputs.get(asked.removeprefix("input:").casefold())
            if known is None:
                raise ValueError(f"it needs ${{{asked}}}, which only VS Code asks for; use ${{env:NAME}} instead")
            return known
        places = {"userHome": str(Path.home()), **({"workspaceFolder": str(roots[0])} if roots else {})}
        found = places.get(name) or os.environ.get(name) or default
        if found is None:
            raise ValueError(f"the environment variable {name} is not set")
        return found

    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return _VARIABLE.sub(fill, value)
