"""Ends a session's commands when the server cannot: it was killed, or it crashed.

A small shell waits on a pipe that only the server holds open. When the pipe closes, whatever the reason, every process
with the session's marker is killed, the scratch folder removed, and the workspace's masks (`protected.py`) too. Systems
without `/proc` have no reaper.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path

from pilotfish.workspace.own_programs import find_program, search_path
from pilotfish.workspace.process.process_tree import MARKER
from pilotfish.workspace.sandbox.protected import MASK_MODE, mask_places

# `grep -z` reads an environment as it is kept: entries that end in a zero byte.
SCRIPT = r"""read -r _
while files=$(grep -lsz "^$1=$2\." /proc/[0-9]*/environ); [ -n "$files" ]; do
  for file in $files; do pid=${file#/proc/}; kill -9 "${pid%/environ}" 2>/dev/null; done
  sleep 0.1
done
chmod -R u+rwX -- "$3"
rm -rf -- "$3"
mode=$4
shift 4
find "$@" -maxdepth 0 -type d -perm "$mode" -empty -exec rmdir -- {} +
"""


class OrphanReaper:
    """Watches over the processes marked with `name`, from `start` to `close` or to the end of this process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._close: weakref.finalize[[int, int], OrphanReaper] | None = None

    def start(self, scratch: Path, roots: Sequence[Path]) -> None:
        """Once; nothing happens when it runs already, or cannot."""
        shell = find_program("sh")
        if self._close is not None or sys.platform != "linux" or shell is None:
            return
        masks = dict.fromkeys(map(str, mask_places(roots)))
        reader, writer = os.pipe()
        try:
            pid = os.posix_spawn(
                shell,
                [shell, "-c", SCRIPT, "pilotfish-reaper", MARKER, self._name, str(scratch), f"{MASK_MODE:o}", *masks],
                {"PATH": search_path()},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, reader, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsid=True,
            )
        except (OSError, NotImplementedError):  # commands run all the same
            os.close(writer)
            return
        finally:
            os.close(reader)
        self._close = weakref.finalize(self, _let_go, writer, pid)

    def close(self) -> None:
        if self._close is not None:
            self._close()


def _let_go(writer: int, pid: int) -> None:
    os.close(writer)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
