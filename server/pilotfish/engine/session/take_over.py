"""Makes the changes of a background task in the user's files.

Promises: a file is changed only where the user has not changed it since the commit that the task began with, through
the editor's buffers where it is open; what was changed is one turn, so it is reviewed and undone like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotfish.conversation.records import FileChangeRecord, NoticeRecord, TurnEndRecord, TurnStartRecord, Usage
from pilotfish.engine.context import EngineContext
from pilotfish.engine.session.undo import ChangedSession, Reverted
from pilotfish.workspace.edits.changes import FileChange

PROMPT = "Take over the changes of the background task."


async def take_over(
    engine: EngineContext, session: ChangedSession, changes: Sequence[FileChange], left_out: Sequence[str]
) -> Reverted:
    """Make these changes. `left_out` are links and submodules, which are not changed. The caller holds the session."""
    emit, turn_id = session.conversation.emit, engine.new_id("turn")
    prompt = ({"type": "text", "text": PROMPT},)
    emit(TurnStartRecord(turn_id=turn_id, prompt=prompt, timestamp=engine.clock()))
    await session.conversation.wait_durable()
    # One after the other: what is changed is recorded before the next file is.
    done: list[FileChange] = []
    refused: list[str] = []
    reasons: list[tuple[FileChange, str]] = []
    try:
        for change in changes:
            made, refusals = await session.workspace.redo([change])
            for each in made:
                done.append(each)
                emit(await _record(engine, turn_id, each))
            for refusal in refusals:
                reasons.append((change, refusal.why))
                refused.append(session.workspace.relative(refusal.path))
    finally:
        for words, names in (("because of your own changes", refused), ("because they are no files", left_out)):
            if names:
                emit(
                    NoticeRecord(
                        turn_id=turn_id,
                        level="warning",
                        message=f"Not changed, {words}: {', '.join(names)}.",
                        remedy="Take the result as a branch, and merge it.",
                        timestamp=engine.clock(),
                    )
                )
        emit(TurnEndRecord(turn_id=turn_id, stop_reason="end_turn", usage=Usage(), timestamp=engine.clock()))
        session.conversation.add_turn(Usage())
        await session.conversation.wait_durable()
    return Reverted(changes=tuple(done), refused=tuple((change.path, why) for change, why in reasons), turn_id=turn_id)


async def _record(engine: EngineContext, turn_id: str, change: FileChange) -> FileChangeRecord:
    store = engine.ledger.put_blob
    return FileChangeRecord(
        turn_id=turn_id,
        call_id="",
        uri=change.path.as_uri(),
        change=change.change,
        added=change.added,
        removed=change.removed,
        via=change.via,
        before=None if change.before is None else await store(change.before),
        after=None if change.after is None else await store(change.after),
        timestamp=engine.clock(),
    )
