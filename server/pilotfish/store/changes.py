"""Reports the commits of other processes to the event loop.

Hides: the thread that waits for them, and how each database reports (`ChangeSource`). Promises: after `watch` has
returned, every later commit to that topic is reported; a lost report or a lost connection delays a change by
`COARSE_SECONDS` at most, because then everything is reported as changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from pilotfish.errors import StorageError

log = logging.getLogger(__name__)

COARSE_SECONDS: Final = 2.0
"""how often everything is reported as changed, in case a report was lost"""

RECONNECT_SECONDS: Final = 2.0

WATCH_SECONDS: Final = 1.0
"""how long `watch` waits for a database that does not answer"""

OnChange = Callable[[frozenset[str] | None], None]
"""Called on the event loop with the topics that other processes have changed; None if any may have changed."""


class ChangeSource(Protocol):
    """How one database reports commits. Except for `interrupt`, its methods are called on the listener's thread."""

    def open(self) -> None: ...

    def select(self, topics: frozenset[str]) -> None:
        """Report these topics from now on, and no others."""
        ...

    def wait(self, seconds: float) -> frozenset[str] | None:
        """Wait for a report, or for `interrupt`. Returns the topics; None if any may have changed."""
        ...

    def interrupt(self) -> None:
        """Let `wait` return. Called on any thread."""
        ...

    def close(self) -> None:
        """Stop listening. It may be opened again."""
        ...

    def dispose(self) -> None:
        """Called once, after everything else."""
        ...


class ChangeListener:
    """The topics that one process watches. Its methods are called on the event loop."""

    def __init__(self, source: ChangeSource) -> None:
        self.on_change: OnChange = lambda _: None
        self._source = source
        self._topics: frozenset[str] = frozenset()
        self._watched: dict[str, asyncio.Future[None]] = {}
        self._selecting: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    async def watch(self, topic: str) -> None:
        """Report changes of a topic. Returns when every later change is reported, or the source cannot be reached."""
        if topic not in self._watched:
            self._watched[topic] = asyncio.ensure_future(self._select(self._topics | {topic}))
        await asyncio.shield(self._watched[topic])

    def unwatch(self, topic: str) -> None:
        self._watched.pop(topic, None)
        with self._lock:
            self._topics -= {topic}

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._source.interrupt()
            await asyncio.to_thread(self._thread.join)
        self._source.dispose()

    async def _select(self, topics: frozenset[str]) -> None:
        if self._closed:
            return
        selected = asyncio.get_running_loop().create_future()
        with self._lock:
            self._topics = topics
            self._selecting.append(selected)
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            # A daemon, so that a program that does not close its ledger can exit.
            self._thread = threading.Thread(target=self._run, name="pilotfish-store-changes", daemon=True)
            self._thread.start()
        self._source.interrupt()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(selected), WATCH_SECONDS)

    # Everything below runs on the thread.

    def _run(self) -> None:
        while not self._closed:
            try:
                self._source.open()
                self._listen()
            except (StorageError, OSError) as error:
                log.info("changes of other processes are seen late: %s", error)
                self._report(None, self._take_selecting()[1])
                with contextlib.suppress(OSError):
                    self._source.close()
                self._pause()
        self._source.close()
        self._report(None, self._take_selecting()[1])

    def _listen(self) -> None:
        selected: frozenset[str] | None = None
        while not self._closed:
            topics, waiting = self._take_selecting()
            try:
                if topics != selected:
                    self._source.select(topics)
                    selected = topics
            finally:
                # What changed before it was selected may not have been reported.
                if waiting:
                    self._report(None, waiting)
            changed = self._source.wait(COARSE_SECONDS)
            if changed is None or changed:
                self._report(changed, [])

    def _take_selecting(self) -> tuple[frozenset[str], list[asyncio.Future[None]]]:
        with self._lock:
            waiting, self._selecting = self._selecting, []
            return self._topics, waiting

    def _pause(self) -> None:
        """Until the next attempt. Callers of `watch` do not wait for it."""
        for _ in range(int(RECONNECT_SECONDS / 0.1)):
            if self._closed:
                return
            threading.Event().wait(0.1)
            self._report(frozenset(), self._take_selecting()[1])

    def _report(self, changed: frozenset[str] | None, selected: list[asyncio.Future[None]]) -> None:
        if self._loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._deliver, changed, selected)

    def _deliver(self, changed: frozenset[str] | None, selected: list[asyncio.Future[None]]) -> None:
        for waiting in selected:
            if not waiting.done():
                waiting.set_result(None)
        if (changed is None or changed) and not self._closed:
            self.on_change(changed)
