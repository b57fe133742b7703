"""A thread that runs database jobs in the order they were queued and reports their results to the event loop.

Jobs that are queued while the thread is busy form one batch, and `commit` writes a batch in one transaction: a burst
costs one commit, and a single job is not delayed. The event loop is woken up once per batch.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from pilotfish.errors import PilotfishError, StorageError
from pilotfish.store.database_errors import DatabaseUnavailable, disk_error_of, is_damage
from pilotfish.store.tables.tables import Tables

MAX_BATCH: Final = 512
"""jobs in one batch; other processes wait while it is written"""

log = logging.getLogger(__name__)


class StoreJob:
    """Work on the tables, and its result or error."""

    __slots__ = ("batch", "durable", "error", "result", "session_id", "work", "writes")

    def __init__(
        self,
        work: Callable[[Tables], Any],
        *,
        writes: bool = False,
        durable: bool = False,
        session_id: str | None = None,
    ) -> None:
        self.work = work
        self.writes = writes
        self.durable = durable
        """whether it must survive a power cut when it is done"""
        self.session_id = session_id
        """the session whose records it appends"""
        self.batch = 0
        """the number of the last transaction that tried to commit it, for `Database.replay`"""
        self.result: Any = None
        self.error: Exception | None = None

    def again(self) -> StoreJob:
        """A new job with the same work."""
        job = StoreJob(self.work, writes=self.writes, durable=self.durable, session_id=self.session_id)
        job.batch = self.batch
        return job


class JobHandler(Protocol):
    """Runs the jobs of a worker thread. All methods are called on the thread."""

    def start(self) -> None: ...

    def handle(self, batch: Sequence[StoreJob]) -> None:
        """Run these jobs in order. The batch is empty when `idle_timeout` has passed."""
        ...

    def idle_timeout(self) -> float | None:
        """Seconds to wait for a job before `handle` is called with an empty batch. None waits without a limit."""
        ...

    def stop(self) -> None: ...


_Queued = tuple[StoreJob, asyncio.Future[Any] | concurrent.futures.Future[Any]]


class WorkerThread:
    def __init__(self, name: str, handler: JobHandler) -> None:
        self._handler = handler
        self._queue: SimpleQueue[_Queued | None] = SimpleQueue()
        self._pending = 0
        self._closed = False
        # A daemon, so that a program that does not close its ledger can exit.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a queued job has not been reported yet."""
        return self._pending > 0

    def put(self, job: StoreJob) -> asyncio.Future[Any]:
        """Queue a job. It runs even if its future is cancelled."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(closed())
        else:
            self._pending += 1
            self._queue.put((job, future))
        return future

    def submit(self, job: StoreJob) -> concurrent.futures.Future[Any]:
        """Queue a job from any thread."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        if self._closed:
            future.set_exception(closed())
        else:
            self._queue.put((job, future))
        return future

    async def aclose(self) -> None:
        """Run the queued jobs, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        self._handler.start()
        while (batch := self._take()) is not None:
            try:
                self._handler.handle([job for job, _ in batch])
            except Exception as error:
                log.exception("the store failed to run %d jobs", len(batch))
                for job, _ in batch:
                    job.error = job.error or error
            self._report(batch)
        self._handler.stop()

    def _take(self) -> list[_Queued] | None:
        """All queued jobs. Empty if the idle timeout has passed, None if the thread is to end."""
        batch: list[_Queued] = []
        try:
            item = self._queue.get(timeout=self._handler.idle_timeout())
            while item is not None:
                batch.append(item)
                if len(batch) == MAX_BATCH:
                    return batch
                item = self._queue.get_nowait()
        except Empty:
            return batch
        if not batch:
            return None
        self._queue.put(None)
        return batch

    def _report(self, batch: Sequence[_Queued]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Queued]] = {}
        for job, future in batch:
            if isinstance(future, asyncio.Future):
                by_loop.setdefault(future.get_loop(), []).append((job, future))
            else:
                _resolve(job, future)
        for loop, done in by_loop.items():
            try:
                loop.call_soon_threadsafe(self._resolve_all, done)
            except RuntimeError:  # the loop is closed, so nothing awaits these futures
                continue

    def _resolve_all(self, done: Sequence[_Queued]) -> None:
        self._pending -= len(done)
        for job, future in done:
            _resolve(job, future)


def _resolve(job: StoreJob, future: asyncio.Future[Any] | concurrent.futures.Future[Any]) -> None:
    if future.done():
        return
    if job.error is not None:
        future.set_exception(job.error)
    else:
        future.set_result(job.result)


def closed() -> StorageError:
    return StorageError("The session store is closed.", remedy="Start Pilotfish again.")


def commit(tables: Tables, jobs: Sequence[StoreJob]) -> None:
    """Run all jobs in one transaction. If a job itself fails, the transaction is rolled back and the other jobs are run
    again without it. A disk error is raised; then nothing has been written."""
    while todo := [job for job in jobs if job.error is None]:
        try:
            tables.begin()
            for job in todo:
                _run(job, tables)
                if job.error is not None:
                    break
            else:
                tables.commit()
                return
        except BaseException:
            tables.rollback()
            raise
        tables.rollback()


def read(job: StoreJob, tables: Tables) -> None:
    """Run one job that only reads, in one read transaction."""
    tables.begin_read()
    try:
        _run(job, tables)
    finally:
        tables.end_read()


def _run(job: StoreJob, tables: Tables) -> None:
    """Run one job. Its own error is stored in it; a disk error is raised."""
    try:
        job.result = job.work(tables)
    except DatabaseUnavailable:
        raise
    except PilotfishError as error:
        job.error = error
    except Exception as error:
        if is_damage(error) or disk_error_of(error) is not None:
            raise
        if tables.read_leniently(error):
            _run(job, tables)
        else:
            job.error = error
