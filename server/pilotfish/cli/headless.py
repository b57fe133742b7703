"""`pilotfish run` and `pilotfish chat`: the engine in a terminal, with the terminal as its face."""

from __future__ import annotations

import asyncio
import difflib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import orjson

from pilotfish.cli.screen import Lines, Screen
from pilotfish.core.records import StopReason
from pilotfish.core.visible import visible
from pilotfish.engine.live import Live
from pilotfish.engine.observe import log_path, start_logging
from pilotfish.engine.orchestrator import Outcome
from pilotfish.engine.ports import Answer, OptionId, Question, Told
from pilotfish.errors import BadRequest, TurnError, UnknownSession
from pilotfish.protocol import present, wire
from pilotfish.settings import load_user
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.port import Editor, NoEditor

EXIT_CODES: dict[StopReason, int] = {
    "end_turn": 0,
    "failed": 1,
    "max_iterations": 3,
    "max_tokens": 4,
    "budget": 5,
    "refusal": 6,
    "cancelled": 130,
}
KEYS: dict[str, OptionId] = {"y": "allow_once", "s": "allow_session", "a": "allow_always", "n": "reject"}


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


class TerminalFace:
    """A person at a terminal, or nobody: then questions are refused and said so."""

    def __init__(self, *, json: bool) -> None:
        self.screen = Screen()
        self.lines = Lines()
        self.present = sys.stdin.isatty()
        self.live: Live | None = None
        self._json = json
        self._asking = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def editor(self) -> Editor:
        return NoEditor()

    @property
    def keeps_up(self) -> bool:
        return True

    async def room(self) -> None:
        return

    def tell(self, told: Told) -> None:
        if not self._json:
            self.screen.show(told.record)
            return
        session = self.live.session_of(told.session_id) if self.live else None
        update = present.update(told.record, wire_session(session) if session else None)
        if update is not None:
            line = wire.UpdateParams(session_id=told.session_id, turn_id=told.turn_id, seq=told.seq, update=update)
            sys.stdout.write(line.model_dump_json(by_alias=True, exclude_none=True) + "\n")
            sys.stdout.flush()

    def ask(self, question: Question) -> None:
        self._tasks[question.approval_id] = asyncio.get_running_loop().create_task(self._ask(question))

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        del option_id, by
        if (task := self._tasks.pop(question.approval_id, None)) and task is not asyncio.current_task():
            task.cancel()

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        del session_id, turn_id
        if not self.present:
            return None
        async with self._asking:
            self.screen.line(visible(question), "bold")
            for number, option in enumerate(options, 1):
                self.screen.line(f"  {number}. {visible(option)}")
            answer = await self.lines.read("› ")
        if answer and answer.isdecimal() and 1 <= int(answer) <= len(options):
            return options[int(answer) - 1]
        return answer or None

    async def _ask(self, question: Question) -> None:
        if self.live is None:
            return
        if not self.present:
            self.screen.line(f"Not asked, so not allowed: {visible(question.call.title)} ({question.reason})", "yellow")
            self.live.answer(question.approval_id, None)
            return
        async with self._asking:
            self._show(question)
            self.live.answer(question.approval_id, await self._choose(question))

    def _show(self, question: Question) -> None:
        self.screen.line(f"{visible(question.call.title)}? ({question.reason})", "bold yellow")
        preview = question.preview
        for file in preview.files:
            before, after = (file.before or "").splitlines(True), (file.after or "").splitlines(True)
            name = file.path.name
            self.screen.diff("".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")))
        if preview.kind == "command":
            self.screen.line(f"  $ {visible(preview.command)}", "bold")
            self.screen.line(f"  in {visible(preview.cwd)}", "dim")
        for line in question.parsed:
            self.screen.line(f"  {visible(line)}", "dim")

    async def _choose(self, question: Question) -> Answer | None:
        offered = {option.id: option for option in question.options}
        words = ["[y]es"]
        words += [f"[{key}] {offered[KEYS[key]].label.lower()}" for key in ("s", "a") if KEYS[key] in offered]
        words += ["[n]o", *(["[e]dit"] if question.amendable else [])]
        while True:
            line = await self.lines.read(f"  {' · '.join(words)} › ")
            if line is None:
                return None
            key, _, rest = line.strip().partition(" ")
            if key == "e" and question.amendable:
                if (args := await asyncio.to_thread(amend, dict(question.call.args))) is not None:
                    return Answer(option_id="allow_once", args=args, by="terminal")
            elif (chosen := KEYS.get(key)) is not None and chosen in offered:
                if (rule := offered[chosen].rule) and key == "a":
                    self.screen.line(f"  Rule: {visible(rule)}", "dim")
                return Answer(option_id=chosen, feedback=rest or None, by="terminal")
            else:
                self.screen.line("  y, s, a, n or e; words after n go to the model.", "dim")


def amend(args: dict[str, object]) -> dict[str, object] | None:
    """Let the person change the arguments in their own editor. None: nothing usable came back."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.NamedTemporaryFile("w+", suffix=".json", encoding="utf-8") as file:
        file.write(orjson.dumps(args, option=orjson.OPT_INDENT_2).decode())
        file.flush()
        try:
            subprocess.run([*editor, file.name], check=True)
            changed: object = orjson.loads(Path(file.name).read_bytes())
        except (OSError, ValueError, subprocess.CalledProcessError):
            return None
    return cast("dict[str, object]", changed) if isinstance(changed, dict) else None


@asynccontextmanager
async def engine(wish: Wish) -> AsyncGenerator[tuple[Live, TerminalFace, str]]:
    """The engine with a session, as the person wished."""
    start_logging(log_path())
    loaded = load_user({"model": wish.model, "mode": wish.mode})
    face = TerminalFace(json=wish.json)
    for problem in loaded.problems:
        face.screen.line(f"Setting left out ({problem.source}): {problem.message}", "yellow")
    ledger = Ledger.open(loaded.settings.storage, label=f"a terminal in {wish.folder}")
    live = Live(loaded.settings, ledger, face, roots=[wish.folder], trusted=wish.trust)
    face.live = live
    try:
        await _settle_trust(live, face, wish)
        yield live, face, await _session(live, wish)
    finally:
        await live.aclose()


async def run_once(wish: Wish, text: str) -> int:
    async with engine(wish) as (live, face, session_id):
        outcome = await _turn(live, face, session_id, text)
        if outcome.error is not None and wish.json:
            face.screen.line(f"{outcome.error.message} {outcome.error.remedy}", "red")
        return EXIT_CODES[outcome.stop_reason]


async def converse(wish: Wish) -> int:
    async with engine(wish) as (live, face, session_id):
        face.screen.line(f"pilotfish · {live.settings.model} · /undo /mode /model /exit", "dim")
        while (line := await face.lines.read("\n› ")) is not None:
            match line.split():
                case []:
                    continue
                case ["/exit" | "/quit"]:
                    break
                case ["/undo"]:
                    undone = await live.undo(session_id)
                    names = ", ".join(change.path.name for change in undone.changes) or "nothing"
                    face.screen.line(f"Put back: {names}", "cyan")
                    for path, why in undone.refused:
                        face.screen.line(f"Left alone: {path.name}: {why}", "yellow")
                case ["/mode", mode]:
                    await _configure(live, face, session_id, mode=mode)
                case ["/model", model]:
                    await _configure(live, face, session_id, model=model)
                case _:
                    await _turn(live, face, session_id, line)
    return 0


async def _configure(
    live: Live, face: TerminalFace, session_id: str, *, model: str | None = None, mode: str | None = None
) -> None:
    try:
        session = await live.configure(session_id, model=model, mode=mode)
    except BadRequest as error:
        face.screen.line(str(error), "red")
    else:
        face.screen.line(f"{session.model} · {session.mode}", "cyan")


async def _turn(live: Live, face: TerminalFace, session_id: str, text: str) -> Outcome:
    """One turn. Ctrl-C once stops it, twice leaves."""
    loop = asyncio.get_running_loop()
    presses = 0

    def interrupted() -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
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


async def _settle_trust(live: Live, face: TerminalFace, wish: Wish) -> None:
    """The first time in a folder the person is asked once; the answer is kept in their own configuration."""
    if wish.trust or live.book.trust_of(wish.folder) is not None:
        return
    if not face.present:
        face.screen.line(
            "This folder is not trusted: reading only. Use --trust, or answer once in a terminal.", "yellow"
        )
        return
    face.screen.line(f"Trust {visible(str(wish.folder))}? The agent may then read its rules and, with your", "bold")
    face.screen.line("permission, change files and run commands in it.", "bold")
    answer = await face.lines.read("  [t]rust this folder · [r]ead only › ")
    if answer is not None and answer.strip()[:1] in ("t", "r"):
        live.book.trust(wish.folder, answer.strip()[:1] == "t")


async def _session(live: Live, wish: Wish) -> str:
    if wish.session is not None:
        return await find_session(live, wish.session)
    if wish.newest:
        listed = await live.list(str(wish.folder), limit=1)
        if listed.sessions:
            return listed.sessions[0].id
    try:
        return (await live.new(str(wish.folder))).id
    except BadRequest as error:
        raise TurnError(str(error), remedy="") from error


async def find_session(live: Live, beginning: str) -> str:
    """The one session whose id begins so."""
    cursor: str | None = None
    found: list[str] = []
    while True:
        listed = await live.list(cursor=cursor, limit=200)
        found += [session.id for session in listed.sessions if session.id.startswith(beginning)]
        cursor = listed.next_cursor
        if cursor is None or beginning in found:
            break
    if beginning in found or len(found) == 1:
        return beginning if beginning in found else found[0]
    raise UnknownSession(f"{'Several sessions begin' if found else 'No session begins'} with {beginning!r}.")


def wire_session(session: object) -> wire.Session:
    from pilotfish.engine.ports import Session

    if not isinstance(session, Session):
        raise TypeError("not a session")
    return wire.Session(
        id=session.id,
        title=session.title,
        workspace_folder=Path(session.workspace_folder).as_uri() if session.workspace_folder else None,
        model=session.model,
        mode=_MODES[session.mode],
        created_at=present.moment(session.created_at) or "",
        updated_at=present.moment(session.updated_at) or "",
        turns=session.turns,
        busy=session.busy,
        usage=present.usage(session.usage),
    )


_MODES: dict[str, Literal["ask", "plan", "edit", "auto"]] = {
    "ask": "ask",
    "plan": "plan",
    "edit": "edit",
    "auto": "auto",
}
