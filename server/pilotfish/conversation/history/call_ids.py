"""The ids of calls: fresh ones, and ones that every provider takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from pilotfish.conversation.memo import Memo
from pilotfish.conversation.messages import CanonicalMessage, ToolCallPart, ToolReturnPart, with_parts

MAX_ID_LENGTH = 40  # the strictest provider's limit


def fresh_id(wanted: str, used: Collection[str], counts: dict[str, int] | None = None) -> str:
    """An id like `wanted` that is not in `used`; the same inputs give the same id. Every provider takes its length.

    `counts` remembers how far each id has been counted, for callers who ask often.
    """
    stem = wanted or "call"
    number = 2 if counts is None else counts.get(stem, 2)
    while (candidate := _numbered(stem, number)) in used:
        number += 1
    if counts is not None:
        counts[stem] = number + 1
    return candidate


def with_plain_ids(messages: Iterable[CanonicalMessage]) -> tuple[CanonicalMessage, ...]:
    """The history with call ids that every provider takes, for a model other than the one that made them.

    Not part of repair: some servers need their own ids back, however odd they are.
    """
    return tuple(_plain(message) for message in messages)


def _numbered(stem: str, number: int) -> str:
    candidate = f"{stem}_{number}"
    if len(candidate) <= MAX_ID_LENGTH:
        return candidate
    return f"call_{hashlib.sha256(stem.encode('utf-8', 'replace')).hexdigest()[:24]}_{number}"


_PLAIN_ID = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_ID_LENGTH}}}\Z")


def _plain_id(call_id: str) -> str:
    if _PLAIN_ID.match(call_id):
        return call_id
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[:20]
    return f"{readable}_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _with_plain_ids(message: CanonicalMessage) -> CanonicalMessage:
    return with_parts(
        message,
        [
            replace(part, tool_call_id=plain)
            if isinstance(part, ToolCallPart | ToolReturnPart)
            and (plain := _plain_id(part.tool_call_id)) != part.tool_call_id
            else part
            for part in message.parts
        ],
    )


_plain: Memo[CanonicalMessage, CanonicalMessage] = Memo(_with_plain_ids)
