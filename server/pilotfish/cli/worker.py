"""`pilotfish worker`: run the tasks of others from a terminal or a service."""

from __future__ import annotations

import asyncio
import sys

from pilotfish.config.settings import load_user
from pilotfish.errors import StorageError
from pilotfish.telemetry.logs import log_path, start_logging
from pilotfish.workspace.sandbox.sandbox import chosen_sandbox

try:
    from pilotfish.background import worker
except ImportError as error:
    raise StorageError(
        "The queue for workers is not installed.", remedy="Install it with: pip install 'pilotfish[worker]'"
    ) from error
from pilotfish.background.process import WorkerLimits


def url_of(storage: str | None) -> str:
    """The database of workers: the option or the setting."""
    url = storage or load_user().settings.storage or ""
    if not url.lower().startswith(("postgresql://", "postgres://")):
        raise StorageError(
            "Workers need sessions in a PostgreSQL database.", remedy="Set `storage` or give --storage postgresql://…"
        )
    return url


async def set_up(storage: str | None, per_user: int) -> int:
    queue = await worker.set_up(load_user().settings, url_of(storage), per_user)
    sys.stdout.write(f"The queue is in schema {queue}; {per_user} tasks of one user run at a time.\n")
    return 0


async def work(storage: str | None, limits: WorkerLimits, concurrency: int, lease: float) -> int:
    start_logging(log_path())
    settings = load_user().settings
    options = worker.WorkerOptions(url=url_of(storage), limits=limits, concurrency=concurrency, lease=lease)
    sandbox = await asyncio.to_thread(chosen_sandbox, settings)
    if settings.sandbox != "off" and sandbox.bwrap is None:
        raise StorageError(
            f"There is no sandbox here for the commands of others: {sandbox.words}",
            remedy='Install bubblewrap, or set `sandbox = "off"` if the worker itself runs in a container.',
        )
    for line in worker.described(options):
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    await worker.work(settings, options)
    return 0
