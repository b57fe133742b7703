"""A worker: it takes tasks from the queue of a PostgreSQL database and runs each in a process of its own.

The queue is Procrastinate's, in a schema that the users of the database cannot see. A trigger puts a user's job into
it, so nobody can queue a task for somebody else. The process of a task connects with the role of its owner: row-level
security holds for it as it does for the owner.

Promises: at most so many tasks of one user run at a time, over all workers; users take turns, however much one of them
has queued; a task whose worker is gone is given to another one when its lease has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from procrastinate import App, JobContext, PsycopgConnector, RetryStrategy
from procrastinate.jobs import Status
from psycopg import sql

from pilotfish.background.process import NOT_PREPARED, StartedWith, WorkerLimits
from pilotfish.config.settings import Settings
from pilotfish.errors import PilotfishError, StorageError
from pilotfish.store.ledger import Ledger
from pilotfish.store.postgres.connection import masked

log = logging.getLogger(__name__)

TASK: Final = "pilotfish.run"
QUEUE_NAME: Final = "pilotfish"
ATTEMPTS: Final = 5
"""how often a task is begun whose worker or process died, or whose repository could not be fetched"""
END_SECONDS: Final = 20.0
"""that a task has to leave its turn to another worker when this one stops"""
GONE_SECONDS: Final = 2.0
"""that this takes where the database cannot be reached: nothing can be left to others then"""
CANCELS: Final = 4

_NOT_GRANTED: Final = (
    "The workers of this database may not act for {owner}. Its administrator allows it with GRANT {owner} TO {worker}."
)
_DIED: Final = (
    "It was begun {count} times, and each time its process or its worker ended. The log of the worker may say why."
    " Resume it to try again."
)

_SET_UP: Final = """
CREATE OR REPLACE FUNCTION {schema}.enqueue_job() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = {queue}, pg_temp AS $$
DECLARE
    place bigint;
    slot integer;
BEGIN
    IF TG_RELID <> {jobs}::regclass THEN
        RAISE insufficient_privilege USING MESSAGE = 'this is not the table of jobs';
    END IF;
    -- Fair order: a user's next task comes after those that all others queued at the same time. The place is at least
    -- that of the last task that was begun, so who was away gains nothing by it.
    SELECT greatest(
        coalesce(max(-priority) FILTER (WHERE status <> 'todo'), 0),
        coalesce(max(-priority) FILTER (WHERE args->>'owner' = NEW.owner), 0)
    ) + 1 INTO place FROM procrastinate_jobs;
    -- Each user has so many locks, and one task runs under each.
    SELECT number INTO slot FROM generate_series(1, {per_user}) number
        LEFT JOIN procrastinate_jobs ON lock = NEW.owner || '/' || number AND status IN ('todo', 'doing')
        GROUP BY number ORDER BY count(id), number LIMIT 1;
    PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW(
        'pilotfish', 'pilotfish.run', -place, NEW.owner || '/' || slot, NEW.session,
        jsonb_build_object('session', NEW.session, 'owner', NEW.owner), NULL
    )::procrastinate_job_to_defer_v1]);
    RETURN NEW;
EXCEPTION WHEN unique_violation THEN
    RETURN NEW; -- it waits already
END $$;
-- For a task that cannot run with the role of its owner, or does not any more. Users cannot call it: it is in a schema
-- that they may not use.
CREATE OR REPLACE FUNCTION {queue}.fail_job(of_session text, of_owner text, reason text) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
BEGIN
    UPDATE jobs SET state = 'failed', note = reason, updated_at = extract(epoch FROM clock_timestamp())
        WHERE session = of_session AND owner = of_owner AND state IN ('queued', 'running');
    PERFORM pg_notify('pilotfish_' || md5(current_schema() || '/' || changed), '')
        FROM (VALUES ('session/' || of_session), ('lists/' || of_owner)) names (changed);
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.enqueue_job() FROM PUBLIC; -- for no table of a user's own
DROP TRIGGER IF EXISTS enqueue_job ON {schema}.jobs;
CREATE TRIGGER enqueue_job AFTER INSERT OR UPDATE OF state ON {schema}.jobs FOR EACH ROW
    WHEN (NEW.state = 'queued' AND NEW.place = 'a worker') EXECUTE FUNCTION {schema}.enqueue_job();
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works."""

    url: str
    limits: WorkerLimits
    concurrency: int
    lease: float
    """seconds without a sign of life after which a worker's tasks are given to others"""


class TaskProcessEnded(PilotfishError):
    """The process of a task ended before the task did. It is begun again."""


async def set_up(settings: Settings, url: str, per_user: int) -> str:
    """Create the queue, or change how many tasks of one user run at a time. Returns the name of its schema. For the
    role that owns the tables."""
    ledger = Ledger.open(url, label="the set-up of workers")
    try:
        await ledger.ready()  # creates the tables
        if ledger.unsaved is not None:
            raise StorageError(ledger.unsaved, remedy="Nothing was set up.")
    finally:
        await ledger.aclose()
    del settings
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        schema, queue = await _schemas(db)
        await db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(queue)))
        app = _app(url, queue)
        async with app.open_async():
            if not await app.check_connection_async():
                await app.schema_manager.apply_schema_async()
        names = {
            "schema": sql.Identifier(schema),
            "queue": sql.Identifier(queue),
            "jobs": sql.Literal(sql.Identifier(schema, "jobs").as_string(db)),
            "per_user": sql.Literal(per_user),
        }
        await db.execute(sql.SQL(cast("LiteralString", _SET_UP)).format(**names))
    return queue


async def work(settings: Settings, options: WorkerOptions) -> None:
    """Run tasks until a signal ends this process. Tasks that run are left to other workers."""
    async with await psycopg.AsyncConnection.connect(options.url, autocommit=True) as db:
        _, queue = await _schemas(db)
        found = await (await db.execute("SELECT to_regproc(%s)", (f'"{queue}".fail_job',))).fetchone()
    if found is None or found[0] is None:
        raise StorageError(
            "The queue of this database is not set up for this version.",
            remedy="Run: pilotfish worker --set-up, as the owner of the tables.",
        )
    stopping = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows: its loop takes no signal handlers
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    processes: set[asyncio.subprocess.Process] = set()
    running = asyncio.create_task(_run_tasks(settings, options, queue, processes))
    await _until_stopped(running, stopping, options.url, processes)


async def _until_stopped(
    running: asyncio.Task[None], stopping: asyncio.Event, url: str, processes: set[asyncio.subprocess.Process]
) -> None:
    """Wait until the work ends. Stop it at a signal, without its database if that is gone."""
    signalled = asyncio.create_task(stopping.wait())
    await asyncio.wait((running, signalled), return_when=asyncio.FIRST_COMPLETED)
    if not signalled.done():
        signalled.cancel()
        await running
        return
    running.cancel()
    await asyncio.wait((running,), timeout=END_SECONDS if await _reachable(url) else GONE_SECONDS)
    if not running.done():
        log.warning("the queue is not told that this worker stops; its tasks are given to others when its lease ends")
        for process in processes:
            process.kill()
        for _ in range(CANCELS):  # each of its layers tells the database first that it ends
            running.cancel()
            await asyncio.wait((running,), timeout=0.5)


async def _reachable(url: str) -> bool:
    try:
        async with await psycopg.AsyncConnection.connect(url, connect_timeout=2):
            return True
    except psycopg.Error:
        return False


async def _run_tasks(
    settings: Settings, options: WorkerOptions, queue: str, processes: set[asyncio.subprocess.Process]
) -> None:
    app = _app(options.url, queue)
    retry = RetryStrategy(max_attempts=ATTEMPTS, exponential_wait=2, retry_exceptions=(TaskProcessEnded,))

    @app.task(name=TASK, queue=QUEUE_NAME, pass_context=True, retry=retry)
    async def run_task(context: JobContext, session: str, owner: str) -> None:  # pyright: ignore[reportUnusedFunction] -- registered
        if (worker := await _not_granted(app, owner)) is not None:
            await _fail(app, session, owner, _NOT_GRANTED.format(owner=owner, worker=worker))
            return
        may_retry = context.job.attempts + 1 < ATTEMPTS
        try:
            await _run_process(settings, options, session, owner, processes, may_retry=may_retry)
        except asyncio.CancelledError:
            raise TaskProcessEnded("The worker stops; the task is left to another one.") from None
        except TaskProcessEnded:
            if may_retry:
                raise
            await _fail(app, session, owner, _DIED.format(count=ATTEMPTS))

    async with app.open_async():
        reviving = asyncio.create_task(_revive(app, options.lease))
        try:
            await app.run_worker_async(
                queues=[QUEUE_NAME],
                concurrency=options.concurrency,
                fetch_job_polling_interval=min(5.0, options.lease),
                shutdown_graceful_timeout=0,
                update_heartbeat_interval=options.lease / 3,
                stalled_worker_timeout=options.lease,
                delete_jobs="successful",
                install_signal_handlers=False,
            )
        finally:
            reviving.cancel()
            await asyncio.gather(reviving, return_exceptions=True)


async def _not_granted(app: App, owner: str) -> str | None:
    """The role of this worker if it may not act for a user."""
    found = await app.connector.execute_query_one_async(
        "SELECT session_user AS worker, coalesce("
        "(SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = %(owner)s), false) AS granted",
        owner=owner,
    )
    return None if found["granted"] else str(found["worker"])


async def _fail(app: App, session: str, owner: str, reason: str) -> None:
    """End a task that cannot run, with a reason for its owner."""
    log.warning("the task of session %s failed: %s", session, reason)
    await app.connector.execute_query_async(
        "SELECT fail_job(%(session)s, %(owner)s, %(reason)s)", session=session, owner=owner, reason=reason
    )


def with_role(url: str, role: str) -> str:
    """The URL for a connection that acts as another role from its beginning."""
    parts = urlsplit(url)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    given = " ".join(value for name, value in fields if name == "options")
    rest = [(name, value) for name, value in fields if name != "options"]
    named = re.sub(r"([\\\s])", r"\\\1", role)
    query = urlencode([*rest, ("options", f"{given} -c role={named}".strip())], quote_via=quote)
    return parts._replace(query=query).geturl()


async def _schemas(db: psycopg.AsyncConnection[tuple[str, ...]]) -> tuple[str, str]:
    """The schema of the sessions, and that of the queue."""
    row = await (await db.execute("SELECT current_schema()")).fetchone()
    if row is None or not row[0]:
        raise StorageError("The database has no schema for sessions.", remedy="Check `search_path` in the URL.")
    return row[0], f"{row[0]}_queue"


def _app(url: str, queue: str) -> App:
    parts = urlsplit(url)
    fields = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "options"]
    query = urlencode([*fields, ("options", f"-c search_path={queue}")], quote_via=quote)
    return App(connector=PsycopgConnector(conninfo=parts._replace(query=query).geturl(), min_size=1, max_size=4))


async def _revive(app: App, lease: float) -> None:
    """Give the tasks of workers that are gone to others."""
    while True:
        await asyncio.sleep(lease / 3)
        try:
            for job in await app.job_manager.get_stalled_jobs(queue=QUEUE_NAME, seconds_since_heartbeat=lease):
                if job.attempts + 1 < ATTEMPTS:
                    log.info("the worker of task %s is gone; the task is given to another one", job.id)
                    await app.job_manager.retry_job(job)
                else:
                    session, owner = str(job.task_kwargs["session"]), str(job.task_kwargs["owner"])
                    await _fail(app, session, owner, _DIED.format(count=ATTEMPTS))
                    await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
        except Exception:  # the database is away; the next round tries again
            log.exception("stalled tasks could not be looked for")


async def _run_process(
    settings: Settings,
    options: WorkerOptions,
    session: str,
    owner: str,
    processes: set[asyncio.subprocess.Process],
    *,
    may_retry: bool,
) -> None:
    """Run a task in a process with the role of its owner. If this is cancelled, the task is left to another worker."""
    own = settings.model_copy(update={"storage": with_role(options.url, owner)})
    told = StartedWith(session=session, settings=own, secrets={}, worker=options.limits, may_retry=may_retry)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "pilotfish", "background", session),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    if process.stdin is None:
        raise TaskProcessEnded("The process of a task has no input.")
    processes.add(process)
    try:
        # Its input stays open: the end of it means that this worker is gone.
        process.stdin.write(told.model_dump_json().encode() + b"\n")
        await process.stdin.drain()
        code = await process.wait()
    except BaseException:
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_SECONDS)
        raise
    finally:
        processes.discard(process)
        if process.returncode is None:
            process.kill()
    if code == NOT_PREPARED:
        raise TaskProcessEnded(f"The task of session {session} could not be prepared.")
    if code != 0:
        raise TaskProcessEnded(f"The process of session {session} ended with code {code}.")


def described(options: WorkerOptions) -> Sequence[str]:
    """What a worker does, for its log and its terminal."""
    sources = (*map(str, options.limits.clones), *options.limits.remotes)
    return (
        f"A worker of {masked(options.url)} (process {os.getpid()}): {options.concurrency} tasks at a time.",
        f"Repositories: {', '.join(sources) if sources else 'none; give --clone or --remote'}.",
    )
