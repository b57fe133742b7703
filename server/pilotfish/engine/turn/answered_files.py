"""Reads the files that an answer shows in code blocks as calls of `write_file`, for models that work best like that.

The calls are judged, asked about and undone like any other. Promises: a block that shows a part of a file changes that
part only, or is left as text; nothing of a file is lost because a block leaves it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pilotfish.conversation.answer_text.file_blocks import file_blocks
from pilotfish.conversation.answer_text.text_calls import TextCall
from pilotfish.errors import PilotfishError
from pilotfish.workspace.code_placement import is_new_version, place_code, with_new_definitions
from pilotfish.workspace.files.encoding import unify
from pilotfish.workspace.search.nearest_paths import nearest_paths
from pilotfish.workspace.workspace import Workspace


async def answered_files(
    text: str, workspace: Workspace, *, candidates: Sequence[str], may_create: bool
) -> list[TextCall]:
    """The calls that the blocks of an answer stand for. A block without a name belongs to the only one of `candidates`
    in which it has a certain place. `may_create`: new files and new definitions count too."""
    calls: dict[Path, TextCall] = {}
    for block in file_blocks(text):
        code = unify(block.code)
        if block.name is not None:
            found = await _in_named_file(block.name, code, workspace, may_create=may_create)
        else:
            found = await _in_one_of(candidates, code, workspace, may_add=may_create)
        if found is not None:
            path, content = found
            arguments = {"path": workspace.relative(path), "content": content}
            calls[path] = TextCall("write_file", arguments, (block.end, block.end))  # the block stays visible
    return list(calls.values())


async def _in_named_file(name: str, code: str, workspace: Workspace, *, may_create: bool) -> tuple[Path, str] | None:
    """The file and its new content. None if that is not certain, or nothing changes."""
    path = await _path(name, workspace)
    if path is None:
        return None
    if not await asyncio.to_thread(path.exists):
        return (path, code) if may_create else None
    return await _in_file(path, code, workspace, may_add=may_create)


async def _in_one_of(
    names: Sequence[str], code: str, workspace: Workspace, *, may_add: bool
) -> tuple[Path, str] | None:
    """The only file in which a block has a certain place. New definitions go to the only file that there is."""
    paths = [path for name in names if (path := await _path(name, workspace)) is not None]
    may_add = may_add and len(set(paths)) == 1
    found = [await _in_file(path, code, workspace, may_add=may_add) for path in dict.fromkeys(paths)]
    certain = [one for one in found if one is not None]
    return certain[0] if len(certain) == 1 else None


async def _path(name: str, workspace: Workspace) -> Path | None:
    """The path in the workspace, or the only one of the same name if there is no such file."""
    try:
        place = workspace.resolve(name)
    except PilotfishError:
        return None
    if not place.inside or await asyncio.to_thread(place.path.exists):
        return place.path if place.inside else None
    alike = [near for near in await nearest_paths(place.path, workspace.roots) if near.name == place.path.name]
    return alike[0] if len(alike) == 1 else place.path


async def _in_file(path: Path, code: str, workspace: Workspace, *, may_add: bool) -> tuple[Path, str] | None:
    try:
        view = await workspace.read(path)
    except PilotfishError:
        return None
    placed = place_code(view.text, code)
    content = placed.text if placed is not None else None
    if content is None and is_new_version(view.text, code):
        content = code
    if content is None and may_add:
        content = with_new_definitions(view.text, code)
    return None if content is None or content == view.text else (path, content)
