"""Rewrites call ids so that every provider accepts them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace

from pilotfish.conversation.calls import MAX_ID_LENGTH
from pilotfish.conversation.memo import Memo
from pilotfish.conversation.messages import CanonicalMessage, ToolCallPart, ToolReturnPart, with_parts


def with_plain_ids(messages: Iterable[CanonicalMessage]) -> tuple[CanonicalMessage, ...]:
    """Return the history with call ids that every provider accepts.

    Use it for a model other than the one that made the calls. It is not part of `repair`, because some servers need
    their own ids back unchanged.
    """
    return tuple(_plain(message) for message in messages)


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
