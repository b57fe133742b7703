"""The syntax of file mentions in a prompt: `@path`, `@path#12`, `@path#12-20`, and `@"a path with spaces"#12`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]+)"|([\w./~\-][\w./\-]*))(?:#L?(\d+)(?:-L?(\d+))?)?')
_PLAIN = re.compile(r"[\w./~\-][\w./\-]*\Z")
_SENTENCE = ".,:;!?)"  # punctuation after a name that belongs to the sentence


@dataclass(frozen=True, slots=True)
class Mention:
    """The name after an `@`, and the range of lines. Lines count from 1."""

    name: str
    lines: tuple[int, int] | None = None


def mentions(text: str) -> Iterator[Mention]:
    """Return every mention in a prompt. Whether a file with that name exists is not checked here."""
    for match in _MENTION.finditer(text):
        quoted, plain, first, last = match.groups()
        name = quoted or plain.rstrip(_SENTENCE)
        if name:
            yield Mention(name, (int(first), int(last or first)) if first else None)


def written(name: str) -> str:
    """Return the name as it is written after an `@`, quoted if `mentions` needs it."""
    plain = _PLAIN.match(name) and not name.endswith(tuple(_SENTENCE))
    return name if plain or '"' in name else f'"{name}"'
