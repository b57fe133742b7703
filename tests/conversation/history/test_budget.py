"""The default rule of the history: nothing is cut until the window needs it, then the oldest rounds are folded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conversation.history.test_trim import folded, rounds, unfolded
from tests.support.history import sound_histories, words
from tests.support.tries import tries

from pilotfish.conversation.history.budget import FOLD_ABOVE, Budget, Kept
from pilotfish.conversation.history.validation import find_faults
from pilotfish.conversation.messages import CanonicalMessage, MessageRole, ToolCallPart, ToolReturnPart

KEPT = Kept("update_plan", frozenset({"write_file"}))


def budget(window: int | None, protect: int = 40_000, saved: int = 20_000) -> Budget:
    return Budget(window, 1_000, protect_tokens=protect, minimum_saved=saved, kept=KEPT)


def sent(messages: tuple[CanonicalMessage, ...], window: int | None) -> tuple[CanonicalMessage, ...]:
    return tuple(budget(window).trim(messages))


def with_round(
    messages: tuple[CanonicalMessage, ...], name: str, args: dict[str, Any], output: str = "ok", **usage: int
) -> tuple[CanonicalMessage, ...]:
    call = ToolCallPart(name, args, f"{name}{len(messages)}")
    response = CanonicalMessage(MessageRole.ASSISTANT, (call,), {"usage": usage} if usage else {})
    return (*messages, response, CanonicalMessage(MessageRole.USER, (ToolReturnPart(name, output, call.tool_call_id),)))


def test_nothing_is_cut_while_the_window_has_room_or_is_unknown() -> None:
    history = rounds(300, tokens=500)  # 150,000 tokens
    assert sent(history, None) == history
    assert sent(history, 1_000_000) == history


def test_the_oldest_rounds_are_folded_in_steps_when_the_window_needs_it() -> None:
    history = rounds(200, tokens=1_000)
    ours, before, broken = budget(100_000), list[CanonicalMessage](), 0
    for end in range(1, len(history) + 1, 2):
        now = ours.trim(history[:end])
        broken += now[: len(before)] != before
        before = now
        assert ours.expected <= FOLD_ABOVE * 100_000
    ids = folded(tuple(before))
    assert ids == [f"c{number}" for number in range(len(ids))]
    assert 100 < len(ids) < 190
    assert broken < 10  # the provider's prompt cache was lost this often in two hundred rounds


def test_the_provider_counts_and_not_the_estimate() -> None:
    """The text is short, but the provider says that it fills the window."""
    history = rounds(20, tokens=700)
    assert folded(sent(history, 32_000)) == []
    history = with_round(history, "read", {"path": "z"}, input_tokens=31_000, output_tokens=10)
    assert folded(sent(history, 32_000)) != []


def test_the_newest_plan_edits_of_current_files_and_unread_results_are_kept() -> None:
    history = with_round(rounds(0), "update_plan", {"steps": [{"content": "old"}]})
    history = with_round(history, "update_plan", {"steps": [{"content": "new"}]})
    history = with_round(history, "write_file", {"path": "done.py", "content": "x" * 8_000})
    history = with_round(history, "write_file", {"path": "current.py", "content": "y" * 8_000})
    for number in range(22):
        history = with_round(history, "read", {"path": "current.py" if number == 21 else f"f{number}"}, "o" * 2_000)
    last = with_round(history, "bash", {"command": "make"}, "r" * 4_000, input_tokens=31_000, output_tokens=10)
    ours = budget(32_000, protect=4_000)
    now = tuple(ours.trim(last))
    kept = [(call.tool_name, call.args.get("path")) for message in now for call in message.calls]
    assert ("update_plan", None) in kept
    assert ("write_file", "current.py") in kept
    assert ("write_file", "done.py") not in kept
    assert kept.count(("update_plan", None)) == 1
    assert now[-2:] == last[-2:]
    assert ours.just_folded == len(folded(now))


def test_a_full_window_is_reported_when_folding_is_not_enough() -> None:
    ours = budget(32_000)
    history = rounds(1)
    ours.trim(history)
    assert not ours.is_full
    ours.trim(with_round(history, "read", {"path": "z"}, input_tokens=31_000, output_tokens=10))
    assert ours.is_full


@pytest.mark.parametrize("sizes", [[60_000] * 3, [100, 200, 200_000], [15_000] * 9])
def test_the_results_of_one_round_take_only_a_part_of_the_window(sizes: list[int]) -> None:
    calls = [ToolCallPart("read", {"n": number}, f"c{number}") for number in range(len(sizes))]
    answers = [ToolReturnPart("read", "o" * size, f"c{number}") for number, size in enumerate(sizes)]
    response = CanonicalMessage(MessageRole.ASSISTANT, tuple(calls))
    request = CanonicalMessage(MessageRole.USER, tuple(answers))
    shown = sent((*rounds(0), response, request), 32_000)[-1].returns
    assert sum(len(part.text) for part in shown) < 0.45 * 32_000 * 3
    assert all("left out to fit" in part.text or part in answers for part in shown)
    assert [len(part.text) for part in shown if part in answers] == [size for size in sizes if size <= 200]


@settings(max_examples=tries(80), deadline=None)
@given(sound_histories, sound_histories, st.integers(1_001, 1_200), st.integers(0, 40), st.integers(1, 20))
def test_a_growing_history_is_sound_and_sent_like_a_new_one(
    first: tuple[CanonicalMessage, ...], other: tuple[CanonicalMessage, ...], window: int, protect: int, saved: int
) -> None:
    second = tuple(replace(message, parts=tuple(_renamed(part) for part in message.parts)) for message in other)
    ours = budget(window, protect, saved)
    for history in (first, second, (*first, *second)):
        for count in range(len(history) + 1):
            now = ours.trim(history[:count])
            assert now == budget(window, protect, saved).trim(history[:count])
            if not find_faults(history[:count]):
                assert find_faults(now) == ()
                expected = [text for text in words(history[:count]) if text != "hm"]
                assert [text for text in unfolded(tuple(now)) if text != "hm"] == expected


def _renamed(part: Any) -> Any:
    return replace(part, tool_call_id=f"o{part.tool_call_id}") if hasattr(part, "tool_call_id") else part
