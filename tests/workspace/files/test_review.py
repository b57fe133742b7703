"""Law 9: a pending hunk is exactly what undoing it changes, and the user's text is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.workspace.edits.changes import FileChange
from pilotfish.workspace.edits.review import FileReview, carry_over

FILE = Path("/w/a.py")


def review(baseline: str | None, seen: str | None, current: str | None = None) -> FileReview:
    first = FileReview(FILE, FILE, _bytes(baseline), _bytes(seen))
    return first.now(_bytes(seen if current is None else current))


def undone(baseline: str, seen: str, current: str) -> str:
    """The text after every pending hunk was undone."""
    pending = review(baseline, seen, current)
    return (pending.undo(pending.hunks).seen or b"").decode()


@pytest.mark.parametrize(
    ("baseline", "seen", "current", "expected"),
    [
        ("a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n", "a\nb\nc\n"),
        # beside the hunk the user's change stays
        ("a\nb\nc\n", "a\nB\nc\n", "a\nB\nC\n", "a\nb\nC\n"),
        ("a\nb\nc\n", "a\nB\nc\n", "0\na\nB\nc\n", "0\na\nb\nc\n"),
        # inside it the user's words stay, the agent's go
        ("old = 1\n", "new = 2\n", "new = 2 + mine\n", "old = 1 + mine\n"),
        ("a\n", "a\nx = 1\ny = 2\n", "a\nx = 1\n# mine\ny = 2\n", "a\n# mine\n"),
        ("if a:\n  b\nelse c\n", "return a and b\n", "return a and b  # mine\n", "if a:\n  b\nelse c  # mine\n"),
        ("a\n", "a\nx = 1\ny = 2\n", "a\nx = 1\nrewritten\n", "a\nrewritten\n"),
        # what the user took back by hand is not undone twice
        ("a\nb\nc\n", "a\nB\nc\n", "a\nb\nc\n", "a\nb\nc\n"),
        ("a\nb\nc\nd\n", "a\nc\nd\n", "a\nb\nc\nD\n", "a\nb\nc\nD\n"),
        # the user removed the agent's lines
        ("a\n", "a\nx\n", "a\n", "a\n"),
        # the agent deleted lines, the user typed where they were
        ("a\nb\nc\n", "a\nc\n", "a\nmine\nc\n", "a\nmine\nb\nc\n"),
    ],
)
def test_undoing_keeps_what_the_user_typed(baseline: str, seen: str, current: str, expected: str) -> None:
    assert undone(baseline, seen, current) == expected


LINES = st.lists(st.sampled_from(["a", "b", "c = 1", "  d", ""]), max_size=8).map("\n".join)


@given(LINES, LINES, st.data())
def test_no_word_of_the_user_is_lost(baseline: str, seen: str, data: st.DataObject) -> None:
    current, typed = seen, list[str]()
    for number in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(current)))
        end = data.draw(st.integers(at, min(len(current), at + 3)))
        word = f" mine{number} "
        current = current[:at] + word + current[end:]
    typed = [f"mine{number}" for number in range(4) if f"mine{number}" in current]
    result = undone(baseline, seen, current)
    assert [word for word in typed if word not in result] == []


@given(LINES, LINES, LINES)
def test_a_hunk_is_exactly_what_its_undo_changes(baseline: str, seen: str, current: str) -> None:
    pending = review(baseline, seen, current)
    for hunk in pending.hunks:
        text = (pending.seen or b"").decode()
        without = pending.undo([hunk])
        assert (without.seen or b"").decode() == text[: hunk.start] + hunk.old + text[hunk.end :]
        assert len(without.hunks) <= len(pending.hunks)
        kept = pending.keep([hunk])
        assert kept.seen == pending.seen
    assert pending.undo(pending.hunks).seen == pending.baseline
    assert pending.keep(pending.hunks).baseline == pending.seen


@given(LINES, LINES)
def test_what_the_user_did_not_touch_is_carried_over_unchanged(baseline: str, seen: str) -> None:
    assert carry_over(baseline, seen, seen) == baseline
    assert carry_over(baseline, seen, baseline) == baseline
    assert carry_over(seen, seen, baseline) == baseline


def test_later_changes_of_the_agent_add_to_the_pending_ones() -> None:
    first = FileReview(FILE, FILE, b"a\nb\nc\n", b"A\nb\nc\n")
    second = first.after(
        FileChange(
            path=FILE, change="edited", before=b"A\nb\nmine\n", after=b"A\nB\nmine\n", added=1, removed=1, via="buffer"
        )
    )
    assert (second.baseline, second.seen) == (b"a\nb\nmine\n", b"A\nB\nmine\n")


def test_line_ends_and_encoding_of_the_file_are_kept() -> None:
    pending = FileReview(FILE, FILE, b"a\r\n\xe9\r\nc\r\n", b"A\r\n\xe9\r\nC\r\n")
    assert [hunk.line for hunk in pending.hunks] == [0, 2]
    assert pending.undo(pending.hunks[:1]).seen == b"a\r\n\xe9\r\nC\r\n"
    assert pending.keep(pending.hunks[1:]).baseline == b"a\r\n\xe9\r\nC\r\n"


def test_the_kind_of_change_is_that_of_the_whole_review() -> None:
    new, gone = review(None, "x\n"), review("x\n", None)
    moved = FileReview(FILE, Path("/w/b.py"), b"x\n", b"x\n")
    assert [new.change, gone.change, moved.change, review("x\n", "x\n").change] == [
        "created",
        "deleted",
        "renamed",
        None,
    ]
    assert new.now(b"x\nmine\n").baseline is None


def test_a_hunk_that_has_changed_has_another_id() -> None:
    before, after = review("a\n", "b\n"), review("a\n", "b\n", "b mine\n")
    assert before.hunks[0].id != after.hunks[0].id
    assert before.hunks[0].id == review("a\n", "b\n").hunks[0].id


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
