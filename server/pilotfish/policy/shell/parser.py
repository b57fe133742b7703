"""Parses command lines with a grammar that is small enough to trust.

The grammar covers plain words, quotes without expansion, `|`, `&&`, `||`, `;`, line ends, redirections from and to
files, and `for` over plain words. `parse` accounts for every byte of a line or rejects it. Bash reads an accepted
line in the same way; tests compare both. A rejected line is not wrong: policy asks the user about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from pilotfish.policy.shell.lexer import NAMED, GiveUpError, OperatorToken, Token, Var, Word, tokens

MAX_LENGTH = 8_000  # characters; nobody would check a longer line
MAX_COMMANDS = 100  # after `for` has been unrolled

Operator = Literal["<", ">", ">>", ">&"]


@dataclass(frozen=True, slots=True)
class Redirect:
    """`fd op target`; for `>&` the target is a file descriptor."""

    fd: int
    op: Operator
    target: str


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command: its words after quote removal."""

    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    after: Literal["", "|", "&&", "||", ";"] = ""
    """The operator between the previous command and this one."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A fully parsed command line: all its simple commands, in order."""

    commands: tuple[Simple, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The line is outside the grammar. `reason` is for the user."""

    reason: str


def parse(text: str) -> CommandLine | Unreadable:
    """Parse a command line. Never raises."""
    if len(text) > MAX_LENGTH:
        return Unreadable("it is too long to check")
    try:
        return CommandLine(_Parser(tokens(text)).line())
    except GiveUpError as error:
        return Unreadable(str(error))


# One-letter names and a few words, but no variable that a program reads (PATH, http_proxy, …).
_LOOP_NAMES = re.compile(r"[a-z]|file|dir|path|name|word|item|branch|commit|line|module|pkg")
_LOOP_WORD = re.compile(r"[A-Za-z0-9_./,:@%+=^-]+")
_KEYWORDS = frozenset({
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "time", "until", "while",
})  # fmt: skip


class _Parser:
    """A recursive descent parser. It uses every token or raises `GiveUpError`."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self._at = 0

    def line(self) -> tuple[Simple, ...]:
        commands = self._list(until=None, bound={})
        if not commands:
            raise GiveUpError("it is empty")
        return tuple(commands)

    def _peek(self) -> Token | None:
        return self.tokens[self._at] if self._at < len(self.tokens) else None

    def _list(self, until: str | None, bound: dict[str, str]) -> list[Simple]:
        commands: list[Simple] = []
        after: Literal["", "|", "&&", "||", ";"] = ""
        while True:
            self._skip_lines()
            token = self._peek()
            if token is None or (isinstance(token, Word) and until and token.keyword == until):
                if after in {"|", "&&", "||"} or (token is None and until):
                    raise GiveUpError("it is incomplete")
                return commands
            if isinstance(token, Word) and token.keyword == "for" and after not in {"|", "&&", "||"} and not bound:
                commands += [replace(command, after=command.after or ";") for command in self._for()]
                piped = False
            else:
                commands.append(self._simple(after, bound))
                piped = True
            if len(commands) > MAX_COMMANDS:
                raise GiveUpError("it is too long to check")
            token = self._peek()
            if token is None:
                after = ";"
                continue
            if not isinstance(token, OperatorToken):
                raise GiveUpError("it is incomplete")
            match token.text:
                case ";" | "\n":
                    after = ";"
                case "|" | "&&" | "||" if piped:
                    after = token.text
                case _:
                    raise GiveUpError("it combines commands in a way that cannot be checked")
            self._at += 1

    def _skip_lines(self) -> None:
        while (token := self._peek()) is not None and isinstance(token, OperatorToken) and token.text == "\n":
            self._at += 1

    def _for(self) -> list[Simple]:
        self._at += 1
        name = self._keyword()
        if not _LOOP_NAMES.fullmatch(name):
            raise GiveUpError(f"its loop sets the variable {name}")
        if self._keyword() != "in":
            raise GiveUpError("it contains a loop that cannot be checked")
        values: list[str] = []
        while isinstance(word := self._peek(), Word):
            value = _value(word, {})
            if not _LOOP_WORD.fullmatch(value):
                raise GiveUpError("its loop values contain special characters")
            values.append(value)
            self._at += 1
        if not isinstance(word, OperatorToken) or word.text not in {";", "\n"} or not values:
            raise GiveUpError("it contains a loop that cannot be checked")
        self._at += 1
        self._skip_lines()
        if self._keyword() != "do":
            raise GiveUpError("it contains a loop that cannot be checked")
        body = self._at
        commands: list[Simple] = []
        for value in values:
            self._at = body
            once = self._list(until="done", bound={name: value})
            if not once or len(commands) + len(once) > MAX_COMMANDS:
                raise GiveUpError("it contains a loop that cannot be checked")
            commands += once
        self._at += 1
        return commands

    def _keyword(self) -> str:
        token = self._peek()
        if not isinstance(token, Word) or token.keyword is None:
            raise GiveUpError("it contains a loop that cannot be checked")
        self._at += 1
        return token.keyword

    def _simple(self, after: Literal["", "|", "&&", "||", ";"], bound: dict[str, str]) -> Simple:
        words: list[str] = []
        redirects: list[Redirect] = []
        while (token := self._peek()) is not None:
            if isinstance(token, Word):
                if not words:
                    self._check_first(token)
                words.append(_value(token, bound))
                self._at += 1
            elif token.text in {"<", ">", ">>", ">&", "&>"}:
                self._at += 1
                redirects += self._redirect(token, bound)
            else:
                break
        if not words:
            raise GiveUpError("it is incomplete")
        return Simple(tuple(words), tuple(redirects), after)

    def _check_first(self, word: Word) -> None:
        text = word.keyword
        if text in _KEYWORDS:
            raise GiveUpError(f"it uses the shell keyword {text}")
        first = word.parts[0]
        if isinstance(first, Var):
            raise GiveUpError("the program name comes from a variable")
        if re.match(r"[A-Za-z_][A-Za-z0-9_]*\+?=", first):
            raise GiveUpError("it sets an environment variable")
        if first.startswith("%"):
            raise GiveUpError("it refers to a shell job")

    def _redirect(self, mark: OperatorToken, bound: dict[str, str]) -> list[Redirect]:
        token = self._peek()
        if not isinstance(token, Word):
            raise GiveUpError("it is incomplete")
        # In `echo 2>a 1>b` the lexer has already read the digits as file descriptors.
        target = _value(token, bound)
        self._at += 1
        match mark.text:
            case "<":
                if mark.fd not in {None, 0}:
                    raise GiveUpError("it uses an unusual file descriptor")
                return [Redirect(0, "<", target)]
            case ">" | ">>":
                if mark.fd == 0:
                    raise GiveUpError("it uses an unusual file descriptor")
                return [Redirect(1 if mark.fd is None else mark.fd, mark.text, target)]
            case ">&":
                if token.quoted or target not in {"1", "2"} or mark.fd == 0:
                    raise GiveUpError("it uses an unusual file descriptor")
                return [Redirect(1 if mark.fd is None else mark.fd, ">&", target)]
            case _:
                return [Redirect(1, ">", target), Redirect(2, ">", target)]


def _value(word: Word, bound: dict[str, str]) -> str:
    out: list[str] = []
    for part in word.parts:
        if isinstance(part, str):
            out.append(part)
        elif part.name in bound:
            out.append(bound[part.name])
        else:
            raise GiveUpError(NAMED["$"])
    return "".join(out)
