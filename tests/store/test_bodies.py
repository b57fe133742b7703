from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.makers import TURN, call, said
from tests.support.tries import tries

from pilotfish.conversation.records import MessageRecord, ToolCallRecord
from pilotfish.store.tables.blobs import hash_of
from pilotfish.store.tables.bodies import LOST, MIN_TAKEN_OUT, blobs_of, decode, encode, taken_out_of

LONG = st.sampled_from(["x" * MIN_TAKEN_OUT, "naïve " * MIN_TAKEN_OUT, '"\\\n' * MIN_TAKEN_OUT])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | LONG,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("$blob"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=tries(40), deadline=None)
@given(st.dictionaries(st.text(max_size=5) | st.just("$blob"), VALUES, max_size=4))
def test_a_record_survives_encoding_and_decoding(message: dict[str, Any]):
    record = MessageRecord(turn_id=TURN, message_id="m", role="user", content="", message=message, timestamp=1.5)
    body = encode(record)
    assert decode(1, "message", body.json, body.taken_out.get) == record
    assert set(taken_out_of(body.json)) >= body.taken_out.keys()


def test_a_short_record_is_stored_as_its_json():
    body = encode(said("words"))
    assert body.taken_out == {}
    assert '"content":"words"' in body.json


def test_a_long_string_is_replaced_by_a_reference_to_its_blob():
    text = "x" * MIN_TAKEN_OUT
    body = encode(call(output=text))
    assert body.taken_out == {hash_of(text.encode()): text.encode()}
    assert taken_out_of(body.json) == [hash_of(text.encode())]
    assert len(body.json) < 1000


def test_a_lost_blob_is_replaced_by_a_message():
    body = encode(call(output="x" * MIN_TAKEN_OUT))
    record = decode(1, "tool_call", body.json, lambda _: None)
    assert isinstance(record, ToolCallRecord)
    assert record.result == LOST


def test_invalid_json_becomes_a_notice():
    record = decode(7, "message", '{"torn', lambda _: None)
    assert record.type == "notice"


def test_a_call_references_the_blob_of_its_whole_output():
    assert blobs_of(call(output="cut", blob="abc")) == ("abc",)
    assert blobs_of(call(output="whole")) == ()
