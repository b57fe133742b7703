"""The table of model families: which tools each one is offered.

Models are best at the edits they were trained on: GPT writes patches, Claude replaces quoted text, a very small model
rewrites a file. A call of a tool that was not offered still runs, as the history may have some.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_PATCHES = frozenset({"apply_patch"})
_QUOTES = frozenset({"update_file", "write_file", "move_file", "delete_file"})
_LARGE = frozenset({
    "find_symbol", "symbols", "diagnostics", "rename_symbol", "quick_fix", "bash_output", "research_codebase",
    "update_plan", "remember", "task", "web_search", "edit_notebook", "report_finding",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """Models that are offered the same tools: all but `without`."""

    name: str
    pattern: str
    """of the model's name without its provider"""
    without: frozenset[str]


FAMILIES = (
    # "b" is billions of parameters, as in qwen2.5-coder:1.5b, Llama-3.2-3B-Instruct and gemma-3-270m-it.
    Family(
        "small",
        r"(?<![a-z\d.])e?(?:[0-3](?:\.\d+)?b|\d{2,3}m)(?![a-z\d])|smollm|tinyllama",
        _PATCHES | _LARGE | {"update_file", "move_file"},
    ),
    Family("gpt", r"\bgpt-(?:4\.1|[5-9]|[1-9]\d)|\bo[34](?:-|$)|codex", _QUOTES),
    Family("claude", r"claude", _PATCHES),
    Family("other", r"", _PATCHES),
)


def family_of(model: str) -> Family:
    """The family of a model name. The first row that matches counts."""
    return next(family for family in FAMILIES if re.search(family.pattern, model, re.IGNORECASE))


def offered(model: str, tools: Collection[str]) -> list[str]:
    """Those of our tools that a model is offered."""
    without = family_of(model).without
    return [name for name in tools if name not in without]
