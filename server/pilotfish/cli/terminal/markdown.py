"""Renders Markdown at a terminal while it arrives.

Finished blocks are printed once and stay. The last, unfinished block is drawn again with every piece, so the text is
seen as it comes. Links are shown with their address, because a text could pretend to be another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import CodeBlock, Heading, Markdown, Paragraph
from rich.syntax import Syntax
from rich.text import Text

if TYPE_CHECKING:
    from markdown_it.token import Token  # a dependency of rich

ROOM = 4  # lines of the terminal that the unfinished block leaves free
_EMPTY_LINES = re.compile(r"\A(?: *\n)+|(?:\n *)+\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class LeftHeading(Heading):
    """A heading as a bold line. The library centres headings, and frames the first level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text: Text = self.text
        text.justify = "default"
        yield text


class RaggedParagraph(Paragraph):
    """A paragraph whose lines end where their text ends. The library fills them with spaces, which are copied too."""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> RaggedParagraph:
        del markdown, token
        return cls("default")


class PlainCode(CodeBlock):
    """Code without empty lines and colour around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(
            code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2), background_color="default"
        )


class AnswerMarkdown(Markdown):
    """The Markdown of an answer."""

    elements = {  # noqa: RUF012  # as in the library
        **Markdown.elements,
        "heading_open": LeftHeading,
        "paragraph_open": RaggedParagraph,
        "fence": PlainCode,
        "code_block": PlainCode,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, code_theme="ansi_dark", hyperlinks=False)


class MarkdownStream:
    """One answer. `feed` takes its pieces, `close` prints what is left."""

    def __init__(self, console: Console, prompt_is_open: Callable[[], bool]) -> None:
        self._console = console
        self._prompt_is_open = prompt_is_open
        self._open = ""
        """the text of the unfinished block"""
        self._printed = False
        self._live: Live | None = None

    def feed(self, text: str) -> None:
        done, self._open = finished_blocks(self._open + text)
        if done.strip():
            self._print(done)
        if self._open.strip() and not self._prompt_is_open():
            self._draw()

    def close(self) -> None:
        rest, self._open = self._open, ""
        if rest.strip():
            self._print(rest)
        self._erase()

    def _print(self, text: str) -> None:
        self._erase()
        if self._printed:
            self._console.print()
        self._printed = True
        with self._console.capture() as capture:
            self._console.print(AnswerMarkdown(text), soft_wrap=False)
        self._console.file.write(_EMPTY_LINES.sub("", capture.get()) + "\n")  # the library puts some around lists
        self._console.file.flush()

    def _draw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        shown = AnswerMarkdown(last_lines(self._open, max(self._console.height - ROOM, 1)))
        self._live.update(shown, refresh=True)

    def _erase(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def finished_blocks(text: str) -> tuple[str, str]:
    """(whole blocks, the rest): a block ends with an empty line outside a fence, or with the end of a fence."""
    fence, end, place = "", 0, 0
    for line in text.splitlines(keepends=True):
        place += len(line)
        whole = line.endswith("\n")
        match = _FENCE.match(line)
        if fence:
            if match and whole and match[1].startswith(fence) and not line.strip(" \n`~"):
                fence, end = "", place
        elif match:
            fence = match[1]
        elif whole and not line.strip():
            end = place
    return text[:end], text[end:]


def last_lines(text: str, count: int) -> str:
    """The last lines of a block, with the beginning of its fence."""
    lines = text.splitlines()
    if len(lines) <= count:
        return text
    first = [lines[0]] if count > 1 and _FENCE.match(lines[0]) else []
    return "\n".join([*first, *lines[len(first) - count :]])
