"""Every process that a command started, also those that left its process group.

A command and all its descendants inherit an environment marker and, unless they ask for their own, a session. Where
there is `/proc` both are read; elsewhere the process group is all that can be known. A process that is just becoming
another program has no environment for a moment, so it is not known yet whose it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MARKER = "PILOTFISH_COMMAND"


@dataclass(frozen=True, slots=True)
class Members:
    """Processes alive now, and those of whom it is not known yet."""

    sure: frozenset[int] = frozenset()
    unsure: frozenset[int] = frozenset()


def now_in_ticks() -> int:
    """Now, as `/proc` counts the times at which processes start."""
    if sys.platform != "linux":
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """The processes of one command: `leader` started the session, `marker` is in their environment."""

    leader: int
    marker: str
    born: int
    """ticks; none of them is older"""

    def members(self, *, leader_alive: bool) -> Members:
        """A dead leader's number may be another's by now: then a session counts only where nothing speaks against."""
        if sys.platform != "linux":
            return Members(frozenset({self.leader} if _group_alive(self.leader) else ()))
        return find(self.marker, born=self.born, session=self.leader, whole_session=leader_alive)

    def send(self, number: signal.Signals, members: Iterable[int], *, leader_alive: bool) -> None:
        if leader_alive or sys.platform != "linux":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def find(marker: str, *, born: int = 0, session: int | None = None, whole_session: bool = False) -> Members:
    """Processes whose marker is `marker` or goes on from it with a dot, zombies apart."""
    entry = f"{MARKER}={marker}".encode()
    sure: set[int] = set()
    unsure: set[int] = set()
    own, user = os.getpid(), os.getuid()
    for pid in _pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # another user's, or gone
            continue
        if any(item == entry or item.startswith(entry + b".") for item in environment.split(b"\0")):
            sure.add(pid)
        elif (whole_session or not environment) and (stat := _stat(pid)) is not None:
            if session is not None and stat.session == session:
                sure.add(pid)
            elif not environment and stat.started >= born and stat.has_memory and _owner(pid) == user:
                unsure.add(pid)
    return Members(frozenset(sure - {own}), frozenset(unsure - {own}))


@dataclass(frozen=True, slots=True)
class _Stat:
    session: int
    started: int
    has_memory: bool


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names only, fast
    except OSError:
        return []


def _stat(pid: int) -> _Stat | None:
    """What the kernel says of a living process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split(b" ")  # the first is the third of proc(5)
    if fields[0] in b"ZX":
        return None
    return _Stat(session=int(fields[3]), started=int(fields[19]), has_memory=int(fields[20]) > 0)


def _owner(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return -1


def _group_alive(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
