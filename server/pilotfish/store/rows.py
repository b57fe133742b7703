"""The values the store gives out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pilotfish.conversation.records import Entry, Usage

NO_USAGE: Final = Usage()


@dataclass(frozen=True, slots=True)
class Heads:
    """Where a session's numbering stands: the last `n`, the last `seq`, and the hash of the last audit entry."""

    n: int
    seq: int
    audit_hash: str


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Entries in order. `has_more`: there are earlier ones; ask with `before_n` = the first kept entry's n."""

    entries: tuple[Entry, ...]
    has_more: bool


class SessionRow(NamedTuple):
    """A session in the catalog, as it is stored. `workspace` is a directory or None."""

    # A tuple, unlike the other values, and flat: a list of ten thousand is made six times faster.
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
        )


@dataclass(frozen=True, slots=True)
class Snippet:
    """A place in a text that a search found. `marks` are the found words, as (start, end) in `text`."""

    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StoreNotice:
    """Something the user should know of the store: a database set aside, records that could not be saved."""

    message: str
    remedy: str
