"""Outlines a source file and finds the place for a comment at its top, without a parser for its language.

It is for the scripted guide, which must work in any folder and any editor. It reads lines, so it can miss a definition
that is written in an unusual way; it never invents one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_HASH = "py pyi rb sh bash zsh fish pl r jl nix toml yaml yml ex exs cr tf mk cmake"
_SLASHES = (
    "ts tsx js jsx mjs cjs mts cts go rs java kt kts c h cc cpp hpp cxx cs swift scala dart php zig groovy gradle proto"
)
_COMMENTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_HASH.split(), ("# ", "")),
    **dict.fromkeys(_SLASHES.split(), ("// ", "")),
    **dict.fromkeys(("css", "scss", "less"), ("/* ", " */")),
    **dict.fromkeys(("md", "html", "htm", "xml", "svg", "vue", "svelte"), ("<!-- ", " -->")),
    **dict.fromkeys(("lua", "sql", "hs", "elm"), ("-- ", "")),
    **dict.fromkeys(("clj", "lisp", "el", "scm"), (";; ", "")),
    **dict.fromkeys(("erl", "tex"), ("% ", "")),
}
_DOCUMENTS = ("md", "html", "htm", "xml", "svg", "toml", "yaml", "yml", "css", "scss", "less", "tex", "sql")

_DEFINITIONS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("heading", r"^#{1,3} +(?P<name>[^#\s].*?) *#*$"),
        ("class", r"^\s*(?:export |default |public |abstract |final |data |sealed )*class +(?P<name>[A-Za-z_]\w*)"),
        ("interface", r"^\s*(?:export |public |pub )*(?:interface|trait|protocol) +(?P<name>[A-Za-z_]\w*)"),
        ("type", r"^\s*(?:export |public |pub(?:\(\w+\))? )*(?:struct|enum|type|record) +(?P<name>[A-Z]\w*)"),
        ("module", r"^\s*(?:pub )?(?:module|mod|namespace) +(?P<name>[A-Za-z_][\w.:]*)"),
        ("function", r"^\s*(?:async +)?def +(?P<name>[A-Za-z_]\w*[?!]?)"),
        ("function", r"^\s*(?:export |default |async )*function\*? +(?P<name>[A-Za-z_$][\w$]*)"),
        ("function", r"^\s*func +(?:\([^)]*\) +)?(?P<name>[A-Za-z_]\w*)"),
        ("function", r"^\s*(?:pub(?:\(\w+\))? |async |const |unsafe )*(?:fn|fun) +(?P<name>[A-Za-z_]\w*)"),
        ("function", r"^\s*(?:export )?(?:const|let|var) +(?P<name>[A-Za-z_$][\w$]*) *= *(?:async *)?\([^)]*\) *=>"),
        ("function", r"^(?:[A-Za-z_][\w:<>*&\[\], ]* )[*&]?(?P<name>[A-Za-z_]\w*)\([^;]*\) *(?:const *)?\{"),
        ("function", r"^(?P<name>[A-Za-z_][\w-]*)\(\) *\{"),
    )
)  # fmt: skip
_NOT_NAMES = frozenset({"if", "for", "while", "switch", "return", "catch", "else"})
_STAYS_FIRST = re.compile(r"^(?:#!|<\?|<!doctype|@charset|#.*coding[:=])", re.IGNORECASE)
_UNSAFE = re.compile(r"[^\w ,.:()-]|--+")  # what could end a comment
_MAIN = ("main", "app", "index", "lib", "mod", "server", "cli", "__main__")
_TEST = re.compile(r"(?:^|[/_.-])(?:tests?|specs?|fixtures?|examples?|vendor|conftest|setup|migrations)(?:[/_.-]|$)")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition in a file. `line` counts from 1."""

    kind: str
    name: str
    line: int


def outline(name: str, lines: Sequence[str]) -> list[Symbol]:
    """The definitions of a file, or the headings of a document."""
    found: list[Symbol] = []
    fenced = False
    for number, line in enumerate(lines, 1):
        if _suffix(name) == "md" and line.lstrip().startswith("```"):
            fenced = not fenced
        for kind, pattern in _DEFINITIONS:
            if fenced or (kind == "heading") != (_suffix(name) == "md"):
                continue
            if (match := pattern.match(line)) and match["name"] not in _NOT_NAMES:
                found.append(Symbol(kind, match["name"], number))
                break
    return found


def can_comment(name: str) -> bool:
    """Whether the guide knows how a comment is written in this kind of file."""
    return _suffix(name) in _COMMENTS


def commented(name: str, lines: Sequence[str], text: str) -> tuple[str, str] | None:
    """(old text, new text) of an edit that puts a comment at the top of the file. None if there is no safe place."""
    if not can_comment(name) or not any(line.strip() for line in lines):
        return None
    begin, end = _COMMENTS[_suffix(name)]
    comment = f"{begin}{_UNSAFE.sub('', text).strip()}{end}"
    place = _first_place(name, lines)
    if place is None:
        return None
    whole = "\n".join(lines)
    for count in range(max(place, 1), len(lines) + 1):
        old = "\n".join(lines[:count])
        if old.strip() and whole.count(old) == 1:
            return old, "\n".join([*lines[:place], comment, *lines[place:count]])
    return None


def best_file(names: Sequence[str]) -> str | None:
    """The file that a newcomer would look at first: source before documents, no test, near the root."""
    return min((name for name in names if can_comment(name)), key=_rank, default=None)


def _rank(name: str) -> tuple[object, ...]:
    path = PurePosixPath(name)
    return (
        _suffix(name) in _DOCUMENTS,
        _TEST.search(name.lower()) is not None,
        path.name.startswith((".", "__init__")),
        path.stem.lower() not in _MAIN,
        len(path.parts),
        name,
    )


def _first_place(name: str, lines: Sequence[str]) -> int | None:
    """How many lines must stay first: a shebang, an encoding, a declaration, the front matter of a document."""
    if lines[0].strip() == "---" and _suffix(name) == "md":
        return next((place + 1 for place, line in enumerate(lines) if place and line.strip() == "---"), None)
    count = 0
    while count < min(len(lines), 2) and _STAYS_FIRST.match(lines[count]):
        if lines[count].startswith("<?") and "?>" in lines[count] and _suffix(name) == "php":
            return None
        count += 1
    return count


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix[1:].lower()
