"""The ignore rules of one file, in git's syntax, read by pathspec."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, cast

from pathspec import GitIgnoreSpec

MAX_RULE_BYTES = 1 << 20


class RegexMatch(Protocol):
    """What pathspec finds, with the type that it leaves open."""

    match: re.Match[str]


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one file. Paths are relative to the folder that the file is in."""

    spec: GitIgnoreSpec

    def verdict(self, relative: str, *, is_dir: bool) -> bool | None:
        """Whether the last rule that matches the path ignores it; None if no rule matches."""
        name = f"{relative}/" if is_dir else relative
        for pattern in reversed(self.spec.patterns):
            found = pattern.match_file(name)
            # A pattern with a group also matches what is below the folder that it names. That is not this path's own
            # verdict: `!build` says nothing about `build/a`.
            match = None if found is None else cast("RegexMatch", found).match
            if match is not None and (not match.re.groups or match.end() == len(name)):
                return pattern.include
        return None


def read_rules(file: str) -> IgnoreFile | None:
    """The rules of a file; None if it has none or cannot be read."""
    try:
        with open(file, "rb") as stream:  # noqa: PTH123 - usually it does not exist, and this is the fastest check
            text = stream.read(MAX_RULE_BYTES).decode(errors="surrogateescape")
    except OSError:
        return None
    rules = [rule for line in text.split("\n") if (rule := _rule(line.rstrip("\r")))]
    return IgnoreFile(GitIgnoreSpec.from_lines(rules)) if rules else None


def _rule(line: str) -> str | None:
    """The line as pathspec takes it; None if git would skip it."""
    if line.endswith("/**"):
        line += "/*"  # git ignores what is inside, and not the folder itself
    elif line.endswith("/**/"):
        line += "*/"  # the folders inside, and not the files
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):  # git skips what it cannot read
        return None
    return None if not line.strip() or line.startswith("#") else line
