"""Finds the file and the place that a code block of an answer belongs to.

A path that the block names counts first, then the document that the user works in, then the other open documents.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from pilotfish.engine.engine import Engine
from pilotfish.errors import PilotfishError
from pilotfish.lsp.editor.documents import Documents
from pilotfish.protocol import wire
from pilotfish.text.uris import path_of
from pilotfish.workspace.code_placement import named_path, place_code
from pilotfish.workspace.files.encoding import unify
from pilotfish.workspace.workspace import Workspace

_PATH = re.compile(r"(?:(?:title|file|filename|path)=)?[\"']?([\w@.-]*[\w@./\\-]*\.\w{1,8})[\"']?")


async def locate(engine: Engine, documents: Documents, params: wire.LocateParams) -> wire.LocateResult:
    """Where the block belongs. A file that it names is the only candidate."""
    workspace = engine.make_workspace(None)
    code = unify(params.code)
    commented, rest = named_path(code)
    for name in filter(None, (*_paths_in(params.info), commented)):
        if (path := _inside(name, workspace)) is not None:
            return await _in_named_file(path, name, rest if name == commented else code, workspace)
    active = path_of(params.uri) if params.uri else None
    if active is not None and (found := await _in_file(active, code, workspace)).how is not None:
        return found
    others = [path for document in documents.all() if (path := document.path) is not None and path != active]
    placed = [await _in_file(path, code, workspace) for path in others]
    certain = [found for found in placed if found.how in ("same", "symbol", "lines")]
    return certain[0] if len(certain) == 1 else wire.LocateResult(code=code)


def _paths_in(info: str) -> Iterator[str]:
    """The paths in the words behind a fence. The first word is the language, unless it has a slash."""
    for number, word in enumerate(info.split()):
        for part in word.split(":") if number == 0 else (word,):
            if (found := _PATH.fullmatch(part)) is not None:
                yield found.group(1)


def _inside(name: str, workspace: Workspace) -> Path | None:
    try:
        place = workspace.resolve(name)
    except PilotfishError:
        return None
    return place.path if place.inside else None


async def _in_named_file(path: Path, name: str, code: str, workspace: Workspace) -> wire.LocateResult:
    """In the file at this path, or in the only open one whose path ends like that; otherwise it is a new file."""
    if not await asyncio.to_thread(path.exists):
        ending = Path(name).parts
        alike = [one.path for one in workspace.open_documents() if one.path.parts[-len(ending) :] == ending]
        if len(alike) != 1:
            text = code if code.endswith("\n") else f"{code}\n"
            return wire.LocateResult(code=code, how="new", uri=path.as_uri(), after=text)
        path = alike[0]
    return await _in_file(path, code, workspace)


async def _in_file(path: Path, code: str, workspace: Workspace) -> wire.LocateResult:
    try:
        text = (await workspace.look(path)).text
    except PilotfishError:
        return wire.LocateResult(code=code)
    placed = place_code(text, code)
    if placed is None:
        return wire.LocateResult(code=code, uri=path.as_uri())
    return wire.LocateResult(code=code, how=placed.how, uri=path.as_uri(), before=text, after=placed.text)
