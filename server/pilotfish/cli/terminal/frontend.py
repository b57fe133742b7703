"""The terminal as a frontend of the engine: it shows updates, and asks the user if there is one."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

from pilotfish.cli.terminal.keyboard import Lines
from pilotfish.cli.terminal.screen import Screen
from pilotfish.conversation.records import UsageRecord
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Answer, OptionId, Question, SessionUpdate
from pilotfish.lsp import presentation
from pilotfish.protocol import present, wire
from pilotfish.store.sqlite.database import directory_of
from pilotfish.text.display_safe import display_safe, exact
from pilotfish.workspace.editor import Editor, NoEditor
from pilotfish.workspace.edits.hunks import unified_diff
from pilotfish.workspace.search.file_index import FileIndex

if TYPE_CHECKING:
    from pilotfish.cli.terminal.line_editor import LineEditor

KEYS: Mapping[str, OptionId] = {
    "y": "allow_once",
    "r": "allow_real",
    "s": "allow_session",
    "a": "allow_always",
    "n": "reject",
    "d": "reject_always",
}


class TerminalFrontend:
    """A user at a terminal, or none: then every approval is refused, and the refusal is printed."""

    def __init__(self, folder: Path, storage: Path | str | None, *, json: bool) -> None:
        self.present = sys.stdin.isatty()
        self.engine: Engine | None = None
        self.on_interrupt: Callable[[], None] | None = None
        """stops the running turn; None between turns"""
        self.lends_terminal = False
        """the user's own editor has the terminal, and receives its keys"""
        self.context_used = ""
        """how full the model's context is, for the status line"""
        self.screen = Screen(prompt_is_open=lambda: self._editor is not None and self._editor.is_open)
        # prompt_toolkit needs the whole terminal. With a stream redirected, lines are read as from a pipe.
        self._edits_lines = self.present and sys.stdout.isatty() and sys.stderr.isatty()
        self._editor: LineEditor | None = None
        self._lines = Lines()
        self._folder = folder
        self._history = directory_of(storage) / "prompt_history"
        self._json = json
        self._asking = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def read_prompt(self, status: str, commands: Mapping[str, str]) -> str | None:
        """The next prompt of a chat; None at the end of input."""
        if not self._edits_lines:
            return await self._lines.read_all("\n› ")
        self.screen.line("")
        editor = self._line_editor()
        editor.commands = commands
        return await editor.read_prompt(status)

    async def read_answer(self, message: str) -> str | None:
        """One line that answers a question; None at the end of input. Text typed before the call is dropped."""
        if self._edits_lines:
            self.screen.leave()
            return await self._line_editor().ask(message, self.on_interrupt)
        self._lines.drop_typed()
        return await self._lines.read(message)

    def restore_terminal(self) -> None:
        """Put the terminal into its normal mode before an exit that skips all cleanup."""
        if self._editor is not None:
            self._editor.restore_terminal()

    async def aclose(self) -> None:
        self.screen.leave()
        if self._editor is not None:
            await self._editor.aclose()

    def _line_editor(self) -> LineEditor:
        if self._editor is None:
            from pilotfish.cli.terminal.line_editor import LineEditor

            self._editor = LineEditor(self._history, FileIndex([self._folder]))
        return self._editor

    @property
    def editor(self) -> Editor:
        return NoEditor()

    @property
    def keeps_up(self) -> bool:
        return True

    async def room(self) -> None:
        return

    def notify(self, update: SessionUpdate) -> None:
        if isinstance(update.record, UsageRecord) and (window := update.record.context_window):
            self.context_used = f"context {100 * update.record.context_used // window} %"
        if not self._json:
            self.screen.show(update.record)
            return
        session = self.engine.session_of(update.session_id) if self.engine else None
        payload = present.update(update.record, presentation.session(session) if session else None)
        if payload is not None:
            line = wire.UpdateParams(
                session_id=update.session_id, turn_id=update.turn_id, seq=update.seq, update=payload
            )
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
            with self.screen.held():
                return await self._choose_option(question, options)

    async def _choose_option(self, question: str, options: Sequence[str]) -> str | None:
        self.screen.line(display_safe(question), "bold")
        for number, option in enumerate(options, 1):
            self.screen.line(f"  {number}. {display_safe(option)}")
        answer = await self.read_answer("› ")
        if answer and answer.isdecimal() and 1 <= int(answer) <= len(options):
            return options[int(answer) - 1]
        return answer or None

    async def _ask(self, question: Question) -> None:
        if self.engine is None:
            return
        if not self.present:
            self.screen.line(
                f"Denied, because nobody can be asked here: {display_safe(question.call.title)} ({question.reason})",
                "yellow",
            )
            self.engine.answer(question.approval_id, None)
            return
        async with self._asking:
            with self.screen.held():
                self._show(question)
                answer = await self._choose(question)
            self.engine.answer(question.approval_id, answer)

    def _show(self, question: Question) -> None:
        preview = question.preview
        # The title of a command is the command, which is shown below, whole and exact.
        title = "Run this command" if preview.kind == "command" else display_safe(question.call.title)
        self.screen.line(f"{title}? ({question.reason})", "bold yellow")
        if preview.kind == "command":
            self.screen.line(f"  $ {exact(preview.command)}", "bold")
            self.screen.line(f"  in {display_safe(preview.cwd)}", "dim")
        for file in preview.files:
            name = preview.name_of(file)
            self.screen.diff(unified_diff(file.before or "", file.after or "", f"a/{name}", f"b/{name}"))
        if preview.tried is not None:
            for line in (*preview.tried.output.splitlines(), preview.tried.note):
                self.screen.line(f"  {display_safe(line)}", "dim")
        if preview.impact:
            self.screen.line(f"  {display_safe(preview.impact)}", "dim")
        if preview.kind == "text":
            self.screen.line(f"  {display_safe(preview.text)}")
        for line in question.parsed:
            self.screen.line(f"  {display_safe(line)}", "dim")

    async def _choose(self, question: Question) -> Answer | None:
        offered = {option.id: option for option in question.options}
        for key, chosen in KEYS.items():
            # The user sees a rule before choosing it.
            if chosen in offered and (rule := offered[chosen].rule):
                self.screen.line(f"  {key}: {display_safe(rule)}", "dim")
        if "allow_real" in offered:
            self.screen.line("  r: run it for real instead of applying these changes", "dim")
        keys = {"y": "[y]es", "s": "[s]ession", "a": "[a]lways", "n": "[n]o", "d": "[d]eny always"}
        words = [word for key, word in keys.items() if KEYS[key] in offered]
        words += ["[e]dit"] if question.amendable else []
        while True:
            line = await self.read_answer(f"  {' · '.join(words)} › ")
            if line is None:
                return None
            key, _, rest = line.strip().partition(" ")
            if key == "e" and question.amendable:
                if (args := await self._amend(question, rest)) is not None:
                    return Answer(option_id="allow_once", args=args, by="terminal")
                self.screen.line("  The edited text is not a JSON object of arguments; nothing has run.", "yellow")
            elif (chosen := KEYS.get(key)) is not None and chosen in offered:
                return Answer(option_id=chosen, feedback=rest or None, by="terminal")
            else:
                self.screen.line(f"  Type one of {', '.join(words)}. Text after n is sent to the model.", "dim")

    async def _amend(self, question: Question, rest: str) -> dict[str, Any] | None:
        """The arguments as the user changed them. `e` opens their editor; `e ls -l` replaces the command directly."""
        args = dict(question.call.args)
        if rest and "command" in args:
            return {**args, "command": rest}
        self.lends_terminal = True
        try:
            return await asyncio.to_thread(amend, args)
        finally:
            self.lends_terminal = False


def amend(args: Mapping[str, Any]) -> dict[str, Any] | None:
    """Open the arguments as JSON in the user's own editor. None if the result is not a JSON object."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="pilotfish-") as folder:
        file = Path(folder) / "arguments.json"
        file.write_bytes(orjson.dumps(args, option=orjson.OPT_INDENT_2))
        try:
            subprocess.run([*editor, str(file)], check=True)
            changed: object = orjson.loads(file.read_bytes())
        except (OSError, ValueError, subprocess.CalledProcessError):
            return None
    return cast("dict[str, Any]", changed) if isinstance(changed, dict) else None
