"""Sessions and records for the store's tests."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from tests.support.postgres import new_store

from pilotfish.conversation.messages import (
    CallResult,
    CallStatus,
    CanonicalMessage,
    CanonicalToolCall,
    MessageRole,
    TextPart,
    UserPromptPart,
    message_to_json,
)
from pilotfish.conversation.records import (
    SILENT_TYPES,
    ChunkRecord,
    Entry,
    MessageRecord,
    Record,
    StateRecord,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    Usage,
)
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import SessionRow

TURN = "turn-1"

backend = "sqlite"
"""the database of the test that runs: `sqlite` or `postgres`"""

_urls: dict[Path, str] = {}


def store_at(directory: Path) -> str:
    """The `storage` setting for a directory: itself, or a schema on the PostgreSQL server of the tests."""
    if backend == "sqlite":
        return str(directory)
    if directory not in _urls:
        _urls[directory] = new_store()
    return _urls[directory]


def session(id_: str = "s", **fields: Any) -> SessionRow:
    values: dict[str, Any] = {
        "title": "",
        "workspace": "/project",
        "model": "demo:fish",
        "mode": "ask",
        "created_at": 1000.0,
        "updated_at": 1000.0,
    }
    usage: Usage = fields.pop("usage", Usage())
    return SessionRow(id=id_, **(values | asdict(usage) | fields))


class Pen:
    """Numbers records like a running session."""

    def __init__(self, n: int = 0, seq: int = 0) -> None:
        self.n = n
        self.seq = seq

    def __call__(self, *records: Record) -> list[Entry]:
        entries: list[Entry] = []
        for record in records:
            self.n += 1
            if record.type in SILENT_TYPES:
                entries.append(Entry(self.n, None, record))
            else:
                self.seq += 1
                entries.append(Entry(self.n, self.seq, record))
        return entries


def start(text: str = "Mend the net", *, turn_id: str = TURN, at: float = 1001.0) -> TurnStartRecord:
    return TurnStartRecord(turn_id=turn_id, prompt=({"type": "text", "text": text},), timestamp=at)


def said(
    text: str,
    *,
    by: Literal["user", "assistant"] = "assistant",
    message_id: str = "m",
    turn_id: str = TURN,
    at: float = 1002.0,
) -> MessageRecord:
    part = TextPart(text) if by == "assistant" else UserPromptPart(text)
    message = CanonicalMessage(MessageRole(by), (part,))
    return MessageRecord(
        turn_id=turn_id,
        message_id=message_id,
        role=by,
        content=text,
        message=message_to_json(message),
        timestamp=at,
    )


def chunk(
    text: str, *, item_id: str = "m.0", channel: Literal["message", "thought", "args", "progress"] = "message"
) -> ChunkRecord:
    return ChunkRecord(turn_id=TURN, item_id=item_id, channel=channel, text=text)


def state(iteration: int = 1) -> StateRecord:
    return StateRecord(turn_id=TURN, state="assistant", iteration=iteration)


def call(
    call_id: str = "c",
    status: CallStatus = CallStatus.COMPLETED,
    *,
    output: str | None = None,
    blob: str | None = None,
    at: float = 1003.0,
) -> ToolCallRecord:
    result = CallResult(text=output, blob=blob, bytes=len(output)) if output is not None else None
    made = CanonicalToolCall(id=call_id, name="grep", args={"pattern": "net"}, status=status, result=result)
    return ToolCallRecord(turn_id=TURN, call=made, timestamp=at)


def end(*, turn_id: str = TURN, usage: Usage | None = None, at: float = 1004.0) -> TurnEndRecord:
    return TurnEndRecord(turn_id=turn_id, stop_reason="end_turn", usage=usage or Usage(), timestamp=at)


@asynccontextmanager
async def opened(directory: Path | None = None) -> AsyncGenerator[tuple[Ledger, Catalog]]:
    """A ledger and its catalog, closed at the end. Uses a new directory if none is given."""
    if directory is None:
        with tempfile.TemporaryDirectory() as name:
            async with opened(Path(name)) as both:
                yield both
        return
    ledger = Ledger.open(store_at(directory))
    try:
        yield ledger, Catalog(ledger, clock=lambda: 2000.0)
    finally:
        await ledger.aclose()


async def sql(ledger: Ledger, statement: str) -> list[Any]:
    """Run a statement of the test in a transaction of the writer."""
    return await ledger.write(lambda tables: tables.db.execute(statement).fetchall())
