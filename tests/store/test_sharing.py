"""Who sees and writes what in a PostgreSQL database: the server enforces it, with the role of each connection."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.store.makers import Pen, call, end, said, session, sql, start
from tests.support.postgres import new_store

from pilotfish.errors import StorageError, UnknownSession
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger


async def urls_of_users(count: int) -> list[str]:
    """The URLs with which users of one new database connect. Its administrator has made the tables."""
    url = new_store()
    await Ledger.open(url).aclose()
    users = [f"user_{uuid.uuid4().hex[:8]}" for _ in range(count)]
    with psycopg.connect(url, autocommit=True) as db:
        [schema] = db.execute("SELECT current_schema()").fetchone() or ("",)
        for user in users:
            db.execute(f"CREATE ROLE {user} LOGIN".encode())
            db.execute(f"GRANT USAGE ON SCHEMA {schema} TO {user}".encode())
            db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}".encode())
    was = conninfo_to_dict(url)["user"]
    return [url.replace(f"//{was}", f"//{user}", 1) for user in users]


@asynccontextmanager
async def _two_users() -> AsyncGenerator[tuple[Ledger, Ledger]]:
    """The ledgers of two users of one database. Its administrator has made the tables."""
    alice, bob = [Ledger.open(url) for url in await urls_of_users(2)]
    try:
        yield alice, bob
    finally:
        await alice.aclose()
        await bob.aclose()


async def test_a_session_is_private_until_it_is_shared_and_only_its_owner_shares_it():
    async with _two_users() as (alice, bob):
        blob = await alice.put_blob(b"contents")
        await Catalog(alice).create(session(title="Nets"))
        entries = Pen()(start(), call("c", output="x" * 9_000, blob=blob), said("the parser"))
        await alice.append("s", entries)
        for asked in (Catalog(bob).get("s"), bob.history("s"), bob.heads("s"), Catalog(bob).rename("s", "Mine")):
            with pytest.raises(UnknownSession):
                await asked
        assert (await Catalog(bob).list()).sessions == ()
        assert (await Catalog(bob).list(query="parser")).sessions == ()
        assert await sql(bob, "SELECT count(*) FROM records") == [(0,)]
        with pytest.raises(StorageError, match="missing"):
            await bob.get_blob(blob)

        await Catalog(alice).share("s", "read")
        assert await bob.history("s") == entries
        assert await bob.get_blob(blob) == b"contents"
        assert [row.id for row in (await Catalog(bob).list(query="parser")).sessions] == ["s"]
        with pytest.raises(StorageError, match="for reading only"):
            await bob.append("s", Pen(3, 3)(end()))
        for refused in (Catalog(bob).share("s", "continue"), Catalog(bob).delete("s")):
            with pytest.raises(StorageError, match=r"another user"):
                await refused
        await Catalog(bob).fork("s", "f")
        await bob.append("f", Pen(3, 2)(end()))
        with pytest.raises(UnknownSession):
            await alice.heads("f")

        await Catalog(alice).share("s", "continue")
        await bob.append("s", Pen(3, 2)(end()))
        assert [entry.n for entry in await alice.history("s")] == [1, 2, 3, 4]
        with pytest.raises(StorageError, match="only the owner"):
            await Catalog(bob).share("s", "private")
        with pytest.raises(StorageError, match="another user"):
            await Catalog(bob).delete("s")


async def test_a_payload_that_another_user_needs_is_kept_when_a_session_is_deleted():
    async with _two_users() as (alice, bob):
        for ledger, id_ in ((alice, "a"), (bob, "b")):
            await Catalog(ledger).create(session(id_))
            blob = await ledger.put_blob(b"shared")
            await ledger.append(id_, Pen()(call("c", output="x", blob=blob)))
        await Catalog(bob).delete("b")
        assert await alice.get_blob(blob) == b"shared"
        with pytest.raises(StorageError, match="missing"):
            await bob.get_blob(blob)


async def test_a_database_of_one_user_shares_nothing(tmp_path: str):
    ledger = Ledger.open(tmp_path)
    await Catalog(ledger).create(session())
    with pytest.raises(StorageError, match="Only sessions in a PostgreSQL database"):
        await Catalog(ledger).share("s", "read")
    await ledger.aclose()
