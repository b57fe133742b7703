"""The life of every call, by id.

One table says which status may follow which. Every move gives exactly one change notice, with the whole call as it is
now; an illegal move is an error and changes nothing. Arguments are normalised once, here.

The edge cases, each defined:
- a call without an id is given one;
- a call whose id is already taken is given a fresh one (`register` returns the call: use its id);
- a call without a name, a result for a call nobody announced, a second end: an error that names the id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from pydantic import ConfigDict, TypeAdapter

from pilotfish.conversation.calls import (
    FINAL_STATUSES,
    CallApproval,
    CallResult,
    CallStatus,
    CanonicalToolCall,
    Category,
    Location,
    fresh_id,
    normalise_args,
)
from pilotfish.errors import PilotfishError

S = CallStatus

MOVES: Mapping[CallStatus, frozenset[CallStatus]] = {
    S.PENDING: frozenset({S.AWAITING_APPROVAL, S.IN_PROGRESS, S.FAILED, S.DENIED, S.CANCELLED}),
    S.AWAITING_APPROVAL: frozenset({S.IN_PROGRESS, S.FAILED, S.DENIED, S.CANCELLED}),
    S.IN_PROGRESS: frozenset({S.COMPLETED, S.FAILED, S.CANCELLED}),
    S.COMPLETED: frozenset(),
    S.FAILED: frozenset(),
    S.DENIED: frozenset(),
    S.CANCELLED: frozenset(),
}
"""Status → what may follow. Only what was started can complete; what runs can no longer be denied."""


class CallError(PilotfishError):
    """A call was moved as no call can be: a bug of the caller, never shown to a user."""


class CallFields(TypedDict, total=False):
    """What may change with a move."""

    args: Mapping[str, Any]
    raw_args: str | None
    title: str
    category: Category
    locations: tuple[Location, ...]
    result: CallResult | None
    diff: str | None
    error: str | None
    approval: CallApproval | None


class ToolCallRegistry:
    """The calls of a session, in the order they were announced."""

    def __init__(
        self,
        on_change: Callable[[CanonicalToolCall], None] = lambda _: None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._calls: dict[str, CanonicalToolCall] = {}
        self._open: dict[str, None] = {}
        self._counts: dict[str, int] = {}
        self._on_change = on_change
        self._clock = clock

    def register(
        self,
        call_id: str | None,
        name: str,
        args: object,
        *,
        title: str = "",
        category: Category = Category.READ_ONLY,
        locations: tuple[Location, ...] = (),
        recovered: bool = False,
    ) -> CanonicalToolCall:
        """Announce a call. The id of the call given back is the one that counts."""
        if not name:
            raise CallError(f"call {call_id!r} has no name")
        if not call_id or call_id in self._calls:
            call_id = fresh_id(call_id or "call", self._calls, self._counts)
        normalised, raw = normalise_args(args)
        return self._keep(
            CanonicalToolCall(
                id=call_id,
                name=name,
                args=normalised,
                title=title or name,
                category=category,
                locations=locations,
                raw_args=raw,
                recovered=recovered,
            )
        )

    def move(self, call_id: str, status: CallStatus, **fields: Unpack[CallFields]) -> CanonicalToolCall:
        """Give a call its next status, with what is known now. One change notice."""
        call = self.get(call_id)
        if status not in MOVES[call.status]:
            raise CallError(f"call {call_id!r} cannot go from {call.status} to {status}")
        now = self._clock()
        started = now if status is S.IN_PROGRESS else call.started_at
        duration = call.duration_ms
        if status in FINAL_STATUSES and started is not None:
            duration = max(0, round((now - started) * 1000))
        return self._keep(replace(call, status=status, started_at=started, duration_ms=duration, **fields))

    def amend(self, call_id: str, **fields: Unpack[CallFields]) -> CanonicalToolCall:
        """Change what is known of an open call without moving it. One change notice."""
        call = self.get(call_id)
        if call.status in FINAL_STATUSES:
            raise CallError(f"call {call_id!r} has ended: {call.status}")
        return self._keep(replace(call, **fields))

    def restore(self, call: CanonicalToolCall) -> None:
        """Take in a call from the ledger as it was. No change notice: nothing changed."""
        self._place(call)

    def get(self, call_id: str) -> CanonicalToolCall:
        try:
            return self._calls[call_id]
        except KeyError:
            raise CallError(f"no call has the id {call_id!r}") from None

    def find(self, call_id: str) -> CanonicalToolCall | None:
        return self._calls.get(call_id)

    def open_calls(self) -> tuple[CanonicalToolCall, ...]:
        return tuple(self._calls[call_id] for call_id in self._open)

    def close_open(self, reason: str) -> tuple[CanonicalToolCall, ...]:
        """Cancel every open call, with the reason as its error. What a turn does at its end, whatever the end."""
        return tuple(self.move(call.id, S.CANCELLED, error=reason) for call in self.open_calls())

    def snapshot(self) -> tuple[CanonicalToolCall, ...]:
        """Every call as it is now, in order: for the transcript and for export."""
        return tuple(self._calls.values())

    def to_json(self) -> list[dict[str, Any]]:
        """The snapshot as JSON values, for export."""
        return _CALLS.dump_python(self.snapshot(), mode="json")

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[CanonicalToolCall]:
        return iter(self.snapshot())

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._calls

    def _keep(self, call: CanonicalToolCall) -> CanonicalToolCall:
        self._place(call)
        self._on_change(call)
        return call

    def _place(self, call: CanonicalToolCall) -> None:
        self._calls[call.id] = call
        if call.status in FINAL_STATUSES:
            self._open.pop(call.id, None)
        else:
            self._open[call.id] = None


_CALLS: TypeAdapter[tuple[CanonicalToolCall, ...]] = TypeAdapter(
    tuple[CanonicalToolCall, ...], config=ConfigDict(defer_build=True)
)
