"""What was used: tokens, requests and cost by user, model and day, counted from the records of the ledger.

Each request is counted once: not again in a fork, and not where a session was imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pilotfish.conversation.records import Entry, SessionRecord, TurnEndRecord, Usage, UsageRecord
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import NO_USAGE, SessionRow
from pilotfish.store.tables.tables import Tables

Column = Literal["user", "model", "day"]


@dataclass(frozen=True, slots=True, order=True)
class UsageKey:
    """What a sum is of. A column that is not asked for is empty."""

    day: str = ""
    user: str = ""
    model: str = ""


@dataclass(slots=True)
class UsageSum:
    turns: int = 0
    usage: Usage = NO_USAGE
    sessions: set[str] = field(default_factory=set[str])


async def usage_by(ledger: Ledger, columns: frozenset[Column], since: float) -> dict[UsageKey, UsageSum]:
    """The sums since a time, sorted by their keys. A day is one of this machine's calendar."""

    def count(tables: Tables) -> dict[UsageKey, UsageSum]:
        sums: dict[UsageKey, UsageSum] = {}
        for spent in _each(tables, since):
            key = UsageKey(**{column: getattr(spent.key, column) for column in columns})
            found = sums.setdefault(key, UsageSum())
            found.turns += spent.turns
            found.usage += spent.usage
            found.sessions.add(spent.session_id)
        return dict(sorted(sums.items()))

    return await ledger.read(count)


async def spent_today(ledger: Ledger, now: float) -> Usage:
    """What this user has used since midnight."""
    midnight = datetime.fromtimestamp(now).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)

    def count(tables: Tables) -> Usage:
        user = tables.current_user()
        spent = (each.usage for each in _each(tables, midnight.timestamp()) if each.key.user == user)
        return sum(spent, start=NO_USAGE)

    return await ledger.read(count)


@dataclass(frozen=True, slots=True)
class _Spent:
    key: UsageKey
    session_id: str
    turns: int
    usage: Usage


def _each(tables: Tables, since: float) -> Iterator[_Spent]:
    session_id, model, at = "", "", 0.0
    for row, owner, entry in tables.usage_since(since):
        if row.id != session_id:
            session_id, model, at = row.id, row.model, row.created_at
        record = entry.record
        match record:
            case SessionRecord():
                model = record.model
                continue
            case TurnEndRecord():
                at = record.timestamp
            case UsageRecord(turn_id=""):
                pass  # between turns: at the time of the turn before
            case _:
                continue
        if at < since or _is_copy(row, entry, at):
            continue
        day = datetime.fromtimestamp(at).astimezone().date().isoformat()
        key = UsageKey(day=day, user=owner, model=model)
        yield _Spent(key, row.id, int(isinstance(record, TurnEndRecord)), record.usage)


def _is_copy(row: SessionRow, entry: Entry, at: float) -> bool:
    """Whether a record came with an import, or is of the session that this one was forked from."""
    return entry.n <= row.imported or (row.forked_from is not None and at < row.created_at)
