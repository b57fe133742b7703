"""Checks laws 1 to 5 of the protocol on everything that a client receives.

A client passes every message to `Laws`. The first violation raises `LawBroken`, and so does every later call.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pilotfish.protocol import wire

FINAL = frozenset({"completed", "failed", "denied", "cancelled"})
ORDER = ("pending", "awaiting_approval", "in_progress")


class LawBroken(AssertionError):
    """The server violated a law of the protocol."""


class Laws:
    """The state of every session as a client sees it, with checks of its consistency."""

    def __init__(self) -> None:
        self.seq: dict[str, int] = {}
        self.texts: dict[str, dict[str, str]] = defaultdict(dict)
        """Session → item → text so far."""
        self.calls: dict[str, dict[str, wire.ToolCall]] = defaultdict(dict)
        self.ended: dict[tuple[str, str], wire.TurnEnded] = {}
        """Session and turn → end of the turn. A fork has the turns of its origin with the same ids."""
        self.started: set[tuple[str, str]] = set()
        self.answered: set[str] = set()
        self._turn_of: dict[tuple[str, str], str] = {}
        self._broken: LawBroken | None = None

    def check(self) -> None:
        """Raise the first violation again."""
        if self._broken is not None:
            raise self._broken

    def update(self, params: Any) -> wire.UpdateParams:
        """Check a received `session/update`."""
        told = wire.UpdateParams.model_validate(params)
        session, turn, update = told.session_id, told.turn_id, told.update
        expected = self.seq.get(session, told.seq - 1) + 1
        self._law(told.seq == expected, f"law 1: {session} continued with update {told.seq} instead of {expected}")
        self.seq[session] = told.seq
        self._law((session, turn) not in self.ended, f"law 2: {update.kind} of {turn} came after its end")
        match update:
            case wire.TurnStarted():
                self._law((session, turn) not in self.started, f"law 2: {turn} started twice")
                self.started.add((session, turn))
            case wire.MessageChunk() | wire.ThoughtChunk():
                texts = self.texts[session]
                texts[update.item_id] = texts.get(update.item_id, "") + update.text
            case wire.CallUpdate():
                self._call(session, turn, update.call)
            case wire.TurnEnded():
                for call in self.calls[session].values():
                    mine = self._turn_of[session, call.id] == turn
                    self._law(
                        not mine or call.status in FINAL, f"law 3: {call.id} is {call.status} at the end of {turn}"
                    )
                self.ended[session, turn] = update
            case _:
                pass
        return told

    def answer(self, result: Any) -> wire.PromptResult:
        """Check the response to a prompt."""
        answered = wire.PromptResult.model_validate(result)
        turn = answered.turn_id
        if turn:
            ends = [end.stop_reason for (_, ended), end in self.ended.items() if ended == turn]
            self._law(bool(ends), f"law 2: {turn} was answered before its end was sent")
            self._law(answered.stop_reason in ends, "law 2: the answer tells another end than the turn")
            self.answered.add(turn)
        return answered

    def load(self, session: str, result: Any, *, newest: bool = True) -> wire.SessionLoadResult:
        """Check a loaded transcript or page. Compares it with the received updates if no turn is running."""
        loaded = wire.SessionLoadResult.model_validate(result)
        if session in self.seq:
            self._law(
                loaded.last_seq <= self.seq[session] or loaded.session.busy,
                f"law 1: update {loaded.last_seq} is loaded, {self.seq[session]} was received",
            )
        if loaded.session.busy:
            return loaded
        for item in loaded.items:
            match item:
                case wire.MessageItem() | wire.ThoughtItem():
                    told = self.texts[session].get(item.id)
                    self._law(
                        told is None or told == item.text,
                        f"law 4: {item.id} was received as {told!r} and loaded as {item.text!r}",
                    )
                case wire.CallItem():
                    self._law(item.call.status in FINAL, f"law 3: {item.id} is {item.call.status} for ever")
                case _:
                    pass
        if newest and not loaded.has_more:
            kept = {item.id for item in loaded.items}
            missing = [item for item, text in self.texts[session].items() if text.strip() and item not in kept]
            self._law(not missing, f"law 4: received and not stored: {missing}")
        return loaded

    def _call(self, session: str, turn: str, call: wire.ToolCall) -> None:
        before = self.calls[session].get(call.id)
        if before is not None:
            self._law(before.status not in FINAL, f"law 3: {call.id} went from {before.status} to {call.status}")
        self.calls[session][call.id] = call
        self._turn_of[session, call.id] = turn

    def _law(self, kept: bool, words: str) -> None:
        if not kept and self._broken is None:
            self._broken = LawBroken(words)
        self.check()
