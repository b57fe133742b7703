"""The page `docs/commands.md`: slash commands, and the command line with its options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer
from typer.testing import CliRunner

from pilotfish.cli.app import app
from pilotfish.engine.commands import REVIEW, listed
from pilotfish.text.markdown_table import code, table

TARGET = Path(__file__).parents[4] / "docs" / "commands.md"
HEAD = """# Commands

This page is generated (`make generate`) from the tables of the program.

## In a prompt

A prompt that starts with `/` and a name is a command, in every client. [Commands of your own](extending.md#commands)
are Markdown files, and prompts of [MCP servers](mcp.md) are commands too. `/review` can be replaced by a file.

"""
MENTIONS = """
## Mentions

| written | what goes with the prompt |
| --- | --- |
| `@path` | a file, or the listing of a folder |
| `@symbol` | the place of a symbol, where the editor's language servers know it |
| `@problems` | the diagnostics of the editor |
| `@changes` | the uncommitted changes of the repository |
| `@branch` | the changes of the branch since it left the main branch |
| `@"server:uri"` | a resource of an MCP server |

## In a terminal

`pilotfish` alone is `pilotfish chat`. Every command has `--help`. `pilotfish --install-completion` installs completion
for your shell.
"""


def render() -> str:
    """The text of the page."""
    return "".join((HEAD, table(("command", "what it does"), _slash()), "\n", MENTIONS, *_sections()))


def _slash() -> Iterator[tuple[str, str]]:
    for command in listed({REVIEW.name: REVIEW}):
        yield (code(f"/{command.name} {command.argument_hint or ''}".rstrip()), command.description)


def _sections() -> Iterator[str]:
    for words in _commands(app):
        shown = CliRunner().invoke(app, [*words, "--help"], prog_name="pilotfish")
        yield f"\n### `pilotfish {' '.join(words)}`\n\n```text\n{shown.output.strip()}\n```\n"


def _commands(of: typer.Typer) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    for command in of.registered_commands:
        yield (command.name or getattr(command.callback, "__name__", ""),)
    for group in of.registered_groups:
        if group.typer_instance is not None:
            yield from ((group.name or "", *words) for words in _commands(group.typer_instance))
