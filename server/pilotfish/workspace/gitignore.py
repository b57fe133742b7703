"""One file of ignore rules, in git's syntax. A rule matches a path itself; what is below it is the caller's matter."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pilotfish.workspace.globs import translate

MAX_RULE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Rule:
    regex: re.Pattern[str]
    ignore: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one file, in order. Paths are relative to the folder it stands in."""

    rules: tuple[_Rule, ...]
    any: re.Pattern[str]
    """matches what some rule may match"""

    def verdict(self, relative: str, *, is_dir: bool) -> bool | None:
        """Whether the path is ignored or shown, by the last rule that matches; None when none does."""
        if self.any.fullmatch(relative) is None:
            return None
        for rule in reversed(self.rules):
            if (is_dir or not rule.folders_only) and rule.regex.fullmatch(relative):
                return rule.ignore
        return None


def read_rules(file: str) -> Rules | None:
    """The rules of a file; None when it has none or cannot be read."""
    try:
        with open(file, "rb") as stream:  # noqa: PTH123 - mostly it is not there, and this is the quickest way to know
            lines = stream.read(MAX_RULE_BYTES).decode(errors="surrogateescape").split("\n")
    except OSError:
        return None
    rules = tuple(rule for rule in map(_rule, lines) if rule is not None)
    if not rules:
        return None
    return Rules(rules, re.compile("|".join(rule.regex.pattern for rule in rules), re.DOTALL))


def _rule(line: str) -> _Rule | None:
    line = line.rstrip("\r")
    if line.startswith("#"):
        return None
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    ignore = not line.startswith("!")
    pattern = line.removeprefix("!")
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    if pattern.endswith("/**"):
        pattern += "/*"  # what is inside, not the folder itself
    pattern = pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}"
    try:
        regex = re.compile(f"(?:{translate(pattern)})", re.DOTALL)
    except re.error:  # git skips what it cannot read, and so do we
        return None
    return _Rule(regex, ignore, folders_only)
