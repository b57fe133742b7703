"""`pilotfish run` and `pilotfish chat`: the engine in a terminal."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pilotfish.cli.terminal.frontend import TerminalFrontend
from pilotfish.config.settings import load_user
from pilotfish.conversation.records import StopReason
from pilotfish.engine.commands import (
    BUILT_IN,
    CommandPrompt,
    CommandReply,
    OwnCommand,
    custom_commands,
    expand,
    listed,
    reverted_text,
    typed,
)
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Outcome
from pilotfish.errors import PilotfishError, StorageError, UnknownSession
from pilotfish.language_servers.servers import LanguageServers
from pilotfish.store.ledger import Ledger
from pilotfish.telemetry.logs import log_path, start_logging
from pilotfish.text.display_safe import display_safe
from pilotfish.workspace.process.processes import kill_everything

EXIT_CODES: dict[StopReason, int] = {
    "end_turn": 0,
    "failed": 1,
    "max_iterations": 3,
    "max_tokens": 4,
    "budget": 5,
    "refusal": 6,
    "cancelled": 130,
}
PIPE_SECONDS = 1.0
"""how long to wait for input on a pipe when there is also a prompt: nothing may ever be written to it"""
COMMANDS: dict[str, str] = {
    "/redo": "apply the reverted changes again",
    "/new": "start a new session",
    "/exit": "leave",
}
"""the commands of the terminal itself, beside those of every client (`engine/commands.py`)"""
KEYS_HELP = """Enter sends the prompt, Alt+Enter adds a line, Up and Down go through earlier prompts.
Tab completes commands after / and files after @.
Ctrl+C stops a turn; at an empty prompt, Ctrl+C twice or Ctrl+D leaves."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of `run` and `chat`."""

    folder: Path
    model: str | None
    mode: str | None
    session: str | None
    newest: bool
    json: bool
    trust: bool


@asynccontextmanager
async def open_engine(
    options: ChatOptions, *, in_background: bool = False
) -> AsyncGenerator[tuple[Engine, TerminalFrontend, str]]:
    """The engine and a session, as the options ask; for a task in the background no session."""
    start_logging(log_path())
    loaded = load_user({"model": options.model, "mode": options.mode})
    frontend = TerminalFrontend(options.folder, loaded.settings.storage, json=options.json)
    for problem in loaded.problems:
        frontend.screen.line(f"Setting ignored ({problem.source}): {problem.message}", "yellow")
    ledger = Ledger.open(loaded.settings.storage, label=f"a terminal in {options.folder}")
    engine = Engine(loaded.settings, ledger, frontend, roots=[options.folder], trusted=options.trust)
    engine.language_servers = LanguageServers(engine.sandbox)
    frontend.engine = engine
    try:
        await _ask_for_trust(engine, frontend, options)
        yield engine, frontend, "" if in_background else await _session(engine, options)
    finally:
        await frontend.aclose()
        await engine.aclose()


def whole_prompt(words: Sequence[str]) -> str:
    """The prompt: the arguments of the command line, followed by the text piped in, if any."""
    given = " ".join(word for word in words if word != "-")
    piped = ""
    if not sys.stdin.isatty() and (not given or "-" in words or _has_input()):
        piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    return "\n\n".join(part for part in (given, piped.strip("\n")) if part.strip())


def _has_input() -> bool:
    """Whether standard input has text. A pipe may be open without anyone writing to it or closing it."""
    kind = os.fstat(0).st_mode
    if stat.S_ISREG(kind):
        return True
    if not stat.S_ISFIFO(kind) and not stat.S_ISSOCK(kind):
        return False
    if select.select([0], [], [], PIPE_SECONDS)[0]:
        return True
    sys.stderr.write("pilotfish: standard input is silent and is not read; add `-` to wait for it\n")
    return False


async def run_once(options: ChatOptions, text: str) -> int:
    async with open_engine(options) as (engine, frontend, session_id):
        outcome = await _turn(engine, frontend, session_id, CommandPrompt(text))
        if outcome.error is not None and options.json:
            frontend.screen.line(f"{outcome.error.message} {outcome.error.remedy}", "red")
        return EXIT_CODES[outcome.stop_reason]


async def converse(options: ChatOptions) -> int:
    """A chat. Returns 0 at Ctrl+D or `/exit`, 130 at Ctrl+C."""
    async with open_engine(options) as (engine, frontend, first):
        session = await engine.session(first)
        session_id = session.id
        frontend.screen.line(f"pilotfish · {session.model} · {session.mode} · /help", "dim")
        while True:
            custom = await custom_commands(engine, session_id)
            try:
                text = await frontend.read_prompt(await _status(engine, frontend, session_id), _descriptions(custom))
            except KeyboardInterrupt:
                return 130
            if text is None or text.split() in (["/exit"], ["/quit"]):
                return 0
            try:
                new_session = await _run_text(engine, frontend, session_id, text, custom)
            except PilotfishError as error:
                frontend.screen.line(f"{error} {getattr(error, 'remedy', '')}".rstrip(), "red")
                continue
            if new_session is not None:
                session_id, frontend.context_used = new_session, ""


async def _status(engine: Engine, frontend: TerminalFrontend, session_id: str) -> str:
    """The status line below the prompt: model, mode, context and cost."""
    session = await engine.session(session_id)
    cost = f"${session.usage.cost:.2f}" if session.usage.cost else ""
    return " · ".join(filter(None, (session.model, session.mode, frontend.context_used, cost)))


def _descriptions(custom: Mapping[str, OwnCommand]) -> dict[str, str]:
    """Every command with its description: those of every client, then those of the terminal."""
    shared = {f"/{command.name}": display_safe(command.description) for command in listed(custom)}
    return {**shared, **COMMANDS}


def _help(custom: Mapping[str, OwnCommand]) -> str:
    hints = {f"/{command.name}": command.argument_hint or "" for command in listed(custom)}
    rows = {f"{name} {hints.get(name, '')}".rstrip(): text for name, text in _descriptions(custom).items()}
    width = max(map(len, rows))
    return "\n".join([*(f"{name:{width}}  {text}" for name, text in rows.items()), "", KEYS_HELP])


async def _run_text(
    engine: Engine, frontend: TerminalFrontend, session_id: str, text: str, custom: Mapping[str, OwnCommand]
) -> str | None:
    """Run what the user typed: a slash command or a prompt. Returns the session to continue in if it is a new one."""
    if not text.strip():
        return None
    command = typed(text)
    match command.name if command else None:
        case "help":
            frontend.screen.line(_help(custom), "cyan")
        case "redo":
            frontend.screen.line(display_safe(reverted_text(await engine.redo(session_id), "changed again")), "cyan")
        case "new":
            return await _run_text(engine, frontend, session_id, "/clear", custom)
        case str(name) if command and name in BUILT_IN:
            match await BUILT_IN[name].run(engine, session_id, command.arguments):
                case CommandReply(text=reply, session_id=new_session):
                    frontend.screen.line(display_safe(reply), "cyan")
                    return new_session
                case CommandPrompt() as prompt:
                    await _turn(engine, frontend, session_id, prompt)
                case None:
                    frontend.screen.line("Stopped.", "yellow")
        case str(name) if command and name in custom:
            await _turn(engine, frontend, session_id, await expand(custom[name], command.arguments))
        case str(name) if re.fullmatch(r"/[a-z]+", text.strip()):
            frontend.screen.line(f"There is no command /{name}. Type /help for the list.", "yellow")
        case _:
            await _turn(engine, frontend, session_id, CommandPrompt(text))
    return None


async def _turn(engine: Engine, frontend: TerminalFrontend, session_id: str, prompt: CommandPrompt) -> Outcome:
    """Run one turn. Ctrl+C stops it; Ctrl+C twice ends the process."""
    loop = asyncio.get_running_loop()
    presses = 0

    def interrupted() -> None:
        nonlocal presses
        if frontend.lends_terminal:
            return  # the key was meant for the user's editor
        presses += 1
        frontend.screen.leave()
        if presses > 1:
            kill_everything()
            frontend.restore_terminal()
            os._exit(130)
        frontend.screen.line("Stopping… (Ctrl+C again to leave)", "yellow")
        stopping.append(loop.create_task(engine.cancel(session_id)))

    stopping: list[asyncio.Task[object]] = []
    loop.add_signal_handler(signal.SIGINT, interrupted)
    frontend.on_interrupt = interrupted  # at an open question Ctrl+C is a key, not a signal
    try:
        return await engine.prompt(session_id, [prompt.block])
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        frontend.on_interrupt = None
        frontend.screen.leave()


async def _ask_for_trust(engine: Engine, frontend: TerminalFrontend, options: ChatOptions) -> None:
    """Ask once, at the first start in a folder. The answer is saved in the user's configuration."""
    if options.trust or engine.book.trust_of(options.folder) is not None:
        return
    if not frontend.present:
        frontend.screen.line(
            "This folder is not trusted: reading only. Use --trust, or answer the question in a terminal.", "yellow"
        )
        return
    frontend.screen.line(
        f"Trust {display_safe(str(options.folder))}? The agent may then read its rules and, with your", "bold"
    )
    frontend.screen.line("permission, change files and run commands in it.", "bold")
    while (answer := await frontend.read_answer("  [t]rust this folder · [r]ead only › ")) is not None:
        if (key := answer.strip()[:1].lower()) in ("t", "r"):
            try:
                engine.book.trust(options.folder, key == "t")
            except StorageError as error:
                frontend.screen.line(f"{error} Your answer applies until you leave. {error.remedy}", "yellow")
            return
        frontend.screen.line("  Type t or r.", "dim")


async def _session(engine: Engine, options: ChatOptions) -> str:
    if options.session is not None:
        return await _configured(engine, await find_session(engine, options.session), options)
    if options.newest:
        listed = await engine.list(str(options.folder), limit=1)
        if listed.sessions:
            return await _configured(engine, listed.sessions[0].id, options)
    return (await engine.new(str(options.folder))).id


async def _configured(engine: Engine, session_id: str, options: ChatOptions) -> str:
    """Apply the model and mode of the command line to an existing session."""
    if options.model or options.mode:
        await engine.configure(session_id, model=options.model, mode=options.mode)
    return session_id


async def find_session(engine: Engine, beginning: str) -> str:
    """The id of the only session whose id starts with `beginning`."""
    cursor: str | None = None
    found: list[str] = []
    while True:
        listed = await engine.list(cursor=cursor, limit=200)
        found += [session.id for session in listed.sessions if session.id.startswith(beginning)]
        cursor = listed.next_cursor
        if cursor is None or beginning in found:
            break
    if beginning in found:
        return beginning
    if len(found) == 1:
        return found[0]
    raise UnknownSession(f"{'Several sessions begin' if found else 'No session begins'} with {beginning!r}.")
