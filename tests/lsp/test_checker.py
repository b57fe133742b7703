"""The checker of laws 1 to 5, which every other test trusts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.laws import LawBroken, Laws


def test_the_laws_are_seen_to_be_broken():
    """A guard that cannot fail guards nothing."""

    def told(seq: int, update: dict[str, Any], turn: str = "t") -> dict[str, Any]:
        return {"sessionId": "s", "turnId": turn, "seq": seq, "update": update}

    usage: dict[str, Any] = {}
    chunk = {"kind": "agent_message_chunk", "itemId": "i", "text": "x"}
    open_call = {"id": "c", "name": "n", "title": "n", "category": "write", "status": "pending", "args": usage}
    end = {"kind": "turn_ended", "stopReason": "end_turn", "usage": usage}
    answer = {"turnId": "t", "stopReason": "end_turn", "usage": usage}
    broken: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (told(1, chunk), told(3, chunk)),
        (told(1, end), told(2, chunk)),
        (told(1, {"kind": "tool_call", "call": open_call}), told(2, end)),
    ]
    for good, bad in broken:
        laws = Laws()
        laws.update(good)
        with pytest.raises(LawBroken):
            laws.update(bad)
    with pytest.raises(LawBroken):
        Laws().answer(answer)
    laws = Laws()
    laws.update(told(1, chunk))
    laws.update(told(2, end))
    times = {"createdAt": "", "updatedAt": ""}
    names = {"id": "s", "title": "", "workspaceFolder": None}
    session = {**names, "model": "", "mode": "ask", "turns": 1, "busy": False, "usage": usage, **times}
    item = {"kind": "message", "id": "i", "turnId": "t", "seq": 1, "text": "y"}
    loaded = {"session": session, "items": [item], "hasMore": False, "lastSeq": 2, "pendingApprovals": list[Any]()}
    with pytest.raises(LawBroken):
        laws.load("s", loaded)
