"""Line editing at a terminal, by prompt_toolkit: history, several lines, completion, and output above an open prompt.

This module is imported at the first prompt or question, because loading prompt_toolkit takes about 0.2 seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.styles import Style

from pilotfish.cli.terminal.terminal_mode import TerminalMode, drop_typed
from pilotfish.text.display_safe import display_safe
from pilotfish.text.mention_syntax import written
from pilotfish.workspace.search.file_index import FileIndex

MAX_COMPLETIONS = 20
LEAVE_HINT = "Press Ctrl+C again to leave. "
COMMAND = re.compile(r"/[\w:.-]*")
MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]*)|([^\s"]*))\Z')
STYLE = Style.from_dict(
    {
        "prompt": "ansicyan",
        "question": "ansiyellow",
        "hint": "ansiyellow",
        "continuation": "ansibrightblack",
        "bottom-toolbar": "noreverse ansibrightblack",
    }
)


class LineEditor:
    """The input line of a chat, and the questions of a turn. One prompt is open at a time."""

    def __init__(self, history: Path, files: FileIndex) -> None:
        self.commands: Mapping[str, str] = {}
        """the slash commands to complete, with their descriptions"""
        self.is_open = False
        self._normal_mode = TerminalMode()
        self._history = history
        self._files = files
        self._chat: PromptSession[str] | None = None
        self._interrupted = False
        """Ctrl+C was pressed at the empty prompt"""

    async def read_prompt(self, status: str) -> str | None:
        """The next prompt of a chat, which may have several lines. None at Ctrl+D, `KeyboardInterrupt` at Ctrl+C twice.

        `status` is shown below the prompt.
        """
        if self._chat is None:
            self._chat = self._chat_session()
        self._interrupted = False
        with self._open_prompt(), contextlib.suppress(EOFError):
            return await self._chat.prompt_async(bottom_toolbar=status, handle_sigint=False)
        return None

    async def ask(self, message: str, on_interrupt: Callable[[], None] | None) -> str | None:
        """One line. None at Ctrl+D. Ctrl+C calls `on_interrupt`, or raises `KeyboardInterrupt` if there is none."""
        keys = KeyBindings()

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if on_interrupt is None:
                event.app.exit(exception=KeyboardInterrupt)
            else:
                on_interrupt()

        session = PromptSession[str]([("class:question", message)], style=STYLE, key_bindings=keys)
        # Text typed before the question was shown cannot be an answer to it.
        clear_typeahead(session.input)
        drop_typed()
        with self._open_prompt(), contextlib.suppress(EOFError):
            return await session.prompt_async(handle_sigint=False)
        return None

    def restore_terminal(self) -> None:
        """Put the terminal back into the mode it was started in. For an exit that skips all cleanup."""
        self._normal_mode.restore()

    async def aclose(self) -> None:
        await self._files.aclose()

    @contextlib.contextmanager
    def _open_prompt(self) -> Generator[None]:
        self.is_open = True
        try:
            with (
                _LinesAbovePrompt(sleep_between_writes=0.05, raw=True) as proxy,
                contextlib.redirect_stdout(cast("TextIO", proxy)),
                contextlib.redirect_stderr(cast("TextIO", proxy)),
            ):
                yield
        finally:
            self.is_open = False

    def _chat_session(self) -> PromptSession[str]:
        session: PromptSession[str] = PromptSession(
            # Not every terminal has the status line: prompt_toolkit must know the cursor's position to draw it.
            lambda: [("class:hint", LEAVE_HINT if self._interrupted else ""), ("class:prompt", "› ")],
            prompt_continuation=[("class:continuation", "· ")],
            style=STYLE,
            multiline=True,
            key_bindings=self._chat_keys(),
            history=_PrivateHistory(self._history),
            completer=_PromptCompleter(lambda: self.commands, self._files),
            # prompt_toolkit reserves lines for the menu while this is true.
            complete_while_typing=Condition(lambda: _completable(session.default_buffer.document)),
        )
        session.default_buffer.on_text_changed += self._forget_interrupt
        return session

    def _forget_interrupt(self, _: Buffer) -> None:
        self._interrupted = False

    def _chat_keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def submit(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None and (chosen := buffer.complete_state.current_completion):
                buffer.apply_completion(chosen)
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def insert_newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.text:
                buffer.reset()
            elif self._interrupted:
                event.app.exit(exception=KeyboardInterrupt)
            else:
                self._interrupted = True

        @keys.add("c-d")
        def leave(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            else:
                event.app.exit(exception=EOFError)

        return keys


class _LinesAbovePrompt(StdoutProxy):
    """Prints above the open prompt, in whole lines: part of a line would be overwritten by the prompt."""

    def flush(self) -> None:
        return

    def close(self) -> None:
        super().flush()
        super().close()


class _PrivateHistory(FileHistory):
    """The prompts of earlier chats. Only the user can read the file; if it cannot be written, nothing is kept."""

    def __init__(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.chmod(0o600)
        super().__init__(os.fspath(path))

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)


class _PromptCompleter(Completer):
    """Completes `/` commands at the start of a prompt, and files and folders after `@`."""

    def __init__(self, commands: Callable[[], Mapping[str, str]], files: FileIndex) -> None:
        self._commands = commands
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        raise NotImplementedError("the file index answers asynchronously")

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        del complete_event
        before = document.text_before_cursor
        if COMMAND.fullmatch(before):
            for name, description in self._commands().items():
                if name.startswith(before):
                    yield Completion(name, start_position=-len(before), display_meta=description)
        elif match := MENTION.search(before):
            for found in await self._files.search(match.group(1) or match.group(2) or "", MAX_COMPLETIONS):
                if display_safe(found.name) == found.name:
                    yield Completion(
                        f"@{written(found.name)}", start_position=match.start() - len(before), display=found.name
                    )


def _completable(document: Document) -> bool:
    before = document.text_before_cursor
    return COMMAND.fullmatch(before) is not None or MENTION.search(before) is not None
