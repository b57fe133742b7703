"""A running command: its processes, its output so far, and how it is stopped."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pilotfish.workspace.process.output_spool import Spool, live_text, plain_text
from pilotfish.workspace.process.pipes import Pipe
from pilotfish.workspace.process.process_tree import ProcessTree
from pilotfish.workspace.sandbox.confinement import Confinement

MAX_OUTPUT_BYTES = 512 << 20
"""a command that writes more than this is stopped"""
LIVE_INTERVAL = 0.05
"""seconds between two pieces of live output"""
LIVE_BYTES = 200_000
"""bytes of live output that are reported; after that only the amount is"""
LIVE_SIZE_INTERVAL = 2.0
KILL_WAIT = 2.0
"""seconds for the kernel to end what was sent KILL"""
DOUBT = 0.3
"""seconds for a process in doubt to become what it becomes"""
AT_ONCE = 1 << 18
"""bytes that are made into text without leaving the loop"""
DRAIN_SECONDS = 0.1
"""seconds for what the dead wrote to be read"""


class Job:
    """A command that was started. `id` is given when it is kept in the background."""

    def __init__(
        self,
        *,
        command: str,
        process: asyncio.subprocess.Process,
        tree: ProcessTree,
        output: Pipe,
        place: Pipe,
        tell: Callable[[str], None],
        confined: bool,
        confinement: Confinement,
    ) -> None:
        self.id = ""
        self.command = command
        self.confined = confined
        """in a sandbox, which ends with the command"""
        self.confinement = confinement
        self.wanted = False
        """started in the background on purpose: it outlives the turn that started it, stopped or not"""
        self.tree = tree
        self.spool = Spool()
        self.started = time.monotonic()
        self.max_output = MAX_OUTPUT_BYTES
        self.flooded = False
        """it was stopped because it wrote more than that"""
        self.shown = 0
        """bytes of output a poll has given already"""
        self._process = process
        self._output = output
        self._place = place
        self._live_output = LiveOutput(tell)
        self._waiter = asyncio.ensure_future(process.wait())
        self._pump = asyncio.ensure_future(self._read())
        self.changed = asyncio.Event()
        """set when output came or the command ended; a poll clears it"""
        self._waiter.add_done_callback(lambda _: self.changed.set())
        self._waiter.add_done_callback(lambda _: confinement.end())

    @property
    def code(self) -> int | None:
        """The exit code; negative for a signal; None while the command itself runs."""
        return self._process.returncode

    @property
    def over(self) -> bool:
        """Ended, with nobody left who could write."""
        return self.code is not None and self._pump.done()

    @property
    def state(self) -> str:
        """in words"""
        if self.code is None:
            return f"running for {time.monotonic() - self.started:.0f} s"
        if not self.over:
            return f"exit code {self.code}; processes it started are still running"
        return f"exit code {self.code}" if self.code >= 0 else f"ended by signal {-self.code}"

    async def watched(self, seconds: float, until: str | None = None) -> None:
        """Returns when the job is over, when `until` was written since the last poll, or after some seconds."""
        deadline = time.monotonic() + seconds
        looked = self.shown
        while not self.over and (left := deadline - time.monotonic()) > 0:
            if until is not None:
                if until in plain_text(self.spool.read(looked)[0]):
                    return
                # Not the same bytes again, but enough of them for words that came in two pieces.
                looked = max(looked, self.spool.size - 8 * len(until.encode()))
            self.changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.changed.wait()

    async def ended(self) -> None:
        """Returns when the command has ended, or has written more than it may."""
        await asyncio.wait({self._waiter, self._pump}, return_when=asyncio.FIRST_COMPLETED)
        if not self.flooded:
            await asyncio.shield(self._waiter)

    async def drained(self, linger: float) -> None:
        """Wait a little for what its children still write."""
        await asyncio.wait({self._pump}, timeout=linger)
        self._live_output.flush()

    async def living(self) -> frozenset[int]:
        """The processes of the tree. None only when nobody was found twice in a row, and nobody was in doubt."""
        deadline = time.monotonic() + DOUBT
        looks = 0
        while True:
            members = self.tree.members(leader_alive=self.code is None)
            if members.sure:
                return members.sure
            if members.unsure and time.monotonic() < deadline:
                await asyncio.sleep(0.005)
                continue
            looks += 1
            if looks == 2:
                return frozenset()

    def last_words(self) -> tuple[Path | None, int]:
        """The directory the command ended in, when it could tell, and how many jobs it left."""
        place, *jobs = (self._place.read_now() or b"").splitlines() or [b""]
        path = os.fsdecode(place)
        return (Path(path) if path.startswith("/") else None, len(jobs))

    async def new_output(self) -> str:
        """What came since the last time this was asked."""
        data, _ = self.spool.read(self.shown)
        self.shown = self.spool.size
        return await asyncio.to_thread(plain_text, data) if len(data) > AT_ONCE else plain_text(data)

    async def kill(self, grace: float) -> None:
        """TERM, then KILL, to every process of the tree; returns when none is left."""
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_WAIT)):
            deadline = time.monotonic() + patience
            pause = 0.01
            sent: set[int] = set()  # one TERM each: many programs take a second one as "at once"
            while members := await self.living():
                self.tree.send(number, members - sent, leader_alive=self.code is None)
                self.tree.send(signal.SIGCONT, members - sent, leader_alive=self.code is None)
                sent |= members
                if time.monotonic() > deadline:
                    break
                await self._pause(pause)
                pause = min(pause * 2, 0.2)
            else:
                break
        await asyncio.wait({self._pump}, timeout=DRAIN_SECONDS)

    def kill_at_once(self) -> None:
        """KILL to every process of the tree; nothing is waited for."""
        members = self.tree.members(leader_alive=self.code is None)
        if members.sure:
            self.tree.send(signal.SIGKILL, members.sure, leader_alive=self.code is None)

    def close(self) -> None:
        self._live_output.flush()
        self._pump.cancel()
        self._output.close()
        self._place.close()
        self.spool.close()

    async def _pause(self, seconds: float) -> None:
        if self.code is None:
            await asyncio.wait({self._waiter}, timeout=seconds)
        else:
            await asyncio.sleep(seconds)

    async def _read(self) -> None:
        while data := await self._output.read():
            self.spool.write(data)
            self._live_output.feed(data)
            self.changed.set()
            if self.spool.size > self.max_output:
                self.flooded = True
                return
        self.changed.set()


class LiveOutput:
    """Reports live output in pieces: all of it up to a size, then only the amount."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._pending = bytearray()
        self._total = 0
        self._timer: asyncio.TimerHandle | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> None:
        room = max(0, LIVE_BYTES - self._total)
        self._pending += data[:room]
        self._total += len(data)
        if self._timer is None:
            wait = LIVE_INTERVAL if room else LIVE_SIZE_INTERVAL
            self._timer = asyncio.get_running_loop().call_later(wait, self.flush)

    def flush(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        if self._pending:
            self._tell(live_text(self._decoder.decode(bytes(self._pending))))
            self._pending.clear()
        if self._total > LIVE_BYTES:
            self._tell(f"\n[… {self._total / 1e6:,.1f} MB so far]\n")
