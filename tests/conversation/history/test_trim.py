"""Trimming: the threshold, the token budget, steps that keep the prompt cache valid, and complete call pairs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.history import sound_histories, words
from tests.support.tries import tries

from pilotfish.conversation.history.trim import TRIMMED_OUTPUT, Trimmer, estimate_tokens, trim
from pilotfish.conversation.history.validation import find_faults
from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    OtherPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)


def rounds(count: int, *, tokens: int = 1, first: int = 0) -> tuple[CanonicalMessage, ...]:
    """Return a prompt and `count` responses with one call each, whose output has so many tokens."""
    messages = [CanonicalMessage(MessageRole.USER, (UserPromptPart("go"),))]
    for number in range(first, first + count):
        call = ToolCallPart("read", {"path": f"f{number}"}, f"c{number}")
        messages.append(CanonicalMessage(MessageRole.ASSISTANT, (TextPart(f"step {number}"), call)))
        answer = ToolReturnPart("read", "o" * 4 * tokens, f"c{number}")
        messages.append(CanonicalMessage(MessageRole.USER, (answer,)))
    return tuple(messages)


def read(messages: tuple[CanonicalMessage, ...]) -> tuple[CanonicalMessage, ...]:
    """Return the history with an answer of the model and the next prompt."""
    answer = CanonicalMessage(MessageRole.ASSISTANT, (TextPart("done"),))
    return (*messages, answer, CanonicalMessage(MessageRole.USER, (UserPromptPart("more"),)))


def folded(messages: tuple[CanonicalMessage, ...]) -> list[str]:
    """Return the ids of the calls that are folded into a line."""
    text = "\n".join(words(messages))
    return re.findall(r"^\[left out: .*, call_id (\S+)\]$", text, re.MULTILINE)


def bare(messages: tuple[CanonicalMessage, ...]) -> list[str]:
    """Return the ids of the calls that are sent without arguments."""
    return [call.tool_call_id for message in messages for call in message.calls if call.args == {}]


def silent(messages: tuple[CanonicalMessage, ...]) -> list[str]:
    """Return the ids of the calls without output."""
    return [part.tool_call_id for message in messages for part in message.returns if part.content == TRIMMED_OUTPUT]


def unfolded(messages: tuple[CanonicalMessage, ...]) -> list[str]:
    """Return the words without the lines of folded calls."""
    return [text for text in words(messages) if not text.startswith("[left out: ")]


# ---- Rounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "kept", "threshold"),
    [(0, 3, 0), (3, 3, 0), (4, 3, 1), (10, 3, 7), (10, 0, 10), (2, 10, 0)],
)
def test_calls_before_the_threshold_are_one_line(total: int, kept: int, threshold: int) -> None:
    """threshold = total - tool_history_rounds, with a step of one call."""
    sent = trim(read(rounds(total)), tool_history_rounds=kept, step=1)
    assert folded(sent) == [f"c{number}" for number in range(threshold)]
    assert bare(sent) == silent(sent) == []


def test_a_folded_round_keeps_the_words_and_says_what_each_call_was_about() -> None:
    failed = CanonicalMessage(MessageRole.ASSISTANT, (ToolCallPart("bash", {"command": "make  all\n" * 40}, "b"),))
    history = (
        *rounds(1),
        failed,
        CanonicalMessage(MessageRole.USER, (ToolReturnPart("bash", "no", "b", "failed"), UserPromptPart("stop that"))),
        *rounds(1, first=1)[1:],
    )
    assert trim(history, tool_history_rounds=1, step=1) == (
        history[0],
        CanonicalMessage(MessageRole.ASSISTANT, (TextPart("step 0"),)),
        CanonicalMessage(
            MessageRole.USER,
            (
                UserPromptPart(
                    f"[left out: read f0, call_id c0]\n[left out: bash {('make all ' * 40)[:79]}… (failed), call_id b]"
                ),
                UserPromptPart("stop that"),
            ),
        ),
        *history[-2:],
    )


def test_two_thousand_folded_calls_cost_less_than_a_hundred_bytes_each() -> None:
    without_text = [
        replace(message, parts=tuple(part for part in message.parts if not isinstance(part, TextPart)))
        for message in rounds(2_010, tokens=100)
    ]
    sent = trim(without_text, tool_history_rounds=10)
    assert len(folded(sent)) == 2_000
    assert len(sent) == 1 + 2 * 10
    assert sum(len(text) for text in words(sent)) < 100 * 2_000


def test_by_default_the_threshold_moves_in_steps_and_keeps_enough_calls() -> None:
    cuts = [len(folded(trim(rounds(total), tool_history_rounds=10))) for total in range(41)]
    assert cuts == [0] * 20 + [10] * 10 + [20] * 10 + [30]
    assert [len(folded(trim(rounds(total), tool_history_rounds=100))) for total in (119, 120, 139, 140)] == [
        0,
        20,
        20,
        40,
    ]


def test_parallel_calls_are_cut_between_the_calls_of_one_response() -> None:
    calls = tuple(ToolCallPart("read", {"n": number}, f"c{number}") for number in range(3))
    history = (
        CanonicalMessage(MessageRole.USER, (UserPromptPart("go"),)),
        CanonicalMessage(MessageRole.ASSISTANT, calls),
        CanonicalMessage(MessageRole.USER, tuple(ToolReturnPart("read", "out", call.tool_call_id) for call in calls)),
    )
    sent = trim(read(history), tool_history_rounds=1, step=1)
    assert bare(sent) == silent(sent) == ["c0", "c1"]
    assert sent[1].parts == (*(replace(call, args={}) for call in calls[:2]), calls[2])


def test_unread_results_are_complete_with_any_settings() -> None:
    calls = tuple(ToolCallPart("read", {"n": number}, f"n{number}") for number in range(3))
    answers = tuple(ToolReturnPart("read", "o" * 4_000, call.tool_call_id) for call in calls)
    history = (
        *rounds(2),
        CanonicalMessage(MessageRole.ASSISTANT, calls),
        CanonicalMessage(MessageRole.USER, (*answers, UserPromptPart("by the way"))),
    )
    sent = trim(history, tool_history_rounds=0, protect_tokens=0, minimum_saved=1, step=1)
    assert folded(sent) == ["c0", "c1"]
    assert sent[-2:] == history[-2:]


def test_only_calls_and_returns_are_touched() -> None:
    history = (
        *rounds(5),
        CanonicalMessage(MessageRole.ASSISTANT, (OtherPart("builtin-tool-call", {"args": {"q": 1}}), TextPart("x"))),
    )
    sent = trim(history, tool_history_rounds=0, step=1)
    assert unfolded(sent) == words(history)


# ---- Budget --------------------------------------------------------------------------------------------------------


def test_old_outputs_are_pruned_beyond_the_protected_tokens_when_enough_is_saved() -> None:
    history = rounds(10, tokens=10_000)  # 100k tokens of output
    assert silent(trim(history, tool_history_rounds=99)) == [f"c{number}" for number in range(6)]
    assert bare(trim(history, tool_history_rounds=99)) == []


@pytest.mark.parametrize(("total", "pruned"), [(4, 0), (5, 0), (6, 2), (7, 2), (8, 4), (9, 4), (10, 6)])
def test_pruning_waits_until_twenty_thousand_tokens_are_saved(total: int, pruned: int) -> None:
    assert len(silent(trim(rounds(total, tokens=10_000), tool_history_rounds=99))) == pruned


def test_both_budget_limits_can_be_set() -> None:
    history = rounds(4, tokens=100)
    assert silent(trim(history, tool_history_rounds=99, protect_tokens=100, minimum_saved=100)) == ["c0", "c1", "c2"]
    everything = trim(read(history), tool_history_rounds=99, protect_tokens=0, minimum_saved=1)
    assert silent(everything) == ["c0", "c1", "c2", "c3"]
    assert silent(trim(history, tool_history_rounds=99, protect_tokens=100, minimum_saved=400)) == []


def test_one_huge_output_is_pruned_alone() -> None:
    history = (*rounds(1, tokens=50_000), *rounds(5, tokens=10_000, first=1)[1:])
    assert silent(trim(history, tool_history_rounds=99)) == ["c0"]


def test_an_output_that_is_not_text_is_counted_as_json() -> None:
    big = ToolReturnPart("read", {"lines": ["x" * 40] * 100}, "c0")
    call = CanonicalMessage(MessageRole.ASSISTANT, (ToolCallPart("read", {}, "c0"),))
    history = (*rounds(0), call, CanonicalMessage(MessageRole.USER, (big,)))
    assert silent(trim(read(history), tool_history_rounds=9, protect_tokens=0, minimum_saved=1000)) == ["c0"]
    assert silent(trim(read(history), tool_history_rounds=9, protect_tokens=0, minimum_saved=9000)) == []


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("漢字", 2)])
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


# ---- The prompt cache ----------------------------------------------------------------------------------------------


def test_what_is_sent_keeps_its_beginning_over_most_requests() -> None:
    """In two hundred rounds the sent history continues the previous one, except at the steps."""
    history = rounds(200, tokens=2_000)
    before: tuple[CanonicalMessage, ...] = ()
    broken = 0
    for end in range(1, len(history) + 1, 2):
        sent = trim(history[:end], tool_history_rounds=10)
        broken += sent[: len(before)] != before
        before = sent
    assert broken == 19


def test_a_history_that_needs_no_trimming_is_unchanged() -> None:
    history = rounds(5)
    assert all(before is after for before, after in zip(history, trim(history, tool_history_rounds=10), strict=True))


# ---- Laws ----------------------------------------------------------------------------------------------------------


@settings(max_examples=tries(150), deadline=None)
@given(sound_histories, st.integers(0, 5), st.integers(0, 40), st.integers(1, 40), st.integers(1, 4))
def test_a_trimmed_history_is_sound_and_keeps_every_word_and_names_every_call(
    history: tuple[CanonicalMessage, ...], kept: int, protect: int, saved: int, step: int
) -> None:
    sent = trim(history, tool_history_rounds=kept, protect_tokens=protect, minimum_saved=saved, step=step)
    assert find_faults(sent) == ()
    assert [text for text in unfolded(sent) if text != "hm"] == [text for text in words(history) if text != "hm"]
    assert [*folded(sent), *(call.tool_call_id for call in _all_calls(sent))] == [
        call.tool_call_id for call in _all_calls(history)
    ]
    newest = [call for message in history for call in message.calls][-kept:] if kept else []
    assert _all_calls(sent)[len(_all_calls(sent)) - len(newest) :] == newest


def _all_calls(messages: tuple[CanonicalMessage, ...]) -> list[ToolCallPart]:
    return [call for message in messages for call in message.calls]


@settings(max_examples=tries(60), deadline=None)
@given(sound_histories, sound_histories, st.integers(0, 4), st.integers(0, 40), st.integers(1, 20))
def test_a_growing_history_is_trimmed_like_a_new_one(
    first: tuple[CanonicalMessage, ...], other: tuple[CanonicalMessage, ...], kept: int, protect: int, saved: int
) -> None:
    trimmer = Trimmer(tool_history_rounds=kept, protect_tokens=protect, minimum_saved=saved)
    for history in (first, other, (*first, *other)):
        for count in range(len(history) + 1):
            whole = trim(history[:count], tool_history_rounds=kept, protect_tokens=protect, minimum_saved=saved)
            assert trimmer.trim(history[:count]) == list(whole)
