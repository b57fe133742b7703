"""The writer: jobs on the database in groups, one commit each, and what happens when the disk refuses.

When a commit fails because of the disk, its jobs are not lost. They go to tables in memory, where everything that
follows goes too, and wait there in their order; `unsaved` says so in words. The first append of each session that
meets the trouble fails with it, so that its turn can tell the user, though its records are kept like the others.
Every few seconds, and at the end, the writer tries the disk again and writes what has waited.

Small appends are written on the event loop, which costs a quarter of the way to the thread and back. There nothing is
waited for: not for another process, not for the log to be emptied into the database, not for pieces of the search index
to be merged, not for a slow disk; and after some milliseconds of them one goes to the thread (`quick.py`), which does
all that. Where they have to be synced, the thread does that behind them, and the loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

from pilotfish.errors import StorageError, UnknownSession
from pilotfish.store.jobs import Job, commit, look, sync
from pilotfish.store.lane import Lane
from pilotfish.store.opening import BUSY_SECONDS, Site
from pilotfish.store.quick import Quick
from pilotfish.store.rows import StoreNotice
from pilotfish.store.spare import SpareTables
from pilotfish.store.tables import Tables
from pilotfish.store.tidying import PAUSE_SECONDS, Tidying, impatient
from pilotfish.store.troubles import is_damage, is_passing, words_of

T = TypeVar("T")

RETRY_SECONDS: Final = 3.0

SCRUB_SECONDS_AT_END: Final = 0.5
"""what is left then is scrubbed after the next start"""

LOG_PAGES: Final = 1000
"""a log of so many pages is long: the thread empties it into the database"""

log = logging.getLogger(__name__)


class Writer:
    """Owns the one connection that writes. `unsaved`, `notices` and `generation` are set on its thread."""

    def __init__(self, directory: Path) -> None:
        self.unsaved: str | None = None
        """what is not saved, in words for the user; None when everything is"""
        self.notices: tuple[StoreNotice, ...] = ()
        """what the user should know of the store, in the order it happened"""
        self.generation = 0
        """counts the openings: a reader of an earlier one may look at a file that was set aside"""
        self.saved: Callable[[], None] = lambda: None
        """called on the thread once nothing is unsaved any more"""
        self.quick = Quick()
        self.site = Site(directory)
        self._disk: Tables | None = None
        self._manners: Literal["synced", "patient", "at once"] | None = None
        self._spare: SpareTables | None = None
        self._backlog: list[Job] = []
        self._trouble = StorageError("", remedy="")
        self._needs_opening = True
        self._needs_sync = False
        """something was acknowledged neither as saved nor kept in memory: it is in a log that could not be synced"""
        self._next_try = 0.0
        self._since = 0.0
        self._told: set[str] = set()
        self._tidying = Tidying(self.site)
        self._lane = Lane("pilotfish-store", self, self._serve_now)

    @property
    def busy(self) -> bool:
        """Whether something has been given and not been answered."""
        return self._lane.busy

    def has_unsaved(self, session_id: str) -> bool:
        """Whether records of the session wait for the disk."""
        return session_id in self._told

    def append(
        self,
        session_id: str,
        work: Callable[[Tables], None],
        *,
        durable: bool,
        small: bool = False,
        written: Callable[[], None] = lambda: None,
    ) -> asyncio.Future[None]:
        """Add records: on the thread, or at once when they are small. `written` is called when they are written and
        not synced yet; where both is done at once, it is not."""
        job = Job(work, writes=True, durable=durable, session_id=session_id)
        if not small or (durable and not self.site.has_log):
            return self._lane.put(job)
        added = self._lane.put_now(job)
        if durable and added.done() and added.exception() is None:
            written()
            return self._lane.put(sync())
        return added

    def append_now(self, session_id: str, work: Callable[[Tables], None]) -> bool:
        """Add small records that need no sync at once. False: nothing was added."""
        job = Job(work, writes=True, session_id=session_id)
        return self._lane.serve_now(job) and job.error is None

    def write(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        return self._lane.put(Job(work, writes=True, durable=True))

    def delete(self, session_id: str) -> asyncio.Future[None]:
        """Delete a session. What FTS5 keeps of its words is overwritten behind it, piece by piece."""
        return self.write(lambda tables: self._delete(tables, session_id))

    def read(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """Read what was written up to here, saved or not."""
        return self._lane.put(Job(work))

    def read_now(self, work: Callable[[Tables], T]) -> asyncio.Future[T]:
        """The same for a row or two: at once, like small appends."""
        return self._lane.put_now(Job(work))

    async def aclose(self) -> None:
        """Write what is queued, try once more what could not be written, and close."""
        await self._lane.aclose()

    def _serve_now(self, job: Job) -> bool:
        """On the event loop, while the thread is idle."""
        if self._spare is not None or self._disk is None or self.quick.tired or not self.quick:
            return False
        try:
            with self.quick.measured():
                self._behave("at once")
                if job.writes:
                    commit(self._disk, [job])
                else:
                    look(job, self._disk)
        except Exception:  # another process writes, or the disk refuses: the thread waits, or finds the words
            job.error = None
            return False
        return True

    # What follows runs on the thread.

    # Every exception is caught here, not only SQLite's: whatever it is, sessions must be able to go on.

    def start(self) -> None:
        try:
            self._open()
        except Exception as error:
            self._lose_disk(error)

    def stop(self) -> None:
        if self._spare is not None:
            self._next_try = 0.0
            self._try_disk()
        deadline = time.monotonic() + SCRUB_SECONDS_AT_END
        while self._tidying.scrubs and self._spare is None and time.monotonic() < deadline:
            self._tidy()
        self.site.leave_log()
        for tables in (self._disk, self._spare, self._spare and self._spare.beneath):
            if tables is not None:
                tables.db.close()
        self.site.leave()

    def pause(self) -> float | None:
        if self._spare is not None:
            return RETRY_SECONDS
        return PAUSE_SECONDS if self._tidying.is_due(self._disk) else None

    def serve(self, batch: Sequence[Job]) -> None:
        syncs = [job for job in batch if job.syncs]
        if syncs:
            self._sync(syncs)
            if len(syncs) == len(batch):
                return
        writes = [job for job in batch if job.writes]
        self.quick.rest()
        try:
            if self._manners == "at once":
                self._behave("patient")
        except Exception as error:
            self._lose_disk(error)
        if self._spare is not None:
            self._try_disk()
        elif not batch or self._tidying.is_overdue(self._disk):
            self._tidy()
        if writes:
            self._write(writes)
        for job in batch:
            if not job.writes and not job.syncs:
                self._read(job)

    def _sync(self, jobs: Sequence[Job]) -> None:
        """What they stand for is committed already. A log that could not be synced once may say that it is and have a
        hole: what is in it is brought into the database, and what cannot be is in danger."""
        try:
            try:
                self.site.sync()
            except OSError:
                self.site.leave_log()
                self._empty_log()
        except Exception as error:
            self._needs_sync = True
            self._lose_disk(error)
            for job in jobs:
                job.error = self._trouble

    def _empty_log(self) -> None:
        if self._disk is None:
            raise self._trouble
        self._behave("synced")
        if self._disk.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0:
            raise OSError(errno.EIO, "the log could not be emptied")

    def _write(self, jobs: Sequence[Job]) -> None:
        for _ in range(2):
            if self._spare is not None or self._disk is None:
                break
            try:
                self._behave("synced" if any(job.durable for job in jobs) else "patient")
                commit(self._disk, jobs)
            except Exception as error:
                self._lose_disk(error)
            else:
                return
        self._keep_in_memory(jobs)

    def _read(self, job: Job) -> None:
        for _ in range(2):
            job.error = self._trouble
            tables = self._spare or self._disk
            if tables is None:
                break
            job.error = None
            try:
                look(job, tables)
            except Exception as error:
                job.error = words_of(error)
                if is_damage(error):
                    self._lose_disk(error)
                    continue
            break
        self._excuse(job)

    def _keep_in_memory(self, jobs: Sequence[Job]) -> None:
        tables = self._spare = self._spare or SpareTables(self._disk)
        for job in jobs:
            job.error = None
        try:
            commit(tables, jobs)
        except Exception as error:
            for job in jobs:
                job.error = words_of(error)
            return
        for job in jobs:
            if job.error is not None:
                self._excuse(job)
                continue
            self._backlog.append(job.again())
            if job.session_id is not None and job.session_id not in self._told:
                self._told.add(job.session_id)
                job.error = StorageError(str(self._trouble), remedy=self._trouble.remedy)
        self._say_unsaved()

    def _excuse(self, job: Job) -> None:
        """Without a disk we cannot say that a session does not exist, only that it cannot be read."""
        if isinstance(job.error, UnknownSession) and self._spare is not None and self._spare.beneath is None:
            job.error = self._trouble

    def _lose_disk(self, error: Exception) -> None:
        """Go on in memory. A damaged database is mended at once, where that is possible."""
        self._trouble = words_of(error)
        self._needs_opening = self._disk is None or not is_passing(error)
        if is_damage(error) and self._disk is not None:
            self.site.suspect()
            self._disk.db.close()
            if self._spare is not None and self._spare.beneath is self._disk:
                self._spare.beneath = None
            self._disk = None
        if self._spare is None:
            self._spare = SpareTables(self._disk or self._read_only())
            self._since = time.time()
        self._next_try = time.monotonic() + RETRY_SECONDS
        self._say_unsaved()
        if is_damage(error):
            if self._spare.beneath is not None:
                self._spare.beneath.db.close()
                self._spare.beneath = None
            self._next_try = 0.0
            self._try_disk()

    def _try_disk(self) -> None:
        """Write what has waited, if the disk takes it by now."""
        if time.monotonic() < self._next_try:
            return
        try:
            if self._disk is None or self._needs_opening:
                self._open()
            self._replay()
        except Exception as error:
            self._trouble = words_of(error)
            self._needs_opening = self._disk is None or not is_passing(error)
            self._next_try = time.monotonic() + RETRY_SECONDS
            self._say_unsaved()

    def _open(self) -> None:
        db, notices = self.site.open()
        previous, self._disk = self._disk, Tables(db)
        if self._spare is not None:
            previous, self._spare.beneath = self._spare.beneath, self._disk
        if previous is not None:
            previous.db.close()
        self._tidying.begin(self._disk)
        self._needs_opening = False
        self._manners = None
        self.generation += 1
        self.notices = (*self.notices, *notices)

    def _read_only(self) -> Tables | None:
        """The database as it is, when it cannot be written and can be read."""
        db = self.site.open_read_only()
        return Tables(db) if db is not None else None

    def _replay(self) -> None:
        """Write the backlog in one commit, and leave memory."""
        if self._disk is None or self._spare is None:
            return
        for job in self._backlog:
            job.error = None
        self._behave("synced")
        with impatient(self._disk):
            if self._needs_sync:
                self._empty_log()
                self._needs_sync = False
            commit(self._disk, self._backlog)
        refused = [job for job in self._backlog if job.error is not None]
        if refused:
            self.notices = (*self.notices, _refused(refused))
        self._spare.db.close()
        self._spare = None
        self._backlog.clear()
        self._told.clear()
        self.unsaved = None
        self.saved()

    def _delete(self, tables: Tables, session_id: str) -> None:
        if tables is self._disk:
            self._tidying.delete(tables, session_id)
        else:
            tables.delete(session_id)

    def _tidy(self) -> None:
        """A piece of what nobody waits for."""
        if self._disk is not None:
            try:
                self._tidying.step(self._disk)
            except Exception as error:
                self._lose_disk(error)

    def _behave(self, manners: Literal["synced", "patient", "at once"]) -> None:
        """Whether a commit is synced, and whether it waits for others and for the log to be emptied."""
        if manners == self._manners or self._disk is None:
            return
        waits = manners != "at once"
        for setting, value in (
            ("synchronous", "FULL" if manners == "synced" else "NORMAL"),
            ("busy_timeout", int(BUSY_SECONDS * 1000) if waits else 0),
            ("wal_autocheckpoint", LOG_PAGES if waits else 0),
        ):
            self._disk.db.execute(f"PRAGMA {setting} = {value}")
        self._manners = manners

    def _say_unsaved(self) -> None:
        sessions = len({job.session_id for job in self._backlog if job.session_id is not None})
        since = time.strftime("%H:%M", time.localtime(self._since))
        what = (
            f"What happened since {since} in {sessions} session{'s' if sessions > 1 else ''} is"
            if sessions
            else "New sessions are"
        )
        self.unsaved = f"{self._trouble} {what} kept in memory only."


def _refused(jobs: Sequence[Job]) -> StoreNotice:
    sessions = sorted({job.session_id for job in jobs if job.session_id is not None})
    return StoreNotice(
        f"{len(jobs)} changes that waited in memory could not be saved: {jobs[0].error}",
        f"Sessions: {', '.join(sessions)}." if sessions else "Repeat the change if it is still wanted.",
    )
