"""Display-safe text has no invisible, bidirectional or control characters."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.text.display_safe import display_safe, exact, mixed_scripts, one_line, with_blanks


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("npm test", "npm test"),
        ("naïve → ünïcode 漢字 😀", "naïve → ünïcode 漢字 😀"),
        ("a\nb", "a\nb"),
        ("a\tb\r\x1b[31mc\x00", "a\\tb\\r\\e[31mc\\x00"),
        ("rm \u202egpj.x", "rm \\u{202e}gpj.x"),
        ("a\u200b\u2066b\ufeff", "a\\u{200b}\\u{2066}b\\u{feff}"),
        ("a\u2028b\u0085", "a\\u{2028}b\\x85"),
        ("\u3164\u115f\u2800", "\\u{3164}\\u{115f}\\u{2800}"),
        ("\U000e0041", "\\u{e0041}"),
        ("\ud800", "\\u{d800}"),
        ("a\u00adb", "a\\xadb"),
    ],
)
def test_hidden_characters_are_escaped(text: str, shown: str) -> None:
    assert display_safe(text) == shown


def test_exact_escapes_blanks_that_look_like_a_space() -> None:
    assert (exact("ls\u00a0-l\nrm\u3000x y"), one_line("ls\u00a0-l\n")) == ("ls\\xa0-l\nrm\\u{3000}x y", "ls\\xa0-l\\n")


@given(st.text(st.characters(exclude_categories=())))
def test_display_safe_text_is_visible(text: str) -> None:
    shown = display_safe(text)
    assert all(char == "\n" or unicodedata.category(char)[0] != "C" for char in shown)
    shown.encode("utf-8")
    assert display_safe(shown) == shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("npm test", ()),
        ("git push p\u0430ypal", ("p\u0430ypal (\u0430 is CYRILLIC)",)),
        ("\u0441url x", ("\u0441url (\u0441 is CYRILLIC)",)),
        ("echo \u043f\u0440\u0438\u0432\u0435\u0442 na\u00efve \u6f22\u5b57", ()),
        ("l\uff53 -l", ("l\uff53 (\uff53 is FULLWIDTH)",)),
    ],
)
def test_words_of_several_scripts_are_named(text: str, found: tuple[str, ...]) -> None:
    assert mixed_scripts(text) == found


def test_blanks_and_line_ends_are_shown() -> None:
    assert with_blanks("ls  -l \nrm x\t\u00a0") == "ls··-l·⏎\nrm x\\t\\xa0"
