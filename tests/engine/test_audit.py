"""The printed audit trail."""

from __future__ import annotations

import dataclasses

from pilotfish.conversation.records import ApprovalRecord, Entry, StateRecord
from pilotfish.engine.audit import SessionTrail, check, digest_of, lines, trail, trails_from_json, trails_to_json
from pilotfish.policy.audit_chain import seal

FIRST = seal(
    ApprovalRecord(
        turn_id="t",
        call_id="c",
        tool="bash",
        digest="abcdef0123456789",
        decision="deny",
        by="user",
        reason="it writes",
        timestamp=0.0,
        previous="",
        hash="",
        option_id="reject",
        feedback="use\nanother\u202e",
    ),
    "",
)
SECOND = seal(
    dataclasses.replace(FIRST, by="rule", decision="allow", rule="Allow x", option_id=None, feedback=None), FIRST.hash
)


def test_only_decisions_are_in_the_trail() -> None:
    other = StateRecord(turn_id="t", state="assistant", iteration=1)
    assert trail([Entry(1, None, FIRST), Entry(2, 1, other), Entry(3, None, SECOND)]) == (FIRST, SECOND)


def test_a_line_has_time_tool_decider_and_digest() -> None:
    assert list(lines([FIRST, SECOND])) == [
        "   1  1970-01-01 00:00:00Z  deny   bash  user [reject]: it writes “use\\nanother\\u{202e}”  abcdef012345",
        "   2  1970-01-01 00:00:00Z  allow  bash  rule: Allow x  abcdef012345",
    ]


def test_verify_names_the_broken_entry() -> None:
    assert check([FIRST, SECOND], SECOND.hash) == ("2 entries: the trail is whole", True)
    assert check([FIRST]) == ("1 entry: the trail is whole", True)
    assert check([FIRST], SECOND.hash) == ("entry 2: the newest entries are missing", False)
    assert check([SECOND]) == ("entry 1: an entry before this one is missing, added or moved", False)


def _trails(*records: ApprovalRecord) -> tuple[SessionTrail, ...]:
    head = records[-1].hash if records else ""
    return (SessionTrail(session_id="s", title="T", workspace="/w", head=head, records=records),)


def test_exported_trails_are_read_back_as_they_were() -> None:
    trails = _trails(FIRST, SECOND)
    assert trails_from_json(trails_to_json(trails)) == (trails, digest_of(trails))


def test_a_removed_newest_entry_and_a_removed_session_are_found_in_an_export() -> None:
    trails = _trails(FIRST, SECOND)
    shortened = dataclasses.replace(trails[0], records=(FIRST,))
    assert shortened.check() == ("entry 2: the newest entries are missing", False)
    assert digest_of(()) != digest_of(trails) != digest_of((shortened,))
