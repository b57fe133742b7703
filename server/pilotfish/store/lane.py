"""A thread that serves jobs in the order they were given, and answers the event loop.

Jobs wait in a queue while the thread is busy; it then takes all of them at once. That is what makes group commit:
a burst costs one commit, a lone job waits for nobody. Answers go back in one wake-up of the loop per batch.

To the thread and back takes longer than a small job does. One that finds the thread idle may be served where it is
given, in its order all the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, Protocol

from pilotfish.errors import StorageError
from pilotfish.store.jobs import Job

MAX_BATCH: Final = 512
"""jobs in one batch: other processes wait while it is written"""

log = logging.getLogger(__name__)


class Server(Protocol):
    """What a lane's thread does."""

    def start(self) -> None: ...

    def serve(self, batch: Sequence[Job]) -> None:
        """Do these jobs, in order. None of them: the pause is over."""
        ...

    def pause(self) -> float | None:
        """How long to wait for a job before `serve` is called without one."""
        ...

    def stop(self) -> None: ...


class Lane:
    def __init__(self, name: str, server: Server, serve_now: Callable[[Job], bool] = lambda _: False) -> None:
        """`serve_now` does one job on the event loop, while the thread is idle. False: it is for the thread."""
        self._server = server
        self._serve_now = serve_now
        self._queue: SimpleQueue[tuple[Job, asyncio.Future[Any]] | Literal["look again"] | None] = SimpleQueue()
        self._asleep = False
        """whether the thread may be waiting for a job without an end"""
        self._unanswered = 0
        self._closed = False
        self._serving = threading.Lock()
        """whoever has it may use the server"""
        # A daemon: a program that forgets to close its ledger can still end.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a job has been given and not been answered."""
        return self._unanswered > 0

    def put(self, job: Job) -> asyncio.Future[Any]:
        """Queue a job. The future is done when it has been served, whatever becomes of the one who waits."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(StorageError("The session store is closed.", remedy="Start Pilotfish again."))
        else:
            self._unanswered += 1
            self._queue.put((job, future))
        return future

    def serve_now(self, job: Job) -> bool:
        """Serve a small job at once, if nothing is before it. False: it is as it was."""
        if self._closed or self._unanswered or not self._serving.acquire(blocking=False):
            return False
        try:
            return self._serve_now(job)
        finally:
            self._serving.release()
            if self._asleep and self._server.pause() is not None:
                self._asleep = False
                self._queue.put("look again")

    def put_now(self, job: Job) -> asyncio.Future[Any]:
        """Serve a small job at once, if nothing is before it; else queue it. It never waits for the thread."""
        if not self.serve_now(job):
            return self.put(job)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        _resolve(job, future)
        return future

    async def aclose(self) -> None:
        """Serve what is queued, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        with self._serving:
            self._server.start()
        while (batch := self._take()) is not None:
            try:
                with self._serving:
                    self._server.serve([job for job, _ in batch])
            except Exception as error:
                log.exception("the store failed to serve %d jobs", len(batch))
                for job, _ in batch:
                    job.error = job.error or error
            self._answer(batch)
        with self._serving:
            self._server.stop()

    def _take(self) -> list[tuple[Job, asyncio.Future[Any]]] | None:
        """All jobs that are there, at least one unless the pause is over. None: the lane is being closed."""
        batch: list[tuple[Job, asyncio.Future[Any]]] = []
        try:
            item = self._wait()
            while item is not None:
                if item != "look again":
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

    def _wait(self) -> tuple[Job, asyncio.Future[Any]] | None:
        """The next job, or `Empty` when the pause is over."""
        while True:
            self._asleep = True  # before it is asked: what is done on the loop meanwhile is not missed
            pause = self._server.pause()
            self._asleep = pause is None
            item = self._queue.get(timeout=pause)
            self._asleep = False
            if item != "look again":
                return item

    def _answer(self, batch: Sequence[tuple[Job, asyncio.Future[Any]]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Job, asyncio.Future[Any]]]] = {}
        for job, future in batch:
            by_loop.setdefault(future.get_loop(), []).append((job, future))
        for loop, answers in by_loop.items():
            try:
                loop.call_soon_threadsafe(self._hand_back, answers)
            except RuntimeError:  # the loop is closed: nobody waits any more
                continue

    def _hand_back(self, answers: Sequence[tuple[Job, asyncio.Future[Any]]]) -> None:
        self._unanswered -= len(answers)
        for job, future in answers:
            if not future.done():
                _resolve(job, future)


def _resolve(job: Job, future: asyncio.Future[Any]) -> None:
    if job.error is not None:
        future.set_exception(job.error)
    else:
        future.set_result(job.result)
