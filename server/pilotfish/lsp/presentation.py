"""Converts the engine's values to wire types: sessions, approval requests, rules, outcomes, commands."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pilotfish.errors import TurnError
from pilotfish.policy.rule_suggestions import describe, examples
from pilotfish.policy.rules import Rule
from pilotfish.protocol import present, wire
from pilotfish.text.positions import Text
from pilotfish.workspace.edits.hunks import lines_of
from pilotfish.workspace.edits.review import text_of

if TYPE_CHECKING:
    from pilotfish.engine.commands import Command
    from pilotfish.engine.frontend import Option, Outcome, Question, Session
    from pilotfish.engine.mcp.servers import Server
    from pilotfish.engine.session.review import PendingFile
    from pilotfish.engine.session.undo import Reverted


def session(value: Session) -> wire.Session:
    return wire.Session(
        id=value.id,
        title=value.title,
        workspace_folder=Path(value.workspace_folder).as_uri() if value.workspace_folder else None,
        model=value.model,
        mode=cast("wire.Mode", value.mode),
        created_at=present.moment(value.created_at) or "",
        updated_at=present.moment(value.updated_at) or "",
        turns=value.turns,
        busy=value.busy,
        usage=present.same(wire.Usage, value.usage),
        elsewhere=value.elsewhere or None,
        background=value.background and present.same(wire.Background, value.background),
        imported=value.imported or None,
    )


def question(value: Question) -> wire.ApprovalRequest:
    return wire.ApprovalRequest(
        approval_id=value.approval_id,
        session_id=value.session_id,
        turn_id=value.turn_id,
        call=present.call(value.call),
        reason=value.reason,
        digest=value.digest,
        preview=_preview(value),
        options=tuple(_option(option) for option in value.options),
        amendable=value.amendable,
    )


def _option(value: Option) -> wire.ApprovalOption:
    offered = wire.ApprovalOption(id=value.id, label=value.label, rule=value.rule)
    if value.standing is None:
        return offered
    matches, excludes = examples(value.standing)
    rule = {"tool": value.standing.tool, "pattern": value.standing.pattern}
    return offered.model_copy(update={**rule, "matches": matches, "excludes": excludes})


def outcome(value: Outcome) -> wire.PromptResult:
    return present.same(wire.PromptResult, value)


def reverted(value: Reverted) -> wire.UndoResult:
    return wire.UndoResult(
        changes=tuple(
            wire.UndoneFile(uri=change.path.as_uri(), change=change.change, added=change.added, removed=change.removed)
            for change in value.changes
        ),
        refused=tuple(wire.RefusedFile(uri=path.as_uri(), reason=why) for path, why in value.refused),
        turn_id=value.turn_id,
        commands=value.commands or None,
    )


def review_file(session_id: str, file: PendingFile, encoding: str, *, with_text: bool) -> wire.ReviewFile:
    review = file.review
    return wire.ReviewFile(
        session_id=session_id,
        uri=review.path.as_uri(),
        change=review.change or "edited",
        added=sum(len(lines_of(hunk.new)) for hunk in file.hunks),
        removed=sum(len(lines_of(hunk.old)) for hunk in file.hunks),
        hunks=tuple(
            wire.ReviewHunk(
                id=hunk.id,
                range=lines_range(hunk.line, hunk.end_line, hunk.new, encoding),
                before=hunk.old,
                after=hunk.new,
                turn_id=file.turns[hunk.id],
            )
            for hunk in file.hunks
        ),
        old_uri=review.origin.as_uri() if review.origin != review.path else None,
        before=text_of(review.baseline) if with_text else None,
    )


def lines_range(first: int, end: int, text: str, encoding: str) -> wire.Range:
    """The range of whole lines with this text. The last line of a document may have no line end."""
    last, column = end, 0
    if text and not text.endswith("\n"):
        line = text.rpartition("\n")[2]
        last, column = end - 1, Text(line, encoding).place(len(line)).character
    return wire.Range(start=wire.Position(line=first, character=0), end=wire.Position(line=last, character=column))


def failure(error: TurnError) -> wire.Failure:
    return wire.Failure(message=str(error), remedy=error.remedy, retryable=error.retryable, kind=error.kind)


def mcp_server(value: Server) -> wire.McpServer:
    return wire.McpServer(
        name=value.name,
        state="ready" if value.available else "connecting" if value.connecting else "failed",
        tools=value.tools,
        error=None if value.available or value.connecting else value.reason or None,
    )


def rule(value: Rule) -> wire.Rule:
    return wire.Rule(
        id=rule_id(value),
        decision=value.decision,
        tool=value.tool,
        pattern=value.pattern,
        scope=value.scope,
        words=describe(value),
    )


def rule_id(value: Rule) -> str:
    """An id for a rule that depends only on the rule's content."""
    words = f"{value.decision}\0{value.tool}\0{value.pattern}\0{value.scope}\0{value.folder}"
    return hashlib.blake2s(words.encode(), digest_size=8).hexdigest()


def command(value: Command) -> wire.Command:
    return present.same(wire.Command, value)


def _preview(value: Question) -> wire.Preview:
    preview = value.preview
    files = tuple(
        wire.PreviewFile(uri=file.path.as_uri(), version=file.version, before=file.before, after=file.after)
        for file in preview.files
    )
    tried = preview.tried
    match preview.kind:
        case "diff":
            return wire.DiffPreview(files=files, impact=preview.impact or None)
        case "command":
            return wire.CommandPreview(
                command=preview.command,
                cwd=preview.cwd,
                parsed=tuple(value.parsed),
                background=preview.background or None,
                timeout=preview.timeout,
                effects=None
                if tried is None
                else wire.CommandEffects(
                    files=files,
                    output=tried.output,
                    exit_code=tried.exit_code,
                    impact=preview.impact or None,
                    note=tried.note or None,
                ),
            )
        case "text":
            return wire.TextPreview(text=preview.text)
