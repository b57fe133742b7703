"""The process that is killed: `python -m tests.store.crash_child`.

It imports once and then forks a victim for every line `[directory, seed, delay, at_work]` on its input. The victim
appends under load; after `delay` seconds, counted from its first acknowledged record when it is to die at work, it is
killed with SIGKILL. What it had begun (`+`) and what had been acknowledged (`!`) is answered as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator

from pilotfish.conversation.messages import (
    CallResult,
    CallStatus,
    CanonicalMessage,
    CanonicalToolCall,
    Category,
    MessageRole,
    Part,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    message_to_json,
)
from pilotfish.conversation.records import (
    SILENT_TYPES,
    ChunkRecord,
    Entry,
    FileChangeRecord,
    MessageRecord,
    Record,
    StateRecord,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    Usage,
)
from pilotfish.errors import UnknownSession
from pilotfish.store.catalog import Catalog, SessionRow
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.blobs import hash_of

SESSIONS = ("a", "b", "c")
LONGEST_START = 30.0  # seconds within which a child must have written something


def turn(chance: random.Random, turn_id: str) -> Iterator[Record | bytes]:
    """The records of a turn, as the engine writes them. Bytes are stored as a blob before the records after them."""
    now = chance.random() * 1e9

    def message(message_id: str, role: MessageRole, *parts: Part, text: str = "") -> MessageRecord:
        return MessageRecord(
            turn_id=turn_id,
            message_id=message_id,
            role="assistant" if role is MessageRole.ASSISTANT else "user",
            content=text,
            message=message_to_json(CanonicalMessage(role, parts)),
            timestamp=now,
        )

    yield TurnStartRecord(turn_id=turn_id, prompt=({"type": "text", "text": turn_id},), timestamp=now)
    yield message(f"{turn_id}u", MessageRole.USER, UserPromptPart(turn_id), text=turn_id)
    for step in range(chance.randint(1, 3)):
        message_id = f"{turn_id}s{step}"
        yield StateRecord(turn_id=turn_id, state="assistant", iteration=step)
        words = [f"word{i} " for i in range(chance.randint(1, 8))]
        for word in words:
            yield ChunkRecord(turn_id=turn_id, item_id=f"{message_id}.0", channel="message", text=word)
        call_id = f"{message_id}c"
        args = {"path": "x", "text": "y" * chance.choice((10, 20_000))}
        text = "".join(words)
        yield message(message_id, MessageRole.ASSISTANT, TextPart(text), ToolCallPart("edit", args, call_id), text=text)
        call = CanonicalToolCall(id=call_id, name="edit", args=args, category=Category.WRITE)
        yield ToolCallRecord(turn_id=turn_id, call=call, timestamp=now)
        before = chance.randbytes(chance.choice((100, 40_000)))
        yield before
        running = CanonicalToolCall(
            id=call_id, name="edit", args=args, category=Category.WRITE, status=CallStatus.IN_PROGRESS
        )
        yield ToolCallRecord(turn_id=turn_id, call=running, timestamp=now)
        yield FileChangeRecord(
            turn_id=turn_id,
            call_id=call_id,
            uri="file:///x",
            change="edited",
            added=1,
            removed=0,
            via="disk",
            before=hash_of(before),
            after=None,
            timestamp=now,
        )
        yield ChunkRecord(turn_id=turn_id, item_id=call_id, channel="progress", text="half way")
        done = CanonicalToolCall(
            id=call_id,
            name="edit",
            args=args,
            category=Category.WRITE,
            status=CallStatus.COMPLETED,
            result=CallResult(text="z" * chance.choice((10, 15_000))),
        )
        yield ToolCallRecord(turn_id=turn_id, call=done, timestamp=now)
        yield message(f"{message_id}r", MessageRole.USER, ToolReturnPart("edit", "ok", call_id))
    yield TurnEndRecord(turn_id=turn_id, stop_reason="end_turn", usage=Usage(requests=1), timestamp=now)


async def append_for_ever(ledger: Ledger, session_id: str, chance: random.Random, tell: int) -> None:
    heads = await ledger.heads(session_id)
    n, seq = heads.n, heads.seq
    waiting: set[asyncio.Future[None]] = set()
    group: list[Entry] = []

    def acknowledged(entries: list[Entry], future: asyncio.Future[None]) -> None:
        waiting.discard(future)
        if future.exception() is not None:
            os.write(tell, f"E {session_id} {entries[0].n} {future.exception()!r}\n".encode())
        else:
            os.write(tell, "".join(f"! {session_id} {entry.n}\n" for entry in entries).encode())

    while True:
        for record in turn(chance, f"t{n}-{chance.randrange(10**9)}-"):
            if isinstance(record, bytes):
                await ledger.put_blob(record)
                continue
            n += 1
            silent = record.type in SILENT_TYPES
            seq += not silent
            group.append(Entry(n, None if silent else seq, record))
            if chance.random() < 0.6:
                entries, group = group, []
                os.write(tell, "".join(f"+ {session_id} {e.n} {e.record.type}\n" for e in entries).encode())
                future = ledger.append(session_id, entries)
                waiting.add(future)
                future.add_done_callback(lambda done, entries=entries: acknowledged(entries, done))
                if chance.random() < 0.5:
                    await asyncio.wait(waiting)
        await asyncio.sleep(0)


async def victim(directory: str, seed: int, tell: int) -> None:
    ledger = Ledger.open(directory)
    catalog = Catalog(ledger)
    for session_id in SESSIONS:
        try:
            await catalog.get(session_id)
        except UnknownSession:
            row = SessionRow(session_id, "", None, "m", "ask", 1.0, 1.0)
            await catalog.create(row)
    await asyncio.gather(*(append_for_ever(ledger, id_, random.Random(f"{seed}{id_}"), tell) for id_ in SESSIONS))


def kill_one(directory: str, seed: int, delay: float, at_work: bool) -> list[str]:
    pipe_out, pipe_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(pipe_out)
            asyncio.run(victim(directory, seed, pipe_in))
        finally:
            os._exit(1)
    os.close(pipe_in)
    output: list[bytes] = []
    os.set_blocking(pipe_out, False)
    began = time.monotonic()
    while at_work and not any(b"!" in piece for piece in output) and time.monotonic() < began + LONGEST_START:
        _read_pipe(pipe_out, output)
        time.sleep(0.001)
    deadline = time.monotonic() + delay
    while time.monotonic() < deadline:
        _read_pipe(pipe_out, output)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while _read_pipe(pipe_out, output):
        pass
    os.close(pipe_out)
    lines = b"".join(output).decode().splitlines(keepends=True)
    return [line.rstrip("\n") for line in lines if line.endswith("\n")]


def _read_pipe(pipe_out: int, output: list[bytes]) -> bool:
    try:
        data = os.read(pipe_out, 1 << 20)
    except BlockingIOError:
        return False
    output.append(data)
    return bool(data)


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(kill_one(*json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
