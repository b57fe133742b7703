"""The table of model families: the tools that each one is offered, and the words that it is given.

Models are best at the edits they were trained on: GPT writes patches, Claude replaces quoted text, a very small model
writes a whole file in its answer, and its few calls as text. A call of a tool that was not offered still runs, as the
history may have some.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_PATCHES = frozenset({"apply_patch"})
_QUOTES = frozenset({"update_file", "write_file", "move_file", "delete_file"})


@dataclass(frozen=True, slots=True)
class Family:
    """Models that are offered the same tools and are given the same words."""

    name: str
    pattern: str
    """of the model's name"""
    words: tuple[str, ...]
    """the files of `engine/instructions`"""
    without: frozenset[str] = _PATCHES
    """tools that are not offered"""
    works_in_text: bool = False
    """No tool is offered: the words teach a few calls as text. Files that the answer shows are written, and files that
    the prompt names are attached."""
    temperature: float | None = None
    """when the user has set none"""


FAMILIES = (
    # "b" is billions of parameters, as in qwen2.5-coder:1.5b, Llama-3.2-3B-Instruct and gemma-3-270m-it.
    Family(
        "tiny",
        r"(?<![a-z\d.])e?(?:[0-3](?:\.\d+)?b|\d{2,3}m)(?![a-z\d])|smollm|tinyllama",
        ("tiny",),
        works_in_text=True,
        temperature=0.2,  # the servers' default of 0.7 to 1 makes a small model lose the thread
    ),
    Family("claude", r"claude|anthropic", ("all", "claude")),
    Family("gpt", r"\bgpt-(?:4\.1|[5-9]|[1-9]\d)|(?:^|[:/])o[34]\b|codex", ("all", "gpt"), _QUOTES),
    Family("older gpt", r"\bgpt|(?:^|[:/])o[15]\b", ("all", "gpt")),
    Family("gemini", r"gemini|google", ("all", "gemini")),
    Family("small", r"[:\-](?:[4-9]|1[0-4])(?:\.\d+)?b\b", ("all", "small")),
    Family("other", r"", ("all",)),
)


def family_of(model: str) -> Family:
    """The family of a model name, with or without its provider. The first row that matches counts."""
    return next(family for family in FAMILIES if re.search(family.pattern, model, re.IGNORECASE))


def offered(model: str, tools: Collection[str]) -> list[str]:
    """Those of our tools that a model is offered."""
    family = family_of(model)
    return [] if family.works_in_text else [name for name in tools if name not in family.without]
