"""What the ledger costs: `python -m tests.bench.bench_store`.

CPU time of the whole process (loop, store threads): the wall clock of a shared machine says little. Appends are
medians of interleaved rounds; reads are the best of several, because what else runs on the machine can only add to
them.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.bench.figures import Table

from pilotfish.conversation.messages import CallResult, CallStatus, CanonicalToolCall
from pilotfish.conversation.records import ChunkRecord, Entry, MessageRecord, Record, ToolCallRecord
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import SessionRow
from pilotfish.store.tables.tables import Tables

RATIO_LIMIT = 1.2
CPU_LIMIT_MS = 50.0
LONG = 100_000
SHORT = 100
ROUNDS = 24
SESSIONS = 10_000


def row(id_: str, at: float = 0.0) -> SessionRow:
    return SessionRow(
        id=id_,
        title=f"Session {id_} about nets",
        workspace="/project",
        model="m",
        mode="ask",
        created_at=at,
        updated_at=at,
        input_tokens=120_000 + int(at),
        output_tokens=9_000,
        cached_tokens=80_000,
        requests=40,
        tool_calls=60,
        cost=0.4,
    )


def kept(n: int) -> Record:
    """The mix of records that a turn writes: mostly calls, some messages."""
    if n % 4:
        call = CanonicalToolCall(
            id=f"c{n}",
            name="grep",
            args={"pattern": "net", "path": "src"},
            status=CallStatus.COMPLETED if n % 4 == 3 else CallStatus.IN_PROGRESS,
            result=CallResult(text="src/net.py:12: net = Net()\n" * 8),
        )
        return ToolCallRecord(turn_id="t", call=call, timestamp=float(n))
    text = f"I looked at file {n} and mended the net in it. " * 5
    return MessageRecord(
        turn_id="t",
        message_id=f"m{n}",
        role="assistant",
        content=text,
        message={"role": "assistant", "parts": [{"part_kind": "text", "content": text}]},
        timestamp=float(n),
    )


def chunk(n: int) -> Record:
    return ChunkRecord(turn_id="t", item_id=f"x{n // 200}.0", channel="message", text="some words of an answer ")


class Line:
    """The numbering of one session."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.n = self.seq = 0

    def next(self, make: Callable[[int], Record]) -> Entry:
        self.n += 1
        record = make(self.n)
        if record.type == "message":
            return Entry(self.n, None, record)
        self.seq += 1
        return Entry(self.n, self.seq, record)


async def fill(ledger: Ledger, line: Line, count: int) -> None:
    while line.n < count:
        await ledger.append(line.id, [line.next(kept) for _ in range(min(1000, count - line.n))])


async def one_by_one(ledger: Ledger, line: Line, count: int, make: Callable[[int], Record]) -> float:
    """Microseconds of CPU per append, if each append is awaited."""
    entries = [line.next(make) for _ in range(count)]
    begun = time.process_time()
    for entry in entries:
        await ledger.append(line.id, [entry])
    return (time.process_time() - begun) / count * 1e6


async def burst(ledger: Ledger, line: Line, count: int, make: Callable[[int], Record]) -> float:
    """Microseconds of CPU per append in a burst without awaiting in between."""
    entries = [line.next(make) for _ in range(count)]
    begun = time.process_time()
    waiting = [ledger.append(line.id, [entry]) for entry in entries]
    await asyncio.gather(*waiting)
    return (time.process_time() - begun) / count * 1e6


async def loop_share(ledger: Ledger, line: Line, count: int, make: Callable[[int], Record]) -> float:
    """Microseconds of CPU per awaited append on the event loop's thread."""
    entries = [line.next(make) for _ in range(count)]
    begun = time.thread_time()
    for entry in entries:
        await ledger.append(line.id, [entry])
    return (time.thread_time() - begun) / count * 1e6


async def cpu_ms(work: Callable[[], Awaitable[object]], rounds: int = 9) -> float:
    """Milliseconds of CPU, the best of some rounds."""
    times: list[float] = []
    for _ in range(rounds):
        begun = time.process_time()
        await work()
        times.append((time.process_time() - begun) * 1e3)
    return min(times)


async def loop_lag(ledger: Ledger, line: Line) -> float:
    """The longest delay of the event loop while 5,000 records were appended in bursts, in milliseconds."""
    longest = 0.0
    done = False

    async def watch() -> None:
        nonlocal longest
        while not done:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - begun - 0.001)

    watcher = asyncio.create_task(watch())
    for _ in range(50):
        await asyncio.gather(*(ledger.append(line.id, [line.next(kept)]) for _ in range(100)))
    done = True
    await watcher
    return longest * 1e3


async def measure(directory: Path) -> int:
    ledger = Ledger.open(directory)
    catalog = Catalog(ledger)
    long, streaming = Line("long"), Line("streaming")
    # A session of 100 records for each round: it must not grow while it is measured. Half of them lie before the long
    # one in the database and half behind it: at its end there is more room than in the middle.
    shorts = [Line(f"short-{number}") for number in range(ROUNDS)]
    for line in (*shorts[::2], long, *shorts[1::2], streaming):
        await catalog.create(row(line.id))
        await fill(ledger, line, {long: LONG, streaming: 0}.get(line, SHORT))

    table = Table("store")
    samples: dict[str, list[float]] = {"short": [], "long": []}
    bursts: dict[str, list[float]] = {"short": [], "long": []}
    for number, short in enumerate(shorts):
        pair = (("short", short), ("long", long))
        # Whoever comes second works beside what the store does behind the first. Twos, so that place and order differ.
        for name, line in pair[:: 1 if number // 2 % 2 else -1]:
            samples[name].append(await one_by_one(ledger, line, 100, kept))
            bursts[name].append(await burst(ledger, line, 200, kept))
    for name, found in (("one by one", samples), ("in a burst", bursts)):
        few, many = statistics.median(found["short"]), statistics.median(found["long"])
        record = f"append {name} to {LONG:,} records"
        table.add(record, many, "µs", ratio_target=RATIO_LIMIT, to_100_records=few)
    chunks = [await one_by_one(ledger, streaming, 300, chunk) for _ in range(5)]
    share = [await loop_share(ledger, streaming, 300, chunk) for _ in range(5)]
    table.add("append a chunk, one by one", statistics.median(chunks), "µs", on_the_event_loop=share)
    chunks = [await burst(ledger, streaming, 1000, chunk) for _ in range(5)]
    table.add("append a chunk, in a burst", statistics.median(chunks), "µs")

    last_page = await cpu_ms(lambda: ledger.page("long", None, 200))
    table.add(f"last page (200 records) of {LONG:,}", last_page, "ms", target=CPU_LIMIT_MS)
    history = await cpu_ms(lambda: ledger.history("long"), rounds=1)
    table.add(f"whole history of {LONG:,} records", history, "ms")

    def many_sessions(tables: Tables) -> None:
        for i in range(SESSIONS):
            tables.create(row(f"s{i:05}", float(i)))

    await ledger.write(many_sessions)
    first = await cpu_ms(lambda: catalog.list("/project", None, None, 50))
    table.add(f"first page (50) of {SESSIONS:,} sessions", first, "ms", target=CPU_LIMIT_MS)
    whole = await cpu_ms(lambda: catalog.list(limit=SESSIONS))
    table.add(f"all {SESSIONS:,} sessions in one list", whole, "ms", target=CPU_LIMIT_MS)
    common = await cpu_ms(lambda: catalog.list(query="about nets", limit=50))
    table.add(f"search, found in all {SESSIONS:,} sessions", common, "ms")
    rare = await cpu_ms(lambda: catalog.list(query="looked 4004", limit=50))
    table.add("search, found in one", rare, "ms")

    table.add("longest pause of the loop during 5,000 appends, clock", await loop_lag(ledger, shorts[0]), "ms")
    await ledger.aclose()
    begun = time.process_time()
    ledger = Ledger.open(directory)
    await ledger.ready()
    table.add("opening this database", (time.process_time() - begun) * 1e3, "ms")
    await ledger.aclose()
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    table.add("its size on disk", size / 1e6, "MB")
    return table.finish()


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(measure(Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
