"""Undo and redo of a whole turn, and of all turns from a point on, from the file contents in the ledger.

Promises: a file that has changed since the turn is reported and not overwritten; every undo and redo is recorded. A
turn whose commands changed files without a record is the last turn like any other: an undo names the commands, and does
not undo the turn before instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pilotfish.conversation.records import FileChangeRecord, ToolCallRecord, TurnStartRecord, UndoRecord
from pilotfish.engine.context import EngineContext
from pilotfish.engine.session.session_history import SessionHistory
from pilotfish.errors import UnknownCall
from pilotfish.store.ledger import Ledger
from pilotfish.text.uris import path_of
from pilotfish.workspace.edits.changes import FileChange
from pilotfish.workspace.workspace import Workspace


class ChangedSession(Protocol):
    """The session whose changes are undone or reviewed. `session.LiveSession` implements it."""

    @property
    def engine(self) -> EngineContext: ...
    @property
    def conversation(self) -> SessionHistory: ...
    @property
    def workspace(self) -> Workspace: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """The reverted files, and the refused ones with the reason."""

    changes: tuple[FileChange, ...]
    refused: tuple[tuple[Path, str], ...]
    commands: tuple[str, ...] = ()
    """commands of the turn whose effects are not recorded, so that they stay"""
    turn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePoint:
    """A point of a conversation: right before a turn."""

    before: int
    """the number of the last record before the turn"""
    turns: tuple[str, ...]
    """the turn and all later ones, oldest first"""


async def restore_point(ledger: Ledger, session_id: str, turn_id: str) -> RestorePoint:
    """The point before a turn."""
    entries = await ledger.history(session_id)
    starts = [entry for entry in entries if isinstance(entry.record, TurnStartRecord)]
    first = next((entry for entry in starts if entry.record.turn_id == turn_id), None)
    if first is None:
        raise UnknownCall(f"No turn has the id {turn_id!r}.")
    turns = tuple(entry.record.turn_id for entry in starts if entry.n >= first.n)
    return RestorePoint(before=first.n - 1, turns=turns)


async def revert_all(ledger: Ledger, session: ChangedSession, turns: Sequence[str]) -> Reverted:
    """Undo the file changes of these turns, newest first. The caller holds the session."""
    changed = {each.turn_id for each in session.conversation.file_records}
    done = [await revert(ledger, session, turn, "undo", dry_run=False) for turn in reversed(turns) if turn in changed]
    return Reverted(
        changes=tuple(change for each in done for change in each.changes),
        refused=tuple(dict(refusal for each in done for refusal in each.refused).items()),
        commands=tuple(dict.fromkeys(command for each in reversed(done) for command in each.commands)),
    )


async def revert(
    ledger: Ledger,
    session: ChangedSession,
    turn_id: str | None,
    direction: Literal["undo", "redo"],
    *,
    dry_run: bool,
) -> Reverted:
    """Undo or redo the file changes of a turn. Without `turn_id`: the last turn to undo, the first turn to redo. The
    caller holds the session."""
    changes: dict[str, list[FileChangeRecord]] = {}
    commands: dict[str, list[str]] = {}
    undone: dict[str, bool] = {}
    for each in session.conversation.file_records:
        match each:
            case FileChangeRecord() as record:
                changes.setdefault(record.turn_id, []).append(record)
                undone[record.turn_id] = False
            case ToolCallRecord(turn_id=turn, call=call):
                commands.setdefault(turn, []).append(str(call.args.get("command", call.title)))
                undone.setdefault(turn, False)
            case UndoRecord() as record:
                undone[record.turn_id] = record.direction == "undo"
            case _:
                pass
    candidates = [turn for turn, is_undone in undone.items() if is_undone == (direction == "redo")]
    chosen = turn_id or (candidates[-1 if direction == "undo" else 0] if candidates else None)
    if chosen is None or chosen not in candidates:
        if turn_id is not None and turn_id not in undone:
            raise UnknownCall(f"Turn {turn_id!r} changed no files.")
        return Reverted(changes=(), refused=())
    left = tuple(dict.fromkeys(commands.get(chosen, ())))
    parts = [await file_change(ledger, record) for record in changes.get(chosen, ())]
    put_back = session.workspace.undo if direction == "undo" else session.workspace.redo
    done, refused = await put_back(parts, dry_run=dry_run)
    if done and not dry_run:
        session.conversation.emit(
            UndoRecord(
                turn_id=chosen,
                direction=direction,
                uris=tuple(change.path.as_uri() for change in done),
                timestamp=session.engine.clock(),
            )
        )
        await session.conversation.wait_durable()
    return Reverted(changes=tuple(done), refused=tuple(refused), commands=left, turn_id=chosen)


async def file_change(ledger: Ledger, record: FileChangeRecord) -> FileChange:
    return FileChange(
        path=file_path(record.uri),
        change=record.change,
        before=None if record.before is None else await ledger.get_blob(record.before),
        after=None if record.after is None else await ledger.get_blob(record.after),
        added=record.added,
        removed=record.removed,
        via=record.via,
        old_path=file_path(record.old_uri) if record.old_uri else None,
    )


def file_path(uri: str) -> Path:
    path = path_of(uri)
    if path is None:
        raise UnknownCall(f"{uri} is not a file on this machine; its change cannot be undone.")
    return path
