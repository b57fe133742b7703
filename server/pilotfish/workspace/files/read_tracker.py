"""Tracks the text of each file that the model last read or wrote, and finds files that changed since."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pilotfish.errors import PilotfishError
from pilotfish.workspace.files import disk as disks
from pilotfish.workspace.files.encoding import unify
from pilotfish.workspace.files.view import View, Views, load

MAX_KEPT = 64_000_000  # characters of texts kept; of others only the fingerprint is
MAX_COMPARED = 4_000_000  # bytes of a file read to see whether it changed; of bigger ones the identity must do
SETTLED = 0.05  # seconds: a file whose time stamp is younger than this may change again without a new one


@dataclass(frozen=True, slots=True)
class _Fact:
    text: str | None
    mark: int
    """hash of the text"""
    state: str
    """version of the view that was read; empty if the text must be compared"""
    seen: tuple[range, ...] | None = None
    """the lines that the model read, counting from 1; None if it read all of them"""
    reported: int | None = None
    """hash of the changed text that was already reported"""


class ReadTracker:
    def __init__(self) -> None:
        self._facts: OrderedDict[Path, _Fact] = OrderedDict()

    def learn(self, view: View, lines: range | None) -> None:
        """Records that the model read this view, or only some of its lines."""
        racy = view.disk is not None and time.time() - view.disk.modified < SETTLED
        mark = hash(view.text)
        seen = None if lines is None else (lines,)
        fact = self._facts.get(view.path)
        if seen is not None and fact is not None and fact.mark == mark:
            seen = None if fact.seen is None else (*fact.seen, *seen)
        if seen is not None and not _gaps(seen, _line_count(view.text)):
            seen = None
        self._put(view.path, _Fact(view.text, mark, "" if racy else view.version, seen))

    def wrote(self, path: Path, text: str) -> None:
        self._put(path, _Fact(text, hash(text), ""))

    def text(self, path: Path) -> str | None:
        """The text that the model last read; None if it has not read the file or the text was dropped."""
        fact = self._facts.get(path)
        return None if fact is None else fact.text

    def unseen(self, path: Path) -> tuple[range, ...]:
        """The lines that the model has not read, of a file that it read in part."""
        fact = self._facts.get(path)
        if fact is None or fact.seen is None or fact.text is None:
            return ()
        return _gaps(fact.seen, _line_count(fact.text))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that the model has read or written."""
        return tuple(self._facts)

    def forget(self, path: Path) -> None:
        self._facts.pop(path, None)

    def move(self, old: Path, new: Path) -> None:
        fact = self._facts.pop(old, None)
        if fact is not None:
            self._put(new, replace(fact, state=""))

    def changed(self, views: Views) -> tuple[Path, ...]:
        """Files that changed since the model read them. Each state is reported once."""
        changed: list[Path] = []
        for path, fact in tuple(self._facts.items()):
            state, mark = _state(path, views, fact)
            if mark == fact.mark:
                self._facts[path] = replace(fact, state=state, reported=None)
            elif mark != fact.reported:
                self._facts[path] = replace(fact, reported=mark)
                changed.append(path)
        return tuple(changed)

    def _put(self, path: Path, fact: _Fact) -> None:
        self._facts[path] = fact
        self._facts.move_to_end(path)
        kept = sum(len(other.text) for other in self._facts.values() if other.text is not None)
        for old, other in tuple(self._facts.items()):
            if kept <= MAX_KEPT or old == path:
                break
            if other.text is not None:
                kept -= len(other.text)
                self._facts[old] = replace(other, text=None)


def _line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _gaps(seen: Sequence[range], last: int) -> tuple[range, ...]:
    gaps: list[range] = []
    at = 1
    for lines in sorted(seen, key=lambda lines: lines.start):
        if lines.start > at:
            gaps.append(range(at, lines.start))
        at = max(at, lines.stop)
    return (*gaps, range(at, last + 1)) if at <= last else tuple(gaps)


def _state(path: Path, views: Views, fact: _Fact) -> tuple[str, int]:
    """(version, hash of the text) of a file now, without waiting for anything."""
    for buffer in views.documents(path):
        version = f"buffer:{buffer.version}"
        if views.is_dirty(buffer):
            return version, hash(unify(buffer.text))
    identity = disks.identity(path)
    if identity is None:
        return "", 0
    if identity == fact.state:
        return identity, fact.mark
    try:
        loaded = load(path, MAX_COMPARED)
    except PilotfishError:
        return identity, hash(identity)
    if loaded is None:
        return "", 0
    settled = time.time() - loaded.disk.modified >= SETTLED
    return identity if settled else "", hash(identity if loaded.text is None else loaded.text)
