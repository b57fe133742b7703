"""The process of one background task on the user's machine: how it is started, and what it does.

Promises: it survives the editor and the terminal that started it; keys reach it through a pipe and are in no file, no
argument and no log; its environment is that of its starter without what belongs to an editor.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from pilotfish.background.runner import Place, Runner
from pilotfish.config.settings import Settings
from pilotfish.engine.background_job import users_repository
from pilotfish.errors import StorageError
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.jobs import JobState
from pilotfish.telemetry.logs import log_path, start_logging

_OF_THE_EDITOR: Final = re.compile(r"VSCODE_.*|ELECTRON_.*|TERM_PROGRAM.*|.*_IPC_HOOK.*")
_IN_A_PROCESS_OF_ITS_OWN: Final = 'exec 3<&0; "$@" <&3 3<&- &'
"""for a shell that ends at once, so that the process is nobody's child"""


class StartedWith(BaseModel):
    """What a process is told when it starts, through its standard input."""

    model_config = ConfigDict(frozen=True)

    session: str
    settings: Settings
    secrets: Mapping[str, str]


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
                process.communicate(told.model_dump_json().encode(), timeout=START_SECONDS)
                return
            subprocess.run(
                ["/bin/sh", "-c", _IN_A_PROCESS_OF_ITS_OWN, "sh", *command],
                input=told.model_dump_json().encode(),
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


def main(session_id: str) -> int:
    """The process: run the task of a session, with what standard input says."""
    start_logging(log_path())
    told = StartedWith.model_validate_json(sys.stdin.buffer.read())
    if told.session != session_id:
        sys.stderr.write("pilotfish: this command is started by `pilotfish run --background`\n")
        return 2
    return asyncio.run(_main(told))


async def _main(told: StartedWith) -> int:
    label = f"a background task on {socket.gethostname()}"
    ledger = Ledger.open(told.settings.storage, label=label)
    runner = Runner(ledger, told.settings, here(ledger.directory), told.session, secrets=told.secrets)
    running = asyncio.ensure_future(runner.run())
    loop = asyncio.get_running_loop()
    leaving: list[asyncio.Task[None]] = []

    def leave() -> None:
        """The machine goes down: the next process continues the task."""
        leaving.append(loop.create_task(_leave(runner, running)))

    with contextlib.suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, leave)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return 0
    finally:
        await asyncio.gather(*leaving)
        await runner.aclose()


async def _leave(runner: Runner, running: asyncio.Future[JobState | None]) -> None:
    await runner.leave()
    running.cancel()
