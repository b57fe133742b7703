"""Tracks the state of every call by id.

The table `MOVES` lists the allowed status changes. Every change calls `on_change` exactly once with the new state of
the call. Any other status change raises `CallError` and changes nothing. Arguments are normalised once, here.

Edge cases:
- A call without an id gets one.
- A call whose id is already used gets a new one. `register` returns the call: use its id.
- A call without a name, a change of an unknown call and a second end raise `CallError`, which names the id.
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
from pilotfish.conversation.provenance import Source
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
"""The statuses that may follow each status. Only a running call can complete, and it can no longer be denied."""


class CallError(PilotfishError):
    """An operation on a call is not allowed. This is a bug of the caller and never shown to a user."""


class CallFields(TypedDict, total=False):
    """The fields that may change with the status."""

    name: str
    args: Mapping[str, Any]
    raw_args: str | None
    title: str
    category: Category
    locations: tuple[Location, ...]
    result: CallResult | None
    diff: str | None
    error: str | None
    approval: CallApproval | None
    source: Source | None
    unrecorded: bool


class ToolCallRegistry:
    """The calls of a session, in the order of their registration."""

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
        parent_id: str | None = None,
        may_ask: bool = True,
    ) -> CanonicalToolCall:
        """Register a new call. Use the id of the returned call, which may differ from `call_id`."""
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
                parent_id=parent_id,
                may_ask=may_ask,
            )
        )

    def move(self, call_id: str, status: CallStatus, **fields: Unpack[CallFields]) -> CanonicalToolCall:
        """Change the status of a call, and other fields with it. Calls `on_change` once."""
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
        """Change fields of an open call but not its status. Calls `on_change` once."""
        call = self.get(call_id)
        if call.status in FINAL_STATUSES:
            raise CallError(f"call {call_id!r} has ended: {call.status}")
        return self._keep(replace(call, **fields))

    def restore(self, call: CanonicalToolCall) -> None:
        """Add a call from the ledger unchanged. Does not call `on_change`."""
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
        """Cancel every open call with the reason as its error. Every turn does this at its end."""
        return tuple(self.move(call.id, S.CANCELLED, error=reason) for call in self.open_calls())

    def snapshot(self) -> tuple[CanonicalToolCall, ...]:
        """Return all calls in order, for the transcript and for export."""
        return tuple(self._calls.values())

    def to_json(self) -> list[dict[str, Any]]:
        """Return the snapshot as JSON values, for export."""
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
