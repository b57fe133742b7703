"""A digest identifies one call, and the audit trail shows whether it was changed."""

from __future__ import annotations

import dataclasses
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.conversation.records import RECORD, ApprovalRecord
from pilotfish.policy.audit_chain import AuditFault, digest, next_hash, seal, verify

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.text(), JSON, max_size=4)
VERSIONS = st.dictionaries(st.text(), st.text(), max_size=3)


def trail(count: int) -> list[ApprovalRecord]:
    records: list[ApprovalRecord] = []
    previous = ""
    for number in range(count):
        record = ApprovalRecord(
            turn_id="t1",
            call_id=f"c{number}",
            tool="bash",
            digest="d" * 64,
            decision="allow",
            by="user",
            reason="it changes files",
            timestamp=1000.5 + number,
            previous="",
            hash="",
            option_id="allow_once",
        )
        records.append(seal(record, previous))
        previous = records[-1].hash
    return records


def test_a_digest_is_of_the_tool_the_arguments_and_the_versions() -> None:
    one = digest("write_file", {"path": "a", "content": "x"}, {"a": "1"})
    assert one == digest("write_file", {"content": "x", "path": "a"}, {"a": "1"})
    others = {
        digest("update_file", {"path": "a", "content": "x"}, {"a": "1"}),
        digest("write_file", {"path": "a", "content": "x "}, {"a": "1"}),
        digest("write_file", {"path": "a", "content": "x"}, {"a": "2"}),
        digest("write_file", {"path": "a", "content": "x"}, {}),
        digest("write_file", {"path": "a", "content": "x", "b": None}, {"a": "1"}),
    }
    assert len(others | {one}) == 6


def test_values_that_are_equal_in_python_have_different_digests() -> None:
    assert len({digest("t", {"x": value}, {}) for value in (1, 1.0, True, "1", [1])}) == 5


def test_a_digest_accepts_any_text() -> None:
    assert digest("t", {"x": "\ud800\u202e\x00"}, {}) != digest("t", {"x": "\ud801\u202e\x00"}, {})


@given(ARGS, ARGS, VERSIONS, VERSIONS)
def test_two_calls_share_a_digest_only_when_they_are_the_same(
    args: dict[str, object], other: dict[str, object], versions: dict[str, str], moved: dict[str, str]
) -> None:
    same = (repr(_ordered(args)), versions) == (repr(_ordered(other)), moved)
    assert (digest("t", args, versions) == digest("t", other, moved)) is same


def _ordered(value: object) -> object:
    """Return the value independent of the order of keys. 1, 1.0 and True stay different."""
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return sorted(((key, repr(_ordered(item))) for key, item in items), key=lambda item: item[0])
    if isinstance(value, list):
        return [_ordered(item) for item in cast("list[object]", value)]
    return value


def test_an_intact_trail_has_no_fault() -> None:
    records = trail(5)
    assert verify(records, records[-1].hash) == ()
    assert verify([]) == ()


def test_a_trail_survives_the_ledger() -> None:
    stored = [RECORD.validate_json(RECORD.dump_json(record)) for record in trail(3)]
    assert verify([record for record in stored if isinstance(record, ApprovalRecord)]) == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("decision", "deny"),
        ("by", "rule"),
        ("reason", "x"),
        ("digest", "e" * 64),
        ("timestamp", 1.0),
        ("tool", "read_file"),
        ("call_id", "c9"),
        ("turn_id", "t2"),
        ("option_id", None),
        ("feedback", "no"),
        ("rule", "r"),
        ("approval_id", "a"),
    ],
)
def test_a_changed_entry_is_found(field: str, value: object) -> None:
    records = trail(4)
    records[1] = dataclasses.replace(records[1], **{field: value})
    assert verify(records) == (AuditFault(2, "the entry was changed after it was written"),)


def test_a_changed_entry_with_a_new_hash_is_found_at_the_next_entry() -> None:
    records = trail(4)
    records[1] = seal(dataclasses.replace(records[1], decision="deny"), records[0].hash)
    assert verify(records) == (AuditFault(3, "an entry before this one is missing, added or moved"),)


def test_a_missing_moved_or_added_entry_is_found() -> None:
    records = trail(4)
    gap = "an entry before this one is missing, added or moved"
    assert verify([*records[:1], *records[2:]]) == (AuditFault(2, gap),)
    assert verify(records[1:]) == (AuditFault(1, gap),)
    assert verify([records[1], records[0], *records[2:]]) != ()
    assert verify([*records[:2], records[1], *records[2:]]) == (AuditFault(3, gap),)


def test_missing_newest_entries_are_found_with_the_stored_head() -> None:
    records = trail(4)
    assert verify(records[:-1]) == ()
    assert verify(records[:-1], records[-1].hash) == (AuditFault(4, "the newest entries are missing"),)
    assert verify([], records[-1].hash) == (AuditFault(1, "the newest entries are missing"),)


def test_a_hash_covers_all_earlier_entries() -> None:
    assert next_hash("a", {"x": 1}) != next_hash("b", {"x": 1})
