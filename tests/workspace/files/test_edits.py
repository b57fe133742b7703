from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.edits.hunks import Conflict, compose, count, diff, lines_of, narrow, rebase, unified_diff
from pilotfish.workspace.files.encoding import check, replace

texts = st.lists(st.sampled_from(["a", "b", "c", "", "\x0c", "é\u2028"]), max_size=12).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "\n".join([*lines, ""])])
)
LINES = "".join(f"line {number}\n" for number in range(1, 11))


def edit(text: str, old: str, new: str) -> tuple[Hunk, ...]:
    at = text.index(old)
    return (Hunk(at, at + len(old), new),)


@given(texts, texts)
def test_a_diff_makes_the_second_text_of_the_first(before: str, after: str) -> None:
    hunks = diff(before, after)
    check(before, hunks)
    assert replace(before, hunks) == after


@given(texts, texts)
def test_a_diff_is_of_whole_lines(before: str, after: str) -> None:
    for hunk in diff(before, after):
        assert hunk.start == 0 or before[hunk.start - 1] == "\n"
        assert hunk.end in (hunk.start, len(before)) or before[hunk.end - 1] == "\n"


@given(texts, texts)
def test_narrow_hunks_make_the_same_text(before: str, after: str) -> None:
    hunks = narrow(before, (Hunk(0, len(before), after),))
    check(before, hunks)
    assert replace(before, hunks) == after


def test_narrow_hunks_leave_what_stays() -> None:
    assert narrow("one\ntwo\nthree\n", (Hunk(0, 14, "one\n2\nthree\n"),)) == (Hunk(4, 7, "2"),)


def test_the_diff_of_a_huge_change_is_one_hunk() -> None:
    before, after = "a\n" * 150_000, "b\n" * 150_000
    assert diff(before, after) == (Hunk(0, len(before), after),)


@given(texts, st.data())
def test_composed_replacements_are_the_replacements_one_after_another(text: str, data: st.DataObject) -> None:
    hunks: tuple[Hunk, ...] = ()
    working = text
    for _ in range(data.draw(st.integers(0, 5))):
        ends = sorted(data.draw(st.lists(st.integers(0, len(working)), max_size=6)))
        later = [
            Hunk(start, end, data.draw(st.sampled_from(["", "x", "yy\n", "zzz"])))
            for start, end in zip(ends[::2], ends[1::2], strict=False)
        ]
        hunks = compose(hunks, later)
        working = replace(working, later)
    check(text, hunks)
    assert replace(text, hunks) == working


@given(texts, texts)
def test_a_rebase_over_nothing_changes_nothing(base: str, after: str) -> None:
    assert rebase(diff(base, after), base, base) == diff(base, after)


@given(texts, texts)
def test_a_rebase_over_the_same_change_leaves_nothing_to_do(base: str, after: str) -> None:
    assert rebase(diff(base, after), base, after) == ()


def test_a_hunk_away_from_the_users_change_is_moved_with_its_lines() -> None:
    current = LINES.replace("line 2\n", "line 2\nnew\n")
    hunks = rebase(edit(LINES, "line 8", "LINE 8"), LINES, current)
    assert replace(current, hunks) == current.replace("line 8", "LINE 8")


def test_a_hunk_before_the_users_change_stays_where_it_is() -> None:
    current = LINES.replace("line 9\n", "")
    assert rebase(edit(LINES, "line 2", "LINE 2"), LINES, current) == edit(LINES, "line 2", "LINE 2")


@pytest.mark.parametrize(
    "typed",
    [
        LINES.replace("line 5", "line five"),  # the line itself
        LINES.replace("line 4", "line four"),  # the line before
        LINES.replace("line 6", "line six"),  # the line after
        LINES.replace("line 5\n", "new\nline 5\n"),  # an insertion right before
        LINES.replace("line 5\n", "line 5\nnew\n"),  # and right after
        LINES.replace("line 5\n", ""),
        "",
    ],
)
def test_a_hunk_that_touches_the_users_change_is_a_conflict(typed: str) -> None:
    with pytest.raises(Conflict):
        rebase(edit(LINES, "line 5", "LINE 5"), LINES, typed)


def test_a_conflict_names_only_the_changes_that_are_in_the_way() -> None:
    typed = LINES.replace("line 1\n", "line one\n").replace("line 5\n", "line five\n")
    with pytest.raises(Conflict) as caught:
        rebase(edit(LINES, "line 5", "LINE 5"), LINES, typed)
    assert caught.value.theirs == edit(LINES, "line 5\n", "line five\n")


def test_of_several_hunks_those_already_made_are_left_out() -> None:
    current = LINES.replace("line 2", "LINE 2")
    ours = (*edit(LINES, "line 2", "LINE 2"), *edit(LINES, "line 8", "LINE 8"))
    assert replace(current, rebase(ours, LINES, current)) == current.replace("line 8", "LINE 8")


@given(st.lists(st.sampled_from("abc"), min_size=3, max_size=10), st.data())
def test_a_rebased_edit_keeps_every_word_of_both_sides(letters: list[str], data: st.DataObject) -> None:
    base = "".join(f"{letter}{number}\n" for number, letter in enumerate(letters))
    lines = lines_of(base)
    ours = list(lines)
    ours[data.draw(st.integers(0, len(lines) - 1))] = "ours\n"
    theirs = list(lines)
    theirs.insert(data.draw(st.integers(0, len(lines))), "theirs\n")
    current = "".join(theirs)
    try:
        merged = replace(current, rebase(diff(base, "".join(ours)), base, current))
    except Conflict:
        return
    assert merged.count("ours\n") == merged.count("theirs\n") == 1
    assert set(lines_of(merged)) == set(ours) | {"theirs\n"}


def test_lines_are_counted_as_added_and_removed() -> None:
    assert count("a\nb\nc\n", "a\nB\nB2\nc\nd") == (3, 1)
    assert count("", "a\nb") == (2, 0)
    assert count("a\nb", "") == (0, 2)


def test_a_unified_diff_reads_as_usual() -> None:
    after = LINES.replace("line 2\n", "LINE 2\n").replace("line 10\n", "line 10")
    assert unified_diff(LINES, after, "x.txt") == (
        "--- x.txt\n+++ x.txt\n"
        "@@ -1,5 +1,5 @@\n line 1\n-line 2\n+LINE 2\n line 3\n line 4\n line 5\n"
        "@@ -7,4 +7,4 @@\n line 7\n line 8\n line 9\n-line 10\n+line 10\n\\ No newline at end of file\n"
    )


def test_a_diff_from_nothing_starts_at_zero() -> None:
    assert unified_diff("", "a\n", "x") == "--- x\n+++ x\n@@ -0,0 +1,1 @@\n+a\n"
    assert unified_diff("a\n", "", "x") == "--- x\n+++ x\n@@ -1,1 +0,0 @@\n-a\n"
    assert unified_diff("a\n", "a\n", "x") == ""


@given(texts, texts)
def test_a_unified_diff_can_be_applied(before: str, after: str) -> None:
    assert _patched(before, unified_diff(before, after, "x")) == after


def _patched(before: str, patch: str) -> str:
    old = lines_of(before)
    rows = lines_of(patch)[2:]
    result: list[str] = []
    at = 0
    for index, row in enumerate(rows):
        if row.startswith("@@"):
            start, size = (int(part) for part in row.split()[1][1:].split(","))
            start = start - 1 if size else start
            result += old[at:start]
            at = start
            continue
        if row.startswith("\\"):
            continue
        line = row[1:]
        if index + 1 < len(rows) and rows[index + 1].startswith("\\"):
            line = line.removesuffix("\n")
        if row[0] in " -":
            assert old[at] == line
            at += 1
        if row[0] in " +":
            result.append(line)
    return "".join(result + old[at:])
