"""Users type, programs write, the agent edits, in any order: nobody's text is lost.

Every word that a user or a program writes is unique. Around each act of the agent it is counted which of those words
are in the document and on disk; the agent may only have removed words of lines it had read as they were.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.clock import FakeClock
from tests.support.editor import FakeEditor, Stage
from tests.support.tries import tries

from pilotfish.errors import ToolError
from pilotfish.workspace.edits import writer
from pilotfish.workspace.edits.changes import FileChange, Undone
from pilotfish.workspace.edits.drafts import Edit, Rewrite
from pilotfish.workspace.edits.matching import Replacement
from pilotfish.workspace.edits.outcomes import Edited
from pilotfish.workspace.files.atomic import Staged
from pilotfish.workspace.files.disk import Disk
from pilotfish.workspace.files.encoding import decode, unify
from pilotfish.workspace.workspace import Workspace

LONG = bool(os.environ.get("PILOTFISH_LONG"))
T = TypeVar("T")

names = st.sampled_from(["a.txt", "b.txt"])
spots = st.floats(0, 1, exclude_max=True)
anything = st.sampled_from(["type", "open and type", "external", "same_length", "save", "undo", "tick"])
# A program that writes between the last look at the disk and the editor's save cannot be guarded against.
anything_of_the_user = st.sampled_from(["type", "save", "undo"])
acts = st.one_of(
    st.just([]),
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["hold", "apply", "apply", "applied", "staged", "staged"]), anything, spots),
            st.tuples(st.sampled_from(["save", "saving"]), anything_of_the_user, spots),
        ),
        max_size=3,
    ),
)


@dataclass
class Turn:
    changes: list[FileChange] = field(default_factory=list[FileChange])
    words: set[str] = field(default_factory=set[str])
    """the agent's own"""
    removed: set[str] = field(default_factory=set[str])
    """others' words that the agent removed, knowing them"""


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pilotfish-")).resolve()
        self.runner = asyncio.Runner()
        self.editor = FakeEditor()
        self.clock = FakeClock()
        self.workspace = Workspace([self.folder], self.editor, clock=self.clock)
        self.words = 0
        self.knows: dict[Path, str] = {}
        """what the agent has read, unified"""
        self.turns: list[Turn] = [Turn()]
        """the last one is going on"""
        self.undone: list[Turn] = []
        self.watches = True
        self.patch = mock.patch.object(writer, "Staged", self.staged)
        self.patch.start()
        self.gone: set[str] = set()
        """words their own authors have removed"""

    @initialize(
        newline=st.sampled_from(["\n", "\r\n"]),
        saves=st.sampled_from([True, True, False]),
        formats=st.booleans(),
        watches=st.booleans(),
        opened=st.booleans(),
        tells=st.booleans(),
        first=st.integers(1, 7),
        disk_writes=st.booleans(),
    )
    def begin(
        self,
        newline: str,
        saves: bool,
        formats: bool,
        watches: bool,
        opened: bool,
        tells: bool,
        first: int,
        disk_writes: bool,
    ) -> None:
        self.editor.can_save = saves
        self.editor.disk_writes = disk_writes
        self.watches = watches
        self.editor.tells_dirty = tells
        self.editor.first_version = first
        if formats:
            self.editor.format = lambda text: re.sub(r"[ \t]+(?=\r?\n|$)", "", text)
        for name in ("a.txt", "b.txt"):
            lines = [f"{name[0]}{number} plain  " for number in range(8)]
            (self.folder / name).write_bytes((newline.join(lines) + newline).encode())
            if opened:
                self.editor.open(self.folder / name)
            self.read(name)

    # -- the user and other programs -----------------------------------------------------------------------------

    @rule(name=names)
    def open(self, name: str) -> None:
        self.editor.open(self.folder / name)

    @rule(name=names)
    def restore_in_background(self, name: str) -> None:
        path = self.folder / name
        if path not in self.editor.docs and path not in self.editor.unsynced:
            self.editor.restore_in_background(path, f"{self.word('u')}\n{unify(text_of(path))}")

    @rule(name=names)
    def close(self, name: str) -> None:
        doc = self.editor.docs.get(self.folder / name)
        if doc is not None and not doc.dirty:
            self.editor.close(doc.path)

    @rule(name=names, act=st.sampled_from(["type", "type", "save", "undo"]), spot=spots)
    def user_acts(self, name: str, act: str, spot: float) -> None:
        self._act(self.folder / name, act, spot)

    @rule(name=names, act=st.sampled_from(["external", "same_length"]), spot=spots)
    def program_writes(self, name: str, act: str, spot: float) -> None:
        self._act(self.folder / name, act, spot)

    @rule()
    def watcher_fires(self) -> None:
        self.editor.tick()

    # -- the agent -----------------------------------------------------------------------------------------------

    @rule(name=names)
    def read(self, name: str) -> None:
        path = self.folder / name
        self.knows[path] = self.run(self.workspace.read(path)).text

    @rule(name=names, spot=spots, count=st.integers(1, 3), meanwhile=acts)
    def read_and_edit(self, name: str, spot: float, count: int, meanwhile: list[tuple[Stage, str, float]]) -> None:
        self.read(name)
        self.edit(name, spot, count, meanwhile)

    @rule(name=names, first=spots, typed=spots, second=spots)
    def edit_type_and_edit(self, name: str, first: float, typed: float, second: float) -> None:
        self.read(name)
        self.edit(name, first, 1, [])
        self._act(self.folder / name, "type", typed)
        self.edit(name, second, 1, [])

    @rule(name=names, spot=spots)
    def edit_behind_a_restored_tab(self, name: str, spot: float) -> None:
        self.close(name)
        self.restore_in_background(name)
        self.edit(name, spot, 1, [])

    @rule(name=names, spot=spots, typed=spots, stage=st.sampled_from(["hold", "staged"]))
    def edit_while_it_is_opened_and_typed_in(self, name: str, spot: float, typed: float, stage: Stage) -> None:
        self.close(name)
        self.read(name)
        self.edit(name, spot, 1, [(stage, "open and type", typed)])

    @rule(name=names, spot=spots, count=st.integers(1, 3), meanwhile=acts)
    def edit(self, name: str, spot: float, count: int, meanwhile: list[tuple[Stage, str, float]]) -> None:
        path = self.folder / name
        lines = self.knows[path].split("\n")
        at = int(spot * (len(lines) - 1))
        quoted = lines[at : at + count]
        if self.knows[path].count("\n".join(quoted)) != 1 or not "".join(quoted).strip():
            return
        new = [f"{line.rstrip()} {self.word('g')}" for line in quoted[:-1]] + [self.word("g")]
        intent = Edit((Replacement(old="\n".join(quoted), new="\n".join(new)),))
        self.agent(path, intent, meanwhile, lambda: quoted[-1:], new)

    @rule(name=names, spot=spots, meanwhile=acts)
    def rewrite(self, name: str, spot: float, meanwhile: list[tuple[Stage, str, float]]) -> None:
        path = self.folder / name
        lines = self.knows[path].split("\n")
        at = int(spot * (len(lines) - 1))
        removed, new = lines[at], self.word("g")
        intent = Rewrite("\n".join([*lines[:at], new, *lines[at + 1 :]]))
        self.agent(path, intent, meanwhile, lambda: [removed], [new])

    @rule()
    def end_turn(self) -> None:
        if self.turns[-1].changes:
            self.turns.append(Turn())

    @rule()
    def undo_turn(self) -> None:
        turn = self.turns.pop()
        if not self.turns:
            self.turns.append(Turn())
        before = self.present()
        promised = self.run(self.workspace.undo(turn.changes, dry_run=True))
        self.check_nothing_lost(before, set())
        undone = self.run(self.workspace.undo(turn.changes))
        assert _without_way(undone) == _without_way(promised)
        self.check_nothing_lost(before, set())
        for change in undone.done:
            assert not turn.words & set(re.findall(r"g\d{5}", self.run(self.workspace.look(change.path)).text))
        if turn.changes and not undone.refused:
            self.undone.append(turn)

    @rule()
    def redo_turn(self) -> None:
        if not self.undone:
            return
        turn = self.undone.pop()
        before = self.present()
        redone = self.run(self.workspace.redo(turn.changes))
        self.check_nothing_lost(before, turn.removed)
        if not redone.refused:
            self.turns.append(turn)

    @rule()
    def save_own_edits(self) -> None:
        before = self.present()
        self.run(self.workspace.save_own_edits())
        self.check_nothing_lost(before, set())

    # -- laws ----------------------------------------------------------------------------------------------------

    @invariant()
    def the_view_is_what_the_user_sees(self) -> None:
        for path in sorted(self.folder.iterdir()):
            if path in self.editor.unsynced:
                continue
            view = self.run(self.workspace.look(path))
            doc = self.editor.docs.get(path)
            truth = {doc.text if doc is not None and doc.dirty else text_of(path)}
            if doc is not None and doc.text == doc.saved_text and doc.version != doc.saved_version:
                # Edited, and edited back: without a dirty flag nobody can tell whether that is saved.
                truth |= {doc.text, text_of(path)} if not self.editor.tells_dirty else set()
            assert view.text in {unify(text) for text in truth}
            if view.dirty and self.editor.tells_dirty:
                assert doc is not None
                assert doc.dirty

    def teardown(self) -> None:
        try:
            for path in sorted(self.folder.iterdir()):
                if path in self.editor.unsynced:
                    self.editor.open(path)
                doc = self.editor.docs.get(path)
                if doc is not None and doc.dirty:
                    doc.size = path.stat().st_size  # the user looks at the conflict and overwrites
                    assert self.editor.save_as_user(path)
                self.editor.tick()
                view = self.run(self.workspace.look(path))
                assert not view.dirty
                assert view.text == unify(text_of(path))
                assert doc is None or path not in self.editor.docs or unify(doc.text) == view.text
            self.run(self.workspace.aclose())
            assert [path.name for path in self.folder.iterdir() if path.name not in ("a.txt", "b.txt")] == []
        finally:
            self.patch.stop()
            self.runner.close()
            shutil.rmtree(self.folder)

    # -- inside --------------------------------------------------------------------------------------------------

    def agent(
        self,
        path: Path,
        intent: Edit | Rewrite,
        meanwhile: list[tuple[Stage, str, float]],
        removed_lines: Callable[[], list[str]],
        new: list[str],
    ) -> None:
        """The agent edits while others act, and nobody else's words are lost."""
        known = self.knows[path]
        undisturbed = (
            not meanwhile and path not in self.editor.unsynced and self.run(self.workspace.look(path)).text == known
        )
        removed = {word for line in removed_lines() for word in others_words(line)}
        before = self.present()
        for stage, act, spot in meanwhile:
            self.editor.meanwhile[stage].append(self.deferred(path, act, spot, before))
        try:
            approved: dict[str, str] = {}
            if not meanwhile:
                shown = self.run(self.workspace.preview(path, intent))
                approved = {str(path): shown.version}
            edited = self.run(self.workspace.apply(path, intent, approved))
        except ToolError:
            if undisturbed:
                raise
            self.check_nothing_lost(before, set())
            return
        finally:
            self.editor.meanwhile.clear()
        self.check_nothing_lost(before, removed)
        self.check_done(edited, new)
        if undisturbed:
            assert all(line in self.run(self.workspace.look(path)).text for line in new)
        if edited.change is not None:
            turn = self.turns[-1]
            turn.changes.append(edited.change)
            turn.removed |= removed
            turn.words |= set(re.findall(r"g\d{5}", " ".join(new))) - set(re.findall(r"g\d{5}", known))
            self.undone.clear()
        if self.editor.can_save:
            assert path not in self.editor.unsynced, "edited beside an unsaved document"
        self.knows[path] = self.run(self.workspace.read(path)).text

    def check_done(self, edited: Edited, new: list[str]) -> None:
        assert edited.change is not None
        assert edited.change.after is not None
        for word in re.findall(r"g\d{5}", " ".join(new)):
            assert word in decode(edited.change.after)[0]

    def deferred(self, path: Path, act: str, spot: float, before: dict[Path, set[str]]) -> Callable[[], None]:
        def happen() -> None:
            was = self.present()
            self._act(path, act, spot)
            now = self.present()
            # What others add meanwhile must survive too; what they remove themselves is gone.
            for place, words in before.items():
                words.update(now.get(place, ()))
                words.difference_update(was.get(place, set()) - now.get(place, set()))

        return happen

    def present(self) -> dict[Path, set[str]]:
        """Others' words, by the document or file they are in. A document is named by its path with a slash less."""
        found: dict[Path, set[str]] = {}
        for path in sorted(self.folder.iterdir()):
            found[path] = set(others_words(text_of(path)))
            doc = self.editor.docs.get(path) or self.editor.unsynced.get(path)
            if doc is not None:
                found[Path("document") / path.name] = set(others_words(doc.text))
        return found

    def check_nothing_lost(self, before: dict[Path, set[str]], permitted: set[str]) -> None:
        now = self.present()
        for place, words in before.items():
            where = now.get(place)
            if where is None:  # a hidden document was closed after it was saved
                where = now[self.folder / place.name]
            assert words - where - permitted - self.gone == set(), f"{place} lost words"

    def _act(self, path: Path, act: str, spot: float) -> None:
        doc = self.editor.docs.get(path)
        if act == "open and type" and path.exists():
            doc = self.editor.open(path)
        match act:
            case "type" | "open and type" if doc is not None:
                at = int(spot * len(doc.text))
                if doc.text[at - 1 : at] not in ("", "\n") and (end := doc.text.find("\n", at)) >= 0:
                    at = end - (doc.eol == "\r\n")  # whole words only, or another word would be taken apart
                elif at:
                    at = len(doc.text)
                text = f" {self.word('u')}" if spot * 7 % 1 < 0.5 else f"\n{self.word('u')}\n"
                self.editor.type(path, at, text)
            case "save" if doc is not None:
                self.editor.save_as_user(path)
            case "undo" if doc is not None:
                self.editor.undo(path)
            case "external":
                data = path.read_bytes()
                newline = b"\r\n" if b"\r\n" in data else b"\n"
                lines = data.split(newline)
                lines.insert(int(spot * len(lines)), self.word("p").encode())
                self._write(path, newline.join(lines))
            case "same_length":
                data = path.read_bytes()
                if found := re.search(rb"p\d{5}", data):
                    self._write(path, data.replace(found[0], self.word("p").encode()))
                    self.gone.add(found[0].decode())
            case "tick":
                self.editor.tick()
            case _:
                pass

    def _write(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        if self.watches:
            self.clock.later(0.15, self.editor.tick)

    def staged(self, path: Path, data: bytes, like: Disk | None) -> Staged:
        staged = Staged(path, data, like)
        self.editor.happen("staged")
        return staged

    def word(self, author: str) -> str:
        self.words += 1
        return f"{author}{self.words:05}"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)


def others_words(text: str) -> list[str]:
    return re.findall(r"[up]\d{5}", text)


def text_of(path: Path) -> str:
    return decode(path.read_bytes())[0]


TestInterleavings = Interleavings.TestCase
Interleavings.TestCase.settings = settings(
    max_examples=tries(60),
    stateful_step_count=60 if LONG else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def _without_way(undone: Undone) -> Undone:
    """Whether the buffer or the disk is written is decided when it is written: the editor may reload in between."""
    return Undone(tuple(replace(change, via="disk") for change in undone.done), undone.refused)
