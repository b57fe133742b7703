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

from pilotfish.cli.frontend import TerminalFrontend
from pilotfish.config.settings import load_user
from pilotfish.conversation.records import StopReason
from pilotfish.engine.commands import (
    BUILT_IN,
    CommandPrompt,
    CommandReply,
    CustomCommand,
    custom_commands,
    listed,
    reverted_text,
    typed,
)
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Outcome
from pilotfish.errors import PilotfishError, StorageError, UnknownSession
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
async def engine(options: ChatOptions) -> AsyncGenerator[tuple[Engine, TerminalFrontend, str]]:
    """The engine and a session, as the options ask."""
    start_logging(log_path())
    loaded = load_user({"model": options.model, "mode": options.mode})
    face = TerminalFrontend(options.folder, loaded.settings.storage, json=options.json)
    for problem in loaded.problems:
        face.screen.line(f"Setting ignored ({problem.source}): {problem.message}", "yellow")
    ledger = Ledger.open(loaded.settings.storage, label=f"a terminal in {options.folder}")
    live = Engine(loaded.settings, ledger, face, roots=[options.folder], trusted=options.trust)
    face.live = live
    try:
        await _ask_for_trust(live, face, options)
        yield live, face, await _session(live, options)
    finally:
        await face.aclose()
        await live.aclose()


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
    async with engine(options) as (live, face, session_id):
        outcome = await _turn(live, face, session_id, text)
        if outcome.error is not None and options.json:
            face.screen.line(f"{outcome.error.message} {outcome.error.remedy}", "red")
        return EXIT_CODES[outcome.stop_reason]


async def converse(options: ChatOptions) -> int:
    """A chat. Returns 0 at Ctrl+D or `/exit`, 130 at Ctrl+C."""
    async with engine(options) as (live, face, first):
        session = await live.session(first)
        session_id = session.id
        face.screen.line(f"pilotfish · {session.model} · {session.mode} · /help", "dim")
        while True:
            custom = await custom_commands(live, session_id)
            try:
                text = await face.read_prompt(await _status(live, face, session_id), _descriptions(custom))
            except KeyboardInterrupt:
                return 130
            if text is None or text.split() in (["/exit"], ["/quit"]):
                return 0
            try:
                new_session = await _run_text(live, face, session_id, text, custom)
            except PilotfishError as error:
                face.screen.line(f"{error} {getattr(error, 'remedy', '')}".rstrip(), "red")
                continue
            if new_session is not None:
                session_id, face.context_used = new_session, ""


async def _status(live: Engine, face: TerminalFrontend, session_id: str) -> str:
    """The status line below the prompt: model, mode, context and cost."""
    session = await live.session(session_id)
    cost = f"${session.usage.cost:.2f}" if session.usage.cost else ""
    return " · ".join(filter(None, (session.model, session.mode, face.context_used, cost)))


def _descriptions(custom: Mapping[str, CustomCommand]) -> dict[str, str]:
    """Every command with its description: those of every client, then those of the terminal."""
    shared = {f"/{command.name}": display_safe(command.description) for command in listed(custom)}
    return {**shared, **COMMANDS}


def _help(custom: Mapping[str, CustomCommand]) -> str:
    hints = {f"/{command.name}": command.argument_hint or "" for command in listed(custom)}
    rows = {f"{name} {hints.get(name, '')}".rstrip(): text for name, text in _descriptions(custom).items()}
    width = max(map(len, rows))
    return "\n".join([*(f"{name:{width}}  {text}" for name, text in rows.items()), "", KEYS_HELP])


async def _run_text(
    live: Engine, face: TerminalFrontend, session_id: str, text: str, custom: Mapping[str, CustomCommand]
) -> str | None:
    """Run what the user typed: a slash command or a prompt. Returns the session to continue in if it is a new one."""
    if not text.strip():
        return None
    command = typed(text)
    match command.name if command else None:
        case "help":
            face.screen.line(_help(custom), "cyan")
        case "redo":
            face.screen.line(display_safe(reverted_text(await live.redo(session_id), "changed again")), "cyan")
        case "new":
            return await _run_text(live, face, session_id, "/clear", custom)
        case str(name) if command and name in BUILT_IN:
            match await BUILT_IN[name].run(live, session_id, command.arguments):
                case CommandReply(text=reply, session_id=new_session):
                    face.screen.line(display_safe(reply), "cyan")
                    return new_session
                case CommandPrompt(text=prompt):
                    await _turn(live, face, session_id, prompt)
                case None:
                    face.screen.line("Stopped.", "yellow")
        case str(name) if command and name in custom:
            await _turn(live, face, session_id, custom[name].expand(command.arguments))
        case str(name) if re.fullmatch(r"/[a-z]+", text.strip()):
            face.screen.line(f"There is no command /{name}. Type /help for the list.", "yellow")
        case _:
            await _turn(live, face, session_id, text)
    return None


async def _turn(live: Engine, face: TerminalFrontend, session_id: str, text: str) -> Outcome:
    """Run one turn. Ctrl+C stops it; Ctrl+C twice ends the process."""
    loop = asyncio.get_running_loop()
    presses = 0

    def interrupted() -> None:
        nonlocal presses
        if face.lends_terminal:
            return  # the key was meant for the user's editor
        presses += 1
        face.screen.leave()
        if presses > 1:
            kill_everything()
            face.restore_terminal()
            os._exit(130)
        face.screen.line("Stopping… (Ctrl+C again to leave)", "yellow")
        stopping.append(loop.create_task(live.cancel(session_id)))

    stopping: list[asyncio.Task[object]] = []
    loop.add_signal_handler(signal.SIGINT, interrupted)
    face.on_interrupt = interrupted  # at an open question Ctrl+C is a key, not a signal
    try:
        return await live.prompt(session_id, [{"type": "text", "text": text}])
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        face.on_interrupt = None
        face.screen.leave()


async def _ask_for_trust(live: Engine, face: TerminalFrontend, options: ChatOptions) -> None:
    """Ask once, at the first start in a folder. The answer is saved in the user's configuration."""
    if options.trust or live.book.trust_of(options.folder) is not None:
        return
    if not face.present:
        face.screen.line(
            "This folder is not trusted: reading only. Use --trust, or answer the question in a terminal.", "yellow"
        )
        return
    face.screen.line(
        f"Trust {display_safe(str(options.folder))}? The agent may then read its rules and, with your", "bold"
    )
    face.screen.line("permission, change files and run commands in it.", "bold")
    while (answer := await face.read_answer("  [t]rust this folder · [r]ead only › ")) is not None:
        if (key := answer.strip()[:1].lower()) in ("t", "r"):
            try:
                live.book.trust(options.folder, key == "t")
            except StorageError as error:
                face.screen.line(f"{error} Your answer holds until you leave. {error.remedy}", "yellow")
            return
        face.screen.line("  Type t or r.", "dim")


async def _session(live: Engine, options: ChatOptions) -> str:
    if options.session is not None:
        return await _configured(live, await find_session(live, options.session), options)
    if options.newest:
        listed = await live.list(str(options.folder), limit=1)
        if listed.sessions:
            return await _configured(live, listed.sessions[0].id, options)
    return (await live.new(str(options.folder))).id


async def _configured(live: Engine, session_id: str, options: ChatOptions) -> str:
    """Apply the model and mode of the command line to an existing session."""
    if options.model or options.mode:
        await live.configure(session_id, model=options.model, mode=options.mode)
    return session_id


async def find_session(live: Engine, beginning: str) -> str:
    """The id of the only session whose id starts with `beginning`."""
    cursor: str | None = None
    found: list[str] = []
    while True:
        listed = await live.list(cursor=cursor, limit=200)
        found += [session.id for session in listed.sessions if session.id.startswith(beginning)]
        cursor = listed.next_cursor
        if cursor is None or beginning in found:
            break
    if beginning in found:
        return beginning
    if len(found) == 1:
        return found[0]
    raise UnknownSession(f"{'Several sessions begin' if found else 'No session begins'} with {beginning!r}.")
