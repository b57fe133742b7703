"""A team's PostgreSQL: 50 clients of 1,000 people on 10⁵ to 10⁷ records.

`python -m tests.bench scale`; not part of `make bench`, because it fills a database of several gigabytes. The server
is a real one with its ordinary settings, and every client has a role of its own, so that row-level security is a part
of the figures. Clients pause between requests as people do; clients and server share the machine.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import quote

import psycopg
from tests.bench.bench_growth import memory_mb
from tests.bench.bench_store import kept, row
from tests.bench.figures import Table
from tests.support.postgres import PrivateServer

from pilotfish.conversation.records import Entry, record_to_json
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger

RECORDS = (100_000, 1_000_000, 10_000_000)
PER_SESSION = 100
PEOPLE = 1_000
CLIENTS = 50
REQUESTS = 12  # of each kind, by each client
PAUSE = 0.5  # seconds between the requests of a client, on average

# Like `kept` of bench_store: of four records three are calls and one is a message, which can be searched.
_SESSIONS = """
INSERT INTO sessions (id, title, workspace, model, mode, created_at, updated_at, n, seq, turns, owner)
SELECT 'b' || s, 'Session ' || s || ' about nets', '/project', 'm', 'ask', s, s, %(per)s, %(per)s, 5,
       'dev' || s %% %(people)s
FROM generate_series(%(low)s, %(high)s - 1) AS s
"""
_RECORDS = """
INSERT INTO records (session, n, seq, type, body)
SELECT key, number, number, CASE WHEN number %% 4 = 0 THEN 'message' ELSE 'tool_call' END,
       CASE WHEN number %% 4 = 0 THEN %(message)s ELSE %(call)s END
FROM sessions, generate_series(1, %(per)s) AS g (number)
WHERE sessions.created_at >= %(low)s AND sessions.created_at < %(high)s
"""
_TEXTS = """
INSERT INTO texts (session, n, words)
SELECT key, number, to_tsvector('simple', 'i looked at file ' || key || 'x' || number || ' and mended the net in it')
FROM sessions, generate_series(4, %(per)s, 4) AS g (number)
WHERE sessions.created_at >= %(low)s AND sessions.created_at < %(high)s
"""
_TITLES = """
INSERT INTO titles (session, words)
SELECT key, to_tsvector('simple', title) FROM sessions
WHERE sessions.created_at >= %(low)s AND sessions.created_at < %(high)s
"""


def record(n: int) -> str:
    return record_to_json(kept(n)).decode()


def fill(url: str, low: int, high: int) -> None:
    """Sessions `low` to `high`, as the store would have written them."""
    values = {"low": low, "high": high, "per": PER_SESSION, "people": PEOPLE, "message": record(4), "call": record(1)}
    with psycopg.connect(url, autocommit=True) as db:
        for statement in (_SESSIONS, _RECORDS, _TEXTS, _TITLES):
            db.execute(statement.encode(), values)
        db.execute("VACUUM ANALYZE")


@asynccontextmanager
async def clients(server: PrivateServer, schema: str) -> AsyncGenerator[list[Ledger]]:
    """One ledger for each client, as a role that sees its own sessions."""
    roles = [f"dev{number}" for number in range(CLIENTS)]
    with psycopg.connect(server.url, autocommit=True) as db:
        for role in roles:
            if db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
                db.execute(f"CREATE ROLE {role} LOGIN".encode())
            db.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
            db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}".encode())
    own = f"{server.url}&options={quote(f'-c search_path={schema}')}"
    ledgers = [Ledger.open(own.replace("postgres:@", f"{role}@")) for role in roles]
    try:
        await asyncio.gather(*(ledger.ready() for ledger in ledgers))
        yield ledgers
    finally:
        await asyncio.gather(*(ledger.aclose() for ledger in ledgers))


async def latencies(ledgers: list[Ledger], work: Callable[[int, Ledger, int], Awaitable[object]]) -> list[float]:
    """Milliseconds of each request of all clients."""
    found: list[float] = []

    async def client(number: int, ledger: Ledger) -> None:
        chance = random.Random(number)
        for turn in range(REQUESTS):
            await asyncio.sleep(chance.uniform(0, 2 * PAUSE))
            start = time.perf_counter()
            await work(number, ledger, turn)
            found.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*(client(number, ledger) for number, ledger in enumerate(ledgers)))
    return found


async def append(number: int, ledger: Ledger, turn: int) -> None:
    """One durable append. The first makes the session."""
    id_ = f"bench-{number}"
    if turn == 0:
        await Catalog(ledger).create(row(id_))
    await ledger.append(id_, [Entry(turn + 1, None, kept(4))])
    await ledger.sync(id_)


async def measure(server: PrivateServer, schema: str, records: int, table: Table, floors: dict[str, float]) -> None:
    sessions = records // PER_SESSION

    async def page(number: int, ledger: Ledger, turn: int) -> None:
        await ledger.page(f"b{number + PEOPLE * (turn % max(1, sessions // PEOPLE))}", None, 100)

    async def delete(number: int, ledger: Ledger, turn: int) -> None:
        if turn == 0:
            await ledger.delete(f"bench-{number}")

    cases: dict[str, Callable[[int, Ledger, int], Awaitable[object]]] = {
        "append, durable": append,
        "first page of the sessions": lambda _n, ledger, _t: Catalog(ledger).list("/project", None, None, 50),
        "search for a word that every session has": lambda _n, ledger, _t: Catalog(ledger).list(query="mended"),
        "search for a word of one session": lambda _n, ledger, _t: Catalog(ledger).list(query="Session 700"),
        "a page of 100 records": page,
    }
    async with clients(server, schema) as ledgers:
        for name, work in cases.items():
            times = sorted(await latencies(ledgers, work))
            median, late = statistics.median(times), times[int(len(times) * 0.99)]
            table.add(f"{name}, of {records:,}, median", median, "ms", of_100000=floors.setdefault(name, median))
            table.add(f"{name}, of {records:,}, 99 of 100", late, "ms")
        await latencies(ledgers, delete)
        table.add(f"memory of {CLIENTS} clients in one process, {records:,} records", memory_mb(), "MB")


async def main() -> int:
    table = Table("scale")
    server = PrivateServer()
    try:
        with psycopg.connect(server.url, autocommit=True) as db:
            db.execute("ALTER SYSTEM SET max_connections = 300")
        server.kill()
        server.start()
        store = server.new_store()
        ledger = Ledger.open(store)
        await ledger.ready()
        await ledger.aclose()
        floors: dict[str, float] = {}
        done = 0
        for records in RECORDS:
            start = time.perf_counter()
            await asyncio.to_thread(fill, store, done, records // PER_SESSION)
            done = records // PER_SESSION
            print(f"{records:,} records after {time.perf_counter() - start:.0f} s", flush=True)
            await measure(server, store.rpartition("search_path%3D")[2], records, table, floors)
        with psycopg.connect(server.url) as db:
            found = db.execute("SELECT pg_database_size(current_database())").fetchone()
            table.add("size of the database", (found or (0,))[0] / 1e6, "MB")
    finally:
        server.stop()
    return table.finish()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
