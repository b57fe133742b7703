"""What an approval is for, and the chain that keeps the trail of decisions honest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pilotfish.conversation.records import ApprovalRecord


def digest(tool: str, args: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Names exactly one call: the tool, every argument, and the versions of the documents it touches.

    Two calls that differ in anything have different digests; the order of keys is not a difference.
    """
    return _hash("call", {"tool": tool, "args": args, "versions": versions})


def next_hash(previous: str, fields: Mapping[str, Any]) -> str:
    """The hash of an audit entry: covers its fields and, through `previous`, all that came before."""
    return _hash("audit", {"previous": previous, "fields": fields})


def seal(record: ApprovalRecord, previous: str) -> ApprovalRecord:
    """The record in its place in the chain: `previous` and `hash` filled in."""
    return dataclasses.replace(record, previous=previous, hash=next_hash(previous, _fields(record)))


@dataclass(frozen=True, slots=True)
class AuditFault:
    """Something is wrong at this entry, counted from 1."""

    entry: int
    problem: str


def verify(records: Iterable[ApprovalRecord], head: str | None = None) -> tuple[AuditFault, ...]:
    """What is wrong with a trail: changed, missing, moved entries. Empty: nothing.

    The chain cannot show by itself that its newest entries are gone; `head`, the last hash as it was noted
    elsewhere, can.
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
