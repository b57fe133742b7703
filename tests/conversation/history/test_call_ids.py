"""New call ids, and call ids that every provider accepts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.history import parse, show
from tests.support.tries import tries

from pilotfish.conversation.calls import MAX_ID_LENGTH, fresh_id
from pilotfish.conversation.history.call_ids import with_plain_ids


def test_a_fresh_id_is_like_the_wanted_one_and_unique() -> None:
    assert fresh_id("a", {"a"}) == "a_2"
    assert fresh_id("a", {"a", "a_2"}) == "a_3"
    assert fresh_id("", ()) == "call_2"


def test_counts_give_the_same_ids_without_counting_again() -> None:
    used, counts = {"a"}, dict[str, int]()
    given_out = [fresh_id("a", used | {"a_3"}, counts) for _ in range(3)]
    assert given_out == ["a_2", "a_4", "a_5"]


@settings(max_examples=tries(80), deadline=None)
@given(st.text(max_size=60), st.sets(st.text(max_size=4), max_size=4))
def test_a_fresh_id_is_never_too_long_and_never_used(wanted: str, used: set[str]) -> None:
    fresh = fresh_id(wanted, used)
    assert fresh not in used
    assert len(fresh) <= MAX_ID_LENGTH
    assert fresh == fresh_id(wanted, used)


def test_ids_of_another_provider_are_made_plain_on_both_sides_and_only_where_needed() -> None:
    history = parse("user: hi / model: call functions.read:0, call b / user: return functions.read:0 = x, return b")
    plain = with_plain_ids(history)
    assert show(plain) == (
        "user: hi / model: call functions_read_0_9b6a7b9d3f0ad5d3, call b / "
        "user: return functions_read_0_9b6a7b9d3f0ad5d3 = x, return b"
    ).replace("9b6a7b9d3f0ad5d3", plain[1].calls[0].tool_call_id[-16:])
    assert plain[0] is history[0]
    assert with_plain_ids(history)[1] is plain[1]
    assert with_plain_ids(plain)[1] is plain[1]
