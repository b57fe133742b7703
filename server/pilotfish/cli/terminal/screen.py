"""Prints the updates of a turn: with rich at a terminal, as plain lines if the output is piped.

Control and bidirectional characters from a model, a file or a command are escaped, so the user sees what will run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from pilotfish.cli.terminal.keyboard import Spinner
from pilotfish.cli.terminal.markdown import MarkdownStream
from pilotfish.conversation.messages import CallStatus, CanonicalToolCall
from pilotfish.conversation.records import (
    ChunkRecord,
    ClaimRecord,
    CompactionRecord,
    FileChangeRecord,
    NoticeRecord,
    PlanRecord,
    Record,
    StateRecord,
    ToolCallRecord,
    TurnEndRecord,
)
from pilotfish.text.display_safe import display_safe, one_line

GLYPHS: Mapping[CallStatus, tuple[str, str]] = {
    CallStatus.COMPLETED: ("✓", "green"),
    CallStatus.FAILED: ("✗", "red"),
    CallStatus.DENIED: ("⊘", "yellow"),
    CallStatus.CANCELLED: ("■", "yellow"),
}
ENDS = {
    "max_iterations": "Stopped at the iteration limit. Send “continue” to go on.",
    "max_tokens": "The answer was cut off by the token limit.",
    "budget": "Stopped: the budget of this turn is used up.",
    "refusal": "The model refused.",
    "cancelled": "Stopped.",
}


class Screen:
    """Prints records as they arrive. Answers go to stdout, everything else to stderr."""

    def __init__(self, prompt_is_open: Callable[[], bool]) -> None:
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self.spinner = Spinner(self.err, prompt_is_open)
        self._prompt_is_open = prompt_is_open
        self._inside: str | None = None
        self._held: list[Record] | None = None
        self._answer: MarkdownStream | None = None
        """the answer that is being rendered"""

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep back records while a question is open, so that nothing is printed into it."""
        self._held = held = list[Record]()
        try:
            yield
        finally:
            self._held = None
            for record in held:
                self.show(record)

    def show(self, record: Record) -> None:
        if self._held is not None:
            self._held.append(record)
            return
        match record:
            case ChunkRecord(channel="message", item_id=item, text=text) if self._renders:
                self._markdown(item, text)
            case ChunkRecord(channel="message", item_id=item, text=text):
                self._chunk(item, text, self.out, None)
            case ChunkRecord(channel="thought", item_id=item, text=text):
                self._chunk(item, text, self.err, "dim italic")
            case ChunkRecord(channel="progress", item_id=item, text=text):
                self._chunk(item, text, self.err, "dim")
            case ToolCallRecord(call=call):
                self._call(call)
            case FileChangeRecord(uri=uri, change=change, added=added, removed=removed):
                self.line(f"  {change} {display_safe(uri.rpartition('/')[2])}  +{added} −{removed}", "dim")
            case NoticeRecord(level=level, message=message, remedy=remedy):
                style = {"info": "cyan", "warning": "yellow", "error": "red"}[level]
                self.line(display_safe(f"{message} {remedy or ''}".rstrip()), style)
            case ClaimRecord(verdict="unsupported", text=text, evidence=evidence):
                self.line(display_safe(f"Not verified: “{one_line(text)}” ({evidence})"), "yellow")
            case PlanRecord(entries=entries):
                for entry in entries:
                    mark = {"completed": "✓", "in_progress": "▶", "pending": "○"}[entry.status]
                    self.line(f"  {mark} {display_safe(entry.content)}", "dim")
            case CompactionRecord(before=before, after=after):
                self.line(f"The conversation was summarised: {before:,} → {after:,} tokens.", "cyan")
            case StateRecord(state="assistant"):
                self.leave()
                self.spinner.start("Thinking…")
            case TurnEndRecord() as end:
                self._end(end)
            case _:
                pass

    def line(self, text: str, style: str = "") -> None:
        self.leave()
        self.err.print(Text(text, style=style))

    def diff(self, text: str) -> None:
        self.leave()
        if self.err.is_terminal:
            self.err.print(Syntax(readable(text), "diff", theme="ansi_dark", background_color="default"))
        else:
            self.err.print(Text(readable(text)))

    def leave(self) -> None:
        """End the current line and stop the spinner."""
        self.spinner.stop()
        if self._answer is not None:
            self._answer.close()
            self._answer = self._inside = None
        if self._inside is not None:
            (self.out if self._inside_out else self.err).print()
            self._inside = None

    @property
    def _renders(self) -> bool:
        """Whether answers are rendered: at a terminal that can draw a line again."""
        return self.out.is_terminal and not self.out.is_dumb_terminal

    def _markdown(self, item: str, text: str) -> None:
        self.spinner.stop()
        if self._inside != item:
            self.leave()
            self._inside, self._answer = item, MarkdownStream(self.out, self._prompt_is_open)
        if self._answer is not None:
            self._answer.feed(readable(text))

    def _chunk(self, item: str, text: str, console: Console, style: str | None) -> None:
        self.spinner.stop()
        if self._inside != item:
            self.leave()
            self._inside, self._inside_out = item, console is self.out
        shown = readable(text) if console.is_terminal else text
        console.print(Text(shown, style=style or ""), end="")

    def _call(self, call: CanonicalToolCall) -> None:
        if call.name == "update_plan" and call.status is CallStatus.COMPLETED:
            return  # the plan itself was already printed
        if call.status in GLYPHS:
            glyph, colour = GLYPHS[call.status]
            took = f"  {call.duration_ms / 1000:.1f}s" if call.duration_ms is not None else ""
            why = f": {display_safe(call.error.splitlines()[0])}" if call.error else ""
            self.leave()
            self.err.print(Text.assemble((f"{glyph} ", colour), display_safe(call.title), (f"{took}{why}", "dim")))
        elif call.status is CallStatus.IN_PROGRESS:
            self.leave()
            self.spinner.start(one_line(call.title))

    def _end(self, end: TurnEndRecord) -> None:
        self.leave()
        if end.error is not None:
            self.line(display_safe(f"{end.error.message} {end.error.remedy}"), "red")
        elif words := ENDS.get(end.stop_reason):
            self.line(words, "yellow")
        if self.err.is_terminal:
            tokens = end.usage.input_tokens + end.usage.output_tokens
            cost = f" · ${end.usage.cost:.2f}" if end.usage.cost else ""
            self.line(f"{tokens:,} tokens{cost}", "dim")


def readable(text: str) -> str:
    """Text for a terminal. Characters that move the cursor or hide text are escaped; tabs are kept."""
    return "\t".join(map(display_safe, text.split("\t")))
