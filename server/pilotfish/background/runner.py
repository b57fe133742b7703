"""Runs one background task in this process: the same engine and ledger, in a worktree of the task's commit.

Promises: the lease of the session is held from the beginning to the end, so a task runs once; a task whose process died
is continued from its records: a question is asked again, calls that had begun are never run again; the result is kept
before the worktree is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from pilotfish.background.frontend import HeadlessFrontend
from pilotfish.config.settings import Settings
from pilotfish.conversation.records import FileChangeRecord, Record, StopReason, TurnEndRecord, TurnStartRecord
from pilotfish.conversation.relocation import Relocation
from pilotfish.engine.background_job import PROMPT_ID, TRAVELLING, JobSpec, tree_of
from pilotfish.engine.context import WorkingCopy
from pilotfish.engine.engine import Engine
from pilotfish.errors import PilotfishError, SessionBusy
from pilotfish.language_servers.servers import LanguageServers
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.jobs import UNFINISHED, JobState
from pilotfish.text.uris import path_of
from pilotfish.workspace.git.worktrees import Repository

log = logging.getLogger(__name__)

CONTINUE: Final = (
    "[The process that ran this task ended, and another one goes on. Your worktree is as the records show it. A call"
    " whose result is unknown was not run again: look at what it did before you repeat it. Go on with the task.]"
)
MOVED: Final = (
    "[The machine that ran this task is gone, and another one goes on in a fresh worktree. The files that you edited"
    " are restored. What commands changed without an edit is not: look before you rely on it. Go on with the task.]"
)

UNREADABLE: Final = "The task cannot be read: it was written by another version of Pilotfish, or by another program."

_STATES: Final[Mapping[StopReason, JobState]] = {
    "end_turn": "done",
    "max_iterations": "done",
    "max_tokens": "done",
    "budget": "done",
    "refusal": "done",
    "cancelled": "cancelled",
    "failed": "failed",
}
_NOTES: Final[Mapping[StopReason, str]] = {
    "max_iterations": "It stopped at the limit of iterations.",
    "max_tokens": "The last answer was cut off.",
    "budget": "Its budget is used up.",
    "refusal": "The model refused.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where tasks run: here, or on a worker."""

    name: str
    """for the user"""
    directory: Path
    """for worktrees"""
    repository: Callable[[JobSpec], Repository]
    """the repository that has the task's commit. Blocking."""
    bundles: bool
    """the user's repository is elsewhere, so the result goes through the database"""

    settings_from_job: bool = False
    """the user's settings are not here: those that travel come with the task"""

    def tree(self, session_id: str) -> Path:
        return tree_of(self.directory, session_id)


class NotPrepared(PilotfishError):
    """A task could not be prepared, and nothing has happened yet, so it can be tried again."""


class Runner:
    """Runs the task of one session."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        place: Place,
        session_id: str,
        *,
        secrets: Mapping[str, str] | None = None,
        may_retry: bool = False,
    ) -> None:
        """`may_retry`: raise NotPrepared instead of ending the task as failed."""
        self._ledger = ledger
        self._place = place
        self._id = session_id
        self._engine = engine = Engine(settings, ledger, HeadlessFrontend())
        engine.language_servers = LanguageServers(engine.sandbox)
        for provider, key in (secrets or {}).items():
            engine.set_secret(provider, key)
        self._may_retry = may_retry
        self._leaving = False

    async def run(self) -> JobState | None:
        """Run the task to its end. Returns its state; None if it is not to be run here: another process runs it, or it
        has ended."""
        try:
            lease = await self._ledger.lease(self._id, patience=LEASE_SECONDS)
        except SessionBusy as error:
            log.info("the task is not run here: %s", error)
            return None
        try:
            job = await self._engine.job_of(self._id)
            if job is None or not await self._change("running", place=self._place.name):
                return None
            try:
                spec = JobSpec.model_validate_json(job.spec)
            except ValidationError as error:
                log.warning("the task of session %s cannot be read: %s", self._id, error)
                return await self._finish("failed", UNREADABLE, None, None)
            return await self._run(spec, go_on=job.state == "queued")
        finally:
            lease.release()

    async def leave(self) -> None:
        """Stop without an end: the next process continues the task from its records."""
        self._leaving = True
        await self._engine.leave_turns_open()

    async def aclose(self) -> None:
        await self._engine.aclose()

    async def _run(self, spec: JobSpec, *, go_on: bool) -> JobState:
        """`go_on`: the user wants it to run, also if its last turn has ended."""
        tree = self._place.tree(self._id)
        try:
            repository = await asyncio.to_thread(self._place.repository, spec)
            fresh = not (tree / ".git").exists()
            await asyncio.to_thread(repository.add_worktree, tree, spec.commit)
        except PilotfishError as error:
            if self._may_retry:
                raise NotPrepared(str(error)) from error
            return await self._finish("failed", str(error), None, None)
        try:
            if self._place.settings_from_job:
                travelled = Settings.model_validate(spec.settings)
                names = {name: getattr(travelled, name) for name in TRAVELLING if name in spec.settings}
                self._engine.set_settings(self._engine.settings.model_copy(update=names))
            self._engine.copy = WorkingCopy(spec.top_folder, tree)
            self._engine.set_roots([tree])
            self._engine.set_trusted(spec.trusted)
            stop_reason, failure = await self._turns(spec, fresh=fresh, go_on=go_on)
        except PilotfishError as error:
            remedy = getattr(error, "remedy", "")
            return await self._finish("failed", f"{error} {remedy}".strip(), None, None)
        if self._leaving:
            return "running"
        return await self._hand_over(repository, spec, tree, stop_reason, failure)

    async def _turns(self, spec: JobSpec, *, fresh: bool, go_on: bool) -> tuple[StopReason, str]:
        engine = self._engine
        for rule in spec.rules:
            await engine.add_session_rule(self._id, rule)
        earlier = await self._records()
        moved = fresh and await self._restore(earlier)
        before = next((record.turn_id for record in reversed(earlier) if isinstance(record, TurnEndRecord)), "")
        await engine.load(self._id)  # a turn that waited for an approval goes on, and its question is asked again
        await engine.idle(self._id)
        records = await self._records()
        starts = [record for record in records if isinstance(record, TurnStartRecord) and record.background]
        if not starts:
            return await self._prompt(self._blocks(spec), PROMPT_ID)
        end = next((record for record in reversed(records) if isinstance(record, TurnEndRecord)), None)
        cut_off = end is None or (end.error is not None and end.error.kind in ("restarted", "closed"))
        if end is not None and not cut_off and not (go_on and end.turn_id == before):
            return end.stop_reason, end.error.message if end.error else ""
        text = MOVED if moved else CONTINUE
        return await self._prompt([{"type": "text", "text": text}], f"{PROMPT_ID}.{len(starts)}")

    async def _prompt(self, blocks: Sequence[Mapping[str, Any]], prompt_id: str) -> tuple[StopReason, str]:
        await self._engine.prompt(self._id, blocks, prompt_id)
        await self._engine.idle(self._id)  # prompts of other processes that came meanwhile have run too
        end = next(record for record in reversed(await self._records()) if isinstance(record, TurnEndRecord))
        return end.stop_reason, f"{end.error.message} {end.error.remedy}" if end.error else ""

    def _blocks(self, spec: JobSpec) -> Sequence[Mapping[str, Any]]:
        """The prompt, with the user's files as those of the worktree."""
        copy = self._engine.copy
        return spec.prompt if copy is None else cast("Sequence[Mapping[str, Any]]", _moved(spec.prompt, copy))

    async def _records(self) -> list[Record]:
        return [entry.record for entry in await self._ledger.history(self._id)]

    async def _restore(self, records: Sequence[Record]) -> bool:
        """Give a fresh worktree the files as the task had left them. Returns whether there were any."""
        copy = self._engine.copy
        changed: dict[Path, str | None] = {}
        for record in records:
            if copy is not None and isinstance(record, FileChangeRecord) and record.background:
                there = copy.relocation.reverse.record(record)
                if isinstance(there, FileChangeRecord):
                    if there.old_uri and (old := path_of(there.old_uri)):
                        changed[old] = None
                    if path := path_of(there.uri):
                        changed[path] = there.after
        for path, blob in changed.items():
            if copy is None or not path.resolve().is_relative_to(copy.tree.resolve()):
                continue  # outside the worktree, so it is no part of it
            data = None if blob is None else await self._ledger.get_blob(blob)
            await asyncio.to_thread(_put, path, data)
        return bool(changed)

    async def _hand_over(
        self, repository: Repository, spec: JobSpec, tree: Path, stop_reason: StopReason, failure: str
    ) -> JobState:
        """Keep the result, and remove the worktree."""
        row = await self._engine.session(self._id)
        bundle = None
        state, note = _STATES[stop_reason], failure or _NOTES.get(stop_reason, "")
        try:
            message = f"{row.title or 'Background task'}\n\nPilotfish session {self._id}\n"
            result = await asyncio.to_thread(repository.snapshot, tree, spec.commit, message)
            if result is not None:
                await asyncio.to_thread(repository.keep, self._id, result)
                if self._place.bundles:
                    bundle = await asyncio.to_thread(repository.pack, self._id, spec.commit)
        except PilotfishError as error:
            return await self._finish("failed", f"The result could not be kept: {error} It is in {tree}.", None, None)
        ended = await self._finish(state, note, result, bundle)
        await asyncio.to_thread(repository.remove_worktree, tree)
        if self._place.bundles:
            await asyncio.to_thread(repository.forget, self._id)
        return ended

    async def _finish(self, state: JobState, note: str, result: str | None, bundle: bytes | None) -> JobState:
        now = self._engine.clock()
        await self._engine.change_job(
            self._id, lambda jobs: jobs.finish(self._id, state, now=now, note=note, result=result, bundle=bundle)
        )
        return state

    async def _change(self, state: JobState, *, place: str) -> bool:
        now = self._engine.clock()
        return await self._engine.change_job(
            self._id, lambda jobs: jobs.change(self._id, state, UNFINISHED, now=now, place=place)
        )


LEASE_SECONDS: Final = 5.0
"""how long to wait for a process that only looks at the session"""


def _moved(value: object, copy: WorkingCopy) -> object:
    """A prompt with every `uri` of the user's repository moved into the worktree."""
    there: Relocation = copy.relocation.reverse
    match value:
        case dict():
            fields = cast("dict[str, object]", value)
            return {
                name: there.uri(entry) if name == "uri" and isinstance(entry, str) else _moved(entry, copy)
                for name, entry in fields.items()
            }
        case list() | tuple():
            return [_moved(entry, copy) for entry in cast("Sequence[object]", value)]
        case _:
            return value


def _put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
