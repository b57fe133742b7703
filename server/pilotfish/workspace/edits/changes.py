"""The changes that calls made to files, and the steps that undo and redo them.

Pure. `steps` says for a turn's changes what each file must be now and what it shall become; the workspace takes the
steps, each only if the file is still what it must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pilotfish.errors import Refused
from pilotfish.workspace.edits.hunks import Conflict, diff, rebase
from pilotfish.workspace.files.encoding import decode, encode, form_of, in_form, replace, unify


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file as a call changed it. Texts are bytes: what is put back is exactly what was there.

    `None` means that the file did not exist. For "renamed", `old_path` is where it was.
    """

    path: Path
    change: Literal["created", "edited", "deleted", "renamed"]
    before: bytes | None
    after: bytes | None
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    old_path: Path | None = None


class Refusal(NamedTuple):
    """A file that was not restored, and the reason."""

    path: Path
    why: str


class Undone(NamedTuple):
    """What an undo or redo did (or would do), and what it refused."""

    done: tuple[FileChange, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One file of an undo or redo."""

    path: Path
    now: bytes | None
    """the content that it must have now"""
    target: Path
    then: bytes | None
    """the content that it gets, at `target`"""


def steps(
    changes: Sequence[FileChange], direction: Literal["undo", "redo"]
) -> tuple[tuple[UndoStep, ...], tuple[Refusal, ...]]:
    """Where others changed a file between two changes of the turn, their part is kept; if it cannot be separated from
    the agent's, the file is refused."""
    found: list[UndoStep] = []
    refused: list[Refusal] = []
    for chain in _chains(changes):
        first, last = chain[0], chain[-1]
        origin = first.old_path or first.path
        try:
            original = _unwound(chain)
        except Conflict:
            refused.append(Refusal(last.path, "it was also changed by somebody else during the turn"))
            continue
        if last.path == origin and last.after == original:
            continue
        if direction == "undo":
            found.append(UndoStep(last.path, last.after, origin, original))
        else:
            found.append(UndoStep(origin, original, last.path, last.after))
    # What was made last is put back first, so that a path is free before another file returns to it.
    return tuple(reversed(found) if direction == "undo" else found), tuple(refused)


def _chains(changes: Sequence[FileChange]) -> list[list[FileChange]]:
    """The changes of each file in order, through its renames."""
    chains: dict[Path, list[FileChange]] = {}
    order: list[list[FileChange]] = []
    for change in changes:
        known = chains.pop(change.old_path or change.path, None)
        chain: list[FileChange] = [] if known is None else known
        if known is None:
            order.append(chain)
        chain.append(change)
        chains[change.path] = chain
    return order


def _unwound(chain: Sequence[FileChange]) -> bytes | None:
    """The file without the agent's changes. `Conflict` when others changed the same lines in between."""
    state = chain[-1].after
    for change in reversed(chain):
        state = change.before if state == change.after else _without(change, state)
    return state


def _without(change: FileChange, state: bytes | None) -> bytes:
    if state is None or change.before is None or change.after is None:
        raise Conflict(())
    try:
        before, after = unify(decode(change.before)[0]), unify(decode(change.after)[0])
        exact, encoding, bom = decode(state)
    except Refused as error:
        raise Conflict(()) from error
    current = unify(exact)
    form = form_of(exact, encoding, bom)
    return encode(replace(exact, in_form(rebase(diff(after, before), after, current), exact, form)), form)
