"""Locates and opens the database file, and replaces a damaged one.

A damaged database is never overwritten. It is moved into a new directory beside the database, and what SQLite can still
read is copied into a new file. This requires exclusive access: every open ledger holds a shared lock on
`sessions.lock`, and the replacement takes that lock exclusively.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from urllib.request import url2pathname

from pilotfish.errors import StorageError
from pilotfish.store.database_errors import DamagedDatabase, DatabaseGone, is_damage
from pilotfish.store.locks import lock_alone, lock_shared, make_private, open_lock_file
from pilotfish.store.rows import StoreNotice
from pilotfish.store.sqlite.schema import VERSION, migrate, refuse_newer, version_of
from pilotfish.store.sqlite.search import SearchIndex

DATABASE: Final = "sessions.db"
LOCK: Final = "sessions.lock"
SUSPECT: Final = "sessions.db.suspect"
"""marker file left after damage was found: the next open checks the whole database"""
UNSCRUBBED: Final = "sessions.db.unscrubbed"
"""marker file: the search index still contains deleted text that must be overwritten"""
SALVAGED: Final = "sessions.db.salvaged"

MAX_IDLE_LOG_BYTES: Final = 16 << 20

BUSY_SECONDS: Final = 5.0
"""how long a commit waits for the commit of another process"""


def directory_of(location: Path | str | None) -> Path:
    """The directory for a `storage` setting. None means the user's state directory."""
    if location is None:
        from platformdirs import user_state_path

        return user_state_path("pilotfish", appauthor=False)
    if isinstance(location, str) and "://" in location:
        return _directory_of_url(location)
    return Path(location).expanduser()


def _directory_of_url(url: str) -> Path:
    """The directory for a `sqlite:///path` URL (absolute if the path starts with another slash) or a `file:` URL. The
    URL may name the directory or the database in it."""
    scheme, _, rest = url.partition("://")
    match scheme.lower():
        case "sqlite" if rest.startswith("/") and rest.strip("/"):
            path = Path(unquote(rest[1:])).expanduser()
        case "file" if rest.startswith("/") and rest.strip("/"):
            path = Path(url2pathname(rest))
        case "sqlite" | "file":
            raise StorageError(
                f"The `storage` URL has no path: {scheme}://{rest}",
                remedy="Use a URL such as sqlite:////home/me/sessions, or just the directory.",
            )
        case "postgresql" | "postgres":
            return directory_of(None)  # for the files of a ledger that stay on this machine
        case _:
            raise StorageError(
                f"Pilotfish stores sessions in SQLite or PostgreSQL; `{scheme}` databases are not supported.",
                remedy="Set `storage` to a directory, or to a URL such as postgresql://db.example.org/pilotfish.",
            )
    if path.name == DATABASE:
        return path.parent
    if path.suffix in (".db", ".sqlite", ".sqlite3") and not path.is_dir():
        raise StorageError(
            f"The database file must be named {DATABASE}, not {path.name}.",
            remedy=f"Set `storage` to its directory, or to {path.with_name(DATABASE)}.",
        )
    return path


class DatabaseFile:
    """The database file, and this process's lock on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / DATABASE
        self._lock_fd: int | None = None
        self._opened: os.stat_result | None = None
        """the identity of the file that `open` has opened"""

    def open(self) -> tuple[sqlite3.Connection, list[StoreNotice]]:
        """Open the database, or create it, at this program's schema version and private to the user.

        A damaged database is replaced first; the notices report that.
        """
        self._enter()
        notices: list[StoreNotice] = []
        if (self.directory / SALVAGED).exists():
            # A process was killed after it had finished the salvaged copy and before it had replaced the database.
            notices.append(self._alone(lambda: self._replace_damaged("")))
        try:
            db = self._connect()
        except (sqlite3.DatabaseError, DamagedDatabase) as error:
            if not is_damage(error):
                raise
            notices.append(self._alone(self._salvage))
            db = self._connect()
        self._opened = self.path.stat()
        return db, notices

    def open_reader(self) -> sqlite3.Connection:
        """Open a second connection that cannot write."""
        db = _connection(self.path)
        db.execute("PRAGMA query_only = ON")
        return db

    def open_read_only(self) -> sqlite3.Connection | None:
        """Open the database without writing to it. None if it cannot be read or has another schema version."""
        uri = self.path.absolute().as_uri()
        # WAL mode needs a writable directory. Without one, `immutable` reads the file as if nobody wrote to it.
        for mode in ("mode=ro", "mode=ro&immutable=1"):
            with contextlib.suppress(sqlite3.Error):
                db = sqlite3.connect(f"{uri}?{mode}", uri=True, isolation_level=None)
                try:
                    if version_of(db) == VERSION:
                        return db
                except sqlite3.Error:
                    db.close()
                    continue
                db.close()
        return None

    def mark_suspect(self) -> None:
        """Make the next open check the whole database."""
        with contextlib.suppress(OSError):
            (self.directory / SUSPECT).touch(mode=0o600)

    @property
    def is_scrubbed(self) -> bool:
        """Whether the file contains no deleted text any more."""
        return not (self.directory / UNSCRUBBED).exists()

    def mark_scrubbed(self, scrubbed: bool) -> None:
        if scrubbed:
            (self.directory / UNSCRUBBED).unlink(missing_ok=True)
        else:
            (self.directory / UNSCRUBBED).touch(mode=0o600)

    def check_in_place(self) -> None:
        """Raises `DatabaseGone` if the opened file was deleted or replaced."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            found = None
        if self._opened is not None and (found is None or not os.path.samestat(found, self._opened)):
            self.leave()
            raise DatabaseGone

    def leave(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _enter(self) -> None:
        make_private(self.directory)
        if self._lock_fd is None:
            self._lock_fd = open_lock_file(self.directory / LOCK)
            lock_shared(self._lock_fd)
        if not self.path.exists() and not (self.directory / SALVAGED).exists():
            with contextlib.suppress(FileExistsError):
                # SQLite creates its other files with the mode of this one.
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def _connect(self) -> sqlite3.Connection:
        db = _connection(self.path)
        try:
            refuse_newer(db)
            if db.execute("PRAGMA page_count").fetchone() == (0,):
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # frees the space of deleted sessions
            _use_write_ahead_log(db)
            db.execute("PRAGMA secure_delete = ON")
            db.execute(f"PRAGMA journal_size_limit = {MAX_IDLE_LOG_BYTES}")
            migrate(db)
            SearchIndex(db).restore_merging()
            suspect = self.directory / SUSPECT
            if suspect.exists():
                _repair(db)
                suspect.unlink()
        except BaseException:
            db.close()
            raise
        with contextlib.suppress(OSError):
            self.path.chmod(0o600)
        return db

    def _alone(self, work: Callable[[], StoreNotice]) -> StoreNotice:
        """Run `work` with exclusive access to the files."""
        if self._lock_fd is None or not lock_alone(self._lock_fd):
            # Two processes that found the damage must not wait for each other: the first to retry gets the lock.
            self.leave()
            raise StorageError(
                "The session database is damaged, and another Pilotfish process has it open.",
                remedy="Close the other windows. Pilotfish then repairs the database and keeps the damaged file. "
                "Until then sessions are kept in memory only.",
            )
        try:
            return work()
        finally:
            lock_shared(self._lock_fd)

    def _salvage(self) -> StoreNotice:
        """Copy what can be read into a new database. Once the copy is renamed, it replaces the damaged database."""
        from pilotfish.store.sqlite.salvage import salvage

        copy = self.directory / f"{SALVAGED}.new"
        for leftover in _files_of(copy):
            leftover.unlink(missing_ok=True)
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        saved = salvage(self.path, copy)
        copy.replace(self.directory / SALVAGED)
        return self._replace_damaged(f"{saved.summary()} ")

    def _replace_damaged(self, summary: str) -> StoreNotice:
        """Move the damaged database away with its log, which must not be applied to the copy. Put the copy there."""
        aside = self._new_directory(time.strftime("damaged-%Y%m%d-%H%M%S"))
        for file in _files_of(self.path):
            if file.exists():
                file.replace(aside / file.name)
        (self.directory / SUSPECT).unlink(missing_ok=True)
        (self.directory / SALVAGED).replace(self.path)
        return StoreNotice(
            f"The session database was damaged. {summary}The damaged file is kept in {aside}.",
            "No action is needed. If something is missing, keep that directory: it may contain the missing data.",
        )

    def _new_directory(self, name: str) -> Path:
        number = 1
        while True:
            directory = self.directory / (name if number == 1 else f"{name}-{number}")
            try:
                directory.mkdir(mode=0o700)
            except FileExistsError:
                number += 1
            else:
                return directory


def _connection(path: Path) -> sqlite3.Connection:
    # rw, not rwc: a deleted database must not be recreated empty while others still write to the old file.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(
        uri,
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        cached_statements=256,
    )
    try:
        db.execute("PRAGMA cache_size = -512")  # in KiB: records are written once and rarely read
        db.execute("PRAGMA temp_store = MEMORY")  # no session data in a shared temporary directory
    except BaseException:  # too damaged even for these statements
        db.close()
        raise
    return db


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Switch to WAL mode, with retries: the busy timeout does not cover two processes that create a database at once.

    On a file system without shared memory (some network disks) SQLite keeps its slower rollback journal.
    """
    for attempt in range(50):
        try:
            db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == 49:
                raise
            time.sleep(0.02)
        else:
            return


def _repair(db: sqlite3.Connection) -> None:
    """Check a suspect database. A damaged search index is rebuilt; other damage is raised."""
    if db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise DamagedDatabase
    index = SearchIndex(db)
    try:
        index.check()
    except sqlite3.DatabaseError:
        index.rebuild()


def _files_of(database: Path) -> list[Path]:
    return [database.with_name(database.name + ending) for ending in ("", "-wal", "-shm")]
