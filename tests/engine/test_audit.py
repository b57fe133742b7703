"""The printed audit trail."""

from __future__ import annotations

import dataclasses

from pilotfish.conversation.records import ApprovalRecord, Entry, StateRecord
from pilotfish.engine.audit import check, lines, trail
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
