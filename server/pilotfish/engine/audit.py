"""`pilotfish audit`: prints, exports and verifies the audit trails of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from pilotfish.conversation.records import ApprovalRecord, Entry, record_to_json
from pilotfish.errors import BadRequest
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


# -- the trails of a store as a file ----------------------------------------------------------------------------------

FORMAT: Final = "pilotfish-audit"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTrail:
    """The audit trail of one session, with its last hash as the store has it."""

    session_id: str
    title: str
    workspace: str | None
    head: str
    records: tuple[ApprovalRecord, ...]

    def check(self) -> tuple[str, bool]:
        return check(self.records, self.head)


class _SessionTrailFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    title: str
    workspace: str | None
    head: str
    entries: list[JsonValue]


class _TrailsFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal["pilotfish-audit"]
    version: Literal[1]
    sessions: list[_SessionTrailFile]
    digest: str


def digest_of(trails: Iterable[SessionTrail]) -> str:
    """A hash of all trails. Noted elsewhere, it shows later whether a session is missing from a file."""
    whole = sha256(f"{FORMAT} {VERSION}\n".encode())
    for each in trails:
        whole.update(f"{each.session_id} {len(each.records)} {each.head}\n".encode())
    return whole.hexdigest()


def trails_to_json(trails: Sequence[SessionTrail]) -> bytes:
    """A file that `trails_from_json` reads."""
    sessions = [
        {
            "id": each.session_id,
            "title": each.title,
            "workspace": each.workspace,
            "head": each.head,
            "entries": [orjson.loads(record_to_json(record)) for record in each.records],
        }
        for each in trails
    ]
    whole = {"format": FORMAT, "version": VERSION, "sessions": sessions, "digest": digest_of(trails)}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def trails_from_json(body: bytes) -> tuple[tuple[SessionTrail, ...], str]:
    """The trails of a file, and its digest as it is written there. Raises BadRequest if it is no such file."""
    try:
        file = _TrailsFile.model_validate_json(body)
        trails = tuple(_trail_of(session) for session in file.sessions)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadRequest(
            f"This is not an export of `pilotfish audit`: {place}: {first['msg']}", field="file"
        ) from error
    return trails, file.digest


def _trail_of(session: _SessionTrailFile) -> SessionTrail:
    records = tuple(_APPROVAL.validate_python(entry) for entry in session.entries)
    return SessionTrail(
        session_id=session.id, title=session.title, workspace=session.workspace, head=session.head, records=records
    )


_APPROVAL: Final = TypeAdapter(ApprovalRecord)
