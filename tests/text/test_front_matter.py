"""Front matter as users write it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pilotfish.text.front_matter import split_front_matter


@pytest.mark.parametrize(
    ("text", "fields", "body"),
    [
        ("# Title\n\ntext\n", {}, "# Title\n\ntext"),
        ("---\nName: a\nargument-hint: [x]\n---\nbody", {"name": "a", "argument-hint": "[x]"}, "body"),
        ("---\r\nname: 'a: b'\r\n---\r\n\r\nbody\r\n", {"name": "a: b"}, "body"),
        ("---\na: >-\n  one\n  two\nb: |\n  one\n\n  two\n---\n", {"a": "one two", "b": "one\n\ntwo"}, ""),
        ("---\na: one\n  two\nb:\n  - x\n---\nbody", {"a": "one two", "b": "- x"}, "body"),
        ("---\nurl: http://x/y\nno field\n---", {"url": "http://x/y"}, ""),
        ("---\nnever closed\n", {}, "---\nnever closed"),
        ("text\n---\na: b\n---\n", {}, "text\n---\na: b\n---"),
    ],
)
def test_fields_and_body(text: str, fields: Mapping[str, str], body: str) -> None:
    assert split_front_matter(text) == (fields, body)
