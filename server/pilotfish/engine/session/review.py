"""The review of a session's file changes: what the agent changed and nobody has kept or undone yet.

Hides: how the review is made from the ledger's file changes, the decisions in it, and the editor's buffers.
Promises (law 9): a pending hunk is exactly what undoing it changes; the user's text in it is kept; each decision is
recorded, so the review is the same after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.conversation.records import FileChangeRecord, Record, ReviewRecord
from pilotfish.engine.session.blame import written_lines
from pilotfish.engine.session.undo import ChangedSession, Reverted, file_change, file_path
from pilotfish.errors import BadRequest, PilotfishError, UnknownCall
from pilotfish.workspace.edits.changes import FileChange, Refusal
from pilotfish.workspace.edits.review import FileReview, PendingHunk, text_of

Decision = Literal["keep", "undo"]


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file with pending changes, as it is now."""

    review: FileReview
    hunks: tuple[PendingHunk, ...]
    turns: Mapping[str, str]
    """hunk → the turn that wrote it"""


class Review:
    """The pending changes of one session."""

    def __init__(self, session: ChangedSession) -> None:
        self._session = session
        self._deciding = asyncio.Lock()
        self._folding = asyncio.Lock()
        self._seen: Sequence[Record] = ()
        self._count = 0
        self._files: dict[Path, FileReview] = {}
        self._changes: dict[Path, list[tuple[str, FileChange]]] = {}
        """the changes of each file since its last complete decision, with their turns"""

    async def pending(self, path: Path | None = None) -> tuple[PendingFile, ...]:
        """The files with pending changes, or only this one, as they are now, sorted by path."""
        await self._fold()
        found: list[PendingFile] = []
        for name, review in sorted(self._files.items()):
            if path is None or name == path:
                now = review.now(await self._current(name))
                if now.change is not None:
                    hunks = now.hunks
                    found.append(PendingFile(now, hunks, self._turns(name, now, hunks)))
        return tuple(found)

    async def decide(
        self, decision: Decision, path: Path | None = None, hunk_ids: Collection[str] | None = None
    ) -> Reverted:
        """Keep or undo hunks of a file, all of a file, or everything. The caller holds the session's lease."""
        if hunk_ids is not None and path is None:
            raise BadRequest("uri: hunks are those of a file", field="uri")
        async with self._deciding:
            pending = await self.pending(path)
            if hunk_ids is not None and (missing := set(hunk_ids) - {hunk.id for one in pending for hunk in one.hunks}):
                raise UnknownCall(f"The change {min(missing)!r} is not pending any more. Look at the review again.")
            done: list[FileChange] = []
            refused: list[Refusal] = []
            for one in pending:
                chosen = one.hunks if hunk_ids is None else [hunk for hunk in one.hunks if hunk.id in hunk_ids]
                if decision == "undo":
                    changes, refusals = await self._undo(one, chosen)
                    done += changes
                    refused += refusals
                else:
                    done.append(await self._keep(one, chosen))
            await self._session.conversation.wait_durable()
            return Reverted(changes=tuple(done), refused=tuple(refused))

    async def _keep(self, one: PendingFile, chosen: Sequence[PendingHunk]) -> FileChange:
        whole = len(chosen) == len(one.hunks)
        kept = one.review.keep_all() if whole else one.review.keep(chosen)
        await self._record(kept, "keep")
        return one.review.change_from(one.review.undo_all(), chosen)

    async def _undo(
        self, one: PendingFile, chosen: Sequence[PendingHunk]
    ) -> tuple[Sequence[FileChange], Sequence[Refusal]]:
        review = one.review
        whole = len(chosen) == len(one.hunks)
        recorded = self._files[review.path]
        if whole and review.baseline is None and recorded.seen != review.seen:
            return (), [Refusal(review.path, "you have changed this new file since; delete it yourself")]
        target = review.undo_all() if whole else review.undo(chosen)
        done, refused = await self._session.workspace.undo([review.change_from(target, chosen)])
        if done:
            await self._record(target, "undo")
        return done, refused

    async def _record(self, review: FileReview, decision: Decision) -> None:
        engine = self._session.engine
        baseline, seen = [
            None if data is None else await engine.ledger.put_blob(data) for data in (review.baseline, review.seen)
        ]
        self._session.conversation.emit(
            ReviewRecord(
                turn_id="",
                uri=review.path.as_uri(),
                old_uri=review.origin.as_uri() if review.origin != review.path else None,
                decision=decision,
                baseline=baseline,
                seen=seen,
                timestamp=engine.clock(),
            )
        )

    async def _fold(self) -> None:
        """Take in the records that are new since the last time, each of them once."""
        async with self._folding:
            records = self._session.conversation.file_records
            if records is not self._seen:  # the session was read again
                self._seen, self._count = records, 0
                self._files, self._changes = {}, {}
            while self._count < len(records):
                record = records[self._count]
                match record:
                    case FileChangeRecord():
                        change = await file_change(self._session.engine.ledger, record)
                        self._add(record.turn_id, change)
                    case ReviewRecord():
                        await self._decided(record)
                    case _:
                        pass
                self._count += 1

    def _add(self, turn_id: str, change: FileChange) -> None:
        old = change.old_path or change.path
        known = self._files.pop(old, None)
        fresh = FileReview(change.path, old, change.before, change.after)
        self._files[change.path] = fresh if known is None else known.after(change)
        self._changes[change.path] = [*self._changes.pop(old, ()), (turn_id, change)]

    async def _decided(self, record: ReviewRecord) -> None:
        ledger = self._session.engine.ledger
        path = file_path(record.uri)
        baseline, seen = [
            None if blob is None else await ledger.get_blob(blob) for blob in (record.baseline, record.seen)
        ]
        for review in tuple(self._files.values()):  # an undone rename is known by the name that the agent gave
            if path in (review.path, review.origin):
                del self._files[review.path]
        review = FileReview(path, file_path(record.old_uri) if record.old_uri else path, baseline, seen)
        self._files[path] = review
        if review.change is None:
            self._changes.pop(path, None)

    async def _current(self, path: Path) -> bytes | None:
        try:
            return (await self._session.workspace.look(path)).data
        except (PilotfishError, OSError):
            return await asyncio.to_thread(_bytes, path)

    def _turns(self, path: Path, review: FileReview, hunks: Sequence[PendingHunk]) -> Mapping[str, str]:
        changes = self._changes.get(path, [])
        last = changes[-1][0] if changes else ""
        written = written_lines(changes, text_of(review.seen) or "")
        return {
            hunk.id: next((turn for turn in written[hunk.line : hunk.end_line] if turn is not None), last)
            for hunk in hunks
        }


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
