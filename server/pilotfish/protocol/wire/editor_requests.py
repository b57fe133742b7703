"""Requests that the server sends: questions of the agent, and what the editor and its language servers know."""

from __future__ import annotations

from typing import Any

from pilotfish.protocol.wire.base import Diagnostic, Location, Position, Range, Wire


class AskParams(Wire):
    """A question that the agent asks the user."""

    session_id: str
    turn_id: str
    question: str
    options: tuple[str, ...] = ()


class AskResult(Wire):
    """The user's answer, or `dismissed` if the user gave none."""

    answer: str | None = None
    dismissed: bool = False


class UrisParams(Wire):
    """Names documents."""

    uris: tuple[str, ...]


class FailedDocument(Wire):
    """A document for which the request failed, and why."""

    uri: str
    reason: str


class OpenedDocument(Wire):
    """A document that the editor now holds open."""

    uri: str
    version: int
    dirty: bool


class OpenResult(Wire):
    """The documents that are open now. Their `didOpen` notifications come before this answer."""

    opened: tuple[OpenedDocument, ...]
    failed: tuple[FailedDocument, ...] = ()


class SaveResult(Wire):
    """The documents that were saved: their text and the file on disk are equal."""

    saved: tuple[str, ...]
    failed: tuple[FailedDocument, ...] = ()


class DiagnosticsParams(Wire):
    """Selects all documents or one, if wanted not before its language servers have seen a version."""

    uri: str | None = None
    wait_for_version: int | None = None
    timeout_ms: int | None = None


class DocumentDiagnostics(Wire):
    """The diagnostics of one document."""

    uri: str
    version: int | None = None
    diagnostics: tuple[Diagnostic, ...]


class DiagnosticsResult(Wire):
    """All documents that have diagnostics."""

    documents: tuple[DocumentDiagnostics, ...]


class CodeActionsParams(Wire):
    """Asks other language servers for code actions in a range."""

    uri: str
    range: Range
    only: tuple[str, ...] | None = None
    """code action kinds"""


class CodeActionsResult(Wire):
    """LSP's CodeAction objects, resolved."""

    actions: tuple[dict[str, Any], ...]


class PlaceParams(Wire):
    """A position in a document."""

    uri: str
    position: Position


class ReferencesParams(PlaceParams):
    """Asks for the references to the symbol at a position."""

    include_declaration: bool = True


class LocationsResult(Wire):
    """LSP's Location objects."""

    locations: tuple[Location, ...]


class TerminalResult(Wire):
    """What the user's terminal shows: the output of its last command, or what is selected in it."""

    text: str
    command: str | None = None
    """the command line, if the editor knows it"""


class SymbolsParams(Wire):
    """Asks for the symbols of a document, or for symbols of the workspace by name."""

    uri: str | None = None
    query: str | None = None


class SymbolsResult(Wire):
    """LSP's DocumentSymbol or WorkspaceSymbol objects."""

    symbols: tuple[dict[str, Any], ...]


class RenameParams(PlaceParams):
    """Asks which edits would rename the symbol at a position."""

    new_name: str


class RenameResult(Wire):
    """LSP's WorkspaceEdit, not applied yet."""

    edit: dict[str, Any] | None = None


class DiffParams(Wire):
    """Asks the client to show a diff without taking the focus."""

    title: str
    uri: str
    before: str
    after: str
