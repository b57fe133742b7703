"""Globs as people write them: `*`, `**`, `?`, `[a-z]`, `{a,b}`; without a slash they match a name at any depth."""

from __future__ import annotations

import functools
import re

from pilotfish.errors import ToolError


@functools.lru_cache(maxsize=128)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """What a path, relative and with forward slashes, must match in full."""
    pattern = pattern.removeprefix("./").lstrip("/")
    if not pattern:
        raise ToolError("The glob is empty; `**/*.py` finds every Python file")
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    try:
        return re.compile(translate(pattern), re.DOTALL)
    except re.error as error:
        raise ToolError(f"{pattern!r} is not a glob: {error}") from error


def last_name(pattern: str) -> str | None:
    """The file name part of a glob, or None if it has none that ripgrep could filter by while it walks."""
    name = pattern
    if "/" in pattern:
        depth, cut = 0, -1
        for index, char in enumerate(pattern):
            depth += (char == "{") - (char == "}")
            if char == "/" and depth > 0:
                return None  # a brace that spans folders
            if char == "/":
                cut = index
        name = pattern[cut + 1 :]
    return None if name in ("", "*", "**") or ":" in name else name  # ":" ends the name of a ripgrep file type


def whole_in_name(pattern: str) -> bool:
    """Whether `last_name` is equivalent to the whole pattern."""
    name = pattern.removeprefix("./").lstrip("/").removeprefix("**/")
    return pattern.startswith("!") or ("/" not in name and (name in ("*", "**") or last_name(pattern) == name))


def translate(pattern: str) -> str:
    """The regular expression of a glob whose slashes all count."""
    out: list[str] = []
    index, depth = 0, 0
    while index < len(pattern):
        char = pattern[index]
        index += 1
        if char == "*":
            stars = 1
            while pattern[index : index + 1] == "*":
                stars, index = stars + 1, index + 1
            if stars == 1:
                out.append("[^/]*")
            elif pattern[index : index + 1] == "/":
                index += 1
                out.append("(?:.*/)?")
            else:
                out.append(".*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (close := pattern.find("]", index + 1)) > 0:
            inside = pattern[index:close].replace("\\", r"\\")
            inside = f"^{inside[1:]}" if inside[:1] in "!^" else inside
            out.append(f"(?!/)[{inside}]")
            index = close + 1
        elif char == "{" and "}" in pattern[index:]:
            out.append("(?:")
            depth += 1
        elif char == "," and depth:
            out.append("|")
        elif char == "}" and depth:
            out.append(")")
            depth -= 1
        elif char == "\\" and index < len(pattern):
            out.append(re.escape(pattern[index]))
            index += 1
        else:
            out.append(re.escape(char))
    return "".join(out)
