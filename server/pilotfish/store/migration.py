"""Copies all sessions from one store to another, in either direction, and checks each copy.

The source is not changed. A migration that was interrupted can be run again: sessions that are in the target already,
and are the same there, are only checked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from hashlib import blake2b

import orjson

from pilotfish.errors import PilotfishError, SessionBusy, StorageError, UnknownSession
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import WholeSession
from pilotfish.store.tables.bodies import encode_whole

PAGE = 200


@dataclass(slots=True)
class Migrated:
    """What a migration has done. `failed` maps the id of a session to the reason."""

    copied: int = 0
    present: int = 0
    records: int = 0
    failed: dict[str, str] = field(default_factory=dict[str, str])


async def migrate(source: Ledger, target: Ledger, progress: Callable[[Migrated], None] = lambda _: None) -> Migrated:
    """Copy every session of `source` to `target`. Each is leased meanwhile, so that it does not change."""
    done = Migrated()
    for ledger in (source, target):
        await ledger.ready()
        if ledger.unsaved is not None:
            raise StorageError(ledger.unsaved, remedy="Nothing was copied.")
    async for session_id in _all(source):
        try:
            await _migrate(source, target, session_id, done)
        except UnknownSession:
            continue  # deleted meanwhile
        except SessionBusy as error:
            done.failed[session_id] = f"{error} Run this again when it is free."
        except PilotfishError as error:
            done.failed[session_id] = str(error)
        if target.unsaved is not None:
            raise StorageError(target.unsaved, remedy="Run this again when the database can be written.")
        progress(done)
    return done


async def _migrate(source: Ledger, target: Ledger, session_id: str, done: Migrated) -> None:
    lease = await source.lease(session_id)
    try:
        session = await source.read(lambda tables: tables.whole(session_id))
        present = await target.read(lambda tables: tables.has(session_id))
        if not present:
            await target.write(lambda tables: tables.take_in(session))
        copy = await target.read(lambda tables: tables.whole(session_id))
    finally:
        lease.release()
    if digest(copy) != digest(session):
        raise StorageError(
            "It is in the target already, and is different there."
            if present
            else f"The copy is different: {len(copy.kept)} of {len(session.kept)} records.",
            remedy="",
        )
    done.copied += not present
    done.present += present
    done.records += len(session.kept) + len(session.unfinished)


async def _all(source: Ledger) -> AsyncIterator[str]:
    catalog, cursor, pages = Catalog(source), None, 0
    while cursor is not None or not pages:
        listed = await catalog.list(cursor=cursor, limit=PAGE)
        cursor, pages = listed.next_cursor, pages + 1
        for row in listed.sessions:
            yield row.id


def digest(session: WholeSession) -> str:
    """A hash of everything that is stored of a session."""
    made = blake2b(digest_size=32)
    made.update(orjson.dumps([list(session.row), session.named, session.heads.n, session.heads.seq]))
    made.update(session.heads.audit_hash.encode())
    for entry in (*session.kept, *session.unfinished):
        made.update(orjson.dumps([entry.n, entry.seq]))
        made.update(encode_whole(entry.record).encode())
    for hash_, data in sorted(session.blobs.items()):
        made.update(hash_.encode())
        made.update(blake2b(data, digest_size=32).digest())
    return made.hexdigest()
