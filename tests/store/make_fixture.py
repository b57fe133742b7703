"""Writes a database of the current version as SQL text: `python -m tests.store.make_fixture > fixtures/vN.sql`.

Run it once for every new version, before the first release that writes it, and never again: the file stands for the
databases that are out there.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from pathlib import Path

from tests.store.makers import TURN, Pen, call, chunk, opened, said, session, start, state

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.records import (
    ApprovalRecord,
    Attachment,
    CompactionRecord,
    Failure,
    FileChangeRecord,
    KilledProcess,
    MessageRecord,
    NoticeRecord,
    PlanEntry,
    PlanRecord,
    Receipt,
    Record,
    SessionRecord,
    TurnEndRecord,
    UndoRecord,
    Usage,
    UsageRecord,
)

PICTURE = b"\x89PNG" * 300
BEFORE = b"a net with a hole\n"
OUTPUT = "net.py:3: hole\n" * 800


def records(picture: str, before: str) -> list[Record]:
    """One record of each type."""
    return [
        start("Mend the net"),
        MessageRecord(
            turn_id=TURN,
            message_id="u1",
            role="user",
            content="Mend the net",
            message={"role": "user", "parts": [{"part_kind": "user-prompt", "content": "Mend the net"}]},
            timestamp=1001.0,
            binary_content=(Attachment(blob=picture, mime_type="image/png", name="net.png"),),
        ),
        state(),
        chunk("I look ", item_id="a1.0"),
        chunk("first.", item_id="a1.0"),
        said("I look first.", message_id="a1"),
        call("c1", CallStatus.PENDING),
        ApprovalRecord(
            turn_id=TURN,
            call_id="c1",
            tool="grep",
            digest="d",
            decision="allow",
            by="user",
            reason="asked",
            timestamp=1002.5,
            previous="",
            hash="h1",
            approval_id="q1",
            option_id="allow_once",
        ),
        call("c1", CallStatus.COMPLETED, output=OUTPUT),
        FileChangeRecord(
            turn_id=TURN,
            call_id="c1",
            uri="file:///project/net.py",
            change="edited",
            added=1,
            removed=1,
            via="buffer",
            before=before,
            after=None,
            timestamp=1003.0,
        ),
        PlanRecord(turn_id=TURN, entries=(PlanEntry(content="mend"),), timestamp=1003.1),
        UsageRecord(turn_id=TURN, usage=Usage(input_tokens=10), context_used=10, context_window=100),
        NoticeRecord(turn_id=TURN, level="info", message="A notice.", timestamp=1003.2),
        CompactionRecord(turn_id=TURN, before=10, after=5, summary="Nets.", timestamp=1003.3, keep_from="a1"),
        SessionRecord(turn_id=TURN, title="Net mending", model="demo:fish", mode="edit"),
        said("Mended. 渔网", message_id="a2"),
        TurnEndRecord(
            turn_id=TURN,
            stop_reason="cancelled",
            usage=Usage(input_tokens=10, output_tokens=5, requests=1, cost=0.25),
            timestamp=1004.0,
            error=Failure(message="m", remedy="r"),
            receipt=Receipt(turn_id=TURN, killed_processes=(KilledProcess(pid=1, command="sleep"),)),
        ),
        UndoRecord(turn_id=TURN, direction="undo", uris=("file:///project/net.py",), timestamp=1005.0),
        start("And now?", turn_id="turn-2", at=1006.0),
        chunk("Half an ", item_id="a3.0"),
        chunk("answer", item_id="a3.0"),
    ]


async def write(directory: Path) -> None:
    async with opened(directory) as (ledger, catalog):
        await catalog.create(session("first"))
        pen = Pen()
        for record in records(await ledger.put_blob(PICTURE), await ledger.put_blob(BEFORE)):
            await ledger.append("first", pen(record))
        await catalog.create(session("second", title="Boats", workspace=None, updated_at=900.0))
        await catalog.fork("first", "third", upto_n=6)


def dump(path: Path) -> str:
    """Schema and rows as SQL. The full-text tables are written through their own columns."""
    with sqlite3.connect(path) as db:
        lines = [f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]};"]
        schema = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
        shadows = ("texts_", "titles_", "sqlite_")
        for _, name, sql in schema:
            if not name.startswith(shadows):
                lines.append(f"{sql};")
        for type_, name, _ in schema:
            if type_ == "table" and not name.startswith(shadows):
                columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
                if name in ("texts", "titles"):
                    columns.insert(0, "rowid")
                quoted = " || ',' || ".join(f"quote({column})" for column in columns)
                for (values,) in db.execute(f"SELECT {quoted} FROM {name}"):
                    lines.append(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({values});")
    db.close()
    return "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(write(Path(directory)))
        sys.stdout.write(dump(Path(directory) / "sessions.db"))


if __name__ == "__main__":
    main()
