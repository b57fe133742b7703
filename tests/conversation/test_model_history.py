"""The history for the model is built from records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.history import parse, show, sound_histories, words
from tests.support.records import call, compaction, end, said, spoken, start
from tests.support.tries import tries

from pilotfish.conversation.history.validation import find_faults
from pilotfish.conversation.items import (
    CallItem,
)
from pilotfish.conversation.messages import (
    CallApproval,
    CallResult,
    CallStatus,
    CanonicalMessage,
    OtherPart,
    UserPromptPart,
)
from pilotfish.conversation.model_history import get_messages_for_llm, transcript
from pilotfish.conversation.records import (
    MessageRecord,
    Record,
    StateRecord,
)

S = CallStatus


# ---- For the model -------------------------------------------------------------------------------------------------


def test_messages_keep_their_order() -> None:
    notation = "user: hi / model: call a / user: return a / model: done"
    assert get_messages_for_llm(said(notation)) == parse(notation)


@pytest.mark.parametrize(
    ("status", "fields", "closed"),
    [
        (S.COMPLETED, {"result": CallResult(text="the result")}, "return a = the result"),
        (S.COMPLETED, {"result": CallResult(text="")}, "return a = [no output]"),
        (S.COMPLETED, {}, "return a = [no output]"),
        (S.FAILED, {"error": "no such file"}, "failed a = no such file"),
        (S.FAILED, {"result": CallResult(text="exit 1"), "error": "x"}, "failed a = exit 1"),
        (S.FAILED, {}, "failed a = [failed]"),
        (S.DENIED, {"error": "not allowed"}, "denied a = [not allowed]"),
        (
            S.DENIED,
            {"approval": CallApproval(decision="deny", by="user", reason="r", feedback="use the other file")},
            "denied a = [denied] use the other file",
        ),
    ],
)
def test_a_call_without_a_return_is_closed_with_the_result_of_its_record(
    status: CallStatus, fields: dict[str, Any], closed: str
) -> None:
    records = [*said("user: hi / model: call a"), call("a", S.PENDING), call("a", status, **fields)]
    assert show(get_messages_for_llm(records)) == f"user: hi / model: call a / user: {closed}"


@pytest.mark.parametrize(
    ("status", "fields", "told"),
    [
        (S.IN_PROGRESS, {}, "[server stopped: started, result unknown]"),
        (S.PENDING, {}, "[server stopped: never started]"),
        (S.AWAITING_APPROVAL, {}, "[server stopped: never started]"),
        (S.CANCELLED, {"error": "timed out"}, "[timed out]"),
        (S.CANCELLED, {}, "[aborted by user]"),
        (S.CANCELLED, {"result": CallResult(text="half"), "error": "stopped"}, "half\n[stopped]"),
    ],
)
def test_a_call_without_a_result_is_closed_with_the_reason(
    status: CallStatus, fields: dict[str, Any], told: str
) -> None:
    records = [*said("user: hi / model: call a"), call("a", status, **fields), *said("user: go on", first=3)]
    messages = get_messages_for_llm(records)
    assert show(messages) == "user: hi / model: call a / user: interrupted a, go on"
    assert messages[2].returns[0].content == told


def test_a_return_is_preferred_to_the_record() -> None:
    records = [*said("user: hi / model: call a / user: return a = told"), call("a", S.IN_PROGRESS)]
    assert show(get_messages_for_llm(records)) == "user: hi / model: call a / user: return a = told"


def test_a_partial_answer_before_a_retry_is_not_sent() -> None:
    first, second = spoken(parse("model: half an ans")[0], "m2"), spoken(parse("model: whole")[0], "m3")
    records = [*said("user: hi"), replace(first, shown_only=True), second]
    assert show(get_messages_for_llm(records)) == "user: hi / model: whole"


def test_other_records_add_no_messages() -> None:
    records: list[Record] = [
        start(),
        StateRecord(turn_id="t1", state="assistant", iteration=1),
        *said("user: hi"),
        end(),
    ]
    assert show(get_messages_for_llm(records)) == "user: hi"


def test_a_damaged_message_keeps_its_text() -> None:
    broken = replace(spoken(parse("user: hi")[0], "m1"), message={"role": "user", "parts": [{"part_kind": 7}]})
    answer = replace(spoken(parse("model: hello")[0], "m2"), message={})
    assert show(get_messages_for_llm([broken, answer])) == "user: hi / model: hello"


# ---- Compaction ----------------------------------------------------------------------------------------------------

OLD = "user: one / model: call a / user: return a / model: two"
NEW = "user: three / model: four"


def test_messages_before_a_compaction_are_sent_as_its_summary() -> None:
    records = [*said(OLD), *said(NEW, first=5), compaction("m5")]
    messages = get_messages_for_llm(records)
    assert messages[0].parts == (OtherPart("compaction", {"content": "so far"}), UserPromptPart("three"))
    assert show(messages[1:]) == "model: four"


def test_messages_after_a_compaction_are_sent_in_full() -> None:
    records = [*said(OLD), compaction("m4"), *said(NEW, first=5)]
    assert show(get_messages_for_llm(records)) == "user: other compaction / model: two / user: three / model: four"


def test_the_last_compaction_counts() -> None:
    records = [*said(OLD), compaction("m3", "first"), *said(NEW, first=5), compaction("m6", "second")]
    messages = get_messages_for_llm(records)
    assert messages[0].parts == (OtherPart("compaction", {"content": "second"}),)
    assert show(messages[1:]) == "model: four"


@pytest.mark.parametrize("keep_from", ["gone", ""])
def test_a_compaction_with_an_unknown_message_keeps_later_messages(keep_from: str) -> None:
    records = [*said(OLD), compaction(keep_from), *said(NEW, first=5)]
    messages = get_messages_for_llm(records)
    assert messages[0].parts == (OtherPart("compaction", {"content": "so far"}), UserPromptPart("three"))


def test_a_compaction_between_a_call_and_its_return_leaves_no_stray_return() -> None:
    records = [*said(OLD), compaction("m3")]
    assert show(get_messages_for_llm(records)) == "user: other compaction / model: two"


# ---- Laws ----------------------------------------------------------------------------------------------------------


@settings(max_examples=tries(120), deadline=None)
@given(sound_histories, st.data())
def test_a_crash_at_any_record_leaves_a_sound_history_with_all_text(
    history: tuple[CanonicalMessage, ...], data: st.DataObject
) -> None:
    records: list[Record] = []
    for number, message in enumerate(history):
        records += [call(part.tool_call_id, S.PENDING) for part in message.calls]
        records.append(spoken(message, f"m{number}"))
        for part in message.calls:
            records.append(call(part.tool_call_id, S.IN_PROGRESS))
            if data.draw(st.booleans()):
                records.append(call(part.tool_call_id, S.COMPLETED, result=CallResult(text="ok")))
    written = records[: data.draw(st.integers(0, len(records)))]
    messages = get_messages_for_llm(written)
    assert find_faults(messages) == ()
    kept = history[: sum(isinstance(record, MessageRecord) for record in written)]
    assert words(messages) == words(kept)
    final = {S.COMPLETED, S.FAILED, S.DENIED, S.CANCELLED}
    assert all(item.call.status in final for item in transcript(written) if isinstance(item, CallItem))
