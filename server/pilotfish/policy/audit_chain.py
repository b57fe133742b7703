"""Digests of calls, and the hash chain that shows whether the audit trail was changed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pilotfish.conversation.records import ApprovalRecord


def digest(tool: str, args: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Return a digest of the tool, all its arguments and the versions of the documents it touches.

    Two different calls have different digests. The order of keys makes no difference.
    """
    return _hash("call", {"tool": tool, "args": args, "versions": versions})


def next_hash(previous: str, fields: Mapping[str, Any]) -> str:
    """Return the hash of an audit entry. It covers its fields and, through `previous`, all earlier entries."""
    return _hash("audit", {"previous": previous, "fields": fields})


def seal(record: ApprovalRecord, previous: str) -> ApprovalRecord:
    """Return the record with `previous` and `hash` filled in."""
    return dataclasses.replace(record, previous=previous, hash=next_hash(previous, _fields(record)))


@dataclass(frozen=True, slots=True)
class AuditFault:
    """A problem at an entry. Entries count from 1."""

    entry: int
    problem: str


def verify(records: Iterable[ApprovalRecord], head: str | None = None) -> tuple[AuditFault, ...]:
    """Return the changed, missing and moved entries of an audit trail. Empty if the trail is intact.

    The chain alone cannot show that its newest entries are missing. `head`, the last hash as it was stored separately,
    can.
    """
    faults: list[AuditFault] = []
    previous, count = "", 0
    for count, record in enumerate(records, start=1):
        if record.hash != next_hash(record.previous, _fields(record)):
            faults.append(AuditFault(count, "the entry was changed after it was written"))
        elif record.previous != previous:
            faults.append(AuditFault(count, "an entry before this one is missing, added or moved"))
        previous = record.hash
    if head is not None and head != previous:
        faults.append(AuditFault(count + 1, "the newest entries are missing"))
    return tuple(faults)


def _fields(record: ApprovalRecord) -> dict[str, Any]:
    return {
        field.name: getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.name not in {"previous", "hash"}
    }


def _hash(purpose: str, value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(f"pilotfish {purpose} 1\n{text}".encode("ascii")).hexdigest()
