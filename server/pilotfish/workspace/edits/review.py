"""The agent's changes of one file that nobody has reviewed yet, as hunks that can be kept or undone one by one.

Pure. A `FileReview` has two texts. `baseline` is the file without the pending changes of the agent. `seen` is the file
with them, as it was after the agent's last change. Whatever the user typed since then is carried over into the baseline
(`carry_over`), so a hunk between the baseline and the current text is always the agent's, and undoing it keeps the
user's text.
Promises (law 9): a pending hunk is exactly what undoing it changes; undoing hunks never loses a word that the user
typed inside or around them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

from pilotfish.errors import Refused
from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.edits.changes import FileChange
from pilotfish.workspace.edits.hunks import diff, lines_of
from pilotfish.workspace.files import encoding
from pilotfish.workspace.files.encoding import decode, encode, form_of, in_form, unify

EXACT_MERGE_LIMIT = 4_000_000  # lines or words, times each other; beyond it the user's version of a hunk counts as kept

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FileReview:
    """A file with pending changes. `None` for a content means that the file does not exist."""

    path: Path
    origin: Path
    """where the file was before the agent renamed it; else `path`"""
    baseline: bytes | None
    seen: bytes | None

    def after(self, change: FileChange) -> FileReview:
        """The review after another change by the agent."""
        carried = self.now(change.before)
        return FileReview(change.path, self.origin, carried.baseline, change.after)

    def now(self, current: bytes | None) -> FileReview:
        """The review when the file has this content: the user's changes are in both texts."""
        if current == self.seen:
            return self
        return replace(self, baseline=_carried(self.baseline, self.seen, current), seen=current)

    @property
    def change(self) -> Literal["created", "edited", "deleted", "renamed"] | None:
        """What the agent did to the file. None if nothing is pending."""
        if self.path != self.origin and self.seen is not None:
            return "renamed" if self.baseline is not None else "created"
        if self.baseline == self.seen:
            return None
        return "created" if self.baseline is None else "deleted" if self.seen is None else "edited"

    @property
    def hunks(self) -> tuple[PendingHunk, ...]:
        """The pending hunks in order. A new or deleted file is one hunk; a file that is not text has none."""
        old, new = [("" if data is None else text_of(data)) for data in (self.baseline, self.seen)]
        return () if old is None or new is None else tuple(_pending(self.path, old, new))

    def keep(self, hunks: Collection[PendingHunk]) -> FileReview:
        """The review without these hunks: they belong to the baseline now."""
        old = text_of(self.baseline) or ""
        kept = [Hunk(hunk.old_start, hunk.old_end, hunk.new) for hunk in hunks]
        return replace(self, baseline=_changed(self.baseline or b"", old, kept))

    def keep_all(self) -> FileReview:
        return FileReview(self.path, self.path, self.seen, self.seen)

    def undo(self, hunks: Collection[PendingHunk]) -> FileReview:
        """The review after these hunks were undone in the file."""
        new = text_of(self.seen) or ""
        undone = [Hunk(hunk.start, hunk.end, hunk.old) for hunk in hunks]
        return replace(self, seen=_changed(self.seen or b"", new, undone))

    def change_from(self, before: FileReview, hunks: Collection[PendingHunk]) -> FileChange:
        """These hunks as a change of the agent: from the content of `before` to that of this review."""
        return FileChange(
            path=self.path,
            change=self.change or "edited",
            before=before.seen,
            after=self.seen,
            added=sum(len(lines_of(hunk.new)) for hunk in hunks),
            removed=sum(len(lines_of(hunk.old)) for hunk in hunks),
            via="disk",
            old_path=before.path if before.path != self.path else None,
        )

    def undo_all(self) -> FileReview:
        return FileReview(self.origin, self.origin, self.baseline, self.baseline)


@dataclass(frozen=True, slots=True)
class PendingHunk:
    """Lines that the agent changed. Offsets are code points: `old_…` of the baseline, the others of the current text.
    Lines end in `\\n`."""

    id: str
    """depends on the content of the hunk and of the lines beside it: a hunk that has changed has another id"""
    old_start: int
    old_end: int
    old: str
    start: int
    end: int
    new: str
    line: int
    """the first line in the current text, from 0"""
    end_line: int
    """the line after the last one"""


def carry_over(baseline: str, seen: str, current: str) -> str:
    """The baseline with the changes that the user made between `seen` and `current`.

    Changes beside the agent's hunks are made in the baseline too. Inside a hunk, lines (or words of a line) that are
    neither the agent's nor the baseline's are the user's, and are added to the baseline.
    """
    if current == baseline:
        return baseline  # the user undid everything
    pieces: list[str] = []
    at = 0
    for old, new, now, until in _regions(baseline, seen, current):
        pieces += (baseline[at : until - len(old)], _with_users_text(old, new, now))
        at = until
    return "".join((*pieces, baseline[at:]))


def _regions(baseline: str, seen: str, current: str) -> Iterator[tuple[str, str, str, int]]:
    """The places where the user changed the text: (baseline, seen, current, end in the baseline)."""
    agent = [
        (hunk.start + shift, hunk.start + shift + len(hunk.text), hunk)
        for hunk, shift in _with_shift(diff(baseline, seen))
    ]
    user = diff(seen, current)
    index = shift = grown = 0  # shift: offset in the baseline minus offset in `seen`; grown: in `current` minus `seen`
    position = 0
    while position < len(user):
        low, high = user[position].start, user[position].end
        while index < len(agent) and agent[index][1] <= low and not _overlap(low, high, *agent[index][:2]):
            shift = agent[index][2].end - agent[index][1]
            index += 1
        start_shift, last = shift, position
        inner = index
        while True:  # a cluster grows by every hunk of either side that overlaps with it
            if inner < len(agent) and _overlap(low, high, agent[inner][0], agent[inner][1]):
                low, high = min(low, agent[inner][0]), max(high, agent[inner][1])
                shift = agent[inner][2].end - agent[inner][1]
                inner += 1
            elif last + 1 < len(user) and _overlap(low, high, user[last + 1].start, user[last + 1].end):
                last += 1
                high = max(high, user[last].end)
            else:
                break
        growth = sum(len(hunk.text) - (hunk.end - hunk.start) for hunk in user[position : last + 1])
        yield (
            baseline[low + start_shift : high + shift],
            seen[low:high],
            current[low + grown : high + grown + growth],
            high + shift,
        )
        grown += growth
        index, position = inner, last + 1


def _with_shift(hunks: Sequence[Hunk]) -> Iterator[tuple[Hunk, int]]:
    shift = 0
    for hunk in hunks:
        yield hunk, shift
        shift += len(hunk.text) - (hunk.end - hunk.start)


def _overlap(low: int, high: int, start: int, end: int) -> bool:
    """Whether two spans share text, or are empty at the same place. An empty span beside text does not touch it."""
    if low < high and start < end:
        return low < end and start < high
    return low < start < high or start < low < end or low == high == start == end


def _with_users_text(old: str, new: str, now: str) -> str:
    """The baseline's text of a hunk with what the user typed into it: whole lines, and words within the agent's."""
    olds, news, nows = lines_of(old), lines_of(new), lines_of(now)
    if len(nows) * max(len(olds), len(news)) > EXACT_MERGE_LIMIT:
        return now
    if len(olds) == len(news) == len(nows):
        return "".join(_merged(*map(_WORD.findall, line)) for line in zip(olds, news, nows, strict=True))
    typed: dict[int, str] = {}  # line of the baseline → words that the user typed in the agent's line in its place
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, news, nows, autojunk=False).get_opcodes():
        if tag == "replace" and i2 - i1 == j2 - j1 and olds:
            for index, place in zip(range(i1, i2), range(j1, j2), strict=True):
                if (words := _typed_words(news[index], nows[place])) is not None:
                    line = min(len(olds) - 1, (index + 1) * len(olds) // len(news))
                    typed[line] = typed.get(line, "") + words
                    nows[place] = news[index]
    return _merged(olds, news, nows, [_with_words(line, typed.get(index, "")) for index, line in enumerate(olds)])


def _typed_words(line: str, now: str) -> str | None:
    """What the user typed in a line. None if so little of the line is left that it is the user's."""
    words, typed = _WORD.findall(line), _WORD.findall(now)
    same = _matches(words, typed)
    if 2 * len(same) < len(words):
        return None
    return "".join(word for index, word in enumerate(typed) if index not in same).rstrip("\n")


def _with_words(line: str, words: str) -> str:
    body = line.removesuffix("\n")
    return f"{body}{words}{line[len(body) :]}"


def _merged(olds: list[str], news: list[str], nows: list[str], shown: list[str] | None = None) -> str:
    """The old parts with those of the current parts that are neither old nor new. `shown` stands for the old parts."""
    shown = olds if shown is None else shown
    if olds == news:
        return "".join(nows)  # the user's own place
    if nows in (news, olds):
        return "".join(shown)
    if len(nows) * max(len(olds), len(news)) > EXACT_MERGE_LIMIT:
        return "".join(nows)
    in_old, in_new = _matches(olds, nows), _matches(news, nows)
    merged: list[str] = []
    at = place = 0  # old parts that are merged; old parts that come before the part at hand
    ahead = len(olds)
    gap_ends = [ahead := in_old.get(index, ahead) for index in reversed(range(len(nows)))][::-1]
    for index, part in enumerate(nows):
        if index in in_old:
            place = in_old[index] + 1
        elif index in in_new:
            place = max(place, gap_ends[index])  # the agent's part stands for old ones up to the next shared one
        else:
            merged += (*shown[at:place], part)
            at = place
    return "".join((*merged, *shown[at:]))


def _matches(old: Sequence[str], now: Sequence[str]) -> dict[int, int]:
    """part of `now` → the same part of `old`, in order"""
    blocks = SequenceMatcher(None, old, now, autojunk=False).get_matching_blocks()
    return {match.b + step: match.a + step for match in blocks for step in range(match.size)}


def _carried(baseline: bytes | None, seen: bytes | None, current: bytes | None) -> bytes | None:
    old, new, now = text_of(baseline), text_of(seen), text_of(current)
    if old is None or new is None or now is None:
        return baseline
    return _changed(baseline or b"", old, diff(old, carry_over(old, new, now)))


def _pending(path: Path, old: str, new: str) -> Iterator[PendingHunk]:
    line = at = 0
    for hunk, shift in _with_shift(diff(old, new)):
        start = hunk.start + shift
        line += new.count("\n", at, start)
        at = start
        before = old[hunk.start : hunk.end]
        around = new[max(0, start - 80) : start], new[start + len(hunk.text) : start + len(hunk.text) + 80]
        name = "\0".join((str(path), before, hunk.text, *around))
        yield PendingHunk(
            id=hashlib.blake2s(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
            old_start=hunk.start,
            old_end=hunk.end,
            old=before,
            start=start,
            end=start + len(hunk.text),
            new=hunk.text,
            line=line,
            end_line=line + len(lines_of(hunk.text)),
        )


def text_of(data: bytes | None) -> str | None:
    """The text of a file with unified line ends. None if there is no file or it is not text."""
    if data is None:
        return None
    try:
        return unify(decode(data)[0])
    except Refused:
        return None


def _changed(data: bytes, text: str, hunks: Sequence[Hunk]) -> bytes:
    """The bytes of a file after these hunks of its unified text, with its encoding and line ends."""
    exact, name, bom = decode(data)
    form = form_of(exact, name, bom)
    if unify(exact) != text:
        raise ValueError("the text is not that of the file")
    return encode(encoding.replace(exact, in_form(sorted(hunks, key=lambda hunk: hunk.start), exact, form)), form)
