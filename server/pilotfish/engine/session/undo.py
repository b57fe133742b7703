"""Undo and redo of a whole turn, from the file contents in the ledger.

Promises: a file that has changed since the turn is reported and not overwritten; every undo and redo is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from pilotfish.conversation.records import FileChangeRecord, UndoRecord
from pilotfish.errors import UnknownCall
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.files.changes import FileChange

if TYPE_CHECKING:
    from pilotfish.engine.session.session import LiveSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """The reverted files, and the refused ones with the reason."""

    changes: tuple[FileChange, ...]
    refused: tuple[tuple[Path, str], ...]


async def revert(
    ledger: Ledger,
    session: LiveSession,
    turn_id: str | None,
    direction: Literal["undo", "redo"],
    *,
    dry_run: bool,
) -> Reverted:
    """Undo or redo the file changes of a turn. Without `turn_id`: the last turn to undo, the first turn to redo. The
    caller holds the session."""
    changes: dict[str, list[FileChangeRecord]] = {}
    undone: dict[str, bool] = {}
    for entry in await ledger.history(session.row.id):
        match entry.record:
            case FileChangeRecord() as record:
                changes.setdefault(record.turn_id, []).append(record)
                undone[record.turn_id] = False
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
    parts = [await _change(ledger, record) for record in changes[chosen]]
    put_back = session.workspace.undo if direction == "undo" else session.workspace.redo
    done, refused = await put_back(parts, dry_run=dry_run)
    if done and not dry_run:
        session.emit(
            UndoRecord(
                turn_id=chosen,
                direction=direction,
                uris=tuple(change.path.as_uri() for change in done),
                timestamp=session.engine.clock(),
            )
        )
        await session.conversation.wait_durable()
    return Reverted(changes=tuple(done), refused=tuple(refused))


async def _change(ledger: Ledger, record: FileChangeRecord) -> FileChange:
    return FileChange(
        path=_path(record.uri),
        change=record.change,
        before=None if record.before is None else await ledger.get_blob(record.before),
        after=None if record.after is None else await ledger.get_blob(record.after),
        added=record.added,
        removed=record.removed,
        via=record.via,
        old_path=_path(record.old_uri) if record.old_uri else None,
    )


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
