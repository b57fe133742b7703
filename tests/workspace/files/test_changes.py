from __future__ import annotations

from pathlib import Path
from typing import Literal

from pilotfish.workspace.edits.changes import FileChange, Refusal, UndoStep, steps

A, B, C = Path("/w/a"), Path("/w/b"), Path("/w/c")
LINES = "".join(f"line {number}\n" for number in range(1, 11))


def change(path: Path, before: str | None, after: str | None, old: Path | None = None) -> FileChange:
    kind: Literal["created", "edited", "deleted", "renamed"] = "edited"
    if before is None:
        kind = "created"
    elif after is None:
        kind = "deleted"
    elif old is not None:
        kind = "renamed"
    return FileChange(
        path=path,
        change=kind,
        before=None if before is None else before.encode(),
        after=None if after is None else after.encode(),
        added=0,
        removed=0,
        via="disk",
        old_path=old,
    )


def test_an_edit_goes_back_and_forth() -> None:
    changes = [change(A, "1", "2")]
    assert steps(changes, "undo") == ((UndoStep(A, b"2", A, b"1"),), ())
    assert steps(changes, "redo") == ((UndoStep(A, b"1", A, b"2"),), ())


def test_several_edits_of_a_file_are_one_step() -> None:
    assert steps([change(A, "1", "2"), change(B, "x", "y"), change(A, "2", "3")], "undo") == (
        (UndoStep(B, b"y", B, b"x"), UndoStep(A, b"3", A, b"1")),
        (),
    )


def test_a_file_that_came_is_removed_and_one_that_went_comes_back() -> None:
    assert steps([change(A, None, "1"), change(B, "2", None)], "undo") == (
        (UndoStep(B, None, B, b"2"), UndoStep(A, b"1", A, None)),
        (),
    )


def test_a_file_that_came_and_went_is_nothing_to_do() -> None:
    assert steps([change(A, None, "1"), change(A, "1", None)], "undo") == ((), ())


def test_renames_are_followed() -> None:
    changes = [change(A, "1", "2"), change(B, "2", "2", old=A), change(B, "2", "3")]
    assert steps(changes, "undo") == ((UndoStep(B, b"3", A, b"1"),), ())
    assert steps(changes, "redo") == ((UndoStep(A, b"1", B, b"3"),), ())


def test_a_path_is_free_before_another_file_returns_to_it() -> None:
    changes = [change(B, "1", "1", old=A), change(A, None, "new")]
    assert steps(changes, "undo")[0] == (UndoStep(A, b"new", A, None), UndoStep(B, b"1", A, b"1"))
    assert steps(changes, "redo")[0] == (UndoStep(A, b"1", B, b"1"), UndoStep(A, None, A, b"new"))


def test_what_others_changed_between_two_edits_is_kept() -> None:
    first = LINES.replace("line 2\n", "agent\n")
    typed = first.replace("line 5\n", "user\n")
    second = typed.replace("line 9\n", "agent\n")
    changes = [change(A, LINES, first), change(A, typed, second)]
    kept = LINES.replace("line 5\n", "user\n").encode()
    assert steps(changes, "undo") == ((UndoStep(A, second.encode(), A, kept),), ())
    assert steps(changes, "redo") == ((UndoStep(A, kept, A, second.encode()),), ())


def test_what_others_changed_in_the_same_lines_is_refused() -> None:
    first = LINES.replace("line 2\n", "agent\n")
    typed = first.replace("agent\n", "agent and user\n")
    second = typed.replace("line 9\n", "agent\n")
    why = "it was also changed by somebody else during the turn"
    assert steps([change(A, LINES, first), change(A, typed, second)], "undo") == ((), (Refusal(A, why),))


def test_a_file_that_others_made_again_in_between_is_refused() -> None:
    changes = [change(A, "1", None), change(A, "theirs", "2")]
    assert [refusal.path for refusal in steps(changes, "undo")[1]] == [A]


def test_the_form_of_the_file_is_kept_when_others_changed_it_too() -> None:
    first = b"a\r\nB\r\nc\r\nd\r\ne\r\n"
    typed = b"a\r\nB\r\nc\r\nd\r\nE\r\n"
    second = b"a\r\nB\r\nc\r\nd\r\nE\r\nf\r\n"
    changes = [
        FileChange(
            path=A, change="edited", before=b"a\r\nb\r\nc\r\nd\r\ne\r\n", after=first, added=0, removed=0, via="disk"
        ),
        FileChange(path=A, change="edited", before=typed, after=second, added=0, removed=0, via="disk"),
    ]
    assert steps(changes, "undo")[0] == (UndoStep(A, second, A, b"a\r\nb\r\nc\r\nd\r\nE\r\n"),)
