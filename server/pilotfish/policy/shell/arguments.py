"""Splits the arguments of a command into flags, values and operands, as getopt does.

The last character of a flag says what value it takes: `$` is text, `@` a path that is read, `#` a number, `?` optional
text after `=`. Any other character means that the flag takes no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Read:
    """The command only reads, and these are the paths it reads."""

    paths: tuple[str, ...] = ()
    recursive: bool = False
    """It reads the content of all files below these paths."""
    hidden: bool = True
    """If recursive: it also reads hidden files."""
    only: tuple[str, ...] = ()
    """If recursive: it reads only files whose names match one of these globs. Empty means all files."""
    follows: bool = False
    """If recursive: it follows links below these paths."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The command may do more than read, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments of a command, split into flags and operands."""

    flags: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    paths: tuple[str, ...] = ()
    """The flag values that are paths."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.flags)

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(value for name, value in self.flags if name in names)

    @property
    def files(self) -> tuple[str, ...]:
        """The operands other than `-`, the standard input."""
        return tuple(word for word in self.operands if word != "-")


Judge = Callable[[ParsedArguments], Read | Doubt]


@dataclass(frozen=True, slots=True)
class Spec:
    """A command of the table: its flags, and the check of its arguments."""

    flags: dict[str, str]
    judge: Judge
    digits: bool = False
    """`-20` is a number, as in `head -20`."""
    ordered: bool = False
    """Flags must come first, because the program may treat a later one as a file that it writes."""


def spec(flags: str, judge: Judge, *, digits: bool = False, ordered: bool = False) -> Spec:
    known = {_bare(flag): flag[-1] if flag[-1] in "$@#?" else "" for flag in flags.split()}
    return Spec(known, judge, digits, ordered)


def _bare(flag: str) -> str:
    return flag[:-1] if flag[-1] in "$@#?" else flag


def check(name: str, known: Spec, rest: Sequence[str]) -> Read | Doubt:
    """Return what a command of the table reads with these arguments, or why it may do more."""
    args = sort(name, known, rest)
    return args if isinstance(args, Doubt) else known.judge(args)


_NUMBER = re.compile(r"[+-]?[0-9]+[bkKMGT]?B?")


def sort(name: str, known: Spec, rest: Sequence[str]) -> ParsedArguments | Doubt:
    """Split arguments into flags and operands. Only flags that are listed in full are accepted."""
    reader = _Reader(name, known, list(rest))
    return reader.doubt or ParsedArguments(tuple(reader.flags), tuple(reader.operands), tuple(reader.paths))


class _Reader:
    def __init__(self, name: str, known: Spec, rest: list[str]) -> None:
        self._name, self._known, self._rest = name, known, rest
        self.flags: list[tuple[str, str]] = []
        self.operands: list[str] = []
        self.paths: list[str] = []
        self.doubt: Doubt | None = None
        while self._rest and self.doubt is None:
            word = self._rest.pop(0)
            if word == "--":
                self.operands += self._rest
                break
            if not word.startswith("-") or word == "-":
                self.operands.append(word)
            elif known.ordered and self.operands:
                self.doubt = Doubt(f"{name} may treat {word} as a file name")
            elif known.digits and word[1:].isdigit():
                self.flags.append(("-#", word[1:]))
            elif word.startswith("--"):
                self._long(word)
            elif len(word) > 2 and known.flags.get(word) == "":
                self.flags.append((word, ""))
            else:
                self._cluster(word)

    def _long(self, word: str) -> None:
        flag, equals, value = word.partition("=")
        kind = self._known.flags.get(flag)
        if kind is None or (kind == "" and equals):
            self.doubt = Doubt(f"{self._name} {flag} may write files or run other programs")
        elif equals or kind in {"", "?"}:
            self._take(flag, kind, value)
        else:
            self._take_next(flag, kind)

    def _cluster(self, word: str) -> None:
        """Read the one-letter flags of a word. The first that takes a value takes the rest of the word or the next."""
        letters = word[1:]
        while letters and self.doubt is None:
            flag, letters = "-" + letters[0], letters[1:]
            kind = self._known.flags.get(flag)
            if kind is None:
                self.doubt = Doubt(f"{self._name} {flag} may write files or run other programs")
            elif kind in {"", "?"}:
                self._take(flag, kind, "")
            elif letters:
                self._take(flag, kind, letters)
                return
            else:
                self._take_next(flag, kind)

    def _take_next(self, flag: str, kind: str) -> None:
        # A value that looks like a flag may be a flag: that depends on the program.
        if not self._rest or (kind != "#" and self._rest[0].startswith("-")):
            self.doubt = Doubt(f"{self._name} {flag} needs a value")
        else:
            self._take(flag, kind, self._rest.pop(0))

    def _take(self, flag: str, kind: str, value: str) -> None:
        if kind == "#" and not _NUMBER.fullmatch(value):
            self.doubt = Doubt(f"the value of {self._name} {flag} cannot be checked")
        if kind == "@":
            self.paths.append(value)
        self.flags.append((flag, value))
