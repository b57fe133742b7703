"""`pilotfish run` and `pilotfish chat`: the engine in a terminal."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pilotfish.cli.face import TerminalFrontend
from pilotfish.config.settings import load_user
from pilotfish.conversation.records import StopReason
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
"""how long a pipe beside a prompt is given to say something; it may be nobody's"""
HELP = """/undo and /redo  put back what the last turn changed, and do it again
/mode MODE       ask, plan, edit or auto
/model MODEL     another model for this session
/compact         replace the older part of the conversation by a summary
/new             a fresh session
/exit            leave (or Ctrl-D); Ctrl-C stops a turn
Everything else is said to the agent."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person asked for on the command line."""

    folder: Path
    model: str | None
    mode: str | None
    session: str | None
    newest: bool
    json: bool
    trust: bool


@asynccontextmanager
async def engine(wish: Wish) -> AsyncGenerator[tuple[Engine, TerminalFrontend, str]]:
    """The engine with a session, as the person wished."""
    start_logging(log_path())
    loaded = load_user({"model": wish.model, "mode": wish.mode})
    face = TerminalFrontend(json=wish.json)
    for problem in loaded.problems:
        face.screen.line(f"Setting left out ({problem.source}): {problem.message}", "yellow")
    ledger = Ledger.open(loaded.settings.storage, label=f"a terminal in {wish.folder}")
    live = Engine(loaded.settings, ledger, face, roots=[wish.folder], trusted=wish.trust)
    face.live = live
    try:
        await _settle_trust(live, face, wish)
        yield live, face, await _session(live, wish)
    finally:
        face.screen.leave()
        await live.aclose()


def whole_prompt(words: Sequence[str]) -> str:
    """What to do: the words of the command line, and what is piped in beside or instead of them."""
    said = " ".join(word for word in words if word != "-")
    piped = ""
    if not sys.stdin.isatty() and (not said or "-" in words or _says_something()):
        piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    return "\n\n".join(part for part in (said, piped.strip("\n")) if part.strip())


def _says_something() -> bool:
    """Whether there is something on standard input. A pipe may be one that nobody writes to or closes."""
    kind = os.fstat(0).st_mode
    if stat.S_ISREG(kind):
        return True
    if not stat.S_ISFIFO(kind) and not stat.S_ISSOCK(kind):
        return False
    if select.select([0], [], [], PIPE_SECONDS)[0]:
        return True
    sys.stderr.write("pilotfish: standard input is silent and is not read; `-` waits for it\n")
    return False


async def run_once(wish: Wish, text: str) -> int:
    async with engine(wish) as (live, face, session_id):
        outcome = await _turn(live, face, session_id, text)
        if outcome.error is not None and wish.json:
            face.screen.line(f"{outcome.error.message} {outcome.error.remedy}", "red")
        return EXIT_CODES[outcome.stop_reason]


async def converse(wish: Wish) -> int:
    async with engine(wish) as (live, face, first):
        session = await live.session(first)
        session_id = session.id
        face.screen.line(f"pilotfish · {session.model} · {session.mode} · /help", "dim")
        while (text := await face.lines.read_all("\n› ")) is not None:
            words = text.split()
            if not words:
                continue
            if words in (["/exit"], ["/quit"]):
                break
            try:
                if words == ["/new"]:
                    session_id = (await live.new(str(wish.folder))).id
                    face.screen.line("A fresh session.", "cyan")
                elif not await _command(live, face, session_id, words):
                    await _turn(live, face, session_id, text)
            except PilotfishError as error:
                face.screen.line(f"{error} {getattr(error, 'remedy', '')}".rstrip(), "red")
    return 0


async def _command(live: Engine, face: TerminalFrontend, session_id: str, words: Sequence[str]) -> bool:
    """What begins with a slash. False: it is said to the agent."""
    match list(words):
        case ["/help"]:
            face.screen.line(HELP, "cyan")
        case ["/undo" | "/redo" as command]:
            done = await (live.undo if command == "/undo" else live.redo)(session_id)
            names = ", ".join(change.path.name for change in done.changes) or "nothing"
            face.screen.line(f"{'Put back' if command == '/undo' else 'Done again'}: {display_safe(names)}", "cyan")
            for path, why in done.refused:
                face.screen.line(display_safe(f"Left alone: {path.name}: {why}"), "yellow")
        case ["/compact"]:
            done = await live.compact(session_id)
            face.screen.line("Summarised." if done else "There is nothing to summarise yet.", "cyan")
        case ["/mode", mode]:
            session = await live.configure(session_id, mode=mode)
            face.screen.line(f"{session.model} · {session.mode}", "cyan")
        case ["/model", model]:
            session = await live.configure(session_id, model=model)
            face.screen.line(f"{session.model} · {session.mode}", "cyan")
        case ["/mode" | "/model"]:
            session = await live.session(session_id)
            face.screen.line(f"{session.model} · {session.mode}", "cyan")
        case [command] if re.fullmatch(r"/[a-z]+", command):
            face.screen.line(f"There is no {command}; /help says what there is.", "yellow")
        case _:
            return False
    return True


async def _turn(live: Engine, face: TerminalFrontend, session_id: str, text: str) -> Outcome:
    """One turn. Ctrl-C once stops it, twice leaves."""
    loop = asyncio.get_running_loop()
    presses = 0

    def interrupted() -> None:
        nonlocal presses
        if face.lends_terminal:
            return  # the key was for the person's editor
        presses += 1
        face.screen.leave()
        if presses > 1:
            kill_everything()
            os._exit(130)
        face.screen.line("Stopping… (Ctrl-C again to leave)", "yellow")
        stopping.append(loop.create_task(live.cancel(session_id)))

    stopping: list[asyncio.Task[object]] = []
    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        return await live.prompt(session_id, [{"type": "text", "text": text}])
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        face.screen.leave()


async def _settle_trust(live: Engine, face: TerminalFrontend, wish: Wish) -> None:
    """The first time in a folder the person is asked once; the answer is kept in their own configuration."""
    if wish.trust or live.book.trust_of(wish.folder) is not None:
        return
    if not face.present:
        face.screen.line(
            "This folder is not trusted: reading only. Use --trust, or answer once in a terminal.", "yellow"
        )
        return
    face.screen.line(
        f"Trust {display_safe(str(wish.folder))}? The agent may then read its rules and, with your", "bold"
    )
    face.screen.line("permission, change files and run commands in it.", "bold")
    while (answer := await face.lines.read("  [t]rust this folder · [r]ead only › ")) is not None:
        if (key := answer.strip()[:1].lower()) in ("t", "r"):
            try:
                live.book.trust(wish.folder, key == "t")
            except StorageError as error:
                face.screen.line(f"{error} Your answer holds this time. {error.remedy}", "yellow")
            return


async def _session(live: Engine, wish: Wish) -> str:
    if wish.session is not None:
        return await _configured(live, await find_session(live, wish.session), wish)
    if wish.newest:
        listed = await live.list(str(wish.folder), limit=1)
        if listed.sessions:
            return await _configured(live, listed.sessions[0].id, wish)
    return (await live.new(str(wish.folder))).id


async def _configured(live: Engine, session_id: str, wish: Wish) -> str:
    """An old session, with the model and mode that were asked for now."""
    if wish.model or wish.mode:
        await live.configure(session_id, model=wish.model, mode=wish.mode)
    return session_id


async def find_session(live: Engine, beginning: str) -> str:
    """The one session whose id begins so."""
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
