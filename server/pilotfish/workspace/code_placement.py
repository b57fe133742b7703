r"""Finds where a code block of an answer belongs in a file: the whole file, its definitions, or the lines around it.

A block rarely says what it replaces. It is placed only if the place is certain: definitions by their names, other lines
by their first and last line. Promise: no definition of the file is removed that the block does not define, unless the
block is a new version of the whole file.

Pure. Texts are unified: lines end in `\n`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from pilotfish.workspace.edits.matching_lines import ELISION, indentation

How = Literal["same", "whole", "symbol", "lines"]

WHOLE = 0.6
"""share of the lines of a file that a new version of the whole file has"""
MAX_LINE = 500
"""a longer line is data and defines nothing"""
COMMON = 0.5
"""share of the lines of a block that the lines it replaces have, too"""


@dataclass(frozen=True, slots=True)
class Placed:
    """The text of the file with the block in its place."""

    text: str
    how: How


def place_code(text: str, code: str) -> Placed | None:
    """Put a block into a file; None if it is not certain where it belongs."""
    block = _trimmed(code.split("\n"))
    if not block:
        return None
    lines = text.split("\n")
    if _index(lines, block) is not None:
        return Placed(text, "same")
    elided = any(ELISION.fullmatch(line) for line in block)
    if not elided and _is_whole(lines, block):
        return Placed("\n".join([*block, ""]) if text.endswith("\n") else "\n".join(block), "whole")
    if (placed := _by_definitions(lines, block)) is not None:
        return Placed("\n".join(placed), "symbol")
    if (placed := _by_lines(lines, block)) is not None:
        return Placed("\n".join(placed), "lines")
    return None


def is_new_version(text: str, code: str) -> bool:
    """Whether a block is a new version of a file without definitions, such as one of settings: each line of the file
    has one in the block that begins alike."""
    block, lines = _trimmed(code.split("\n")), text.split("\n")
    if any(ELISION.fullmatch(line) for line in block) or _members(lines, 0, len(lines)):
        return False
    ours, theirs = (Counter(_word(line.strip()) for line in given if line.strip()) for given in (lines, block))
    return bool(ours) and ours <= theirs and next(iter(ours)) == next(iter(theirs))


def with_new_definitions(text: str, code: str) -> str | None:
    """The file with the definitions of a block behind its own; None if the block holds anything else, or a name that
    the file has."""
    block, lines = _trimmed(code.split("\n")), text.rstrip("\n").split("\n")
    given = list(_definitions(block, 0, len(block)))
    loose = [line.strip() for line in _outside(block, given)]
    known = {one.name for one in _members(lines, 0, len(lines))}
    if not given or known & {one.name for one in given} or not all(map(_IMPORT.match, loose)):
        return None
    imports = [line for line in loose if _IMPORT.match(line)]
    new = "\n".join(block[given[0].top : given[-1].end])
    gap = "\n\n\n" if given[0].kind in ("def", "class") else "\n\n"
    return "\n".join(_with_imports(lines, imports)).rstrip("\n") + f"{gap if text.strip() else ''}{new}\n"


def named_path(code: str) -> tuple[str | None, str]:
    """The path that the first line of a block names in a comment, and the block without that line."""
    first, _, rest = code.partition("\n")
    found = _PATH_COMMENT.match(first)
    return (found.group(1), rest) if found else (None, code)


_PATH_COMMENT = re.compile(
    r"\s*(?:#|//|--|;|/\*|<!--)\s*(?:file(?:name)?:\s*)?([\w@./\\-]+\.\w{1,8})\s*(?:\*/|-->)?\s*$", re.IGNORECASE
)


# -- the whole file -----------------------------------------------------------------------------------------------


def _is_whole(lines: Sequence[str], block: Sequence[str]) -> bool:
    """Whether a block is a new version of the whole file: it has most of the lines, and begins like the file."""
    ours, theirs = (Counter(line.strip() for line in text if line.strip()) for text in (lines, block))
    if not ours or (ours & theirs).total() < WHOLE * ours.total():
        return False
    first, given = (next(line.strip() for line in text if line.strip()) for text in (lines, block))
    return first == given or _word(first) == _word(given)


def _word(line: str) -> str:
    return line.split(maxsplit=1)[0] if line else ""


# -- definitions --------------------------------------------------------------------------------------------------

_KEYWORDS = r"if|else|for|while|switch|catch|return|await|new|throw|elif|with|match|do|try|case|yield|not|in|and|or"
_DEFINITIONS = (
    re.compile(
        r"(?P<indent>[ \t]*)(?!(?:import|from|return|use)\b)(?:[a-z]+(?:\([^)]*\))?[ \t]+)*?"
        r"(?P<kind>def|class|function\*?|interface|enum|namespace|type|fn|struct|trait|mod|union|record)[ \t]+"
        r"(?P<name>[\w$]+)"
    ),
    re.compile(r"(?P<indent>[ \t]*)(?:export[ \t]+)?(?P<kind>const|let|var)[ \t]+(?P<name>[\w$]+)[ \t]*[:=]"),
    re.compile(r"(?P<indent>[ \t]*)(?P<kind>impl)(?P<name>\b[^{]*)"),
    re.compile(r"(?P<indent>)(?P<kind>func)[ \t]+(?P<name>(?:\([^)]*\)[ \t]*)?\w+)"),
    re.compile(  # a method or a function of a language without a keyword for it
        rf"(?P<indent>[ \t]*)(?!(?:{_KEYWORDS})\b)(?P<kind>(?:[\w<>\[\],*&:?.]+[ \t]+)*)"
        rf"(?!(?:{_KEYWORDS})\b)(?P<name>[\w$~]+)[ \t]*\([^;]*\)[^;=]*\{{[ \t]*$"
    ),
)
_CONTAINERS = frozenset({"class", "interface", "namespace", "impl", "trait", "mod", "struct", "enum", "record"})
_PREFACE = re.compile(r"[ \t]*(?:@\w|#\[|///?|/\*|\*|#(?!include|define|if|endif|else|pragma)|--|\[\w)")
"""a decorator, an attribute or a comment above a definition"""
_IMPORT = re.compile(r"(?:import|from|use|using|#include|require|package)\b|(?:const|let|var)\s.*\brequire\(")
_CLOSER = re.compile(r"[ \t]*[})\]]")
_OPENER = re.compile(r"[{(\[:][ \t]*$")


@dataclass(frozen=True, slots=True)
class _Definition:
    """Lines `top` to `end` of a text; `start` is the line with the name, `top` the first line of what is above it."""

    kind: str
    name: str
    indent: str
    top: int
    start: int
    end: int


def _by_definitions(lines: list[str], block: list[str]) -> list[str] | None:
    """Replace the definitions that the file has, too, and add the others behind the one before them."""
    given = list(_definitions(block, 0, len(block)))
    loose = _outside(block, given)
    if not given or any(not _IMPORT.match(line.strip()) and not ELISION.fullmatch(line) for line in loose):
        return None
    own = _members(lines, 0, len(lines))
    pairs = [(one, _same(one, own)) for one in given]
    if not any(target for _, target in pairs):
        return None
    changes: list[_Change] = []
    last = next(target for _, target in pairs if target is not None)
    before = pairs[0][1] is None  # what is new comes before the first one that is known
    for one, target in pairs:
        if target is not None:
            if (change := _replacement(lines, target, block, one)) is None:
                return None
            changes.append(change)
            last, before = target, False
            continue
        new = _indented(block[one.top : one.end], block[one.start], lines[last.start])
        at = last.top if before else last.end
        changes.append(_Change(at, at, [*new, ""] if before else ["", *new]))
    changed = _applied(lines, changes)
    return changed and _with_imports(changed, [line for line in loose if _IMPORT.match(line.strip())])


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines `first` to `end` become `new`."""

    first: int
    end: int
    new: Sequence[str]


def _applied(lines: Sequence[str], changes: Sequence[_Change]) -> list[str] | None:
    """The lines with all changes; None if two of them overlap."""
    changed: list[str] = []
    at = 0
    for change in sorted(changes, key=lambda change: (change.first, change.end)):
        if change.first < at:
            return None
        changed += [*lines[at : change.first], *change.new]
        at = change.end
    return [*changed, *lines[at:]]


def _replacement(lines: list[str], target: _Definition, block: list[str], one: _Definition) -> _Change | None:
    """What a definition of the block does to the one of the file. If only some members of a class are given, the
    others stay."""
    first = target.top if one.top < one.start else target.start
    inner = list(_definitions(block, one.start + 1, one.end))
    own = {member.name for member in _members(lines, target.start + 1, target.end)}
    elided = any(ELISION.fullmatch(line) for line in block[one.start : one.end])
    if one.kind not in _CONTAINERS or not inner or not (elided or own - {member.name for member in inner}):
        return _Change(first, target.end, _indented(block[one.top : one.end], block[one.start], lines[target.start]))
    body, members = lines[target.start + 1 : target.end], block[inner[0].top : inner[-1].end]
    changed = _by_definitions(body, members)
    if changed is None:
        if own & {member.name for member in inner}:
            return None
        end = len(body) - 1 if body and _CLOSER.match(body[-1]) else len(body)
        like = next((line for line in body if line.strip()), block[inner[0].start])
        changed = [*body[:end], "", *_indented(members, block[inner[0].start], like), *body[end:]]
    head = _indented(block[one.top : one.start + 1], block[one.start], lines[target.start])
    return _Change(first, target.end, [*head, *changed])


def _same(one: _Definition, own: Sequence[_Definition]) -> _Definition | None:
    """The only definition of the same name."""
    named = [other for other in own if other.name == one.name]
    if len(named) > 1:
        alike = [other for other in named if other.indent == one.indent and other.kind == one.kind]
        named = alike or named
    return named[0] if len(named) == 1 else None


def _definitions(lines: Sequence[str], first: int, end: int) -> Iterator[_Definition]:
    """The outermost definitions between two lines."""
    row = first
    while row < end:
        if (found := _definition(lines, row, end)) is not None:
            yield found
            row = found.end
        else:
            row += 1


def _members(lines: Sequence[str], first: int, end: int) -> list[_Definition]:
    """The definitions between two lines, at any depth."""
    return [found for row in range(first, end) if (found := _definition(lines, row, end)) is not None]


def _definition(lines: Sequence[str], row: int, end: int) -> _Definition | None:
    if len(lines[row]) > MAX_LINE:
        return None
    found = next(filter(None, (pattern.match(lines[row]) for pattern in _DEFINITIONS)), None)
    if found is None or ELISION.fullmatch(lines[row]):
        return None
    indent = found["indent"]
    top = row
    while top > 0 and _indent(lines[top - 1]) == indent and _PREFACE.match(lines[top - 1]):
        if ELISION.fullmatch(lines[top - 1]):
            break
        top -= 1
    name = " ".join(found["name"].split())
    return _Definition(found["kind"].strip(), name, indent, top, row, _end(lines, row, end, indent))


def _end(lines: Sequence[str], row: int, limit: int, indent: str) -> int:
    """The line after a definition: what is indented deeper belongs to it, and what closes it."""
    at, last = row + 1, row + 1
    is_open = bool(_OPENER.search(lines[row])) or lines[row].rstrip().endswith((",", "=", "=>", "|", "&"))
    while at < limit:
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        deeper = len(_indent(line)) > len(indent)
        closes = _indent(line) == indent and (_CLOSER.match(line) or (line.strip() == "{" and last == row + 1))
        if not deeper and not closes:
            break
        at += 1
        last = at
        if closes and not deeper and not _OPENER.search(line):
            break
    return last if is_open or last > row + 1 else row + 1


def _outside(block: Sequence[str], given: Sequence[_Definition]) -> list[str]:
    """The lines of a block that belong to none of its definitions."""
    inside = {row for one in given for row in range(one.top, one.end)}
    return [line for row, line in enumerate(block) if row not in inside and line.strip()]


def _with_imports(lines: list[str], imports: Sequence[str]) -> list[str]:
    """Add the imports that the file lacks behind its last one."""
    there = {line.strip() for line in lines}
    missing = [line.strip() for line in imports if line.strip() not in there]
    if not missing:
        return lines
    rows = [row for row, line in enumerate(lines) if _IMPORT.match(line)]
    at = rows[-1] + 1 if rows else 0
    return [*lines[:at], *missing, *([] if rows else [""]), *lines[at:]]


# -- other lines --------------------------------------------------------------------------------------------------


def _by_lines(lines: list[str], block: list[str]) -> list[str] | None:
    """Replace the lines between the only ones that equal the first and the last line of the block."""
    if len(block) < 2 or any(ELISION.fullmatch(line) for line in block):
        return None
    keys, wanted = [line.strip() for line in lines], [line.strip() for line in block]
    if keys.count(wanted[0]) != 1 or keys.count(wanted[-1]) != 1:
        return None
    first, last = keys.index(wanted[0]), keys.index(wanted[-1])
    if first >= last:
        return None
    matcher = SequenceMatcher(None, keys[first : last + 1], wanted, autojunk=False)
    common = sum(size for _, _, size in matcher.get_matching_blocks())
    named = {one.name for one in _members(lines, first, last + 1)} - {
        one.name for one in _members(block, 0, len(block))
    }
    if common < COMMON * max(len(wanted), last + 1 - first) or named:
        return None
    return [*lines[:first], *_indented(block, block[0], lines[first]), *lines[last + 1 :]]


# -- lines --------------------------------------------------------------------------------------------------------


def _indented(block: Sequence[str], quoted: str, found: str) -> list[str]:
    """The block, indented so that the quoted line is indented as the found one is."""
    change = indentation([found], [quoted])
    return [change(line) if change and line.strip() else line for line in block]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _index(lines: Sequence[str], block: Sequence[str]) -> int | None:
    """Where the block is in the text already, at any depth."""
    keys, wanted = [line.strip() for line in lines], [line.strip() for line in block]
    size = len(wanted)
    return next((row for row in range(len(keys) - size + 1) if keys[row : row + size] == wanted), None)


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
