"""Blobs: large payloads, stored once under their hash and kept while a record references them."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from hashlib import blake2b
from typing import Final

from pilotfish.errors import StorageError
from pilotfish.store.tables.connection import Connection

MIN_PACKED_BYTES: Final = 1_024

MAX_PIN_SECONDS: Final = 86_400
"""how long a blob without a reference is kept for the process that put it, which may have died"""


USE: Final = "INSERT INTO uses VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


def hash_of(data: bytes) -> str:
    return blake2b(data, digest_size=20).hexdigest()


class Blobs:
    """The blobs of one database.

    A blob is pinned between `put` and the record that references it. Without the pin, another process that deletes the
    only session with the same payload would delete the blob.
    """

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._pin = -(time.time_ns() & 0x3FFF_FFFF_FFFF_FFFF) - 1
        self._pinned: Counter[str] = Counter()

    def put(self, hash_: str, data: bytes) -> None:
        """Store and pin a blob."""
        self.add(hash_, data)
        self._pinned[hash_] += 1
        if self._pinned[hash_] == 1:
            self._db.execute(
                "INSERT INTO uses VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (self._pin, int(time.time()), hash_)
            )

    def add(self, hash_: str, data: bytes) -> None:
        """Store a blob if it does not exist yet."""
        if self._db.execute("SELECT 1 FROM blobs WHERE hash = ?", (hash_,)).fetchone():
            return
        packed = zlib.compress(data, 1) if len(data) >= MIN_PACKED_BYTES else data
        is_packed = len(packed) < len(data)
        self._db.execute(
            "INSERT INTO blobs (hash, size, packed, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (hash_, len(data), int(is_packed), packed if is_packed else data),
        )

    def get(self, hash_: str) -> bytes | None:
        row = self._db.execute("SELECT packed, data FROM blobs WHERE hash = ?", (hash_,)).fetchone()
        if row is None:
            return None
        try:
            data: bytes = zlib.decompress(row[1]) if row[0] else row[1]
        except zlib.error:
            return None
        return data

    def name(self, key: int, n: int, hash_: str) -> None:
        """Add the reference from record `n` of a session, and release one pin of this process."""
        self._db.execute(USE, (key, n, hash_))
        if self._pinned[hash_] > 1:
            self._pinned[hash_] -= 1
        elif self._pinned.pop(hash_, 0):
            self._db.execute("DELETE FROM uses WHERE session = ? AND hash = ?", (self._pin, hash_))

    def forget(self, key: int) -> None:
        """Delete a session's references, expired pins, and the blobs that have no reference left."""
        stale = int(time.time()) - MAX_PIN_SECONDS
        candidates = [
            hash_
            for (hash_,) in self._db.execute(
                "SELECT DISTINCT hash FROM uses WHERE session = ? OR (session < 0 AND n < ?)", (key, stale)
            )
        ]
        self._db.execute("DELETE FROM uses WHERE session = ? OR (session < 0 AND n < ?)", (key, stale))
        self.delete_unused(candidates)

    def delete_unused(self, candidates: list[str]) -> None:
        """Delete those of these blobs that have no reference left."""
        self._db.executemany(
            "DELETE FROM blobs WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM uses WHERE hash = blobs.hash)",
            [(hash_,) for hash_ in candidates],
        )

    def pins(self) -> Counter[str] | None:
        """The pins before a transaction, for `restore_pins`. None if there are none, as in most transactions."""
        return self._pinned.copy() if self._pinned else None

    def restore_pins(self, pins: Counter[str] | None) -> None:
        """Undo changes to the pins, after a rollback."""
        self._pinned = Counter() if pins is None else pins


def missing_blob() -> StorageError:
    return StorageError(
        "A stored attachment or output is missing.", remedy="It may have belonged to a session that was deleted."
    )
