"""The code blocks of an answer that may show files."""

from __future__ import annotations

import pytest

from pilotfish.conversation.answer_text.file_blocks import file_blocks


def found(text: str) -> list[tuple[str | None, str]]:
    return [(block.name, block.code) for block in file_blocks(text)]


@pytest.mark.parametrize(
    "text",
    [
        "calc.py\n```python\nx = 1\n```",
        "Here is the new `calc.py`:\n\n```python\nx = 1\n```\nDone.",
        "```python calc.py\nx = 1\n```",
        "```python title=calc.py\nx = 1\n```",
        "```python:calc.py\nx = 1\n```",
        "```calc.py\nx = 1\n```",
        "```python\n# calc.py\nx = 1\n```",
        "**./calc.py**\n~~~\nx = 1\n~~~",
        "I compared it with test_calc.py and changed calc.py.\n```\nx = 1\n```",
    ],
)
def test_a_file_is_named_where_models_name_it(text: str) -> None:
    assert found(text) == [("calc.py", "x = 1\n")]


def test_a_block_without_a_name_has_none() -> None:
    assert found("Like this:\n```python\nx = 1\n```") == [(None, "x = 1\n")]


@pytest.mark.parametrize(
    "text",
    [
        "Run calc.py:\n```bash\npython calc.py\n```",
        "calc.py prints:\n```text\n1\n```",
        "Use `calc.py` and ```inline```.",
        "calc.py\n```python\nx = 1\n",
        "",
    ],
)
def test_commands_output_and_open_blocks_show_no_file(text: str) -> None:
    assert found(text) == []


def test_several_files_and_a_limit() -> None:
    one = "a.py\n```\n1\n```\n"
    assert found(one + "b/c.js\n```js\n2\n```") == [("a.py", "1\n"), ("b/c.js", "2\n")]
    assert len(found(one * 50)) == 8
