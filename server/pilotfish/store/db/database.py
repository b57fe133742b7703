"""The database file: where it is, how it is opened, and what happens to a damaged one.

A damaged database is never overwritten: it is moved into a directory of its own beside the new one, and what SQLite
can still read of it is copied over. That needs the file for oneself: every ledger keeps a shared lock on
`sessions.lock` while it is open, and setting aside takes it exclusively.
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
from pilotfish.store.db.schema import VERSION, migrate, refuse_newer, version_of
from pilotfish.store.db.search import SearchIndex
from pilotfish.store.db.sqlite_errors import DamagedDatabase, DatabaseGone, is_damage
from pilotfish.store.locks import lock_alone, lock_shared, make_private, open_lock_file
from pilotfish.store.rows import StoreNotice

DATABASE: Final = "sessions.db"
LOCK: Final = "sessions.lock"
SUSPECT: Final = "sessions.db.suspect"
"""left by a program that met damage: the next one to open the database looks through all of it"""
UNSCRUBBED: Final = "sessions.db.unscrubbed"
"""there is deleted text in the search index that has not been overwritten yet"""
SALVAGED: Final = "sessions.db.salvaged"

MAX_IDLE_LOG_BYTES: Final = 16 << 20

BUSY_SECONDS: Final = 5.0
"""how long a commit waits for another process's commit"""


def directory_of(location: Path | str | None) -> Path:
    """The directory a `storage` setting means; None is the user's state directory."""
    if location is None:
        from platformdirs import user_state_path

        return user_state_path("pilotfish", appauthor=False)
    if isinstance(location, str) and "://" in location:
        return _directory_of_url(location)
    return Path(location).expanduser()


def _directory_of_url(url: str) -> Path:
    """`sqlite:///` with a path behind it, absolute when that begins with another slash, or a `file:` URL: of the
    directory, or of the database in it."""
    scheme, _, rest = url.partition("://")
    match scheme.lower():
        case "sqlite" if rest.startswith("/") and rest.strip("/"):
            path = Path(unquote(rest[1:])).expanduser()
        case "file" if rest.startswith("/") and rest.strip("/"):
            path = Path(url2pathname(rest))
        case "sqlite" | "file":
            raise StorageError(
                f"`storage` names no place: {scheme}://{rest}",
                remedy="Write sqlite:////home/me/sessions, or just the directory.",
            )
        case _:
            raise StorageError(
                f"This Pilotfish stores sessions in SQLite; it knows no database server ({scheme}).",
                remedy="Set `storage` to a directory, or to a URL such as sqlite:////home/me/sessions.",
            )
    if path.name == DATABASE:
        return path.parent
    if path.suffix in (".db", ".sqlite", ".sqlite3") and not path.is_dir():
        raise StorageError(
            f"The database is called {DATABASE}, not {path.name}.",
            remedy=f"Name its directory in `storage`, or {path.with_name(DATABASE)}.",
        )
    return path


class DatabaseFile:
    """The file of a database in its directory, and this process's presence there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / DATABASE
        self._presence: int | None = None
        self._opened: os.stat_result | None = None
        """the file that `open` has opened"""

    def open(self) -> tuple[sqlite3.Connection, list[StoreNotice]]:
        """The database, made when there is none, at this program's version; private to the user. A damaged one has
        been set aside, and the notices say so."""
        self._enter()
        notices: list[StoreNotice] = []
        if (self.directory / SALVAGED).exists():
            # A program was killed after it had salvaged, and before it had put the copy in its place.
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
        """A second connection that cannot write."""
        db = _connection(self.path)
        db.execute("PRAGMA query_only = ON")
        return db

    def open_read_only(self) -> sqlite3.Connection | None:
        """The database as it lies there, if it is ours and can be read."""
        uri = self.path.absolute().as_uri()
        # A log needs a directory that can be written; without one we read the file as if nobody wrote to it.
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
        """Have the next opening check the whole database."""
        with contextlib.suppress(OSError):
            (self.directory / SUSPECT).touch(mode=0o600)

    @property
    def is_scrubbed(self) -> bool:
        """Whether nothing of what was deleted is left in the file."""
        return not (self.directory / UNSCRUBBED).exists()

    def mark_scrubbed(self, scrubbed: bool) -> None:
        if scrubbed:
            (self.directory / UNSCRUBBED).unlink(missing_ok=True)
        else:
            (self.directory / UNSCRUBBED).touch(mode=0o600)

    def check_in_place(self) -> None:
        """Raises `DatabaseGone` if the file that was opened is not the one at its path any more."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            found = None
        if self._opened is not None and (found is None or not os.path.samestat(found, self._opened)):
            self.leave()
            raise DatabaseGone

    def leave(self) -> None:
        if self._presence is not None:
            os.close(self._presence)
            self._presence = None

    def _enter(self) -> None:
        make_private(self.directory)
        if self._presence is None:
            self._presence = open_lock_file(self.directory / LOCK)
            lock_shared(self._presence)
        if not self.path.exists() and not (self.directory / SALVAGED).exists():
            with contextlib.suppress(FileExistsError):
                # SQLite gives its other files the mode of this one.
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def _connect(self) -> sqlite3.Connection:
        db = _connection(self.path)
        try:
            refuse_newer(db)
            if db.execute("PRAGMA page_count").fetchone() == (0,):
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # a deleted session's room can be given back
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
        """Do something to the files that no other process has open."""
        if self._presence is None or not lock_alone(self._presence):
            # Two that found the damage must not wait for each other: whoever comes back first is alone.
            self.leave()
            raise StorageError(
                "The session database is damaged, and another Pilotfish has it open.",
                remedy="Close the other windows: it is then repaired, and the damaged file kept. "
                "Until then sessions are kept in memory only.",
            )
        try:
            return work()
        finally:
            lock_shared(self._presence)

    def _salvage(self) -> StoreNotice:
        """Copy what can be read into a new database. From its last line on, the copy counts."""
        from pilotfish.store.db.salvage import salvage

        copy = self.directory / f"{SALVAGED}.new"
        for leftover in _files_of(copy):
            leftover.unlink(missing_ok=True)
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        saved = salvage(self.path, copy)
        copy.replace(self.directory / SALVAGED)
        return self._replace_damaged(f"{saved.words()} ")

    def _replace_damaged(self, words: str) -> StoreNotice:
        """Move the damaged database away with its log (that must never meet another database), and put the copy in
        its place."""
        aside = self._new_directory(time.strftime("damaged-%Y%m%d-%H%M%S"))
        for file in _files_of(self.path):
            if file.exists():
                file.replace(aside / file.name)
        (self.directory / SUSPECT).unlink(missing_ok=True)
        (self.directory / SALVAGED).replace(self.path)
        return StoreNotice(
            f"The session database was damaged. {words}The damaged file is kept in {aside}.",
            "Nothing needs to be done. If something is missing, keep that directory: it may still be in there.",
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
    # rw, not rwc: a database that vanished must not come back empty while others still write to the old one.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(
        uri,
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        cached_statements=256,
    )
    try:
        db.execute("PRAGMA cache_size = -512")  # KiB: records are written once and seldom read
        db.execute("PRAGMA temp_store = MEMORY")  # nothing of a session lies in a directory for everybody
    except BaseException:  # damaged so that not even these can be said
        db.close()
        raise
    return db


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Two processes that open a new database at once get in each other's way here, and the busy timeout does not help.
    On a file system without shared memory (some network disks) SQLite keeps its rollback journal, which is slower."""
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
    """Check a suspect database. A search index alone can be rebuilt; other damage is raised."""
    if db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise DamagedDatabase
    index = SearchIndex(db)
    try:
        index.check()
    except sqlite3.DatabaseError:
        index.rebuild()


def _files_of(database: Path) -> list[Path]:
    return [database.with_name(database.name + ending) for ending in ("", "-wal", "-shm")]
