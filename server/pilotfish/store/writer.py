"""Writes to the database, on one thread and connection, and handles a database that refuses writes.

There are two levels of safety. Every job is *written* when it is done: it survives the end of the process. A batch that
contains a *durable* job is committed as a whole so that it survives a power cut (`Database.commit`); `sync` is such a
commit of its own.

When a commit fails because of the database, its jobs are not lost. They and all later jobs run on tables in memory
(`MemoryOverlay`) and are queued for the database; `unsaved` describes this to the user. The first append of each
session that meets the error fails, so that its turn can report it, but its records are kept like the others. The writer
retries every few seconds and when it is closed.

A SQLite file that was deleted or replaced is noticed before each commit. In that case a new database is created.
Sessions that are written to afterwards are copied into it from the deleted file, which can be read while it is open.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pilotfish.errors import StorageError, UnknownSession
from pilotfish.store.backend import Database
from pilotfish.store.database_errors import is_damage, is_disconnected, is_passing, storage_error
from pilotfish.store.rows import StoreNotice
from pilotfish.store.sqlite.overlay import MemoryOverlay
from pilotfish.store.tables.tables import Tables
from pilotfish.store.worker import StoreJob, WorkerThread, commit, read

T = TypeVar("T")

RETRY_SECONDS: Final = 3.0

IDLE_WORK_SECONDS_AT_END: Final = 0.5
"""time limit when the writer is closed; the rest is done after the next start"""


class DatabaseWriter:
    """`unsaved`, `notices` and `generation` are set on its thread."""

    def __init__(self, database: Database) -> None:
        self.unsaved: str | None = None
        """a message for the user about what is not saved; None if everything is saved"""
        self.notices: tuple[StoreNotice, ...] = ()
        """messages for the user about the store, oldest first"""
        self.generation = 0
        """how often the database was opened; an older reader may have a file open that was replaced, or a connection
        that has ended"""
        self.on_saved: Callable[[], None] = lambda: None
        """called on the thread when everything has been saved again"""
        self.database = database
        self._disk: Tables | None = None
        self._overlay: MemoryOverlay | None = None
        self._backlog: list[StoreJob] = []
        """jobs that were run in memory and are queued for the disk"""
        self._error = StorageError("", remedy="")
        self._needs_opening = True
        self._next_try = 0.0
        self._since = 0.0
        self._unsaved_sessions: set[str] = set()
        """sessions with unsaved records, whose turns have reported the error"""
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
        return self._thread.put(StoreJob(self.database.make_durable, writes=True, durable=True, session_id=session_id))

    def write(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Run `work` in a transaction. The future is done when it is durable."""
        return self._thread.put(StoreJob(work, writes=True, durable=True))

    def delete(self, session_id: str) -> asyncio.Future[None]:
        """Delete a session. SQLite overwrites its text in the search index afterwards, in steps."""
        return self.write(lambda tables: self._delete(tables, session_id))

    def run(self, work: Callable[[Tables], None]) -> concurrent.futures.Future[None]:
        """Run `work` on the thread, outside of an event loop. It may be called on any thread, and neither reads nor
        writes rows."""
        return self._thread.submit(StoreJob(work))

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
        deadline = time.monotonic() + IDLE_WORK_SECONDS_AT_END
        while self._overlay is None and self.database.idle_seconds() is not None and time.monotonic() < deadline:
            self._work_while_idle()
        for tables in (self._disk, self._overlay, self._overlay and self._overlay.beneath):
            if tables is not None:
                tables.close()
        self.database.leave()

    def idle_timeout(self) -> float | None:
        if self._overlay is not None:
            return RETRY_SECONDS
        return self.database.idle_seconds()

    def handle(self, batch: Sequence[StoreJob]) -> None:
        if self._overlay is not None:
            self._try_disk()
        elif not batch:
            self._work_while_idle()
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
                self.database.commit(self._disk, jobs, durable=any(job.durable for job in jobs))
            except Exception as error:
                self._lose_disk(error)
            else:
                return
        self._keep_in_memory(jobs)

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
                if is_damage(error) or is_disconnected(error):
                    self._lose_disk(error)
                    continue
            break
        self._correct_unknown(job)

    def _keep_in_memory(self, jobs: Sequence[StoreJob]) -> None:
        tables = self._overlay = self._overlay or MemoryOverlay(self._disk, self.database.open_overlay())
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
        """Replace `UnknownSession` if the database cannot be read: the session may exist there."""
        if isinstance(job.error, UnknownSession) and self._overlay is not None:
            beneath = self._overlay.beneath
            if beneath is None or not beneath.has_all_sessions:
                job.error = self._error

    def _lose_disk(self, error: Exception) -> None:
        """Continue in memory. A damaged database is repaired at once if possible."""
        self._record_error(error)
        if self._disk is not None and (is_damage(error) or is_disconnected(error)):
            if is_damage(error):
                self.database.mark_damaged()
            self._disk.close()
            if self._overlay is not None and self._overlay.beneath is self._disk:
                self._overlay.beneath = None
            self._disk = None
        if self._overlay is None:
            beneath = self._disk or self.database.open_read_only()
            self._overlay = MemoryOverlay(beneath, self.database.open_overlay())
            self._since = time.time()
        self._next_try = time.monotonic() + RETRY_SECONDS
        self._describe_unsaved()
        if is_damage(error):
            if self._overlay.beneath is not None:
                self._overlay.beneath.close()
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
        disk, notices = self.database.open()
        previous = self._overlay.beneath if self._overlay is not None else self._disk
        if previous is not None:
            unsaved = dict.fromkeys(job.session_id for job in self._backlog if job.session_id is not None)
            try:
                self.database.carry_over(previous, disk, unsaved)
            except BaseException:
                disk.close()
                raise
        self._disk = disk
        if self._overlay is not None:
            self._overlay.beneath = disk
        self._needs_opening = False
        self.generation += 1
        self.notices = (*self.notices, *notices)

    def _replay(self) -> None:
        """Write the backlog in one commit, and close the overlay."""
        if self._disk is None or self._overlay is None:
            return
        for job in self._backlog:
            job.error = None
        self.database.replay(self._disk, self._backlog)
        refused = [job for job in self._backlog if job.error is not None]
        if refused:
            self.notices = (*self.notices, _refused(refused))
        self._overlay.close()
        self.database.discard_overlay()
        self._overlay = None
        self._backlog.clear()
        self._unsaved_sessions.clear()
        self.unsaved = None
        self.on_saved()

    def _delete(self, tables: Tables, session_id: str) -> None:
        if tables is self._disk:
            self.database.before_delete()
        tables.delete(session_id)

    def _work_while_idle(self) -> None:
        if self._disk is not None:
            try:
                self.database.work_while_idle(self._disk)
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
        self.unsaved = f"{self._error} {what} kept {self.database.fallback} only."


def _refused(jobs: Sequence[StoreJob]) -> StoreNotice:
    sessions = sorted({job.session_id for job in jobs if job.session_id is not None})
    return StoreNotice(
        f"{len(jobs)} changes that were kept in memory could not be saved: {jobs[0].error}",
        f"Sessions: {', '.join(sessions)}." if sessions else "Repeat the change if you still want it.",
    )
