"""`pilotfish audit SESSION`: prints and verifies the audit trail of a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from pilotfish.conversation.records import ApprovalRecord, Entry
from pilotfish.policy.audit_chain import verify
from pilotfish.text.display_safe import one_line


def trail(entries: Iterable[Entry]) -> tuple[ApprovalRecord, ...]:
    """The decisions in the records of a session, in order."""
    return tuple(entry.record for entry in entries if isinstance(entry.record, ApprovalRecord))


def lines(records: Sequence[ApprovalRecord]) -> Iterator[str]:
    """One line for each decision: time, decision, tool, who decided, reason, digest."""
    for number, record in enumerate(records, start=1):
        when = datetime.fromtimestamp(record.timestamp, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        who = {"mode": "mode", "rule": "rule", "user": "user", "nobody": "no client"}[record.by]
        reason = record.rule or record.reason
        more = f" [{record.option_id}]" if record.option_id else ""
        note = f" “{record.feedback}”" if record.feedback else ""
        decided = f"{record.decision:<5}  {record.tool}  {who}{more}: {reason}{note}"
        yield one_line(f"{number:>4}  {when}  {decided}  {record.digest[:12]}")


def check(records: Sequence[ApprovalRecord], head: str | None = None) -> tuple[str, bool]:
    """The output of `--verify`, and whether the trail is intact."""
    faults = verify(records, head)
    if not faults:
        count = len(records)
        return f"{count} {'entry' if count == 1 else 'entries'}: the trail is whole", True
    return "\n".join(f"entry {fault.entry}: {fault.problem}" for fault in faults), False
