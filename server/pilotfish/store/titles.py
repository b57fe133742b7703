"""Session titles, generated from prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

MAX_TITLE_CHARS: Final = 60

_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f]+")
_DECORATION: Final = re.compile(r"^(?:[#>*`\s-]+|\d+[.)]\s+)+")


def title_of(prompt: Sequence[Mapping[str, Any]]) -> str:
    """A title from the blocks of a prompt: the first line with a letter or digit, or the name of an attachment."""
    for block in prompt:
        if block.get("type") == "text":
            for line in str(block.get("text", "")).splitlines():
                title = shorten(_DECORATION.sub("", line[:1000]))
                if any(character.isalnum() for character in title):
                    return title
    for block in prompt:
        uri = block.get("uri")
        if isinstance(uri, str) and uri:
            return shorten(uri.rstrip("/").rpartition("/")[2])
    return "Image" if any(block.get("type") == "image" for block in prompt) else ""


def shorten(text: str) -> str:
    """One line of at most MAX_TITLE_CHARS, cut between words if possible."""
    line = _SPACE.sub(" ", text).strip()
    if len(line) <= MAX_TITLE_CHARS:
        return line
    cut = line[:MAX_TITLE_CHARS]
    head, _, _ = cut.rpartition(" ")
    return (head if len(head) > MAX_TITLE_CHARS // 2 else cut[:-1]).rstrip(" ,;:.-") + "…"
