"""Splits a command line into words and operators as bash does, if bash expands nothing in it.

Quotes are removed, and `$name` becomes a `Var` that a `for` loop fills in. Other expansions and invisible characters
raise `GiveUpError` with the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pilotfish.text.display_safe import one_line, shows


class GiveUpError(Exception):
    """The command line is outside the grammar. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Var:
    """`$name`, the variable of a `for` loop. Its values are plain words, so quotes around it make no difference."""

    name: str


@dataclass(frozen=True, slots=True)
class Word:
    parts: tuple[str | Var, ...]
    quoted: bool
    """Part of the word was quoted, so it is neither a keyword nor a file descriptor."""

    @property
    def keyword(self) -> str | None:
        """The text of the word, if bash could treat it as a keyword."""
        return self.parts[0] if len(self.parts) == 1 and not self.quoted and isinstance(self.parts[0], str) else None


@dataclass(frozen=True, slots=True)
class OperatorToken:
    """An operator, and the file descriptor before it if there is one."""

    text: str
    fd: int | None = None


Token = Word | OperatorToken

_PLAIN = re.compile(r"[A-Za-z0-9_./,:@%+=^-]+")
_BLANKS = re.compile(r"[ \t]+")
_MARKS = re.compile(r"&&|\|\||>>|>&|&>|[|;<>\n]")
_VAR = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_DOUBLE = re.compile(r'[^"$`\\\n]+')
NAMED = {
    "$": "the shell would insert a variable or the output of a command",
    "`": "the shell would run the command between the backquotes",
    "*": "the shell would replace * with file names",
    "?": "the shell would replace ? with file names",
    "[": "the shell would replace [ ] with file names",
    "]": "the shell would replace [ ] with file names",
    "{": "the shell would expand { }",
    "}": "the shell would expand { }",
    "(": "it contains a group, a function or a subshell",
    ")": "it contains a group, a function or a subshell",
    "~": "the shell would replace ~ with a home directory",
    "&": "it would leave a process running in the background",
    "#": "it contains a comment",
    "\\": "it contains a line continuation or an unusual escape",
}


def tokens(text: str) -> list[Token]:
    """Return the words and operators of a line. Raises `GiveUpError` if the line is outside the grammar."""
    found: list[Token] = []
    at, end = 0, len(text)
    while at < end:
        if blank := _BLANKS.match(text, at):
            at = blank.end()
            continue
        if mark := _MARKS.match(text, at):
            found.append(OperatorToken(mark.group()))
            at = mark.end()
            continue
        word, at = _word(text, at)
        # Digits directly before < or > are a file descriptor, not a word.
        if at < end and text[at] in "<>" and word.keyword is not None and word.keyword.isdigit():
            touching = _MARKS.match(text, at)
            if touching is None or word.keyword not in {"0", "1", "2"}:
                raise GiveUpError("it uses an unusual file descriptor")
            found.append(OperatorToken(touching.group(), int(word.keyword)))
            at = touching.end()
            continue
        found.append(word)
    return found


def _word(text: str, start: int) -> tuple[Word, int]:
    parts: list[str | Var] = []
    quoted = False
    at, end = start, len(text)
    while at < end:
        char = text[at]
        if plain := _PLAIN.match(text, at):
            parts.append(plain.group())
            at = plain.end()
        elif char in " \t\n|&;<>":
            break
        elif char == "'":
            close = text.find("'", at + 1)
            if close < 0:
                raise GiveUpError("a quote is not closed")
            parts.append(_literal(text[at + 1 : close]))
            quoted, at = True, close + 1
        elif char == '"':
            inner, at = _double(text, at + 1)
            parts.extend(inner)
            quoted = True
        elif char == "\\" and " " <= text[at + 1 : at + 2] <= "~":
            parts.append(text[at + 1])
            quoted, at = True, at + 2
        elif char == "$" and (var := _VAR.match(text, at)):
            parts.append(Var(var.group(1) or var.group(2)))
            at = var.end()
        elif at > start and char == "#":
            parts.append(char)
            at += 1
        elif at > start and char == "~" and (text[at - 1].isalnum() or text[at - 1] in "^_."):
            parts.append(char)  # HEAD~1: `~` means a home directory only at the start of a word, or after : and =
            at += 1
        elif char == "!" or (at == start and char in "[]" and _alone(text, at)):
            parts.append(char)
            at += 1
        else:
            raise GiveUpError(NAMED.get(char, f"it contains an unusual character: {one_line(char)}"))
    if at == start:
        raise GiveUpError(NAMED["&"])
    return Word(_joined(parts), quoted), at


def _alone(text: str, at: int) -> bool:
    """Whether the character at `at` is a whole word. `[` and `]` of a test are not globs."""
    return text[at + 1 : at + 2] in {"", " ", "\t", "\n", ";", "|", "&"}


def _double(text: str, at: int) -> tuple[list[str | Var], int]:
    parts: list[str | Var] = []
    while at < len(text):
        char = text[at]
        if plain := _DOUBLE.match(text, at):
            parts.append(_literal(plain.group()))
            at = plain.end()
        elif char == '"':
            return parts or [""], at + 1
        elif char == "\n":
            parts.append(char)
            at += 1
        elif char == "\\":
            follow = text[at + 1 : at + 2]
            if follow in {"", "\n", "\r"} or not follow.isascii():
                raise GiveUpError(NAMED["\\"])
            parts.append(follow if follow in '$`"\\' else "\\" + _literal(follow))
            at += 2
        elif char == "$" and text[at + 1 : at + 2] in {'"', "|", " "}:
            parts.append(char)  # a dollar sign without a name is literal
            at += 1
        elif char == "$" and (var := _VAR.match(text, at)):
            parts.append(Var(var.group(1) or var.group(2)))
            at = var.end()
        else:
            raise GiveUpError(NAMED[char])
    raise GiveUpError("a quote is not closed")


def _literal(text: str) -> str:
    """Return quoted text. Raises `GiveUpError` if it contains invisible characters."""
    if not text.isascii() or not text.isprintable():
        for char in text:
            if char not in "\n\t" and not shows(char):
                raise GiveUpError("it contains invisible characters")
    return text


def _joined(parts: list[str | Var]) -> tuple[str | Var, ...]:
    out: list[str | Var] = []
    for part in parts:
        if out and isinstance(part, str) and isinstance(out[-1], str):
            out[-1] += part
        else:
            out.append(part)
    return tuple(out)
