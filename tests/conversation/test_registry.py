"""The call registry: allowed status changes, one notice for each change, and edge cases."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tries import tries

from pilotfish.conversation.messages import (
    FINAL_STATUSES,
    CallApproval,
    CallResult,
    CallStatus,
    CanonicalToolCall,
    Category,
    Location,
)
from pilotfish.conversation.registry import MOVES, CallError, ToolCallRegistry

S = CallStatus


def watched() -> tuple[ToolCallRegistry, list[CanonicalToolCall]]:
    notices: list[CanonicalToolCall] = []
    ticks = itertools.count(100)
    return ToolCallRegistry(notices.append, lambda: float(next(ticks))), notices


def test_every_status_change_of_a_call_gives_one_notice() -> None:
    registry, notices = watched()
    place = Location(uri="file:///a", range=(0, 0, 1, 0))
    registry.register("a", "read", '{"path": "x"}', title="Read x", category=Category.WRITE, locations=(place,))
    registry.move("a", S.AWAITING_APPROVAL)
    approval = CallApproval(decision="allow", by="user", reason="asked")
    registry.move("a", S.IN_PROGRESS, approval=approval)
    registry.move("a", S.COMPLETED, result=CallResult(text="ok", bytes=2), diff="d")
    announced = CanonicalToolCall(
        id="a", name="read", args={"path": "x"}, title="Read x", category=Category.WRITE, locations=(place,)
    )
    final = CanonicalToolCall(
        id="a",
        name="read",
        args={"path": "x"},
        status=S.COMPLETED,
        title="Read x",
        category=Category.WRITE,
        locations=(place,),
        result=CallResult(text="ok", bytes=2),
        diff="d",
        started_at=101.0,
        duration_ms=1000,
        approval=approval,
    )
    assert [call.status for call in notices] == [S.PENDING, S.AWAITING_APPROVAL, S.IN_PROGRESS, S.COMPLETED]
    assert notices[0] == announced
    assert notices[-1] == registry.get("a") == final


@pytest.mark.parametrize(
    ("args", "normal", "raw"),
    [
        ({"a": 1}, {"a": 1}, None),
        ('{"a": 1}', {"a": 1}, None),
        (None, {}, None),
        ("", {}, None),
        ("  ", {}, None),
        ('{"a": ', {}, '{"a": '),
        ("[1]", {}, "[1]"),
        ('"text"', {}, '"text"'),
        ([1, 2], {}, "[1,2]"),
        ('{"a": NaN}', {}, '{"a": NaN}'),
        ('{"a": 1e999}', {}, '{"a": 1e999}'),
        ('{"a": "\\ud800"}', {}, '{"a": "\\ud800"}'),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}, None),
    ],
)
def test_arguments_are_normalised_once(args: object, normal: dict[str, Any], raw: str | None) -> None:
    call = ToolCallRegistry().register("a", "read", args)
    assert (call.args, call.raw_args) == (normal, raw)


# ---- Edge cases ----------------------------------------------------------------------------------------------------


def test_a_call_without_an_id_gets_one() -> None:
    registry, notices = watched()
    first, second = registry.register(None, "read", {}), registry.register("", "read", {})
    assert [first.id, second.id] == ["call_2", "call_3"]
    assert notices == [first, second]


def test_a_call_whose_id_is_used_gets_a_new_one() -> None:
    registry, _ = watched()
    assert [registry.register("a", "read", {"n": n}).id for n in range(3)] == ["a", "a_2", "a_3"]
    assert [call.args for call in registry.snapshot()] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_long_used_id_is_replaced_by_one_every_provider_accepts() -> None:
    registry, _ = watched()
    registry.register("x" * 60, "read", {})
    fresh = registry.register("x" * 60, "read", {}).id
    assert len(fresh) <= 40
    assert fresh == "call_42f2d97335669f86846b721a_2"


def test_a_call_without_a_name_is_an_error_without_a_notice() -> None:
    registry, notices = watched()
    with pytest.raises(CallError, match="call 'a' has no name"):
        registry.register("a", "", {})
    assert (notices, registry.snapshot()) == ([], ())


def test_a_result_for_an_unknown_call_is_an_error() -> None:
    registry, notices = watched()
    with pytest.raises(CallError, match="no call has the id 'ghost'"):
        registry.move("ghost", S.COMPLETED, result=CallResult(text="boo"))
    assert registry.find("ghost") is None
    assert notices == []


def test_a_call_ends_once() -> None:
    registry, notices = watched()
    registry.register("a", "read", {})
    registry.move("a", S.CANCELLED)
    with pytest.raises(CallError, match="cannot go from cancelled to failed"):
        registry.move("a", S.FAILED)
    with pytest.raises(CallError, match="has ended"):
        registry.amend("a", title="late")
    assert len(notices) == 2


def test_a_call_that_never_started_has_no_duration() -> None:
    registry, _ = watched()
    registry.register("a", "read", {})
    call = registry.move("a", S.DENIED, error="no")
    assert (call.started_at, call.duration_ms, call.error) == (None, None, "no")


def test_an_open_call_can_be_amended_with_one_notice() -> None:
    registry, notices = watched()
    registry.register("a", "bash", {"command": "ls"})
    registry.amend("a", args={"command": "ls -l"}, title="List")
    assert notices[-1] == CanonicalToolCall(id="a", name="bash", args={"command": "ls -l"}, title="List")


# ---- The end of a turn ---------------------------------------------------------------------------------------------


def test_closing_cancels_every_open_call_and_no_other() -> None:
    registry, notices = watched()
    for call_id in "abc":
        registry.register(call_id, "read", {})
    registry.move("a", S.IN_PROGRESS)
    registry.move("b", S.DENIED)
    closed = registry.close_open("aborted by user")
    assert [(call.id, call.status, call.error) for call in closed] == [
        ("a", S.CANCELLED, "aborted by user"),
        ("c", S.CANCELLED, "aborted by user"),
    ]
    assert registry.open_calls() == ()
    assert registry.close_open("again") == ()
    assert len(notices) == 7


def test_restoring_a_call_gives_no_notice() -> None:
    registry, notices = watched()
    old = CanonicalToolCall(id="a", name="read", args={}, status=S.COMPLETED)
    registry.restore(old)
    assert (registry.get("a"), registry.open_calls(), notices) == (old, (), [])
    assert registry.register("a", "read", {}).id == "a_2"


def test_the_snapshot_exports_as_json() -> None:
    registry, _ = watched()
    registry.register("a", "read", {"path": "x"}, locations=(Location(uri="file:///x"),))
    assert registry.to_json() == [
        {
            "id": "a",
            "name": "read",
            "args": {"path": "x"},
            "status": "pending",
            "title": "read",
            "category": "read_only",
            "locations": [{"uri": "file:///x", "range": None}],
            "result": None,
            "diff": None,
            "error": None,
            "started_at": None,
            "duration_ms": None,
            "approval": None,
            "raw_args": None,
            "source": None,
            "unrecorded": False,
            "recovered": False,
            "parent_id": None,
            "may_ask": True,
        }
    ]


# ---- The table -----------------------------------------------------------------------------------------------------


def test_the_table_has_every_status_and_the_last_four_are_final() -> None:
    assert set(MOVES) == set(CallStatus)
    assert {status for status, after in MOVES.items() if not after} == FINAL_STATUSES


@settings(max_examples=tries(100), deadline=None)
@given(st.lists(st.sampled_from(CallStatus), max_size=8))
def test_whatever_is_tried_only_the_table_s_moves_happen_each_with_one_notice(moves: list[CallStatus]) -> None:
    registry, notices = watched()
    status = registry.register("a", "read", {}).status
    expected = [status]
    for wanted in moves:
        if wanted in MOVES[status]:
            registry.move("a", wanted)
            status = wanted
            expected.append(wanted)
        else:
            with pytest.raises(CallError):
                registry.move("a", wanted)
    assert [call.status for call in notices] == expected
    assert registry.get("a").status is status
    assert bool(registry.open_calls()) == (status not in FINAL_STATUSES)
