"""On a corpus of edits with the slips that models make, ours are right most often and never wrong."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.edit_corpus import RULES, Case, aider, codex, corpus, ours_edit, ours_patch, outcome


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return corpus()


def test_our_rules_are_ahead_of_the_others_and_never_wrong(cases: list[Case]) -> None:
    counts = {rule: Counter(outcome(case, rule) for case in cases) for _, rule in RULES}
    for ours, other in ((ours_edit, aider), (ours_patch, codex)):
        assert counts[ours]["wrong"] == 0
        assert counts[ours]["right"] > 0.95 * len(cases) > counts[other]["right"]


@pytest.mark.parametrize(("ours", "other"), [(ours_edit, aider), (ours_patch, codex)])
def test_what_another_rule_gets_right_ours_gets_right(cases: list[Case], ours: object, other: object) -> None:
    rules = [rule for _, rule in RULES if rule in (ours, other)]
    behind = [case.slip for case in cases if [outcome(case, rule) for rule in rules] == ["refused", "right"]]
    assert len(behind) <= len(cases) // 100, behind
