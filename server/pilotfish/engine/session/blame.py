"""Which turn wrote which lines of a file, from the file changes in the ledger. Lines that a user wrote have no turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotfish.conversation.records import FileChangeRecord, TurnStartRecord
from pilotfish.engine.prompting.prompt import plain_text
from pilotfish.engine.session.undo import file_change, file_path
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.edits.changes import FileChange
from pilotfish.workspace.edits.hunks import diff, lines_of
from pilotfish.workspace.edits.review import text_of

TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class WrittenLines:
    """Lines in a row that one turn wrote. Lines count from 0, `end` is not included."""

    start: int
    end: int
    session_id: str
    turn_id: str
    prompt: str
    """the beginning of the turn's prompt"""


class WrittenFiles:
    """What turns of some sessions changed in files, read from the ledger once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._records: dict[str, tuple[FileChangeRecord, ...]] = {}
        self._titles: dict[str, str] = {}

    @classmethod
    async def read(cls, ledger: Ledger, sessions: Sequence[str]) -> WrittenFiles:
        """The changes of these sessions. Where two claim a line, the first session wins."""
        files = cls(ledger)
        for session_id in sessions:
            records = [entry.record for entry in await ledger.history(session_id)]
            files._records[session_id] = tuple(
                each for each in records if isinstance(each, FileChangeRecord) and not each.background
            )
            for each in records:
                if isinstance(each, TurnStartRecord):
                    files._titles[each.turn_id] = plain_text(each.prompt).split("\n", 1)[0][:TITLE_CHARS]
        return files

    @property
    def paths(self) -> frozenset[Path]:
        """The files that the sessions changed."""
        return frozenset(file_path(record.uri) for records in self._records.values() for record in records)

    def deleted_by(self, path: Path) -> tuple[str, str] | None:
        """The session and the turn whose last change of a file was to delete it."""
        for session_id, records in self._records.items():
            last = next((record for record in reversed(records) if file_path(record.uri) == path), None)
            if last is not None and last.change == "deleted":
                return session_id, last.turn_id
        return None

    async def blame(self, path: Path, current: str) -> tuple[WrittenLines, ...]:
        """The lines of `current` that turns of the sessions wrote."""
        lines: list[tuple[str, str] | None] = [None] * len(lines_of(current))
        for session_id, records in self._records.items():
            changes: list[tuple[str, FileChange]] = []
            name = path
            for record in reversed(records):
                if file_path(record.uri) == name:
                    changes.insert(0, (record.turn_id, await file_change(self._ledger, record)))
                    name = file_path(record.old_uri) if record.old_uri else name
            if changes:
                for index, turn in enumerate(written_lines(changes, current)):
                    lines[index] = lines[index] or (turn and (session_id, turn)) or None
        found: list[WrittenLines] = []
        for index, owner in enumerate(lines):
            if owner is None:
                continue
            session_id, turn = owner
            goes_on = found and (found[-1].end, found[-1].turn_id) == (index, turn)
            start = found.pop().start if goes_on else index
            found.append(WrittenLines(start, index + 1, session_id, turn, self._titles.get(turn, "")))
        return tuple(found)


def new_lines(before: str, after: str) -> frozenset[int]:
    """The lines of `after` that `before` does not have, counted from 0."""
    lines = _rewritten([None] * len(lines_of(before)), before, after, "new")
    return frozenset(index for index, line in enumerate(lines) if line is not None)


def written_lines(changes: Sequence[tuple[str, FileChange]], current: str) -> list[str | None]:
    """For each line of the current text, the turn whose change wrote it; None if it was somebody else."""
    lines: list[str | None] = []
    text = ""
    for turn, change in changes:
        for after, writer in ((text_of(change.before) or "", None), (text_of(change.after) or "", turn)):
            lines, text = _rewritten(lines, text, after, writer), after
    return _rewritten(lines, text, current, None)


def _rewritten(lines: Sequence[str | None], before: str, after: str, writer: str | None) -> list[str | None]:
    result: list[str | None] = []
    at = 0
    for hunk in diff(before, after):
        first = before.count("\n", 0, hunk.start)
        result += (*lines[at:first], *[writer] * len(lines_of(hunk.text)))
        at = first + len(lines_of(before[hunk.start : hunk.end]))
    return [*result, *lines[at:]]
