"""Answers are rendered as Markdown while they arrive, and nothing of them is lost."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.support.terminal import ESCAPES

from pilotfish.cli.terminal.markdown import MarkdownStream, finished_blocks, last_lines
from pilotfish.cli.terminal.screen import Screen
from pilotfish.conversation.records import NoticeRecord

ANSWER = """# Title

A **bold** word and `code`, see [here](https://example.org).

```python
def f():

    return 1
```

- one
- two
"""


EXPECTED = """Title

A bold word and code, see here (https://example.org).

  def f():

      return 1

 • one
 • two"""


def shown(pieces: list[str], width: int = 80, *, prompt_is_open: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, height=20, color_system="standard")
    stream = MarkdownStream(console, lambda: prompt_is_open)
    for piece in pieces:
        stream.feed(piece)
    stream.close()
    return file.getvalue()


def screen(pieces: list[str], width: int = 80) -> str:
    """The text that stays: what is printed while a prompt is open, when nothing is drawn again."""
    lines = ESCAPES.sub("", shown(pieces, width, prompt_is_open=True)).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def test_markdown_is_rendered() -> None:
    assert screen([ANSWER]) == EXPECTED


@pytest.mark.parametrize("width", [80, 120])
def test_the_result_does_not_depend_on_how_it_is_streamed(width: int) -> None:
    whole = screen([ANSWER], width)
    assert screen(list(ANSWER), width) == whole
    assert max(map(len, whole.splitlines())) <= width


def test_the_unfinished_block_is_seen_while_it_comes() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, height=20, color_system="standard")
    stream = MarkdownStream(console, lambda: False)
    stream.feed("Half of a sen")
    assert "Half of a sen" in ESCAPES.sub("", file.getvalue())
    stream.feed("tence.")
    stream.close()
    assert file.getvalue().count("Half of a sentence.") >= 1


LINES = st.lists(st.sampled_from(["", "text", "```", "```py", "- item", "# h", "    code", "~~~"]), max_size=12)


@given(LINES, st.integers(0, 60))
def test_blocks_and_rest_are_the_text(lines: list[str], cut: int) -> None:
    text = "\n".join(lines)[:cut]
    done, rest = finished_blocks(text)
    assert done + rest == text
    assert finished_blocks(rest)[0] == ""


@given(LINES, st.integers(1, 5))
def test_the_last_lines_fit(lines: list[str], count: int) -> None:
    assert len(last_lines("\n".join(lines), count).splitlines()) <= max(count, 1)


def test_nothing_is_printed_into_an_open_question() -> None:
    screen_ = Screen(prompt_is_open=lambda: False)
    screen_.err = Console(file=(file := io.StringIO()), width=80)
    with screen_.held():
        screen_.show(NoticeRecord(turn_id="t", level="info", message="A call has finished.", timestamp=0.0))
        screen_.line("May it run?")
        assert file.getvalue() == "May it run?\n"
    assert file.getvalue() == "May it run?\nA call has finished.\n"
