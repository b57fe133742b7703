"""Tries a command out in a throwaway view of the workspace, and applies what it changed there.

Promises: a trial changes nothing; what is applied is exactly what the trial changed, file by file, on the same path as
every other edit, so that it is in the undo and in the review; and it is applied to exactly the files that the trial
saw, or not at all. A trial whose effects cannot be applied exactly is refused with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotfish.errors import PilotfishError, Refused, ToolError
from pilotfish.workspace.edits.drafts import Delete, FileIntent, FilePreview, Replace
from pilotfish.workspace.edits.outcomes import Edited
from pilotfish.workspace.process.processes import Finished
from pilotfish.workspace.sandbox.overlay import Change, Changes
from pilotfish.workspace.workspace import Workspace

MAX_SECONDS = 20.0
"""the user waits for a trial before the question"""
MAX_FILES = 100
MAX_BYTES = 1 << 20
"""of all files, before and after: a question shows them"""


class NotApplicable(ToolError):
    """The effects of a command cannot be shown and applied exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What a command did in a throwaway view: its result, and each file that it changed, made or deleted."""

    finished: Finished
    intents: Mapping[Path, FileIntent]
    """deletions first: a folder may be gone before a file takes its name"""
    removed_folders: tuple[Path, ...] = ()
    unsaved: tuple[Path, ...] = ()
    """files whose text in the editor the command did not see"""


async def try_command(workspace: Workspace, command: str, timeout: float) -> Effects:
    """Run a command in a throwaway view. Raises NotApplicable if its effects cannot be applied exactly."""
    behind = await workspace.save_own_edits()
    unsaved = tuple(dict.fromkeys((*behind, *await workspace.unsaved_documents())))
    try:
        tried = await workspace.processes.try_out(command, timeout=min(timeout, MAX_SECONDS), tell=lambda _: None)
    except NotApplicable:
        raise
    except ToolError as error:
        raise NotApplicable(str(error)) from error
    finished = tried.finished
    if finished.stopped:
        raise NotApplicable(finished.stopped)
    if finished.denied:
        raise NotApplicable(finished.denied.words)
    effects = Effects(
        finished=finished,
        intents=_intents(tried.changes),
        removed_folders=tried.changes.removed_folders,
        unsaved=unsaved,
    )
    try:
        await preview_effects(workspace, effects)
    except PilotfishError as error:  # unsaved text, a form that the editor would not keep
        raise NotApplicable(str(error)) from error
    return effects


async def preview_effects(workspace: Workspace, effects: Effects) -> tuple[FilePreview, ...]:
    """The files before and after. Raises StaleEdit or Refused if the effects can no longer be applied."""
    _check_places(workspace, effects.intents)
    return await workspace.preview_all(effects.intents)


async def apply_effects(workspace: Workspace, effects: Effects, approved: Mapping[str, str]) -> tuple[Edited, ...]:
    """Apply exactly the approved effects: all or none."""
    _check_places(workspace, effects.intents)
    made = await workspace.apply_all(effects.intents, approved)
    await asyncio.to_thread(_remove_empty, effects.removed_folders)
    workspace.processes.follow(effects.finished.cwd)
    return made


def _intents(changes: Changes) -> dict[Path, FileIntent]:
    if changes.incomplete or changes.other:
        raise NotApplicable(changes.incomplete or changes.other[0])
    files = changes.files
    if len(files) > MAX_FILES:
        raise NotApplicable(f"it changes {len(files):,} files, too many to show")
    size = sum(len(side) for change in files for side in (change.before, change.after) if isinstance(side, bytes))
    if size > MAX_BYTES:
        raise NotApplicable(f"it changes {len(files):,} files of {size:,} bytes, too much to show")
    if not files:
        raise NotApplicable("it changed nothing there")
    intents = {change.path: _intent(change) for change in files}
    for change in files:
        if ".git" in change.path.parts:
            raise NotApplicable("it changes the state of git")
        if not intents.keys().isdisjoint(change.path.parents):
            raise NotApplicable(f"it makes a folder of a file, or a file of a folder: {change.path.name}")
    return dict(sorted(intents.items(), key=lambda item: not isinstance(item[1], Delete)))


def _intent(change: Change) -> FileIntent:
    match change.before, change.after:
        case (bytes() | None) as before, bytes() as after:
            return Replace(before, after)
        case bytes(), None:
            return Delete()
        case _:
            raise NotApplicable(f"it makes, changes or removes a symbolic link: {change.path.name}")


def _check_places(workspace: Workspace, paths: Mapping[Path, FileIntent]) -> None:
    """Raises if a path leads elsewhere now than when the command was tried."""
    for path in paths:
        place = workspace.resolve(str(path))
        if place.path != path or not place.inside:
            raise Refused(f"{path} now leads to another file")


def _remove_empty(folders: Sequence[Path]) -> None:
    """The folders that the command removed, unless somebody put something into them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
