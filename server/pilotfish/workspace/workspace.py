"""The workspace of one session: all access to files and processes.

It hides whether a file is open in an editor, its encoding and line endings, and concurrent writers. It promises:
- what is read is what the user sees;
- text that the model has not read is never overwritten: edits are rebased over it or refused;
- an approved edit is applied exactly as it was shown, or not at all;
- the changes of a turn can be undone, except in files that others changed since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from pilotfish.errors import PilotfishError, Refused, StaleEdit, ToolError
from pilotfish.workspace.clock import Clock
from pilotfish.workspace.editor import Buffer, Editor, LanguageQueries
from pilotfish.workspace.edits.changes import FileChange, Refusal, Undone, UndoStep, steps
from pilotfish.workspace.edits.drafts import (
    Delete,
    Draft,
    Edit,
    FileIntent,
    FilePreview,
    Move,
    Patch,
    Replace,
    Restore,
    Rewrite,
    TextIntent,
    draft,
    holds,
    preview_of,
    removal_version,
)
from pilotfish.workspace.edits.matching import Replacement
from pilotfish.workspace.edits.outcomes import Edited, change_of_step, deletion_of, edited_by, renaming_of
from pilotfish.workspace.edits.writer import FileWriter, lock, make_draft
from pilotfish.workspace.files import disk as disks
from pilotfish.workspace.files.disk import Window
from pilotfish.workspace.files.paths import ResolvedPath, resolve
from pilotfish.workspace.files.read_tracker import ReadTracker
from pilotfish.workspace.files.view import View, Views
from pilotfish.workspace.own_programs import distrust
from pilotfish.workspace.own_servers import ServedWorkspace
from pilotfish.workspace.post_edit_diagnostics import PostEditDiagnostics
from pilotfish.workspace.process.processes import Processes
from pilotfish.workspace.sandbox.sandbox import Sandbox, find_sandbox
from pilotfish.workspace.search.nearest_paths import nearest_paths
from pilotfish.workspace.search.search import unsaved_texts

CANCEL_GRACE = 1.0  # seconds that a cancelled call waits for a write that has begun

T = TypeVar("T")


class Workspace:
    """One per session: it keeps what the model has read and the processes it started."""

    def __init__(
        self,
        roots: Sequence[Path],
        editor: Editor,
        *,
        home: Path | None = None,
        clock: Clock | None = None,
        sandbox: Callable[[], Sandbox] = find_sandbox,
        own_servers: Callable[[ServedWorkspace], LanguageQueries | None] = lambda _: None,
    ) -> None:
        self.roots = tuple(dict.fromkeys(Path(root).resolve() for root in roots))
        distrust(self.roots)
        self._editor = editor
        self._home = (home or Path.home()).resolve()
        clock = clock or Clock()
        self._views = Views(editor, clock)
        self._writer = FileWriter(editor, self._views, clock)
        self._read_tracker = ReadTracker()
        self._diagnostics = PostEditDiagnostics(self, clock)
        self._sandbox = sandbox
        self._own_servers = own_servers(self)
        self._unclaimed: list[FileChange] = []
        self._running: set[asyncio.Task[Any]] = set()

    @cached_property
    def processes(self) -> Processes:
        return Processes(self.roots, sandbox=self._sandbox)

    @property
    def editor(self) -> Editor:
        return self._editor

    def answerer(self, method: str) -> LanguageQueries:
        """Who answers this method for language servers: the editor if it can, otherwise our own servers."""
        if self._own_servers is None or self._editor.can_answer(method):
            return self._editor
        return self._own_servers

    # -- looking -----------------------------------------------------------------------------------------------

    def resolve(self, text: str) -> ResolvedPath:
        """The resolved path. Paths that are outside or sensitive are marked, not refused: policy decides."""
        return resolve(text, self.roots, self._home)

    def relative(self, path: Path) -> str:
        """The path for display: relative to its root, with the name of the root if there are several."""
        for root in self.roots:
            if path.is_relative_to(root):
                inner = path.relative_to(root)
                return (Path(root.name) / inner if len(self.roots) > 1 else inner).as_posix()
        return str(path)

    @property
    def known_files(self) -> tuple[Path, ...]:
        """Files that the model has read or written."""
        return self._read_tracker.paths

    def open_documents(self) -> Sequence[Buffer]:
        """What the editor holds open."""
        return self._editor.buffers()

    async def read(self, path: Path) -> View:
        """The file as the user sees it. Records that the model has read it."""
        view = await self.look(path)
        self.learn(view)
        return view

    def learn(self, view: View, lines: range | None = None) -> None:
        """The model was shown this view, or only these of its lines (counting from 1)."""
        self._read_tracker.learn(view, lines)

    async def look(self, path: Path) -> View:
        """The file as the user sees it. Does not count as read by the model."""
        view = await self._views.look(path)
        if view is None:
            raise ToolError(await self._missing(path))
        return view

    async def read_bytes(self, path: Path, limit: int) -> bytes:
        """The file as it is on disk. Raises `TooBig` if it has more than `limit` bytes."""
        disk = await asyncio.to_thread(disks.read, path, limit)
        if disk is None:
            raise ToolError(await self._missing(path))
        return disk.data

    async def read_window(self, path: Path, first: int, count: int) -> Window:
        """Lines of a file that is too big to be read (`TooBig`), as they are on disk; the model may not edit it."""
        return await asyncio.to_thread(disks.window, path, first, count)

    def changed_since_read(self) -> tuple[Path, ...]:
        """Files that changed since the model read them. Each new state of a file is reported once."""
        return self._read_tracker.changed(self._views)

    # -- changing ----------------------------------------------------------------------------------------------

    async def preview(self, path: Path, intent: TextIntent) -> Draft:
        """What `apply` would do now."""
        await self._writer.hold(path)
        await self._check_exists(path, intent)
        return await make_draft(await self._views.look(path), self._drafter(path, intent))

    async def preview_all(self, intents: Mapping[Path, FileIntent]) -> tuple[FilePreview, ...]:
        """What `apply_all` would do now: every file that it would change, make or remove."""
        shown: list[FilePreview] = []
        for path, intent in intents.items():
            match intent:
                case Delete():
                    view = await self._look_for_removal(path)
                    shown.append(_removal(path, view.text, removal_version(view.data)))
                case Move(target, change):
                    view = await self._look_for_removal(path)
                    self._check_free(target)
                    edited = None if change is None else await self.preview(path, change)
                    version = removal_version(view.data, target) if edited is None else edited.version
                    after = view.text if edited is None else edited.after
                    shown += (
                        _removal(path, view.text, version),
                        FilePreview(path=target, before=None, after=after, version=version),
                    )
                case Replace():
                    await self._writer.hold(path)
                    view = await self._views.look_at_bytes(path)
                    shown.append(preview_of(draft(path, intent, None, view)))
                case _:
                    shown.append(preview_of(await self.preview(path, intent)))
        return tuple(shown)

    async def apply(self, path: Path, intent: TextIntent, approved: Mapping[str, str] = MappingProxyType({})) -> Edited:
        """Apply an edit of the text that the model read, rebased over later changes. All of it or nothing.

        `approved` (path → `Draft.version`) limits the edit to exactly what the preview showed; others are refused."""
        version = approved.get(str(path), "") if approved else None
        problems = await self._diagnostics.before(path)
        edited = await self._run_to_end(self._apply(path, intent, version))
        if edited.change is None:
            return edited
        try:
            fresh = await self._diagnostics.after(path, problems)
        except asyncio.CancelledError:
            self._unclaimed.append(edited.change)
            raise
        return edited if fresh is None else replace(edited, notes=(*edited.notes, fresh))

    async def apply_all(
        self, intents: Mapping[Path, FileIntent], approved: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[Edited, ...]:
        """Edit, delete or move several files: all of them or none, even if the caller is cancelled meanwhile. A file is
        never moved onto another; one with unsaved text is neither moved nor deleted."""
        return await self._run_to_end(self._apply_all(intents, approved))

    async def undo(self, changes: Sequence[FileChange], dry_run: bool = False) -> Undone:
        """Undo these changes (of one turn, in order), except in files that were changed since."""
        return await self._run_to_end(self._take(changes, "undo", dry_run=dry_run))

    async def redo(self, changes: Sequence[FileChange], dry_run: bool = False) -> Undone:
        """Redo these changes after an undo, except in files that were changed since."""
        return await self._run_to_end(self._take(changes, "redo", dry_run=dry_run))

    async def save_own_edits(self) -> tuple[Path, ...]:
        """Before a command: save documents that only the agent changed. Returns the files whose text in the editor, the
        user's own included, is not on disk."""
        await self._writer.save_own_edits()
        return tuple(sorted(await unsaved_texts(self, self.roots)))

    async def unsaved_documents(self) -> tuple[Path, ...]:
        """Files of the workspace whose text in the editor is not on disk."""
        found: list[Path] = []
        for buffer in self._editor.buffers():
            if self._views.is_dirty(buffer) and self.resolve(str(buffer.path)).inside:
                view = await self._views.look_at_bytes(buffer.path)
                found += [buffer.path] if view is not None and view.dirty else []
        return tuple(found)

    def take_unclaimed(self) -> tuple[FileChange, ...]:
        """Changes whose call was cancelled before it could report them. Each is returned once."""
        taken, self._unclaimed = tuple(self._unclaimed), []
        return taken

    async def aclose(self) -> None:
        for task in tuple(self._running):
            await asyncio.wait((task,), timeout=CANCEL_GRACE)
            task.cancel()
        if "processes" in self.__dict__:
            await self.processes.aclose()

    # -- inside ------------------------------------------------------------------------------------------------

    async def _apply(self, path: Path, intent: TextIntent, approved: str | None) -> Edited:
        async with lock(path):
            await self._check_exists(path, intent)
            written = await self._writer.write(path, self._drafter(path, intent, approved))
            edited = await asyncio.to_thread(edited_by, written, path, self.relative(path))
            if edited.change is not None:
                self._read_tracker.wrote(path, written.after)
            return edited

    async def _replace(self, path: Path, intent: Replace, approved: str | None) -> Edited:
        """The model has not read what a command wrote, so its view of the file stays behind."""
        async with lock(path):
            written = await self._writer.write(path, self._drafter(path, intent, approved), self._views.look_at_bytes)
            return await asyncio.to_thread(edited_by, written, path, self.relative(path))

    async def _apply_all(self, intents: Mapping[Path, FileIntent], approved: Mapping[str, str]) -> tuple[Edited, ...]:
        made: list[Edited] = []
        try:
            for path, intent in intents.items():
                version = approved.get(str(path), "") if approved else None
                match intent:
                    case Delete():
                        made.append(await self._delete(path, version))
                    case Move(target, Patch() as change):
                        self._check_free(target)
                        made.append(await self._apply(path, change, version))
                        made.append(await self._move(path, target, None))
                    case Move(target):
                        made.append(await self._move(path, target, version))
                    case Replace():
                        made.append(await self._replace(path, intent, version))
                    case _:
                        made.append(await self._apply(path, intent, version))
        except (PilotfishError, OSError) as error:
            changes = [edited.change for edited in made if edited.change is not None]
            kept = (await self._take(changes, "undo", dry_run=False)).refused
            if kept:
                names = ", ".join(self.relative(refusal.path) for refusal in kept)
                raise ToolError(f"The edit failed half-way ({error}). These files remain changed: {names}") from error
            if not made and isinstance(error, PilotfishError):
                raise
            raise ToolError(f"Nothing was changed: {error}") from error
        return tuple(made)

    def _drafter(
        self, path: Path, intent: TextIntent | Replace | Restore, approved: str | None = None
    ) -> Callable[[View | None], Draft]:
        base = self._read_tracker.text(path)
        unseen = self._read_tracker.unseen(path) if isinstance(intent, Rewrite) else ()
        first: list[str] = []

        def drafted(view: View | None) -> Draft:
            if unseen and view is not None:
                rest = ", ".join(f"{lines.start}-{lines.stop - 1}" for lines in unseen[:5])
                raise ToolError(f"you have not read lines {rest} of {path}; read them first, or use update_file")
            # On a retry, an edit without a base text is based on the text of the first attempt.
            made = draft(path, intent, base if base is not None or not first else first[0], view)
            if view is not None:
                first.append(view.text)
            if approved is not None and made.version != approved:
                raise StaleEdit(f"{path} has changed since this edit was shown and approved; nothing was written")
            return made

        return drafted

    async def _delete(self, path: Path, approved: str | None) -> Edited:
        async with lock(path):
            view = await self._look_for_removal(path)
            _check_version(path, removal_version(view.data), approved)
            await self._writer.delete(path, view)
            self._read_tracker.forget(path)
            return Edited(change=deletion_of(path, view), diff="", saved=True, notes=())

    async def _move(self, old: Path, new: Path, approved: str | None) -> Edited:
        async with AsyncExitStack() as stack:
            for path in sorted({old, new}):
                await stack.enter_async_context(lock(path))
            view = await self._look_for_removal(old)
            _check_version(old, removal_version(view.data, new), approved)
            await self._writer.rename(old, new, view)
            self._read_tracker.move(old, new)
            return Edited(change=renaming_of(old, new, view.data, view.data), diff="", saved=True, notes=())

    async def _look_for_removal(self, path: Path) -> View:
        """The file, also one that is not text. Raises `Refused` if its text in the editor is unsaved."""
        if await asyncio.to_thread(path.is_dir):
            raise ToolError(f"{self.relative(path)} is a folder; use a command for it")
        await self._writer.hold(path)
        view = await self._views.look_at_bytes(path)
        if view is None:
            raise ToolError(await self._missing(path))
        if view.dirty or view.disk is None:
            raise Refused(f"{path} has unsaved text in the editor; save it first")
        return view

    def _check_free(self, target: Path) -> None:
        if target.exists():
            raise ToolError(f"{self.relative(target)} already exists; nothing was overwritten")

    async def _check_exists(self, path: Path, intent: TextIntent) -> None:
        """Raise for an edit of a file that is not there, unless the edit creates it."""
        match intent:
            case Rewrite() | Edit((Replacement(old=""),)):
                return
            case Edit() | Patch():
                if not self._views.documents(path) and not await asyncio.to_thread(path.exists):
                    raise ToolError(await self._missing(path))

    async def _take(
        self, changes: Sequence[FileChange], direction: Literal["undo", "redo"], *, dry_run: bool
    ) -> Undone:
        planned, refused = steps(changes, direction)
        done: list[FileChange] = []
        refusals = list(refused)
        for step in planned:
            try:
                done.append(await (self._try_step(step) if dry_run else self._step(step)))
            except (PilotfishError, OSError) as error:
                refusals.append(Refusal(step.path, str(error)))
        return Undone(tuple(done), tuple(refusals))

    async def _try_step(self, step: UndoStep) -> FileChange:
        """The change that the step would make. Raises the same errors as the step itself."""
        await self._writer.hold(step.path)
        view = await self._views.look_at_bytes(step.path)
        if step.then is None:
            self._check_removable(step, view)
        elif step.path == step.target:
            draft(step.path, Restore(step.then, step.now), None, view)
        elif not holds(view, step.now) or (view and view.dirty):
            raise StaleEdit(f"{step.path} has been changed since")
        elif step.target.exists():
            raise ToolError(f"{step.target} already exists; nothing was overwritten")
        in_place = step.path == step.target and step.then is not None
        return change_of_step(step, via=view.source if view and in_place else "disk")

    async def _step(self, step: UndoStep) -> FileChange:
        async with AsyncExitStack() as stack:
            for path in sorted({step.path, step.target}):
                await stack.enter_async_context(lock(path))
            await self._writer.hold(step.path)
            view = await self._views.look_at_bytes(step.path)
            if step.then is None:
                self._check_removable(step, view)
                if view is not None:
                    await self._writer.delete(step.path, view)
                return change_of_step(step, via="disk")
            if step.path != step.target:
                if view is None or not holds(view, step.now):
                    raise StaleEdit(f"{step.path} has been changed since")
                await self._writer.rename(step.path, step.target, view)
                if step.now == step.then:
                    return change_of_step(step, via="disk")
            intent = Restore(step.then, step.now)
            drafter = self._drafter(step.target, intent)
            written = await self._writer.write(step.target, drafter, self._views.look_at_bytes)
            return change_of_step(step, via=written.via)

    def _check_removable(self, step: UndoStep, view: View | None) -> None:
        if not holds(view, step.now):
            raise StaleEdit(f"{step.path} has been changed since" if view else f"{step.path} has been deleted since")
        if view is not None and view.dirty:
            raise StaleEdit(f"{step.path} has unsaved text in the editor")

    async def _run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` to its end even if the caller is cancelled: a write that has begun is finished and recorded."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._claim)
            await asyncio.wait((task,), timeout=CANCEL_GRACE)
            raise

    def _claim(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            return
        match task.result():
            case Edited(change=FileChange() as change):
                self._unclaimed.append(change)
            case Undone(done=done):
                self._unclaimed += done
            case tuple():
                made = cast("tuple[Edited, ...]", task.result())
                self._unclaimed += [edited.change for edited in made if edited.change is not None]
            case _:
                pass

    async def _missing(self, path: Path) -> str:
        near = await nearest_paths(path, self.roots)
        hint = f" Did you mean {' or '.join(self.relative(other) for other in near)}?" if near else ""
        return f"{self.relative(path)} does not exist.{hint}"


def _check_version(path: Path, version: str, approved: str | None) -> None:
    if approved is not None and version != approved:
        raise StaleEdit(f"{path} has changed since this was shown and approved; nothing was done")


def _removal(path: Path, text: str, version: str) -> FilePreview:
    return FilePreview(path=path, before=text, after=None, version=version)
