"""The cached request history of a growing conversation equals one that is built from scratch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest
from tests.conversation.history.test_trim import rounds
from tests.support.history import broken_histories, parse, sound_histories
from tests.support.tries import tries

from pilotfish.config.settings import Settings
from pilotfish.conversation.history.sanitizer import Cleanup, run_cleanup_loop
from pilotfish.conversation.history.validation import is_sound
from pilotfish.conversation.messages import CanonicalMessage
from pilotfish.engine.model.adapter import from_canonical, to_canonical
from pilotfish.engine.turn.history.request_history import RequestHistory


def sending() -> RequestHistory:
    """One that cuts early, so that the cut moves often."""
    return RequestHistory(Settings(tool_history_rounds=2, protect_tokens=20, minimum_saved_tokens=5))


def canonical(messages: list[ModelMessage]) -> list[CanonicalMessage]:
    return [to_canonical(message) for message in messages]


def test_a_cut_that_moves_is_made_anew() -> None:
    messages: list[ModelMessage] = [from_canonical(message) for message in rounds(12, tokens=10)]
    ours = sending()
    for length in range(len(messages) + 1):
        assert canonical(ours.trimmed(messages[:length])) == canonical(sending().trimmed(messages[:length]))


@settings(max_examples=tries(40), deadline=None)
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
    ours = RequestHistory(Settings(tool_history_rounds=3))
    first, second = ours.trimmed(told[:15]), ours.trimmed(told)
    assert [after is before for before, after in zip(told, second, strict=True)] == [True, *[False] * 6, *[True] * 10]
    assert [after is before for before, after in zip(first, second, strict=False)] == [True] * 15


def test_a_message_that_was_translated_is_not_translated_again() -> None:
    message = from_canonical(rounds(1)[0])
    known = to_canonical(message)
    ours = sending()
    ours.know(message, known)
    assert ours._canonical_of(message) is known


def begun(sender: RequestHistory, history: list[CanonicalMessage], provider: str) -> list[CanonicalMessage]:
    return canonical(sender.begin(history, provider, resumed=False))


@settings(max_examples=tries(80), deadline=None)
@given(
    st.lists(sound_histories | broken_histories, max_size=5),
    st.lists(st.sampled_from(["go on", "go on", "go on", "cut", "other provider", "resume"]), max_size=6),
)
def test_a_conversation_that_goes_on_begins_as_if_it_were_new(
    pieces: list[tuple[CanonicalMessage, ...]], steps: list[str]
) -> None:
    ours, history = sending(), list[CanonicalMessage]()
    for piece, step in zip(pieces, ["go on", *steps], strict=False):
        if step == "cut":
            del history[-1:]
        history += piece
        provider = "another" if step == "other provider" else "openai"
        if step == "resume":
            history += parse("user: go / model: call a")
            fresh = list(history)
            expected = canonical(sending().begin(fresh, provider, resumed=True))
            assert canonical(ours.begin(history, provider, resumed=True)) == expected
        else:
            fresh = list(history)
            expected = begun(sending(), fresh, provider)
            assert begun(ours, history, provider) == expected
        assert history == fresh


def test_what_was_looked_at_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counted(messages: Sequence[CanonicalMessage]) -> bool:
        looked.append(len(messages))
        return is_sound(messages)

    def repaired(messages: Sequence[CanonicalMessage]) -> Cleanup:
        looked.append(len(messages))
        return run_cleanup_loop(messages)

    monkeypatch.setattr("pilotfish.engine.turn.history.request_history.is_sound", counted)
    monkeypatch.setattr("pilotfish.engine.turn.history.request_history.run_cleanup_loop", repaired)
    ours, history = sending(), [*rounds(3), *parse("model: done / user: more")]
    before = ours.begin(history, "openai", resumed=False)
    history += parse("model: yes / user: again")
    after = ours.begin(history, "openai", resumed=False)
    assert looked == [len(history) - 2, 3]
    assert all(new is old for new, old in zip(after, before, strict=False))


def test_what_a_run_has_sent_is_not_cut_anew_by_the_next_one() -> None:
    ours, history = sending(), [*rounds(4), *parse("model: done / user: more")]
    messages = ours.begin(history, "openai", resumed=False)
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    own = ModelRequest(parts=last.parts)  # as the library copies the request that a run begins with
    run: list[ModelMessage] = [*messages[:-1], own]
    sent = ours.trimmed(run)
    answer = parse("model: yes")[0]
    history += [answer, *parse("user: again")]
    after = ours.trimmed(ours.begin(history, "openai", resumed=False))
    assert all(new is old for new, old in zip(after, sent, strict=False))
    assert canonical(after) == canonical(sending().trimmed(sending().begin(list(history), "openai", resumed=False)))
