from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.errors import ToolError
from pilotfish.workspace.edits.matching import Ambiguous, NotFound, Replacement, match
from pilotfish.workspace.files.encoding import check, replace

CODE = """\
def area(width, height):
    if width < 0:
        raise ValueError("width")
    return width * height


def perimeter(width, height):
    return 2 * (width + height)
"""


def edited(text: str, *pairs: tuple[str, str], everywhere: bool = False) -> tuple[str, tuple[str, ...]]:
    matched = match(text, [Replacement(old=old, new=new, everywhere=everywhere) for old, new in pairs])
    check(text, matched.hunks)
    return replace(text, matched.hunks), matched.notes


def test_the_exact_text_is_replaced() -> None:
    assert edited(CODE, ("return width * height", "return 0")) == (CODE.replace("width * height", "0"), ())


def test_a_part_of_a_line_is_enough() -> None:
    assert edited("abc def ghi\n", ("def", "DEF")) == ("abc DEF ghi\n", ())


def test_several_edits_are_made_each_on_the_result_of_those_before() -> None:
    assert edited("one\ntwo\n", ("one", "1\nnew"), ("new\ntwo", "2")) == ("1\n2\n", ())


def test_all_edits_or_none() -> None:
    with pytest.raises(NotFound, match=r"^edit 2: old_string is not in the file"):
        edited("one\ntwo\n", ("one", "1"), ("three", "3"))


def test_an_ambiguous_quote_shows_where_it_could_be() -> None:
    with pytest.raises(Ambiguous) as caught:
        edited(CODE, ("(width, height):", "(w, h):"))
    assert str(caught.value) == (
        "old_string is in the file 2 times. Quote more lines around the one that is meant, or set replace_all.\n"
        "line 1:\n     1\tdef area(width, height):\n     2\t    if width < 0:\n"
        "line 7:\n     6\t\n     7\tdef perimeter(width, height):\n     8\t    return 2 * (width + height)"
    )


def test_overlapping_places_are_ambiguous_too() -> None:
    with pytest.raises(Ambiguous, match="2 times"):
        edited("aaa\n", ("aa", "b"))


def test_replace_all_replaces_every_place() -> None:
    assert edited("a b a\na\n", ("a", "aa"), everywhere=True) == ("aa b aa\naa\n", ())


def test_crlf_in_the_quote_does_not_matter() -> None:
    assert edited("one\ntwo\n", ("one\r\ntwo\r\n", "1\r\n2\r\n")) == ("1\n2\n", ())


def test_spaces_at_line_ends_do_not_matter_and_stay_where_nothing_changes() -> None:
    assert edited("one  \ntwo\t\nthree\n", ("one\ntwo\nthree", "one\ntwo\n3")) == (
        "one  \ntwo\t\n3\n",
        ("matched without spaces at line ends",),
    )


def test_typographic_quotes_are_found_and_kept() -> None:
    assert edited("say “hello” – now\n", ('"hello" - now', '"hello" - later')) == (
        "say “hello” – later\n",
        ("matched with other quotes, dashes or spaces",),
    )


def test_non_breaking_spaces_are_found() -> None:
    assert edited("a\u00a0b c\n", ("a b c", "a b d"))[0] == "a\u00a0b d\n"


def test_a_quote_with_too_little_indentation_is_indented_like_the_file() -> None:
    result, notes = edited(
        CODE,
        ('if width < 0:\n    raise ValueError("width")', 'if width < 0:\n    raise ValueError("negative")\nwidth += 0'),
    )
    assert result == CODE.replace('"width")', '"negative")\n    width += 0')
    assert notes == ("matched with other indentation",)


def test_a_quote_with_too_much_indentation_is_indented_like_the_file() -> None:
    result, _ = edited(
        CODE, ("        return 2 * (width + height)", "        return 2 * width + 2 * height\n        # done")
    )
    assert result == CODE.replace("2 * (width + height)", "2 * width + 2 * height\n    # done")


def test_spaces_for_tabs_are_turned_into_tabs() -> None:
    text = "class A:\n\tdef f(self):\n\t\treturn 1\n"
    result, _ = edited(
        text, ("    def f(self):\n        return 1", "    def f(self):\n        if x:\n            return 2")
    )
    assert result == "class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn 2\n"


def test_tabs_for_spaces_are_turned_into_spaces() -> None:
    text = "class A:\n  def f(self):\n    return 1\n"
    result, _ = edited(text, ("\tdef f(self):\n\t\treturn 1", "\tdef f(self):\n\t\tif x:\n\t\t\treturn 2"))
    assert result == "class A:\n  def f(self):\n    if x:\n      return 2\n"


def test_another_shape_of_indentation_is_not_a_match() -> None:
    text = "if a:\n    b\nc\n"
    with pytest.raises(NotFound):
        edited(text, ("if a:\n    b\n    c", "x"))


def test_copied_line_numbers_are_taken_away() -> None:
    result, notes = edited(CODE, ("     4\t    return width * height", "     4\t    return height"))
    assert result == CODE.replace("width * height", "height")
    assert notes == ("line numbers removed",)


def test_blank_lines_around_a_quote_do_not_matter() -> None:
    assert edited("a\nb\nc\n", ("\n\nb\n\n", "\n\nB\n\n"))[0] == "a\nB\nc\n"


def test_a_fuzzy_match_in_two_places_is_ambiguous() -> None:
    with pytest.raises(Ambiguous, match="2 times"):
        edited("  a\n  b\nx\n    a\n    b\n", ("a\nb", "c"))


def test_lines_matched_loosely_can_be_deleted() -> None:
    assert edited("a\nb  \nc  \nd\n", ("b\nc\n", ""))[0] == "a\nd\n"
    assert edited("a\nb  ", ("b\n", ""))[0] == "a\n"


def test_what_is_not_there_is_an_error_that_shows_the_nearest_text() -> None:
    with pytest.raises(NotFound) as caught:
        edited(CODE, ("    if width <= 0:\n        raise ValueError('height')", "x"))
    assert str(caught.value) == (
        "old_string is not in the file. The nearest text is:\n     2\t    if width < 0:\n"
        '     3\t        raise ValueError("width")\nQuote it exactly, or read the file again.'
    )


def test_what_is_nowhere_near_says_so() -> None:
    with pytest.raises(NotFound, match="Read the file again and quote it exactly"):
        edited(CODE, ("zzzzzzzzzz", "x"))


def test_an_empty_quote_is_only_for_an_empty_file() -> None:
    assert edited("", ("", "new\n")) == ("new\n", ())
    with pytest.raises(ToolError, match="old_string is empty"):
        edited("text", ("", "new"))


def test_an_edit_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(ToolError, match="nothing would change"):
        edited("a\n", ("a", "a"))


words = st.lists(st.sampled_from(["a", "b", "  c", "\td", ""]), max_size=8).map("\n".join)


@given(words, st.data())
def test_every_unique_quote_is_found(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    old = text[start:end]
    if not old or text.count(old) != 1 or text.find(old, text.find(old) + 1) >= 0:
        return
    assert edited(text, (old, "NEW")) == (text[:start] + "NEW" + text[end:], ())


@given(words, words, words)
def test_a_match_is_an_edit_or_an_error_and_never_anything_else(text: str, old: str, new: str) -> None:
    with contextlib.suppress(ToolError):
        edited(text, (old, new))
