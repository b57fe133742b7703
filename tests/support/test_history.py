"""The notation says what it means: a test that reads wrong would prove nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.support.history import broken_histories, parse, show, sound_histories, words

from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    SystemPromptPart,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)


def test_the_notation_reads_as_messages() -> None:
    assert parse("user: hi, system rules / model: thought hm, on it, call a read / user: failed a read = no") == (
        CanonicalMessage(MessageRole.USER, (UserPromptPart("hi"), SystemPromptPart("rules"))),
        CanonicalMessage(
            MessageRole.ASSISTANT, (ThoughtPart("hm"), TextPart("on it"), ToolCallPart("read", {"of": "a"}, "a"))
        ),
        CanonicalMessage(MessageRole.USER, (ToolReturnPart("read", "no", "a", "failed"),)),
    )


@pytest.mark.parametrize(
    "notation",
    [
        "",
        "user: hi",
        "user:",
        "model: call a, call b read, call c ?, call ? write",
        "user: return a, denied b read, retried c = why, interrupted d, return ? ?",
        "user: hi, text not mine, thought nor this, retry again, other file / model: prompt nor mine, blank",
        "system: system rules, words",
    ],
)
def test_what_is_read_is_shown_as_it_was_written(notation: str) -> None:
    assert show(parse(notation)) == notation


@settings(max_examples=100, deadline=None)
@given(sound_histories)
def test_sound_histories_survive_the_notation_but_for_arguments(history: tuple[CanonicalMessage, ...]) -> None:
    assert show(parse(show(history))) == show(history)


def test_random_histories_are_of_every_kind() -> None:
    kinds: set[str] = set()

    @settings(max_examples=1000, deadline=None, database=None, derandomize=True)
    @given(broken_histories)
    def collect(history: tuple[CanonicalMessage, ...]) -> None:
        kinds.update(type(part).__name__ for message in history for part in message.parts)
        kinds.update(message.role for message in history)

    collect()
    assert len(kinds) == 8 + 3


def test_words_are_what_was_said_in_order() -> None:
    assert words(parse("user: hi, blank / model: thought hm, call a, yes / user: return a, retry so, ok")) == [
        "hi",
        "hm",
        "yes",
        "so",
        "ok",
    ]
