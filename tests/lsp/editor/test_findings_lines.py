"""Where the line of a finding is after the text has changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.lsp.editor.findings import moved

LINES = st.lists(st.sampled_from(["a", "b", "", "  c"]), max_size=8)


@given(LINES, LINES, LINES, LINES)
def test_a_line_that_is_not_touched_is_found_again(head: list[str], old: list[str], new: list[str], tail: list[str]):
    before, after = [*head, "here", *old, *tail], [*head, "here", *new, *tail]
    assert moved(len(head), "here", before, after) == len(head)
    before, after = [*head, *old, "here", *tail], [*head, *new, "here", *tail]
    assert moved(len(head) + len(old), "here", before, after) == len(head) + len(new)


@pytest.mark.parametrize(
    ("line", "old", "new", "found"),
    [
        (1, "a x b", "a y b", 1),  # changed: where the change is
        (1, "a x b", "a b", 1),  # removed: where the change is
        (1, "a x b c d", "a 1 x b 2 d", 2),  # between two changes
        (2, "a b x c x d", "1 a b x c x d 2", 3),  # the nearest of two
        (0, "x", "", 0),
    ],
)
def test_a_line_between_changes(line: int, old: str, new: str, found: int):
    assert moved(line, "x", old.split(), new.split()) == found
