"""What of a model's answer is inserted at the cursor."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pilotfish.engine.completion.cursor import Cursor, fitting, from_chat


def at(text: str) -> Cursor:
    """The cursor at `|`."""
    before, _, after = text.partition("|")
    return Cursor("file:///a.py", Path("/a.py"), "python", before + after, len(before))


def check(text: str, answer: str, expected: str) -> None:
    assert fitting(answer, at(text)) == expected


def test_lines_are_inserted_at_the_end_of_a_line():
    check("def add(a, b):\n|\n", "    c = a + b\n    return c\n", "    c = a + b\n    return c")


def test_within_a_line_a_completion_ends_with_the_line():
    check("print(|, file=out)", "a, b\nprint(c)", "a, b")


def test_brackets_after_the_cursor_are_not_repeated():
    check("print(|)", "a, b)", "a, b")


def test_the_line_that_the_file_goes_on_with_ends_it():
    check("x = |\n\nprint(x)\n", "1\nprint(x)\nprint(y)\n", "1")


def test_signs_of_the_model_end_it():
    check("x = |\n", "1<|endoftext|>def f():", "1")
    check("x = |\n", "1<fim_suffix>junk", "1")


def test_blanks_alone_and_hidden_secrets_are_nothing():
    check("x = |\n", "  \n", "")
    check("key = |\n", '"[hidden: GitHub token]"', "")


def test_a_chat_model_may_write_a_fence_and_repeat_the_line():
    assert from_chat("```python\nx = 1\n```", at("x = |\n")) == "1"
    assert from_chat("1", at("x = |\n")) == "1"


@given(st.text("ab \n()|<>`", max_size=30), st.text("ab \n()|<>`", max_size=30))
def test_only_what_the_model_wrote_is_inserted(text: str, answer: str):
    assert fitting(answer, at(text)) in answer
