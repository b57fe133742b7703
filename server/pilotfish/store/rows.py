"""The values that the store returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pilotfish.conversation.records import Entry, Usage

NO_USAGE: Final = Usage()


@dataclass(frozen=True, slots=True)
class Heads:
    """The last `n` and `seq` of a session, and the hash of its last audit entry."""

    n: int
    seq: int
    audit_hash: str


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Entries in order. If `has_more`, pass the first kept entry's `n` as `before_n` to get earlier ones."""

    entries: tuple[Entry, ...]
    has_more: bool


class SessionRow(NamedTuple):
    """A row of the sessions table. `workspace` is a directory or None."""

    # A flat tuple, unlike the other values: building a list of ten thousand is six times faster.
    id: str
    title: str
    workspace: str | None
    model: str
    mode: str
    created_at: float
    updated_at: float
    forked_from: str | None = None
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0
    cost: float | None = None
    imported: int = 0
    """The number of the last record that came with an import. 0 if the session was made here."""
    reasoning_tokens: int = 0
    unpriced_requests: int = 0

    @property
    def usage(self) -> Usage:
        """Summed over the finished turns."""
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            requests=self.requests,
            tool_calls=self.tool_calls,
            cost=self.cost,
            reasoning_tokens=self.reasoning_tokens,
            unpriced_requests=self.unpriced_requests,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSession:
    """Everything that is stored of a session. `named` says whether the user chose its title."""

    row: SessionRow
    heads: Heads
    named: bool
    kept: tuple[Entry, ...]
    unfinished: tuple[Entry, ...]
    blobs: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A search match in a text. `marks` are the matched words as (start, end) in `text`."""

    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StoreNotice:
    """A message for the user about the store: a database that was set aside, records that could not be saved."""

    message: str
    remedy: str
