"""The page `docs/tools.md`: every tool of the agent, by subject."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pilotfish.conversation.calls import Category
from pilotfish.text.markdown_table import code, table
from pilotfish.tools import TOOLS
from pilotfish.tools.families import FAMILIES
from pilotfish.tools.tool import Tool, parameters

TARGET = Path(__file__).parents[4] / "docs" / "tools.md"
HEAD = """# Tools

What the agent can do. This page is generated (`make generate`) from the list that models are given. Tools of
[MCP servers](mcp.md) come beside them, and a call is always judged by the [mode and the rules](../server/SECURITY.md).

Models write the names and arguments of other agents' tools too; such a call is read as one of these.

"""
SUBJECTS = {
    "files": "Files",
    "commands": "Commands",
    "code": "Code",
    "agent": "The agent itself",
    "web": "The web",
}
FOOT = """Tools that ask the editor's language servers are offered only where the editor answers: see
[Editors](editors.md).

## Which model gets which

Models are best at the edits they were trained on. A call of a tool that was not offered runs all the same.

"""
KINDS = {
    Category.READ_ONLY: "reads",
    Category.RESEARCH: "asks a model",
    Category.WRITE: "changes files",
    Category.EXECUTE: "runs something",
}


def render() -> str:
    """The text of the page."""
    parts = [HEAD]
    for subject, title in SUBJECTS.items():
        rows = [_row(tool) for tool in TOOLS if _subject(tool) == subject]
        parts.append(f"## {title}\n\n{table(('tool', 'kind', 'what the model is told', 'arguments'), rows)}\n\n")
    parts += [FOOT, table(("family", "is not offered"), _families()), "\n"]
    return "".join(parts)


def _subject(tool: Tool[Any]) -> str:
    """The package of a tool below `pilotfish.tools`, or its module."""
    return tool.args.__module__.split(".")[2]


def _row(tool: Tool[Any]) -> tuple[str, ...]:
    schema = parameters(tool.args)
    required = schema.get("required", [])
    names = ", ".join(code(name if name in required else f"{name}?") for name in schema["properties"])
    return (code(tool.name), KINDS[tool.category], tool.description.strip().partition("\n")[0], names)


def _families() -> Iterator[tuple[str, str]]:
    for family in FAMILIES:
        some = ", ".join(map(code, sorted(family.without)))
        yield (family.name, "all: its calls are text" if family.works_in_text else some)
