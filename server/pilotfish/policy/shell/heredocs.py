"""Removes the bodies of heredocs from a command line, so that the text of a file is not read as commands."""

from __future__ import annotations

import re

_OPENING = re.compile(r"<<(-?)[ \t]*(?:'([A-Za-z_][A-Za-z0-9_.-]*)'|\"([A-Za-z_][A-Za-z0-9_.-]*)\")")


def without_bodies(text: str) -> str:
    """Return the text with `</dev/null` in place of heredocs in which the shell expands nothing (`<<'END'`).

    Only heredocs outside quotes, comments and substitutions are removed; of a line that is not understood, nothing is.
    """
    if "<<" not in text:
        return text
    out: list[str] = []
    at = start = 0
    waiting: list[tuple[bool, str]] = []
    while at < len(text):
        char = text[at]
        if char in "'\"":
            end = _closing(text, at)
            if end is None:
                return text
            at = end
        elif char == "\\":
            at += 2
        elif char in "`#(" and (char != "#" or at == 0 or text[at - 1] in " \t\n;"):
            if char != "#":
                return text  # inside a substitution or subshell a heredoc may end elsewhere
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif opening := _OPENING.match(text, at):
            if text.startswith("<<<", at - 1) or (at and text[at - 1] == "<"):
                return text
            waiting.append((bool(opening[1]), opening[2] or opening[3]))
            out.append(text[start:at] + "</dev/null")
            start = at = opening.end()
        elif text.startswith("<<", at) and not text.startswith("<<<", at):
            return text  # the shell expands its body
        elif char == "\n" and waiting:
            out.append(text[start:at])
            for tabs, word in waiting:
                pattern = rf"^{chr(92) + 't*' if tabs else ''}{re.escape(word)}$"
                found = re.compile(pattern, re.MULTILINE).search(text, at + 1)
                if found is None:
                    return text
                at = found.end()
            start = at
            waiting = []
        else:
            at += 3 if text.startswith("<<<", at) else 1
    return text if waiting else "".join((*out, text[start:]))


def _closing(text: str, at: int) -> int | None:
    """Return the position after a quoted string. None if it is not closed, or contains a substitution."""
    if text[at] == "'":
        end = text.find("'", at + 1)
        return None if end < 0 else end + 1
    found = re.compile(r'"(?:[^"\\`$]|\\.|\$(?!\())*"', re.DOTALL).match(text, at)
    return None if found is None else found.end()
