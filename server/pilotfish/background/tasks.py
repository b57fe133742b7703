"""What a client does with background tasks: start, continue, take over their changes, discard them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pilotfish.background.process import StartedWith, start_process
from pilotfish.engine.background_job import JobSpec, drop_results, travelling, users_repository
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Session
from pilotfish.engine.model.editor.editor_models import PREFIX
from pilotfish.engine.session.undo import Reverted
from pilotfish.errors import BadRequest, GitError, NotTrusted, SessionBusy
from pilotfish.store.tables.jobs import QUEUE, UNFINISHED, JobRow, JobState
from pilotfish.store.titles import title_of
from pilotfish.workspace.edits.changes import FileChange
from pilotfish.workspace.edits.hunks import count
from pilotfish.workspace.edits.outcomes import text_of_bytes
from pilotfish.workspace.git.worktrees import Base, ChangedFile, Repository, find_base
from pilotfish.workspace.sandbox.sandbox import clean_environment

_NO_NAME: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A session whose task runs in the background, and what the user should know about it."""

    session: Session
    notes: tuple[str, ...]


class BackgroundTasks:
    """The background tasks of the sessions of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def start(
        self,
        blocks: Sequence[Mapping[str, Any]],
        *,
        folder: Path | None = None,
        model: str | None = None,
        mode: str | None = None,
    ) -> StartedTask:
        """Start a task in a worktree of the current commit of a folder. Raises BadRequest if it is in no repository,
        NotTrusted if it is not trusted."""
        engine = self._engine
        folder = folder or (engine.roots[0] if engine.roots else None)
        if folder is None:
            raise BadRequest("workspaceFolder: open a folder first", field="workspaceFolder")
        if not engine.trusted(str(folder)):
            raise NotTrusted("A task in the background needs a trusted folder: nobody watches it.")
        _refuse_editors_model(model or engine.settings.model, "model")
        base = await asyncio.to_thread(find_base, folder, clean_environment(os.environ))
        unsaved = await engine.make_workspace(str(folder)).unsaved_documents()
        session = await engine.new(str(folder), None, model, mode)
        await engine.catalog.improve_title(session.id, title_of(tuple(blocks)))
        spec = JobSpec(
            prompt=tuple(blocks),
            commit=base.commit,
            top=str(base.top),
            remote=base.remote,
            trusted=True,
            rules=tuple(rule for rule in engine.rules(session.id) if rule.scope != "managed"),
            settings=travelling(engine.settings),
        )
        notes = _left_behind(base, len(unsaved))
        queued = await engine.ledger.read(lambda tables: tables.has_workers())
        if queued and base.remote is None:
            queued, notes = False, (*notes, f"Commit {base.commit[:9]} is not pushed, so it runs on this machine.")
        await self._put(session.id, spec, QUEUE if queued else "", " ".join(notes))
        if not queued:
            await self._launch(session.id)
        await engine.close(session.id)
        return StartedTask(await engine.look(session.id), notes)

    async def resume(self, session_id: str) -> Session:
        """Continue a task whose process is gone, or that failed. Raises SessionBusy if it runs."""
        engine = self._engine
        session = await engine.look(session_id)  # to open it would close the turn that is to go on
        background = session.background
        if background is None or background.state in ("applied", "discarded"):
            raise BadRequest("sessionId: this session has no task in the background", field="sessionId")
        if background.state in ("running", "queued"):
            raise SessionBusy(f"The task runs: {background.place or 'it is about to start'}.")
        _refuse_editors_model(session.model, "sessionId")
        job = await self._job(session_id)
        remote = JobSpec.model_validate_json(job.spec).remote
        queued = remote is not None and await engine.ledger.read(lambda tables: tables.has_workers())
        place = QUEUE if queued else ""
        await self._change(session_id, "queued", ("running", "failed", "cancelled", "done"), place)
        await engine.close(session_id)
        if not queued:
            await self._launch(session_id)
        return await engine.look(session_id)

    async def take_over(self, session_id: str) -> Reverted:
        """Make the task's changes in the user's files, through the editor where they are open. They are reviewed and
        undone like those of any turn."""
        job, spec, repository, result = await self._result(session_id)
        diff = await asyncio.to_thread(repository.diff, spec.commit, result, spec.top_folder)
        changes = [_change_of(spec.top_folder, file) for file in diff.files]
        done = await self._engine.take_over(session_id, changes, diff.left_out)
        made = {change.path for change in done.changes}
        runnable = [file for file in diff.files if file.executable and spec.top_folder / file.path in made]
        await asyncio.to_thread(_make_executable, spec.top_folder, runnable)
        await self._change(job.session, "applied", _ENDED)
        return done

    async def branch(self, session_id: str, name: str | None = None) -> str:
        """Make a branch of the task's changes in the user's repository. Returns its name."""
        _, _, repository, result = await self._result(session_id)
        title = (await self._engine.look(session_id)).title
        name = name or f"pilotfish/{_NO_NAME.sub('-', title.lower()).strip('-')[:40] or session_id}"
        await asyncio.to_thread(repository.branch, name, result)
        await self._change(session_id, "applied", _ENDED)
        return name

    async def discard(self, session_id: str) -> None:
        """Drop the task's worktree and result. Raises SessionBusy while it runs."""
        job = await self._job(session_id)
        background = (await self._engine.look(session_id)).background
        if background is not None and background.state in ("running", "queued"):
            raise SessionBusy("The task runs. Stop it first.")
        spec = JobSpec.model_validate_json(job.spec)
        await self._change(session_id, "discarded", (*_ENDED, *UNFINISHED, "applied"))
        await asyncio.to_thread(drop_results, spec, self._engine.ledger.directory, session_id)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _put(self, session_id: str, spec: JobSpec, place: str, note: str) -> None:
        now = self._engine.clock()
        row = JobRow(
            session=session_id,
            state="queued",
            spec=spec.model_dump_json(),
            place=place,
            note=note,
            result=None,
            created_at=now,
            updated_at=now,
        )
        await self._engine.change_job(session_id, lambda jobs: jobs.put(row))

    async def _launch(self, session_id: str) -> None:
        engine = self._engine
        told = StartedWith(session=session_id, settings=engine.settings, secrets=dict(engine.secrets))
        await asyncio.to_thread(start_process, engine.ledger.directory, told)

    async def _result(self, session_id: str) -> tuple[JobRow, JobSpec, Repository, str]:
        """The result of a task, in the user's repository."""
        job = await self._job(session_id)
        if job.state in UNFINISHED:
            raise SessionBusy("The task has not ended. Stop it first.")
        if job.result is None or job.state == "discarded":
            raise BadRequest("sessionId: the task has changed no file", field="sessionId")
        spec = JobSpec.model_validate_json(job.spec)
        repository = await asyncio.to_thread(users_repository, spec)
        if not await asyncio.to_thread(repository.has, job.result):
            bundle = await self._engine.ledger.read(lambda tables: tables.jobs.bundle(session_id))
            if bundle is None:
                raise GitError("The result of the task is not in your repository any more.")
            await asyncio.to_thread(repository.unpack, session_id, bundle, job.result)
        return job, spec, repository, job.result

    async def _job(self, session_id: str) -> JobRow:
        await self._engine.look(session_id)
        job = await self._engine.job_of(session_id)
        if job is None:
            raise BadRequest("sessionId: this session has no task in the background", field="sessionId")
        return job

    async def _change(
        self, session_id: str, state: JobState, among: Sequence[JobState], place: str | None = None
    ) -> None:
        now = self._engine.clock()
        await self._engine.change_job(
            session_id, lambda jobs: jobs.change(session_id, state, among, now=now, place=place)
        )


def _refuse_editors_model(model: str, field: str) -> None:
    """A task runs without the editor, so its models are not there."""
    if model.partition(":")[0].lower() == PREFIX:
        raise BadRequest(
            f"{field}: {model} is a model of the editor, which a task in the background cannot use. Choose another.",
            field=field,
        )


_ENDED: Final[tuple[JobState, ...]] = ("done", "failed", "cancelled", "applied")


def _left_behind(base: Base, unsaved: int) -> tuple[str, ...]:
    notes: list[str] = []
    if base.changed:
        files = "1 file with changes that are" if base.changed == 1 else f"{base.changed} files with changes that are"
        notes.append(f"It starts from commit {base.commit[:9]}: {files} not committed stayed behind.")
    if unsaved:
        notes.append(f"{unsaved} unsaved document{' stays' if unsaved == 1 else 's stay'} behind too.")
    return tuple(notes)


def _change_of(top: Path, file: ChangedFile) -> FileChange:
    added, removed = count(text_of_bytes(file.before), text_of_bytes(file.after))
    return FileChange(
        path=top / file.path,
        change="created" if file.before is None else "deleted" if file.after is None else "edited",
        before=file.before,
        after=file.after,
        added=added,
        removed=removed,
        via="disk",
    )


def _make_executable(top: Path, files: Sequence[ChangedFile]) -> None:
    for file in files:
        path = top / file.path
        path.chmod(path.stat().st_mode | 0o111)
