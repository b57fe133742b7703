"""What is sent of a conversation that grows: the same as of one that is looked at for the first time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage
from tests.core.test_trim import rounds
from tests.support.history import sound_histories

from pilotfish.core.messages import CanonicalMessage
from pilotfish.engine.adapter import from_canonical, to_canonical
from pilotfish.engine.sending import Sending
from pilotfish.settings import Settings


def sending() -> Sending:
    """One that cuts early, so that the cut moves often."""
    return Sending(Settings(tool_history_rounds=2, protect_tokens=20, minimum_saved_tokens=5))


def canonical(messages: list[ModelMessage]) -> list[CanonicalMessage]:
    return [to_canonical(message) for message in messages]


def test_a_cut_that_moves_is_made_anew() -> None:
    messages: list[ModelMessage] = [from_canonical(message) for message in rounds(12, tokens=10)]
    ours = sending()
    for length in range(len(messages) + 1):
        assert canonical(ours.trimmed(messages[:length])) == canonical(sending().trimmed(messages[:length]))


@settings(max_examples=60, deadline=None)
@given(sound_histories, st.lists(st.integers(0, 12), max_size=6))
def test_a_conversation_that_grows_or_is_another_one_is_sent_as_if_it_were_new(
    history: tuple[CanonicalMessage, ...], lengths: list[int]
) -> None:
    messages: list[ModelMessage] = [from_canonical(message) for message in history]
    ours = sending()
    for length in (*lengths, len(messages), *range(len(messages) + 1)):
        assert canonical(ours.trimmed(messages[:length])) == canonical(sending().trimmed(messages[:length]))


def test_what_is_not_touched_is_the_very_object_and_what_was_cut_is_not_cut_again() -> None:
    told = [from_canonical(message) for message in rounds(8)]
    ours = Sending(Settings(tool_history_rounds=3))
    first, second = ours.trimmed(told[:15]), ours.trimmed(told)
    assert [after is before for before, after in zip(told, second, strict=True)] == [True, *[False] * 6, *[True] * 10]
    assert [after is before for before, after in zip(first, second, strict=False)] == [True] * 15


def test_a_message_that_was_translated_is_not_translated_again() -> None:
    message = from_canonical(rounds(1)[0])
    known = to_canonical(message)
    ours = sending()
    ours.know(message, known)
    assert ours._canonical_of(message) is known
