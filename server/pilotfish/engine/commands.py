"""Slash commands for every client: the built-in ones, and custom ones from Markdown files.

A file `review.md` is the command `/review`, `git/commit.md` is `/git:commit`. Its front matter may set `description`
and `argument-hint`. In its text `$ARGUMENTS` stands for everything after the command's name, `$1` to `$9` for single
words. The files are in `commands/` beside the user's `config.toml` and, in a trusted folder, in `.pilotfish/commands`.
A custom command cannot replace a built-in one, and a folder's command cannot replace one of the user.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.config.settings import config_path
from pilotfish.engine.engine import Engine
from pilotfish.engine.session.undo import Reverted
from pilotfish.errors import BadRequest, NotTrusted, TurnError

MAX_BYTES = 64 * 1024
MAX_FILES = 200
_CALL = re.compile(r"^/([A-Za-z][\w.-]*(?::[\w.-]+)*)(?:\s+(.*))?$", re.DOTALL)
_NAME = re.compile(r"^[A-Za-z][\w.-]*(:[\w.-]+)*$")


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A prompt that calls a command."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A command from a Markdown file."""

    name: str
    description: str
    argument_hint: str | None
    body: str
    source: Literal["user", "workspace"]

    def expand(self, arguments: str) -> str:
        """The prompt that the command stands for. Arguments without a placeholder are added at the end."""
        words = arguments.split()
        if not re.search(r"\$(ARGUMENTS|[1-9])\b", self.body):
            return f"{self.body.rstrip()}\n\n{arguments}".rstrip()

        def fill(match: re.Match[str]) -> str:
            which = match.group(1)
            if which == "ARGUMENTS":
                return arguments
            return words[int(which) - 1] if int(which) <= len(words) else ""

        return re.sub(r"\$(ARGUMENTS|[1-9])\b", fill, self.body)


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The text a built-in command answers with. No turn runs."""

    text: str
    session_id: str | None = None
    """the session to continue in, if the command started a new one"""


@dataclass(frozen=True, slots=True)
class CommandPrompt:
    """The prompt to run in place of the command."""

    text: str


CommandResult = CommandReply | CommandPrompt | None
"""None if the command was stopped"""


@dataclass(frozen=True, slots=True)
class BuiltInCommand:
    """A command of Pilotfish itself."""

    name: str
    argument_hint: str | None
    description: str
    run: Callable[[Engine, str, str], Awaitable[CommandResult]]
    """called with the engine, the session's id and the arguments"""
    starts_turn: bool = False
    """whether it may run a turn, which later requests of the session have to find"""

    @property
    def source(self) -> Literal["built-in"]:
        return "built-in"


Command = BuiltInCommand | CustomCommand


def typed(text: str) -> TypedCommand | None:
    """The command that a prompt calls, or None. `/usr/bin/env is missing` calls none."""
    match = _CALL.match(text.strip())
    return TypedCommand(match.group(1), (match.group(2) or "").strip()) if match else None


async def custom_commands(engine: Engine, session_id: str = "") -> Mapping[str, CustomCommand]:
    """The user's commands, and those of the trusted folders of the workspace and of an open session, by name."""
    session = engine.session_of(session_id)
    trusted = [
        root for root in engine.roots_for(session.workspace_folder if session else None) if engine.trusted(str(root))
    ]
    return await asyncio.to_thread(read_commands, trusted)


def read_commands(folders: Iterable[Path]) -> Mapping[str, CustomCommand]:
    """The user's commands, and those of `folders`, by name."""
    found: dict[str, CustomCommand] = {}
    commands = _read_folder(config_path().parent / "commands", "user")
    for folder in folders:
        commands += _read_folder(folder / ".pilotfish" / "commands", "workspace")
    for command in commands:
        if command.name not in BUILT_IN:
            found.setdefault(command.name, command)
    return found


def listed(custom: Mapping[str, CustomCommand]) -> tuple[Command, ...]:
    """Every command: built-in ones first, then the user's, then those of folders."""
    return (*BUILT_IN.values(), *sorted(custom.values(), key=lambda command: (command.source, command.name)))


def help_text(custom: Mapping[str, CustomCommand]) -> str:
    """The answer to `/help`."""
    rows = [
        f"- `/{command.name}{' ' + command.argument_hint if command.argument_hint else ''}`: {command.description}"
        for command in listed(custom)
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


def reverted_text(result: Reverted, verb: str) -> str:
    """The result of an undo or redo in words."""
    count = len(result.changes)
    text = f"{count} file{'' if count == 1 else 's'} {verb}." if count else "No files to put back."
    return text + "".join(f"\n- `{path.name}` was left alone: {reason}" for path, reason in result.refused)


async def require_trust(engine: Engine, session_id: str) -> None:
    """Raises NotTrusted if the session's folder is not trusted."""
    if not engine.trusted((await engine.session(session_id)).workspace_folder):
        raise NotTrusted("The folder is not trusted: nothing may be changed there. Trust it first.")


async def check_model(engine: Engine, model: str) -> None:
    """Raises BadRequest for a string that cannot name a model. Whether the model is available shows in its turn."""
    from pilotfish.engine.model import resolve  # imports the providers

    try:
        await asyncio.to_thread(resolve.recognise, model, engine.settings)
    except TurnError as error:
        raise BadRequest(f"model: {error} {error.remedy}", field="model") from None


# -- the built-in commands ----------------------------------------------------------------------------------------


async def _help(engine: Engine, session_id: str, _arguments: str) -> CommandResult:
    return CommandReply(help_text(await custom_commands(engine, session_id)))


async def _clear(engine: Engine, session_id: str, _arguments: str) -> CommandResult:
    old = await engine.session(session_id)
    session = await engine.new(old.workspace_folder, None, old.model, old.mode)
    return CommandReply("A new session has started.", session.id)


async def _model(engine: Engine, session_id: str, arguments: str) -> CommandResult:
    if arguments:
        await check_model(engine, arguments)
        session = await engine.configure(session_id, arguments, None)
        return CommandReply(f"This session uses `{session.model}` from now on.")
    rows = [
        f"- `{model.id}`" + ("" if model.available else f" (not available: {model.reason})")
        for model in await engine.models()
    ]
    current = (await engine.session(session_id)).model
    return CommandReply("\n".join([f"This session uses `{current}`. `/model NAME` chooses another:", "", *rows]))


async def _mode(engine: Engine, session_id: str, arguments: str) -> CommandResult:
    if arguments:
        session = await engine.configure(session_id, None, arguments)
        return CommandReply(f"This session is in mode `{session.mode}` from now on.")
    current = (await engine.session(session_id)).mode
    return CommandReply(f"This session is in mode `{current}`. `/mode ask|plan|edit|auto` changes it.")


async def _undo(engine: Engine, session_id: str, _arguments: str) -> CommandResult:
    await require_trust(engine, session_id)
    return CommandReply(reverted_text(await engine.undo(session_id), "put back"))


async def _compact(engine: Engine, session_id: str, _arguments: str) -> CommandResult:
    compacted = await engine.compact(session_id)
    if compacted is None:
        return None
    if not compacted:
        return CommandReply("The conversation is too short to summarise.")
    return CommandReply("A summary has replaced the older part of the conversation.")


async def _export(engine: Engine, session_id: str, arguments: str) -> CommandResult:
    if arguments not in ("", "markdown", "json"):
        raise BadRequest("/export takes markdown or json", field="prompt")
    text = await engine.export(session_id, "json" if arguments == "json" else "markdown")
    return CommandReply(f"```json\n{text}\n```" if arguments == "json" else text)


async def _plan(engine: Engine, session_id: str, arguments: str) -> CommandResult:
    await engine.configure(session_id, None, "plan")
    if arguments:
        return CommandPrompt(arguments)
    return CommandReply("Plan mode is on: no file is changed until you choose another mode. What should be planned?")


BUILT_IN: Mapping[str, BuiltInCommand] = {
    command.name: command
    for command in (
        BuiltInCommand("help", None, "What can be done here", _help),
        BuiltInCommand("clear", None, "Go on in a fresh session", _clear),
        BuiltInCommand("model", "[model]", "Show the models, or choose one for this session", _model),
        BuiltInCommand("mode", "[ask|plan|edit|auto]", "Show or change how much runs without a question", _mode),
        BuiltInCommand("undo", None, "Put back the files the last turn changed", _undo),
        BuiltInCommand("compact", None, "Replace the older part of the conversation by a summary", _compact),
        BuiltInCommand("export", "[markdown|json]", "The transcript as text", _export),
        BuiltInCommand("plan", "[what to plan]", "Plan without changing anything", _plan, starts_turn=True),
    )
}
"""name → command"""


# -- custom commands ----------------------------------------------------------------------------------------------


def _read_folder(place: Path, source: Literal["user", "workspace"]) -> list[CustomCommand]:
    try:
        files = sorted(place.rglob("*.md"))[:MAX_FILES]
    except OSError:
        return []
    root = place.resolve()
    found: list[CustomCommand] = []
    for file in files:
        name = ":".join(file.relative_to(place).with_suffix("").parts)
        # A link that leaves the folder could put any file of the user into a prompt.
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


def _parse(name: str, text: str, source: Literal["user", "workspace"]) -> CustomCommand:
    fields: dict[str, str] = {}
    body = text
    if match := re.match(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)(.*)\Z", text, re.DOTALL):
        body = match.group(2)
        for line in match.group(1).splitlines():
            key, colon, value = line.partition(":")
            if colon:
                fields[key.strip().lower()] = value.strip().strip("\"'")
    first = next((line.strip("# ").strip() for line in body.splitlines() if line.strip()), name)
    return CustomCommand(
        name=name,
        description=fields.get("description") or first[:100],
        argument_hint=fields.get("argument-hint") or None,
        body=body.strip(),
        source=source,
    )
