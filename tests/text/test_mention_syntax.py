"""File mentions in a prompt are written and parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.text.mention_syntax import Mention, mentions, written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look at @src/a.py, then @b.py#L3-L9.", [Mention("src/a.py"), Mention("b.py", (3, 9))]),
        (
            'see @"my file.txt"#4 and @"app/[id]/page.tsx"',
            [Mention("my file.txt", (4, 4)), Mention("app/[id]/page.tsx")],
        ),
        ("mail me@example.com, or @@both", []),
        ('an open quote @"is none', []),
        ("@a.py#x", [Mention("a.py")]),
    ],
)
def test_mentions_are_found(text: str, expected: list[Mention]) -> None:
    assert list(mentions(text)) == expected


@given(st.text(st.characters(exclude_characters='\n"', exclude_categories=("Cs",)), min_size=1))
def test_a_written_name_is_parsed_again(name: str) -> None:
    assert list(mentions(f"see @{written(name)} please")) == [Mention(name)]
