"""Slash commands: the built-in ones, and the user's own from Markdown files.

A file `review.md` is the command `/review`, `git/commit.md` is `/git:commit`. Its front matter may have `description`
and `argument-hint`; in its text `$ARGUMENTS` is everything after the name, `$1` … `$9` its words. Files stand in the
user's configuration (`commands/` beside `config.toml`) and, in a trusted folder, in `.pilotfish/commands`. A built-in
command cannot be replaced, nor one of the user's by a folder's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.config.settings import config_path
from pilotfish.protocol import wire

MAX_BYTES = 64 * 1024
MAX_FILES = 200
_CALL = re.compile(r"^/([A-Za-z][\w.-]*(?::[\w.-]+)*)(?:\s+(.*))?$", re.DOTALL)
_NAME = re.compile(r"^[A-Za-z][\w.-]*(:[\w.-]+)*$")

BUILT_IN: tuple[wire.Command, ...] = tuple(
    wire.Command(name=name, description=words, argument_hint=hint, source="built-in")
    for name, hint, words in (
        ("help", None, "What can be done here"),
        ("clear", None, "Go on in a fresh session"),
        ("model", "[model]", "Show the models, or choose one for this session"),
        ("mode", "[ask|plan|edit|auto]", "Show or change how much runs without a question"),
        ("undo", None, "Put back the files the last turn changed"),
        ("compact", None, "Replace the older part of the conversation by a summary"),
        ("export", "[markdown|json]", "The transcript as text"),
        ("plan", "[what to plan]", "Plan without changing anything"),
    )
)


@dataclass(frozen=True, slots=True)
class Typed:
    """A prompt that is a command."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Own:
    """A command somebody wrote."""

    name: str
    description: str
    argument_hint: str | None
    body: str
    source: Literal["user", "workspace"]

    def expand(self, arguments: str) -> str:
        """The prompt it stands for. Without a place for them, arguments are added at the end."""
        words = arguments.split()
        if not re.search(r"\$(ARGUMENTS|[1-9])\b", self.body):
            return f"{self.body.rstrip()}\n\n{arguments}".rstrip()

        def fill(match: re.Match[str]) -> str:
            which = match.group(1)
            if which == "ARGUMENTS":
                return arguments
            return words[int(which) - 1] if int(which) <= len(words) else ""

        return re.sub(r"\$(ARGUMENTS|[1-9])\b", fill, self.body)


def typed(text: str) -> Typed | None:
    """What command a prompt is, if it is one. `/usr/bin/env is missing` is none."""
    match = _CALL.match(text.strip())
    return Typed(match.group(1), (match.group(2) or "").strip()) if match else None


def own_commands(folders: Iterable[Path]) -> Mapping[str, Own]:
    """The user's commands, and those of trusted `folders`, by name."""
    found: dict[str, Own] = {}
    taken = {command.name for command in BUILT_IN}
    commands = _read_all(config_path().parent / "commands", "user")
    for folder in folders:
        commands += _read_all(folder / ".pilotfish" / "commands", "workspace")
    for command in commands:
        if command.name not in taken:
            found.setdefault(command.name, command)
    return found


def listed(own: Mapping[str, Own]) -> tuple[wire.Command, ...]:
    """Every command, as the wire has them."""
    return (
        *BUILT_IN,
        *(
            wire.Command(
                name=command.name,
                description=command.description,
                argument_hint=command.argument_hint,
                source=command.source,
            )
            for command in sorted(own.values(), key=lambda command: (command.source, command.name))
        ),
    )


def help_text(own: Mapping[str, Own]) -> str:
    """What `/help` answers."""
    rows = [
        f"- `/{command.name}{' ' + command.argument_hint if command.argument_hint else ''}`: {command.description}"
        for command in listed(own)
    ]
    return "\n".join(
        [
            "Ask for a change or an explanation. `@` mentions a file, a folder or a symbol.",
            "",
            *rows,
            "",
            "Your own commands are Markdown files: in `commands/` beside `config.toml`, or in `.pilotfish/commands`.",
        ]
    )


def _read_all(place: Path, source: Literal["user", "workspace"]) -> list[Own]:
    try:
        files = sorted(place.rglob("*.md"))[:MAX_FILES]
    except OSError:
        return []
    root = place.resolve()
    found: list[Own] = []
    for file in files:
        name = ":".join(file.relative_to(place).with_suffix("").parts)
        # A link that leads out of the folder could bring any file of the user's into a prompt.
        if not _NAME.match(name) or not file.resolve().is_relative_to(root):
            continue
        try:
            if file.stat().st_size > MAX_BYTES:
                continue
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        found.append(_parse(name, text, source))
    return found


def _parse(name: str, text: str, source: Literal["user", "workspace"]) -> Own:
    fields: dict[str, str] = {}
    body = text
    if match := re.match(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)(.*)\Z", text, re.DOTALL):
        body = match.group(2)
        for line in match.group(1).splitlines():
            key, colon, value = line.partition(":")
            if colon:
                fields[key.strip().lower()] = value.strip().strip("\"'")
    first = next((line.strip("# ").strip() for line in body.splitlines() if line.strip()), name)
    return Own(
        name=name,
        description=fields.get("description") or first[:100],
        argument_hint=fields.get("argument-hint") or None,
        body=body.strip(),
        source=source,
    )
