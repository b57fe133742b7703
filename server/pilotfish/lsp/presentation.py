"""Converts the engine's values to wire types: sessions, approval requests, rules, outcomes, commands."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pilotfish.policy.judge import Rule, describe, examples
from pilotfish.protocol import present, wire

if TYPE_CHECKING:
    from pilotfish.engine.commands import Command
    from pilotfish.engine.frontend import Option, Outcome, Question, Session
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
        usage=present.usage(value.usage),
        elsewhere=value.elsewhere or None,
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
    return wire.PromptResult(
        turn_id=value.turn_id,
        stop_reason=value.stop_reason,
        usage=present.usage(value.usage),
        error=present.failure(value.error),
        receipt=present.receipt(value.receipt),
    )


def reverted(value: Reverted) -> wire.UndoResult:
    return wire.UndoResult(
        changes=tuple(
            wire.UndoneFile(uri=change.path.as_uri(), change=change.change, added=change.added, removed=change.removed)
            for change in value.changes
        ),
        refused=tuple(wire.RefusedFile(uri=path.as_uri(), reason=why) for path, why in value.refused),
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
    words = f"{value.decision}\0{value.tool}\0{value.pattern}\0{value.scope}"
    return hashlib.blake2s(words.encode(), digest_size=8).hexdigest()


def command(value: Command) -> wire.Command:
    return wire.Command(
        name=value.name, description=value.description, argument_hint=value.argument_hint, source=value.source
    )


def _preview(value: Question) -> wire.Preview:
    preview = value.preview
    match preview.kind:
        case "diff":
            return wire.DiffPreview(
                files=tuple(
                    wire.PreviewFile(uri=file.path.as_uri(), version=file.version, before=file.before, after=file.after)
                    for file in preview.files
                )
            )
        case "command":
            return wire.CommandPreview(command=preview.command, cwd=preview.cwd, parsed=tuple(value.parsed))
        case "text":
            return wire.TextPreview(text=preview.text)
