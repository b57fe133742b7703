"""The review of the agent's changes in plain LSP: code lenses and code actions to keep or undo a pending hunk.

The lenses run `pilotfish.review.keep`, `pilotfish.review.undo` and `pilotfish.review.next` of
`workspace/executeCommand`, so an editor needs no plugin for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from pilotfish.errors import BadRequest
from pilotfish.lsp import command_names
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.protocol import wire
from pilotfish.text.uris import path_of

if TYPE_CHECKING:
    from pilotfish.engine.session.review import PendingFile
    from pilotfish.lsp.handlers import Handlers
    from pilotfish.workspace.edits.review import PendingHunk

SHOW_SECONDS = 5.0

_KEEP, _UNDO, _NEXT = command_names.REVIEW_KEEP, command_names.REVIEW_UNDO, command_names.REVIEW_NEXT
_FILE_TITLES = {"created": "new file", "renamed": "renamed file"}


async def lenses(handlers: Handlers, uri: str) -> list[types.CodeLens]:
    """Keep, Undo and Next above every pending hunk of a document."""
    found: list[types.CodeLens] = []
    for session_id, file in await _pending(handlers, uri):
        whole = _FILE_TITLES.get(file.review.change or "")
        if whole is not None:
            where = _at(0)
            argument = {"sessionId": session_id, "uri": uri}
            found += (
                types.CodeLens(where, types.Command(f"Keep {whole}", _KEEP, arguments=[argument])),
                types.CodeLens(where, types.Command(f"Undo {whole}", _UNDO, arguments=[argument])),
            )
        if file.review.change == "created":
            continue
        for number, hunk in enumerate(file.hunks, 1):
            where = _at(hunk.line)
            argument = {"sessionId": session_id, "uri": uri, "hunkIds": [hunk.id]}
            found += (
                types.CodeLens(where, types.Command("Keep", _KEEP, arguments=[argument])),
                types.CodeLens(where, types.Command("Undo", _UNDO, arguments=[argument])),
            )
            if session_id in handlers.edits:
                retry = types.Command("Retry", command_names.EDIT_RETRY, arguments=[{"sessionId": session_id}])
                found.append(types.CodeLens(where, retry))
            if len(file.hunks) > 1:
                title = f"Next change ({number} of {len(file.hunks)})"
                after = {"uri": uri, "line": hunk.line}
                found.append(types.CodeLens(where, types.Command(title, _NEXT, arguments=[after])))
    return found


async def code_actions(
    handlers: Handlers, uri: str, where: types.Range, only: Sequence[types.CodeActionKind | str] | None
) -> list[types.CodeAction]:
    """Keep or undo the pending hunks that the range touches, and go to the next one."""
    if only and types.CodeActionKind.Empty not in only:
        return []
    found: list[types.CodeAction] = []
    for session_id, file in await _pending(handlers, uri):
        touched = [hunk.id for hunk in file.hunks if _touches(where, hunk)]
        if touched:
            what = "this change" if len(touched) == 1 else f"these {len(touched)} changes"
            argument = {"sessionId": session_id, "uri": uri, "hunkIds": touched}
            found += (_action(f"Keep {what}", _KEEP, argument), _action(f"Undo {what}", _UNDO, argument))
        if len(file.hunks) > len(touched):
            found.append(_action("Next change", _NEXT, {"uri": uri, "line": where.start.line}))
    return found


async def hover(handlers: Handlers, uri: str, line: int) -> types.Hover | None:
    """Which turn wrote a line of a file that an open session has changed."""
    path = path_of(uri)
    if path is None or not handlers.engine.has_changed(path):
        return None
    with contextlib.suppress(BadRequest):  # the file is missing, or is no text
        for lines in await handlers.engine.blame(path):
            if lines.start <= line < lines.end:
                session = await handlers.engine.session(lines.session_id)
                text = f"Written by Pilotfish: {lines.prompt or 'a turn'}\nSession: {session.title}"
                return types.Hover(types.MarkupContent(types.MarkupKind.PlainText, text))
    return None


async def decide(handlers: Handlers, command: str, arguments: Sequence[Any]) -> Mapping[str, Any]:
    """Run `pilotfish.review.keep` or `pilotfish.review.undo`. The argument has the fields of `review/keep`."""
    params = read(wire.ReviewParams, _argument(arguments))
    result = await (handlers.review_keep if command == _KEEP else handlers.review_undo)(params)
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def show_next(handlers: Handlers, connection: Connection, arguments: Sequence[Any]) -> Mapping[str, Any]:
    """Show the first pending hunk after a line, in this document or in the next one; then start again at the top."""
    argument = _argument(arguments)
    uri, line = argument.get("uri"), argument.get("line")
    listed = await handlers.review_list(wire.ReviewListParams())
    if not isinstance(listed, wire.ReviewListResult):
        raise TypeError("review_list returns a list")
    places = [(file.uri, hunk.range) for file in listed.files for hunk in file.hunks if file.change != "deleted"]
    if not places:
        return {"shown": False}
    here = [index for index, (name, _) in enumerate(places) if name == uri]
    after = [index for index in here if isinstance(line, int) and places[index][1].start.line > line]
    chosen = after[0] if after else (here[-1] + 1) % len(places) if here else 0
    place, where = places[chosen]
    shown = types.ShowDocumentParams(
        uri=place,
        take_focus=True,
        selection=types.Range(types.Position(where.start.line, 0), types.Position(where.start.line, 0)),
    )
    with contextlib.suppress(ClientError, TimeoutError):
        await connection.request(types.WINDOW_SHOW_DOCUMENT, shown, SHOW_SECONDS)
        return {"shown": True, "uri": place, "line": where.start.line}
    return {"shown": False}


async def _pending(handlers: Handlers, uri: str) -> Sequence[tuple[str, PendingFile]]:
    path = path_of(uri)
    return () if path is None else await handlers.engine.pending_changes(None, path)


def _argument(arguments: Sequence[Any]) -> dict[str, Any]:
    argument = as_object(arguments[0]) if arguments else None
    if argument is None:
        raise BadRequest("arguments: one object is needed", field="arguments")
    return argument


def _touches(where: types.Range, hunk: PendingHunk) -> bool:
    return hunk.line <= where.end.line and where.start.line <= max(hunk.line, hunk.end_line - 1)


def _at(line: int) -> types.Range:
    return types.Range(types.Position(line, 0), types.Position(line, 0))


def _action(title: str, command: str, argument: Mapping[str, Any]) -> types.CodeAction:
    return types.CodeAction(
        title=f"Pilotfish: {title}",
        kind=types.CodeActionKind.Empty,
        command=types.Command(title, command, arguments=[argument]),
    )
