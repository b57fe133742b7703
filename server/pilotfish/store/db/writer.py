"""Writes to the database, on one thread and connection, and handles a disk that refuses writes.

There are two levels of safety, both provided by SQLite (the database is in WAL mode):

- *written*: every job is committed with `synchronous = NORMAL`. A commit appends to the log and is in the system's page
  cache when the job is done, so it survives the end of the process, including `kill -9`. Nothing is synced.
- *durable*: with `synchronous = FULL`, SQLite syncs the log file before the commit is done. A sync covers the whole
  file, and thus every earlier commit. `sync` is such a commit of its own. A batch that contains a durable job is
  committed this way as a whole. (A checkpoint would sync as well, but it also writes the pages to the database file,
  and does nothing while an older reader is active.)

When a commit fails because of the disk, its jobs are not lost. They and all later jobs run on tables in memory
(`MemoryOverlay`) and are queued for the disk; `unsaved` describes this to the user. The first append of each session
that meets the error fails, so that its turn can report it, but its records are kept like the others. The writer retries
the disk every few seconds and when it is closed.

Before each commit the writer checks whether the database file was deleted or replaced: SQLite would continue to write
to the deleted file, and everything would be lost at the end. In that case a new database is created. Sessions that are
written to afterwards are copied into it from the deleted file, which can be read while it is open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pilotfish.errors import StorageError, UnknownSession
from pilotfish.store.db.database import BUSY_SECONDS, DatabaseFile
from pilotfish.store.db.overlay import MemoryOverlay
from pilotfish.store.db.scrubbing import PAUSE_SECONDS, Scrubber
from pilotfish.store.db.sqlite_errors import is_damage, is_passing, storage_error
from pilotfish.store.db.tables import Tables
from pilotfish.store.db.worker import StoreJob, WorkerThread, commit, read
from pilotfish.store.rows import StoreNotice

T = TypeVar("T")

RETRY_SECONDS: Final = 3.0

SCRUB_SECONDS_AT_END: Final = 0.5
"""time limit when the writer is closed; the rest is scrubbed after the next start"""

SHORT_BUSY_MS: Final = 100
"""how long a retry waits for another process; turns are delayed by this"""


class DatabaseWriter:
    """`unsaved`, `notices` and `generation` are set on its thread."""

    def __init__(self, directory: Path) -> None:
        self.unsaved: str | None = None
        """a message for the user about what is not saved; None if everything is saved"""
        self.notices: tuple[StoreNotice, ...] = ()
        """messages for the user about the store, oldest first"""
        self.generation = 0
        """how often the database was opened; an older reader may have a file open that was replaced"""
        self.on_saved: Callable[[], None] = lambda: None
        """called on the thread when everything has been saved again"""
        self.file = DatabaseFile(directory)
        self._disk: Tables | None = None
        self._synchronous = ""
        self._unsynced = False
        """whether something was committed since the last sync"""
        self._overlay: MemoryOverlay | None = None
        self._backlog: list[StoreJob] = []
        """jobs that were run in memory and are queued for the disk"""
        self._error = StorageError("", remedy="")
        self._needs_opening = True
        self._next_try = 0.0
        self._since = 0.0
        self._unsaved_sessions: set[str] = set()
        """sessions with unsaved records, whose turns have reported the error"""
        self._scrubber = Scrubber(self.file)
        self._thread = WorkerThread("pilotfish-store", self)

    @property
    def busy(self) -> bool:
        """Whether a queued job has not been reported yet."""
        return self._thread.busy

    def has_unsaved(self, session_id: str) -> bool:
        """Whether the session has records that are not on disk."""
        return session_id in self._unsaved_sessions

    def append(self, session_id: str, work: Callable[[Tables], None]) -> asyncio.Future[None]:
        """Append records. The future is done when they are written."""
        return self._thread.put(StoreJob(work, writes=True, session_id=session_id))

    def sync(self, session_id: str) -> asyncio.Future[None]:
        """Make everything that was written before this call durable. A disk error is reported to this session."""
        return self._thread.put(StoreJob(self._write_if_unsynced, writes=True, durable=True, session_id=session_id))

    def write(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Run `work` in a transaction. The future is done when it is durable."""
        return self._thread.put(StoreJob(work, writes=True, durable=True))

    def delete(self, session_id: str) -> asyncio.Future[None]:
        """Delete a session. Its text in the search index is overwritten afterwards, in steps."""
        return self.write(lambda tables: self._delete(tables, session_id))

    def read(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Read what was written before this call, saved or not."""
        return self._thread.put(StoreJob(work))

    async def aclose(self) -> None:
        """Write what is queued, retry what could not be written, and close."""
        await self._thread.aclose()

    # Everything below runs on the thread.
    # Every exception is caught there, not only SQLite's: sessions must be able to continue after any error.

    def start(self) -> None:
        try:
            self._open()
        except Exception as error:
            self._lose_disk(error)

    def stop(self) -> None:
        if self._overlay is not None:
            self._next_try = 0.0
            self._try_disk()
        deadline = time.monotonic() + SCRUB_SECONDS_AT_END
        while self._scrubber.is_due and self._overlay is None and time.monotonic() < deadline:
            self._scrub()
        for tables in (self._disk, self._overlay, self._overlay and self._overlay.beneath):
            if tables is not None:
                tables.db.close()
        self.file.leave()

    def idle_timeout(self) -> float | None:
        if self._overlay is not None:
            return RETRY_SECONDS
        return PAUSE_SECONDS if self._scrubber.is_due else None

    def handle(self, batch: Sequence[StoreJob]) -> None:
        if self._overlay is not None:
            self._try_disk()
        elif not batch:
            self._scrub()
        writes = [job for job in batch if job.writes]
        if writes:
            self._write(writes)
        for job in batch:
            if not job.writes:
                self._read(job)

    def _write(self, jobs: Sequence[StoreJob]) -> None:
        for _ in range(2):  # a damaged database is repaired after the first attempt
            if self._overlay is not None or self._disk is None:
                break
            try:
                self.file.check_in_place()
                self._commit(self._disk, jobs, durable=any(job.durable for job in jobs))
            except Exception as error:
                self._lose_disk(error)
            else:
                return
        self._keep_in_memory(jobs)

    def _commit(self, disk: Tables, jobs: Sequence[StoreJob], *, durable: bool) -> None:
        wanted = "FULL" if durable else "NORMAL"
        if wanted != self._synchronous:
            disk.db.execute(f"PRAGMA synchronous = {wanted}")
            self._synchronous = wanted
        commit(disk, jobs)
        self._unsynced = not durable

    def _write_if_unsynced(self, tables: Tables) -> None:
        """Make this commit write a page if a sync is needed: SQLite syncs only a commit that has written something."""
        if self._unsynced:
            tables.write_header()

    def _read(self, job: StoreJob) -> None:
        for _ in range(2):
            tables = self._overlay or self._disk
            if tables is None:
                job.error = self._error
                break
            job.error = None
            try:
                read(job, tables)
            except Exception as error:
                job.error = storage_error(error)
                if is_damage(error):
                    self._lose_disk(error)
                    continue
            break
        self._correct_unknown(job)

    def _keep_in_memory(self, jobs: Sequence[StoreJob]) -> None:
        tables = self._overlay = self._overlay or MemoryOverlay(self._disk)
        for job in jobs:
            job.error = None
        try:
            commit(tables, jobs)
        except Exception as error:
            for job in jobs:
                job.error = storage_error(error)
            return
        for job in jobs:
            if job.error is not None:
                self._correct_unknown(job)
                continue
            self._backlog.append(job.again())
            if job.session_id is not None and job.session_id not in self._unsaved_sessions:
                self._unsaved_sessions.add(job.session_id)
                job.error = StorageError(str(self._error), remedy=self._error.remedy)
        self._describe_unsaved()

    def _correct_unknown(self, job: StoreJob) -> None:
        """Replace `UnknownSession` if the disk cannot be read: the session may exist there."""
        if isinstance(job.error, UnknownSession) and self._overlay is not None and self._overlay.beneath is None:
            job.error = self._error

    def _lose_disk(self, error: Exception) -> None:
        """Continue in memory. A damaged database is repaired at once if possible."""
        self._record_error(error)
        if is_damage(error) and self._disk is not None:
            self.file.mark_suspect()
            self._disk.db.close()
            if self._overlay is not None and self._overlay.beneath is self._disk:
                self._overlay.beneath = None
            self._disk = None
        if self._overlay is None:
            self._overlay = MemoryOverlay(self._disk or self._read_only())
            self._since = time.time()
        self._next_try = time.monotonic() + RETRY_SECONDS
        self._describe_unsaved()
        if is_damage(error):
            if self._overlay.beneath is not None:
                self._overlay.beneath.db.close()
                self._overlay.beneath = None
            self._next_try = 0.0
            self._try_disk()

    def _record_error(self, error: Exception) -> None:
        self._error = storage_error(error)
        self._needs_opening = self._disk is None or not is_passing(error)

    def _try_disk(self) -> None:
        """Retry the disk if the retry interval has passed, and write the backlog."""
        if time.monotonic() < self._next_try:
            return
        try:
            if self._disk is None or self._needs_opening:
                self._open()
            self._replay()
        except Exception as error:
            self._record_error(error)
            self._next_try = time.monotonic() + RETRY_SECONDS
            self._describe_unsaved()

    def _open(self) -> None:
        db, notices = self.file.open()
        disk, previous = Tables(db), self._overlay.beneath if self._overlay is not None else self._disk
        if previous is not None:
            try:
                self._copy_unsaved_sessions(previous, disk)
            except BaseException:
                db.close()
                raise
            previous.db.close()
            # After an I/O error the log may have a hole that a later sync does not report: checkpoint it.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._disk = disk
        if self._overlay is not None:
            self._overlay.beneath = disk
        self._synchronous = ""
        self._needs_opening = False
        self.generation += 1
        self.notices = (*self.notices, *notices)
        self._scrubber.begin()

    def _copy_unsaved_sessions(self, previous: Tables, disk: Tables) -> None:
        """Copy the sessions in the backlog from a deleted file. In a file that was only reopened they exist already."""
        sessions = dict.fromkeys(job.session_id for job in self._backlog if job.session_id is not None)
        commit(disk, [StoreJob(_copy(previous, session_id)) for session_id in sessions])

    def _read_only(self) -> Tables | None:
        """The tables of a database that can be read but not written. None if it cannot be read."""
        db = self.file.open_read_only()
        return Tables(db) if db is not None else None

    def _replay(self) -> None:
        """Write the backlog in one commit, and close the overlay."""
        if self._disk is None or self._overlay is None:
            return
        self.file.check_in_place()
        for job in self._backlog:
            job.error = None
        self._disk.db.execute(f"PRAGMA busy_timeout = {SHORT_BUSY_MS}")
        try:
            self._commit(self._disk, self._backlog, durable=True)
        finally:
            self._disk.db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
        refused = [job for job in self._backlog if job.error is not None]
        if refused:
            self.notices = (*self.notices, _refused(refused))
        self._overlay.db.close()
        self._overlay = None
        self._backlog.clear()
        self._unsaved_sessions.clear()
        self.unsaved = None
        self.on_saved()

    def _delete(self, tables: Tables, session_id: str) -> None:
        if tables is self._disk:
            self._scrubber.mark_due()
        tables.delete(session_id)

    def _scrub(self) -> None:
        if self._disk is not None:
            try:
                self._scrubber.step(self._disk)
            except Exception as error:
                self._lose_disk(error)

    def _describe_unsaved(self) -> None:
        sessions = len({job.session_id for job in self._backlog if job.session_id is not None})
        since = time.strftime("%H:%M", time.localtime(self._since))
        what = (
            f"What happened since {since} in {sessions} session{'s' if sessions > 1 else ''} is"
            if sessions
            else "New sessions are"
        )
        self.unsaved = f"{self._error} {what} kept in memory only."


def _copy(source: Tables, session_id: str) -> Callable[[Tables], None]:
    return lambda disk: disk.copy_session(source, session_id)


def _refused(jobs: Sequence[StoreJob]) -> StoreNotice:
    sessions = sorted({job.session_id for job in jobs if job.session_id is not None})
    return StoreNotice(
        f"{len(jobs)} changes that were kept in memory could not be saved: {jobs[0].error}",
        f"Sessions: {', '.join(sessions)}." if sessions else "Repeat the change if you still want it.",
    )
