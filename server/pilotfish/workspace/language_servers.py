"""Queries language servers, through the editor or our own, and parses their answers.

Answers have LSP's own types. The results of this module count lines from one; LSP positions (from zero, in the units of
who answers) do not leave this module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from pilotfish.errors import PilotfishError, Refused, ToolError
from pilotfish.text.positions import Text, TextPosition
from pilotfish.text.uris import path_of
from pilotfish.workspace.editor import Editor, LanguageQueries
from pilotfish.workspace.files.paths import ResolvedPath
from pilotfish.workspace.files.view import View

ANSWER_SECONDS = 15.0
OFFER_SECONDS = 2.0  # for fixes that are listed with problems
START_SECONDS = 5.0  # for a server of our own that may have to be started
NEAR_LINES = 3
"""how many lines the line number of a model may be wrong by"""

SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}
KINDS = (
    "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key",
    "null", "member", "struct", "event", "operator", "type-parameter",
)  # fmt: skip
"""LSP's SymbolKind, from 1"""


class Room(Protocol):
    """The part of a workspace that this module needs."""

    @property
    def editor(self) -> Editor: ...

    def answerer(self, method: str) -> LanguageQueries: ...

    def resolve(self, text: str) -> ResolvedPath: ...

    async def look(self, path: Path) -> View: ...


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    path: Path
    line: int
    text: str = ""
    """the line itself"""


@dataclass(frozen=True, slots=True)
class CodeProblem:
    path: Path
    line: int
    severity: str
    message: str
    source: str


@dataclass(frozen=True, slots=True)
class Symbol:
    path: Path
    line: int
    kind: str
    name: str
    depth: int = 0


class _Shape(BaseModel):
    # Validators are built on first use, to keep the start of the server fast.
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, defer_build=True
    )


_S = TypeVar("_S", bound=_Shape)


class _Position(_Shape):
    line: int
    character: int


class _Range(_Shape):
    start: _Position
    end: _Position


class _Location(_Shape):
    uri: str
    range: _Range


class _Locations(_Shape):
    locations: tuple[_Location, ...] = ()


class _Diagnostic(_Shape):
    range: _Range
    message: str
    severity: int | None = None
    code: int | str | None = None
    source: str | None = None


class _Document(_Shape):
    uri: str
    diagnostics: tuple[_Diagnostic, ...] = ()


class _Documents(_Shape):
    documents: tuple[_Document, ...] = ()


class _Where(_Shape):
    uri: str
    range: _Range | None = None


class _Symbol(_Shape):
    """DocumentSymbol, SymbolInformation or WorkspaceSymbol."""

    name: str
    kind: int = 0
    range: _Range | None = None
    location: _Where | None = None
    children: tuple[_Symbol, ...] = ()


class _Symbols(_Shape):
    symbols: tuple[_Symbol, ...] = ()


class _TextEdit(_Shape):
    range: _Range
    new_text: str


class _DocumentEdits(_Shape):
    text_document: _Where
    edits: tuple[_TextEdit, ...]


class _FileOperation(_Shape):
    """An edit that creates, moves or deletes a file."""

    kind: str


class _WorkspaceEdit(_Shape):
    changes: Mapping[str, tuple[_TextEdit, ...]] | None = None
    document_changes: tuple[_FileOperation | _DocumentEdits, ...] | None = None


class _Rename(_Shape):
    edit: _WorkspaceEdit | None = None


class _CodeAction(_Shape):
    title: str
    edit: _WorkspaceEdit | None = None
    diagnostics: tuple[_Diagnostic, ...] = ()
    command: Any = None
    """a command that the editor would also run; its effect cannot be previewed"""


class _CodeActions(_Shape):
    actions: tuple[_CodeAction, ...] = ()


async def find_places(room: Room, question: str, path: Path, line: int, name: str) -> list[Spot]:
    """Where a symbol is defined (`definition`) or used (`references`)."""
    place = await _place(room, question, path, line, name)
    found = await _ask(room, question, place, _Locations)
    spots = {Spot(_path(item.uri), item.range.start.line + 1) for item in found.locations}
    return [await _with_text(room, spot) for spot in sorted(spots)]


async def count_references(room: Room, path: Path, line: int, name: str, seconds: float) -> dict[str, int] | None:
    """File → how often it refers to a symbol, its definition included. None if no server knows the symbol in time."""
    if not room.answerer("references").can_answer("references"):
        return None
    try:
        place = await _place(room, "references", path, line, name)
        found = (await _ask(room, "references", place, _Locations, seconds)).locations
    except (PilotfishError, OSError):
        return None
    counts = Counter(str(_path(item.uri)) for item in found if path_of(item.uri) is not None)
    return dict(counts) or None


async def find_problems(room: Room, path: Path | None, seconds: float = ANSWER_SECONDS / 2) -> list[CodeProblem]:
    """Problems of a file, or of all files; most severe first. Waits for the diagnostics of the current text."""
    params: dict[str, Any] = {"timeoutMs": int(seconds * 1000)}
    if path is not None:
        await room.editor.hold((path,))
        params["uri"] = path.as_uri()
        if (buffer := room.editor.buffer(path)) is not None:
            params["waitForVersion"] = buffer.version
    return await _problems(room, params, 2 * seconds)


async def known_problems(room: Room, path: Path) -> list[CodeProblem]:
    """The problems of a file that the editor knows now, without waiting; our own servers are waited for."""
    own = room.answerer("diagnostics") is not room.editor
    return await _problems(room, {"uri": path.as_uri()}, START_SECONDS if own else 1.0)


async def _problems(room: Room, params: Mapping[str, Any], seconds: float) -> list[CodeProblem]:
    answer = await _ask(room, "diagnostics", params, _Documents, seconds)
    ranked = [
        (item.severity or 1, _path(document.uri), item)
        for document in answer.documents
        for item in document.diagnostics
    ]
    ranked.sort(key=lambda entry: (entry[0], entry[1], entry[2].range.start.line))
    return [
        CodeProblem(
            file,
            item.range.start.line + 1,
            SEVERITIES.get(severity, "error"),
            item.message,
            " ".join(str(part) for part in (item.source, item.code) if part is not None),
        )
        for severity, file, item in ranked
    ]


async def find_symbols(room: Room, path: Path | None, query: str | None) -> list[Symbol]:
    """The outline of a file, or the symbols of the workspace that match a query."""
    params = {"uri": path.as_uri()} if path is not None else {"query": query or ""}
    answer = await _ask(room, "symbols", params, _Symbols)
    found: list[Symbol] = []
    for symbol in answer.symbols:
        _flatten(symbol, path, 0, found)
    return found


async def rename(room: Room, path: Path, line: int, name: str, new_name: str) -> dict[Path, tuple[str, str]]:
    """The effect of a rename: the text of each file before and after. Nothing is written."""
    params = {**await _place(room, "rename", path, line, name), "newName": new_name}
    edit = (await _ask(room, "rename", params, _Rename)).edit
    texts = await _texts(room, edit, room.answerer("rename").encoding)
    if not texts:
        raise ToolError(f"The language server cannot rename {name!r} here")
    return texts


async def offered_fixes(room: Room, path: Path) -> dict[int, list[str]]:
    """Line → titles of the fixes that `fix` can apply there. Empty if there is no answer soon."""
    lines = (await room.look(path)).text.count("\n") + 1
    try:
        actions = await _fixes(room, path, 0, lines, OFFER_SECONDS)
    except ToolError:
        return {}
    found: dict[int, list[str]] = {}
    for action in actions:
        for line in sorted({item.range.start.line + 1 for item in action.diagnostics}):
            if action.title not in (titles := found.setdefault(line, [])):
                titles.append(action.title)
    return found


async def fix(room: Room, path: Path, line: int, title: str) -> dict[Path, tuple[str, str]]:
    """The effect of the fix with this title: the text of each file before and after. Nothing is written."""
    actions = await _fixes(room, path, line - 1, line, ANSWER_SECONDS)
    for action in actions:
        if action.title == title:
            return await _texts(room, action.edit, room.answerer("codeActions").encoding)
    titles = ", ".join(sorted({repr(action.title) for action in actions})) or "none"
    raise ToolError(f"No such fix in line {line} of {path.name}. Offered there: {titles}. Otherwise use update_file")


async def _fixes(room: Room, path: Path, first: int, last: int, seconds: float) -> list[_CodeAction]:
    """The quick fixes between two lines that consist of edits only."""
    await room.editor.hold((path,))
    span = {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}
    params = {"uri": path.as_uri(), "range": span, "only": ["quickfix"]}
    found = (await _ask(room, "codeActions", params, _CodeActions, seconds)).actions
    return [action for action in found if action.edit is not None and action.command is None]


async def _texts(room: Room, edit: _WorkspaceEdit | None, encoding: str) -> dict[Path, tuple[str, str]]:
    """Each file's text before and after an edit."""
    changes: dict[str, list[_TextEdit]] = {}
    for uri, edits in ((edit and edit.changes) or {}).items():
        changes.setdefault(uri, []).extend(edits)
    for change in (edit and edit.document_changes) or ():
        if isinstance(change, _FileOperation):
            raise ToolError("The language server would also create or move files; make the changes yourself")
        changes.setdefault(change.text_document.uri, []).extend(change.edits)
    texts: dict[Path, tuple[str, str]] = {}
    for uri, edits in changes.items():
        view = await room.look(_path(uri))
        texts[_path(uri)] = (view.text, _edited(view.text, edits, encoding))
    return texts


async def _ask(
    room: Room, method: str, params: Mapping[str, Any], shape: type[_S], seconds: float = ANSWER_SECONDS
) -> _S:
    answer = await room.answerer(method).query(method, params, seconds)
    if answer is None:
        raise ToolError("No language server answered; use grep and read_file instead")
    try:
        return shape.model_validate(answer)
    except ValidationError as error:
        raise ToolError("The language server sent an invalid answer") from error


async def _place(room: Room, method: str, path: Path, line: int, name: str) -> dict[str, Any]:
    """The position of a name in a line, or in a line near it."""
    lines = (await room.look(path)).text.split("\n")
    if line > len(lines):
        raise ToolError(f"{path.name} has only {len(lines)} lines")
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    near = sorted(
        range(max(0, line - 1 - NEAR_LINES), min(len(lines), line + NEAR_LINES)), key=lambda n: abs(n - line + 1)
    )
    for number in near:
        if found := pattern.search(lines[number]):
            # For a.b.c the position of c is meant.
            start = found.start() + name.rfind(".") + 1
            character = Text(lines[number], room.answerer(method).encoding).place(start).character
            return {"uri": path.as_uri(), "position": {"line": number, "character": character}}
    raise ToolError(f"{name!r} is not in line {line} of {path.name}: {lines[line - 1].strip()[:200]}")


async def _with_text(room: Room, spot: Spot) -> Spot:
    """The spot with its line, unless only the user may allow reading the file: a server can name any path."""
    try:
        resolved = room.resolve(str(spot.path))
        if not resolved.inside or resolved.secret:
            return spot
        lines = (await room.look(spot.path)).text.split("\n")
    except (ToolError, Refused):
        return spot
    return Spot(spot.path, spot.line, lines[spot.line - 1].strip()) if spot.line <= len(lines) else spot


def _flatten(symbol: _Symbol, path: Path | None, depth: int, out: list[Symbol]) -> None:
    where = symbol.location
    span = symbol.range or (where.range if where else None)
    file = _path(where.uri) if where else path
    if file is not None:
        kind = KINDS[symbol.kind - 1] if 0 < symbol.kind <= len(KINDS) else "symbol"
        out.append(Symbol(file, span.start.line + 1 if span else 1, kind, symbol.name, depth))
    for child in symbol.children:
        _flatten(child, path, depth + 1, out)


def _edited(text: str, edits: Sequence[_TextEdit], encoding: str) -> str:
    indexed = Text(text, encoding)

    def offset(position: _Position) -> int:
        return indexed.offset(TextPosition(position.line, position.character))

    spans = sorted((offset(edit.range.start), offset(edit.range.end), edit.new_text) for edit in edits)
    pieces: list[str] = []
    at = 0
    for start, end, new in spans:
        if start < at:
            raise ToolError("The language server's edits overlap; make the changes yourself")
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def _path(uri: str) -> Path:
    path = path_of(uri)
    if path is None:
        raise ToolError(f"{uri} is not a file URI")
    return path
