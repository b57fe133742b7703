"""The process of one background task on the user's machine: how it is started, and what it does.

Promises: it survives the editor and the terminal that started it; keys reach it through a pipe and are in no file, no
argument and no log; its environment is that of its starter without what belongs to an editor.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from pilotfish.background.runner import NotPrepared, Place, Runner
from pilotfish.config.settings import Settings
from pilotfish.engine.background_job import JobSpec, users_repository
from pilotfish.errors import GitError, StorageError
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.jobs import JobState
from pilotfish.telemetry.logs import log_path, start_logging
from pilotfish.workspace.git.worktrees import Repository
from pilotfish.workspace.sandbox.sandbox import clean_environment

log = logging.getLogger(__name__)

_OF_THE_EDITOR: Final = re.compile(r"VSCODE_.*|ELECTRON_.*|TERM_PROGRAM.*|.*_IPC_HOOK.*")
_IN_A_PROCESS_OF_ITS_OWN: Final = 'exec 3<&0; "$@" <&3 3<&- &'
"""for a shell that ends at once, so that the process is nobody's child"""


class WorkerLimits(BaseModel):
    """Where a worker may get repositories from."""

    model_config = ConfigDict(frozen=True)

    clones: tuple[Path, ...] = ()
    """repositories on the worker"""
    remotes: tuple[str, ...] = ()
    """patterns of URLs, such as `https://git.example.org/*`"""


class StartedWith(BaseModel):
    """What a process is told when it starts, through its standard input."""

    model_config = ConfigDict(frozen=True)

    session: str
    settings: Settings
    secrets: Mapping[str, str]
    worker: WorkerLimits | None = None
    """what a task may use of a worker; None on the user's machine"""
    may_retry: bool = False


def start_process(directory: Path, told: StartedWith) -> None:
    """Start the process of a task, and return at once. Blocking. Raises StorageError if that fails."""
    folder = directory / "background" / told.session
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not _OF_THE_EDITOR.fullmatch(name)}
    # -P: no module is imported from the current directory.
    command = [sys.executable, "-P", "-m", "pilotfish", "background", told.session]
    try:
        descriptor = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as output:
            if sys.platform == "win32":
                flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.DETACHED_PROCESS
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=folder, creationflags=flags
                )
                process.communicate(told.model_dump_json().encode() + b"\n", timeout=START_SECONDS)
                return
            subprocess.run(
                ["/bin/sh", "-c", _IN_A_PROCESS_OF_ITS_OWN, "sh", *command],
                input=told.model_dump_json().encode() + b"\n",
                stdout=output,
                stderr=output,
                cwd=folder,
                env=environment,
                start_new_session=True,
                check=True,
                timeout=START_SECONDS,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise StorageError(
            f"The process of the background task could not be started: {error}.", remedy=f"Look into {folder / 'log'}."
        ) from error


START_SECONDS: Final = 30.0


def here(directory: Path) -> Place:
    """The user's machine as a place where tasks run."""
    name = f"{socket.gethostname()} (process {os.getpid()})"
    return Place(name=name, directory=directory, repository=users_repository, bundles=False)


def on_worker(directory: Path, limits: WorkerLimits) -> Place:
    """A worker as a place where tasks run."""

    def repository(spec: JobSpec) -> Repository:
        environ = clean_environment(os.environ)
        if spec.remote is None:
            raise GitError("The repository has no remote `origin` with the commit, so no worker can get it.")
        for clone in limits.clones:
            found = Repository.of(clone, environ)
            if found.origin == spec.remote:
                if not found.has(spec.commit):
                    found.fetch(spec.commit)
                return _with_commit(found, spec)
        if spec.remote.startswith("-") or not any(fnmatchcase(spec.remote, pattern) for pattern in limits.remotes):
            raise GitError(f"The worker may not fetch from {spec.remote}. Its administrator sets `--remote`.")
        name = hashlib.sha256(spec.remote.encode()).hexdigest()[:24]
        found = Repository.clone(spec.remote, directory / "repositories" / name, environ)
        if not found.has(spec.commit):
            found.fetch(spec.commit)
        return _with_commit(found, spec)

    name = f"worker {socket.gethostname()} (process {os.getpid()})"
    return Place(name=name, directory=directory, repository=repository, bundles=True, settings_from_job=True)


def _with_commit(repository: Repository, spec: JobSpec) -> Repository:
    if not repository.has(spec.commit):
        raise GitError(f"{spec.remote} has no commit {spec.commit[:9]}. Push it first.")
    return repository


NOT_PREPARED: Final = 75
"""the exit code of a process that could not prepare its task; nothing had happened"""


def main(session_id: str) -> int:
    """The process: run the task of a session, with what the first line of standard input says."""
    start_logging(log_path())
    told = StartedWith.model_validate_json(sys.stdin.buffer.readline())
    if told.session != session_id:
        sys.stderr.write("pilotfish: this command is started by `pilotfish run --background`\n")
        return 2
    return asyncio.run(_main(told))


async def _main(told: StartedWith) -> int:
    label = f"a background task on {socket.gethostname()}"
    ledger = Ledger.open(told.settings.storage, label=label)
    place = here(ledger.directory) if told.worker is None else on_worker(ledger.directory, told.worker)
    runner = Runner(ledger, told.settings, place, told.session, secrets=told.secrets, may_retry=told.may_retry)
    running = asyncio.ensure_future(runner.run())
    loop = asyncio.get_running_loop()
    leaving: list[asyncio.Task[None]] = []

    def leave() -> None:
        """The machine goes down: the next process continues the task."""
        leaving.append(loop.create_task(_leave(runner, running)))

    with contextlib.suppress(NotImplementedError):  # Windows: its loop takes no signal handlers
        loop.add_signal_handler(signal.SIGTERM, leave)
    if told.worker is not None:
        threading.Thread(target=_until_end_of_input, args=(loop, leave), daemon=True).start()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return 0
    except NotPrepared as error:
        log.warning("the task was not prepared: %s", error)
        return NOT_PREPARED
    finally:
        await asyncio.gather(*leaving)
        await runner.aclose()


def _until_end_of_input(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """The worker holds the other end: it ends with the worker, however that ends."""
    # Not through `sys.stdin`: its lock, held by this thread, would make the end of the process a fatal error.
    while os.read(0, 4096):
        pass
    with contextlib.suppress(RuntimeError):  # the task has ended
        loop.call_soon_threadsafe(leave)


async def _leave(runner: Runner, running: asyncio.Future[JobState | None]) -> None:
    await runner.leave()
    running.cancel()
