"""Splits a Markdown file into the fields of its front matter and its body.

Understands what such files contain in practice: `name: value`, quotes, and values over several lines (`>`, `|`, or
indented). It is no YAML: lists and maps stay the text that they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?\Z")


def split_front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """(fields by their names in lower case, body). Without front matter the body is the whole text."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text.strip()
    return dict(_fields(match.group(1).split("\n"))), text[match.end() :].strip()


def _fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(lines):
        match = _FIELD.match(lines[at].rstrip())
        at += 1
        if match is None:
            continue
        more: list[str] = []
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t"):
            more.append(lines[at].strip())
            at += 1
        yield match.group(1).lower(), _value(match.group(2) or "", more)


def _value(first: str, more: Sequence[str]) -> str:
    first = first.strip()
    if re.fullmatch(r"[|>][+-]?\d?", first):
        return ("\n" if first[0] == "|" else " ").join(more).strip()
    whole = " ".join((first, *filter(None, more))).strip()
    return whole[1:-1] if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "\"'" else whole
