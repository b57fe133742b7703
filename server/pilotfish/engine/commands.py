"""Slash commands for every client: the built-in ones, custom ones from Markdown files, and prompts of MCP servers.

A file `review.md` is the command `/review`, `git/commit.md` is `/git:commit`. Its front matter may set `description`
and `argument-hint`. In its text `$ARGUMENTS` stands for everything after the command's name, `$1` to `$9` for single
words; `@file` attaches a file, as in every prompt. The files are in `commands/` beside the user's `config.toml` and,
in a trusted folder, in `.pilotfish/commands` and `.claude/commands`.
A custom command cannot replace a built-in one, and a folder's command cannot replace one of the user. `/review` is a
custom command that Pilotfish brings itself: a file of that name replaces it.
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
from pilotfish.engine.mcp.offers import PromptCommand, prompts
from pilotfish.engine.session.undo import Reverted
from pilotfish.errors import BadRequest, NotTrusted, Refused, TurnError
from pilotfish.policy.secrets import mask
from pilotfish.text.display_safe import one_line
from pilotfish.text.front_matter import split_front_matter
from pilotfish.workspace.files.paths import resolve

MAX_BYTES = 64 * 1024
MAX_FILES = 200
WORKSPACE_FOLDERS = (".pilotfish/commands", ".claude/commands")
_CALL = re.compile(r"^/([A-Za-z][\w.-]*(?::[\w.-]+)*)(?:\s+(.*))?$", re.DOTALL)
_NAME = re.compile(r"^[A-Za-z][\w.-]*(:[\w.-]+)*$")


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A prompt that calls a command."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A command from a Markdown file, or one that Pilotfish brings."""

    name: str
    description: str
    argument_hint: str | None
    body: str
    source: Literal["built-in", "user", "workspace"]

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
    source: str | None = None
    """the MCP server that wrote it, as `server/prompt`"""

    @property
    def block(self) -> dict[str, str]:
        """The content block of a prompt."""
        return {"type": "text", "text": self.text} | ({"source": self.source} if self.source else {})


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


OwnCommand = CustomCommand | PromptCommand
"""a command that stands for a prompt: of a Markdown file, or of an MCP server"""
Command = BuiltInCommand | OwnCommand


def typed(text: str) -> TypedCommand | None:
    """The command that a prompt calls, or None. `/usr/bin/env is missing` calls none."""
    match = _CALL.match(text.strip())
    return TypedCommand(match.group(1), (match.group(2) or "").strip()) if match else None


async def expand(command: OwnCommand, arguments: str) -> CommandPrompt:
    """The prompt that a command stands for."""
    match command:
        case CustomCommand():
            return CommandPrompt(command.expand(arguments))
        case PromptCommand():
            source = f"{command.connection.definition.name}/{command.prompt}"
            return CommandPrompt(await command.expand(arguments), source)


async def custom_commands(engine: Engine, session_id: str = "") -> Mapping[str, OwnCommand]:
    """The user's commands, those of the trusted folders of the workspace and of an open session, and the prompts of MCP
    servers, by name."""
    session = engine.session_of(session_id)
    trusted = [
        root for root in engine.roots_for(session.workspace_folder if session else None) if engine.trusted(str(root))
    ]
    offered = await prompts(engine.servers_of(session_id))
    return {**offered, **await asyncio.to_thread(read_commands, trusted)}


def read_commands(folders: Iterable[Path]) -> Mapping[str, CustomCommand]:
    """The user's commands, and those of `folders`, by name."""
    found: dict[str, CustomCommand] = {}
    own = config_path().parent / "commands"
    commands = _read_folder(own, own, "user")
    for folder in folders:
        for name in WORKSPACE_FOLDERS:
            commands += _read_folder(folder / name, folder, "workspace")
    for command in commands:
        if command.name not in BUILT_IN:
            found.setdefault(command.name, command)
    found.setdefault(REVIEW.name, REVIEW)
    return found


def listed(custom: Mapping[str, OwnCommand]) -> tuple[Command, ...]:
    """Every command: built-in ones first, then the user's, those of folders, and those of MCP servers."""
    order = ("built-in", "user", "workspace", "mcp")
    own = sorted(custom.values(), key=lambda command: (order.index(command.source), command.name))
    return (*BUILT_IN.values(), *own)


def help_text(custom: Mapping[str, OwnCommand]) -> str:
    """The answer to `/help`."""
    rows = [
        f"- `/{command.name}{' ' + command.argument_hint if command.argument_hint else ''}`: {command.description}"
        for command in listed(custom)
    ]
    return "\n".join(
        [
            "Ask for a change or an explanation.",
            "`@` mentions a file, a folder, a symbol, `@problems`, `@changes` or `@branch`.",
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
    text += "".join(f"\n- `{path.name}` was left alone: {reason}" for path, reason in result.refused)
    if result.commands:
        text += "\nWhat these commands of the turn did cannot be undone, because it was not recorded:"
    return text + "".join(f"\n- `{one_line(command)}`" for command in result.commands)


async def require_trust(engine: Engine, session_id: str) -> None:
    """Raises NotTrusted if the session's folder is not trusted."""
    require_trusted_folder(engine, (await engine.session(session_id)).workspace_folder)


def require_trusted_folder(engine: Engine, folder: str | None) -> None:
    if not engine.trusted(folder):
        raise NotTrusted("The folder is not trusted: nothing may be changed there. Trust it first.")


async def check_model(engine: Engine, model: str) -> None:
    """Raises BadRequest for a string that cannot name a model. Whether the model is available shows in its turn."""
    try:
        await engine.warm()
        from pilotfish.engine.model import resolve

        await asyncio.to_thread(resolve.recognise, model, engine.settings, engine.editor_models)
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


async def _memory(engine: Engine, session_id: str, _arguments: str) -> CommandResult:
    parts: list[str] = []
    for file in await engine.memory(session_id):
        whose = "Yours, for every project" if file.scope == "user" else "Of this workspace"
        parts.append(f"{whose}: `{file.path}`\n\n{file.text or '(empty)'}")
    parts.append("Edit these files as you like, or ask the agent to remember something.")
    return CommandReply("\n\n".join(parts))


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
        BuiltInCommand("memory", None, "Show what the agent remembers, and where", _memory),
        BuiltInCommand("plan", "[what to plan]", "Plan without changing anything", _plan, starts_turn=True),
    )
}
"""name → command"""


REVIEW = CustomCommand(
    name="review",
    description="Review the uncommitted changes, a file or a branch; the findings are shown in the editor",
    argument_hint="[file|branch]",
    body="""Review this: $ARGUMENTS

If nothing is named, review the uncommitted changes (git status, git diff HEAD, new files). If it is a path, review \
that file or folder. Otherwise it is a branch or a commit: review its changes since the merge base.
Look for what is wrong: bugs, missing cases, security, races, promises of names and comments that do not hold, missing \
tests. Read the code around a change before you judge it, and leave out matters of taste.
Report each finding with report_finding, one call each: the file, the line as it is now, the severity, what is wrong \
and what happens because of it. Name other places that belong to it in `related`. Change no file.
End with a short summary: how many findings there are, the most serious first, or that there are none.""",
    source="built-in",
)


# -- custom commands ----------------------------------------------------------------------------------------------


def _read_folder(place: Path, within: Path, source: Literal["user", "workspace"]) -> list[CustomCommand]:
    """The commands of a folder. Secret files, and files that a link leads out of `within`, are left out: they could put
    any file of the user into a prompt. Secrets inside a text are masked."""
    try:
        files = sorted(place.rglob("*.md"))[:MAX_FILES]
    except OSError:
        return []
    roots, home = (within.resolve(),), Path.home()
    found: list[CustomCommand] = []
    for file in files:
        name = ":".join(file.relative_to(place).with_suffix("").parts)
        if not _NAME.match(name):
            continue
        try:
            target = resolve(str(file), roots, home)
            # A pipe would block.
            if not target.inside or target.secret or not file.is_file() or file.stat().st_size > MAX_BYTES:
                continue
            text, _ = mask(target.path.read_text("utf-8"))
        except (OSError, Refused, UnicodeDecodeError):
            continue
        found.append(_parse(name, text, source))
    return found


def _parse(name: str, text: str, source: Literal["user", "workspace"]) -> CustomCommand:
    fields, body = split_front_matter(text)
    first = next((line.strip("# ").strip() for line in body.splitlines() if line.strip()), name)
    return CustomCommand(
        name=name,
        description=fields.get("description") or first[:100],
        argument_hint=fields.get("argument-hint") or None,
        body=body,
        source=source,
    )
