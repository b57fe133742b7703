"""How a file is mentioned in a prompt: `@path`, `@path#12`, `@path#12-20`, and `@"a path with spaces"#12`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]+)"|([\w./~\-][\w./\-]*))(?:#L?(\d+)(?:-L?(\d+))?)?')
_PLAIN = re.compile(r"[\w./~\-][\w./\-]*\Z")
_SENTENCE = ".,:;!?)"  # what may stand behind a name and belongs to the sentence


@dataclass(frozen=True, slots=True)
class Mention:
    """A name that stood behind an `@`, and the lines of it that are meant, counting from 1."""

    name: str
    lines: tuple[int, int] | None = None


def mentions(text: str) -> Iterator[Mention]:
    """Every word of a prompt that could name a file; whether it does, only the workspace knows."""
    for match in _MENTION.finditer(text):
        quoted, plain, first, last = match.groups()
        name = quoted or plain.rstrip(_SENTENCE)
        if name:
            yield Mention(name, (int(first), int(last or first)) if first else None)


def written(name: str) -> str:
    """The name as it stands behind an `@`, so that `mentions` reads it."""
    plain = _PLAIN.match(name) and not name.endswith(tuple(_SENTENCE))
    return name if plain or '"' in name else f'"{name}"'
