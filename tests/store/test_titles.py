from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.store.titles import MAX_TITLE_CHARS, shorten, title_of


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ([{"type": "text", "text": "Mend the net"}], "Mend the net"),
        ([{"type": "text", "text": "\n\n  # Mend  the\tnet\nand the boat"}], "Mend the net"),
        ([{"type": "text", "text": "- [ ] one\n- two"}], "[ ] one"),
        ([{"type": "text", "text": "1. first do this"}], "first do this"),
        ([{"type": "text", "text": "```\nTraceback\n```"}], "Traceback"),
        ([{"type": "text", "text": "???"}, {"type": "text", "text": "Why"}], "Why"),
        ([{"type": "resource", "uri": "file:///src/net.py"}, {"type": "text", "text": "Explain"}], "Explain"),
        ([{"type": "resource", "uri": "file:///src/net.py"}], "net.py"),
        ([{"type": "image", "data": "", "mimeType": "image/png"}], "Image"),
        ([], ""),
    ],
)
def test_a_title_is_generated_from_a_prompt(prompt: list[dict[str, Any]], title: str):
    assert title_of(prompt) == title


def test_a_long_title_is_cut_at_a_word():
    assert (
        shorten("Mend the net, and then the boat, and then the house, and everything else")
        == "Mend the net, and then the boat, and then the house, and…"
    )


def test_a_long_word_is_cut_at_the_limit():
    assert shorten("x" * 200) == "x" * (MAX_TITLE_CHARS - 1) + "…"


@given(st.text(max_size=300))
def test_a_title_is_one_short_line(text: str):
    title = title_of([{"type": "text", "text": text}])
    assert len(title) <= MAX_TITLE_CHARS
    assert len(title.splitlines()) <= 1
