"""The syntax of mentions in a prompt: `@path`, `@path#12`, `@path#12-20`, `@"a path with spaces"#12`, `@https://…`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MENTION = re.compile(
    r'(?<![\w@])@(?:(https?://[^\s"<>`]+)|"([^"\n]+)"|([\w./~\-][\w./\-]*))(?:#L?(\d+)(?:-L?(\d+))?)?'
)
_PLAIN = re.compile(r"[\w./~\-][\w./\-]*\Z")
_SENTENCE = ".,:;!?)"  # punctuation after a name that belongs to the sentence


@dataclass(frozen=True, slots=True)
class Mention:
    """The name after an `@`, and the range of lines. Lines count from 1."""

    name: str
    lines: tuple[int, int] | None = None


def mentions(text: str) -> Iterator[Mention]:
    """Return every mention in a prompt. Whether a file with that name exists is not checked here."""
    return (mention for mention, _, _ in mention_spans(text))


def mention_spans(text: str) -> Iterator[tuple[Mention, int, int]]:
    """Return every mention with the offsets of its `@` and of its end, without the punctuation of the sentence."""
    for match in _MENTION.finditer(text):
        url, quoted, plain, first, last = match.groups()
        name = quoted or (url or plain).rstrip(_SENTENCE)
        if name:
            stripped = 0 if quoted or first else len(url or plain) - len(name)
            lines = (int(first), int(last or first)) if first else None
            yield Mention(name, lines), match.start(), match.end() - stripped


def is_url(name: str) -> bool:
    """Return whether a mention is the address of a web page."""
    return name.startswith(("http://", "https://"))


def written(name: str) -> str:
    """Return the name as it is written after an `@`, quoted if `mentions` needs it."""
    plain = _PLAIN.match(name) and not name.endswith(tuple(_SENTENCE))
    return name if plain or '"' in name else f'"{name}"'
