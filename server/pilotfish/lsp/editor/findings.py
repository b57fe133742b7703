"""Shows the findings of a review as LSP diagnostics, in every editor.

A finding stays at its line while the user types above it. It is shown as long as the line is as it was when it was
reported, so it vanishes when the line is fixed and comes back when that is undone. It is removed when the user
dismisses it, when a turn that was asked to fix it has changed its file, and when the session is reviewed again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lsprotocol import types

from pilotfish.conversation.messages import CallStatus, CanonicalToolCall
from pilotfish.conversation.records import FileChangeRecord, ToolCallRecord, TurnEndRecord, TurnStartRecord
from pilotfish.engine.frontend import SessionUpdate
from pilotfish.errors import BadRequest, PilotfishError
from pilotfish.lsp import command_names
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.protocol import Connection
from pilotfish.lsp.editor.documents import Document, Documents
from pilotfish.text.positions import Text
from pilotfish.text.uris import path_of
from pilotfish.tools.code.report_finding import TOOL, ReportFinding, related_place
from pilotfish.workspace.workspace import Workspace

log = logging.getLogger(__name__)

SOURCE = "pilotfish"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, and the line it is about. Lines count from zero."""

    id: str
    session_id: str
    turn_id: str
    args: ReportFinding
    line: int
    text: str
    """the line as it was reported, without the spaces around it"""


@dataclass(slots=True)
class _File:
    """The findings of a file, and its text when they were last anchored."""

    lines: Sequence[str]
    findings: list[Finding] = field(default_factory=list[Finding])


class Findings:
    """The findings that are shown to one client."""

    def __init__(self, connection: Connection, documents: Documents, workspace: Callable[[], Workspace]) -> None:
        self._connection = connection
        self._documents = documents
        self._workspace = workspace
        self._files: dict[Path, _File] = {}
        self._numbers = itertools.count(1)
        self._fixing: dict[str, set[str]] = {}
        """turn → the findings that it was asked to fix"""
        self._changed: dict[str, set[Path]] = {}
        """turn → the files that it has changed"""
        self._work: asyncio.Task[None] | None = None
        documents.on_change.append(self._document_changed)

    def on_update(self, update: SessionUpdate) -> None:
        """Take in what a turn reports and changes."""
        match update.record:
            case ToolCallRecord(call=call) if call.name == TOOL.name and call.status is CallStatus.COMPLETED:
                self._later(lambda: self._add(update.session_id, update.turn_id, call))
            case TurnStartRecord(prompt=prompt):
                if asked := {found for block in prompt if (found := _finding_in(block)) is not None}:
                    self._fixing[update.turn_id] = asked
            case FileChangeRecord(uri=uri) if (path := path_of(uri)) is not None:
                self._changed.setdefault(update.turn_id, set()).add(path)
                if path in self._files and self._documents.at(path) is None:
                    self._later(lambda: self._read_again(path))
            case TurnEndRecord():
                changed = self._changed.pop(update.turn_id, set())
                fixed = self._fixing.pop(update.turn_id, set())
                for path in changed & self._files.keys():
                    self._drop(path, lambda finding: finding.id in fixed)
            case _:
                pass

    def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Dismiss the findings among the diagnostics of the request."""
        only = [str(getattr(kind, "value", kind)) for kind in params.context.only or ()]
        if only and not any(kind in ("", "quickfix") for kind in only):
            return []
        path = path_of(params.text_document.uri)
        shown = self._shown(path) if path is not None else ()
        actions: list[types.CodeAction] = []
        for finding in shown:
            where = [one for one in params.context.diagnostics if _is(finding, one)]
            if where:
                command = types.Command("Dismiss", command_names.DISMISS, arguments=[{"id": finding.id}])
                actions.append(
                    types.CodeAction(
                        title="Dismiss this finding",
                        kind=types.CodeActionKind.QuickFix,
                        diagnostics=where,
                        command=command,
                    )
                )
        return actions

    def dismiss(self, arguments: Sequence[Any]) -> Mapping[str, Any]:
        """Run `pilotfish.findings.dismiss`: with an id one finding, without an argument all of them."""
        argument = as_object(arguments[0]) if arguments else None
        if arguments and (argument is None or not isinstance(argument.get("id"), str)):
            raise BadRequest("arguments: {id} is needed, or nothing", field="arguments")
        wanted = None if argument is None else argument["id"]
        before = sum(len(file.findings) for file in self._files.values())
        for path in tuple(self._files):
            self._drop(path, lambda finding: wanted in (None, finding.id))
        return {"dismissed": before - sum(len(file.findings) for file in self._files.values())}

    # -- anchoring ------------------------------------------------------------------------------------------------

    async def _add(self, session_id: str, turn_id: str, call: CanonicalToolCall) -> None:
        args = ReportFinding.model_validate(call.args)
        for path in tuple(self._files):  # this review replaces the one before
            self._drop(path, lambda one: one.session_id == session_id and one.turn_id != turn_id)
        workspace = self._workspace()
        path = workspace.resolve(args.path).path
        lines = (await workspace.look(path)).text.split("\n")
        self._anchor(path, lines)
        if args.line > len(lines):
            return
        text = lines[args.line - 1].strip()
        finding = Finding(f"finding-{next(self._numbers)}", session_id, turn_id, args, args.line - 1, text)
        self._files.setdefault(path, _File(lines)).findings.append(finding)
        self._publish(path)

    async def _read_again(self, path: Path) -> None:
        try:
            lines = (await self._workspace().look(path)).text.split("\n")
        except PilotfishError:  # deleted
            lines = []
        self._anchor(path, lines)
        self._publish(path)

    def _document_changed(self, document: Document) -> None:
        if document.path in self._files:
            before = self._shown(document.path)
            self._anchor(document.path, [line.rstrip("\r") for line in document.text.value.split("\n")])
            if self._shown(document.path) != before:
                self._publish(document.path)

    def _anchor(self, path: Path, lines: Sequence[str]) -> None:
        file = self._files.get(path)
        if file is not None and file.lines != lines:
            moves = [moved(finding.line, finding.text, file.lines, lines) for finding in file.findings]
            file.findings = [replace(one, line=line) for one, line in zip(file.findings, moves, strict=True)]
            file.lines = lines

    def _drop(self, path: Path, unwanted: Callable[[Finding], bool]) -> None:
        file = self._files[path]
        kept = [finding for finding in file.findings if not unwanted(finding)]
        if len(kept) == len(file.findings):
            return
        file.findings = kept
        self._publish(path)
        if not kept:
            del self._files[path]

    def _shown(self, path: Path) -> tuple[Finding, ...]:
        """The findings whose line is as it was, from top to bottom."""
        file = self._files.get(path)
        if file is None:
            return ()
        there = [finding for finding in file.findings if finding.line < len(file.lines)]
        same = [finding for finding in there if file.lines[finding.line].strip() == finding.text]
        return tuple(sorted(same, key=lambda finding: finding.line))

    def _publish(self, path: Path) -> None:
        document = self._documents.at(path)
        params = types.PublishDiagnosticsParams(
            uri=document.uri if document else path.as_uri(),
            diagnostics=[self._diagnostic(finding, self._files[path].lines) for finding in self._shown(path)],
            version=document.version if document else None,
        )
        self._connection.notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def _diagnostic(self, finding: Finding, lines: Sequence[str]) -> types.Diagnostic:
        line = lines[finding.line]
        text = Text(line, self._documents.encoding)
        start, end = len(line) - len(line.lstrip()), len(line.rstrip())
        return types.Diagnostic(
            range=types.Range(
                types.Position(finding.line, text.place(start).character),
                types.Position(finding.line, text.place(end).character),
            ),
            message=finding.args.message,
            severity=_SEVERITIES[finding.args.severity],
            source=SOURCE,
            related_information=self._related(finding) or None,
            data={"finding": finding.id},
        )

    def _related(self, finding: Finding) -> list[types.DiagnosticRelatedInformation]:
        found: list[types.DiagnosticRelatedInformation] = []
        workspace = self._workspace()
        for place in filter(None, map(related_place, finding.args.related)):
            try:
                uri = workspace.resolve(place.path).path.as_uri()
            except PilotfishError:
                continue
            at = types.Position(max(0, place.line - 1), 0)
            location = types.Location(uri, types.Range(at, at))
            found.append(types.DiagnosticRelatedInformation(location, place.message or "related"))
        return found

    def _later(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run work that reads files, one after the other."""
        self._work = asyncio.get_running_loop().create_task(self._after(self._work, work))

    async def _after(self, earlier: asyncio.Task[None] | None, work: Callable[[], Awaitable[None]]) -> None:
        if earlier is not None:
            await asyncio.wait((earlier,))
        try:
            await work()
        except PilotfishError as error:
            log.info("a finding is not shown: %s", error)


def moved(line: int, text: str, old: Sequence[str], new: Sequence[str]) -> int:
    """Where a line of the old text is in the new one. A line between changes is where its text is, nearest to where it
    was; if its text is gone, where the changes begin."""
    head, most = 0, min(len(old), len(new))
    while head < most and old[head] == new[head]:
        head += 1
    if line < head:
        return line
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if line >= len(old) - tail:
        return line + len(new) - len(old)
    window = range(head, len(new) - tail)
    same = [row for row in window if new[row].strip() == text]
    return min(same, key=lambda row: abs(row - line), default=min(head, max(0, len(new) - 1)))


def _finding_in(block: Mapping[str, Any]) -> str | None:
    """The finding that a content block of a prompt is about."""
    data = as_object((as_object(block.get("diagnostic")) or {}).get("data")) or {}
    found = data.get("finding")
    return found if isinstance(found, str) else None


def _is(finding: Finding, diagnostic: types.Diagnostic) -> bool:
    """Whether a client's diagnostic is this finding. Some clients do not send `data` back."""
    if (data := as_object(diagnostic.data)) is not None:
        return data.get("finding") == finding.id
    return diagnostic.source == SOURCE and diagnostic.message == finding.args.message
