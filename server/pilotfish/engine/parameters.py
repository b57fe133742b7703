"""The parameters of every tool, as providers want them: JSON schemas without titles, which only cost tokens.

pydantic takes forty milliseconds of every start to make them, so they are made once: `make generate` writes them to
`parameters.json`, and a test compares.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

import orjson

from pilotfish.tools import TOOLS
from pilotfish.tools.tool import Tool

TARGET = Path(__file__).with_name("parameters.json")


def parameters(tool: Tool[Any]) -> dict[str, Any]:
    """A tool's JSON schema. One of its own each time: who gets it may change it."""
    written = _written().get(tool.name)
    return made(tool) if written is None else orjson.loads(written)


def made(tool: Tool[Any]) -> dict[str, Any]:
    """The same, from the tool itself."""
    return cast("dict[str, Any]", _without_titles(tool.args.model_json_schema()))


def generate() -> str:
    return json.dumps({tool.name: made(tool) for tool in TOOLS}, indent=1, ensure_ascii=False) + "\n"


@cache
def _written() -> dict[str, bytes]:
    try:
        return {name: orjson.dumps(schema) for name, schema in orjson.loads(TARGET.read_bytes()).items()}
    except (OSError, ValueError):  # it can be made
        return {}


def _without_titles(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return {
            key: _without_titles(inner)
            for key, inner in items.items()
            if not (key == "title" and isinstance(inner, str))
        }
    if isinstance(value, list):
        return [_without_titles(inner) for inner in cast("list[Any]", value)]
    return value


if __name__ == "__main__":
    TARGET.write_text(generate(), "utf-8")
