"""A copy-on-write view of the workspace, in which a command changes nothing of it, and what the command changed there.

The view is an overlay file system in a user namespace of its own, or, where the system does not permit that, a copy of
a small workspace. `Processes.try_out` runs a command in it, without network. Promises: the workspace is only read; the
changes are complete, with the bytes before and after, or the reason is given why they are not.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilotfish.errors import ToolError
from pilotfish.workspace.sandbox.sandbox import SessionFolders

MAX_CHANGES = 2_000
MAX_CHANGED_BYTES = 64 << 20
MAX_WRITTEN_BYTES = 512 << 20
"""a command that writes more than this is stopped"""
MAX_COPIED_FILES = 20_000
MAX_COPIED_BYTES = 200 << 20

# The lower folder is bound to a plain name first: the options of `mount` have no way to quote every path.
MOUNT = """mount=$1; cd "$2" || exit 125; shift 2
layers=lowerdir=lower,upperdir=upper,workdir=work,userxattr
n=0
while [ "$1" != -- ]; do
  cd "$n" && "$mount" --rbind "$1" lower && "$mount" -t overlay -o "$layers" overlay merged || exit 125
  cd ..; n=$((n+1)); shift
done
shift
exec "$@"
"""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"
OPAQUE = "user.overlay.opaque"

Content = bytes | Path | None
"""a file's bytes, a link's target, or None where there is nothing"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file that a command made, changed or removed."""

    path: Path
    before: Content
    after: Content
    executable: bool = False
    """afterwards"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a command changed. `incomplete` says why that is not all, or not certain: then it must not be applied."""

    files: tuple[Change, ...] = ()
    removed_folders: tuple[Path, ...] = ()
    """folders that are gone with the files in them, the innermost first"""
    other: tuple[str, ...] = ()
    """what is no content of a file, in words: modes, hard links, folders without files"""
    incomplete: str = ""


class View:
    """A copy-on-write view of the roots, kept in `folder`; `identity` is the user's for git. Blocking throughout."""

    def __init__(self, folder: Path, roots: Sequence[Path], identity: str) -> None:
        self._folder = folder
        self._roots = tuple(roots)
        self._since = time.time_ns()
        self._kind: Literal["overlay", "copy"] = "overlay" if overlay_works() else "copy"
        if self._kind == "copy":
            _check_size(self._roots)
        for number, root in enumerate(self._roots):
            place = folder / str(number)
            for name in ("lower", "upper", "work", "merged"):
                (place / name).mkdir(parents=True)
            if self._kind == "copy":
                shutil.copytree(root, place / "merged", symlinks=True, dirs_exist_ok=True)
        self.folders = SessionFolders(folder / "session")
        """a home and a `/tmp` that are thrown away too"""
        self.folders.base.mkdir()
        self.folders.make(identity)
        self._copied = _size(folder)
        self._usual_mode = _mode(folder / "session/gitconfig")
        self._usual_folder_mode = _mode(folder)

    @property
    def prefix(self) -> list[str]:
        """In front of bubblewrap's command line."""
        return _prefix(self._folder, self._roots) if self._kind == "overlay" else []

    @property
    def sources(self) -> dict[Path, Path]:
        """root → what is shown in its place"""
        return {root: self._folder / str(number) / "merged" for number, root in enumerate(self._roots)}

    def written(self) -> int:
        """Bytes that the command has written so far, more or less."""
        return _size(self._folder) - self._copied

    def changes(self) -> Changes:
        """What is different now. Files that somebody else changed meanwhile make it incomplete."""
        found: list[Change] = []
        other: list[str] = []
        total = 0
        try:
            for path, after in self._pairs():
                change = _change(path, after)
                other += self._of_its_mode(path, after)
                if change is None:
                    continue
                found.append(change)
                total += sum(len(side) for side in (change.before, change.after) if isinstance(side, bytes))
                if len(found) > MAX_CHANGES or total > MAX_CHANGED_BYTES:
                    raise _Unfit("the command changed too much to be shown")
                if os.path.lexists(path) and path.lstat().st_ctime_ns >= self._since:
                    raise _Unfit(f"{path} was changed by somebody else meanwhile")
            removed, words = self._folder_changes(found)
        except (_Unfit, OSError) as error:
            return Changes(files=tuple(found), incomplete=str(error))
        except RecursionError:
            return Changes(files=tuple(found), incomplete="the command made folders that are nested too deeply")
        files = tuple(sorted(found, key=lambda change: change.path))
        return Changes(files=files, removed_folders=removed, other=(*other, *words))

    def _pairs(self) -> Iterator[tuple[Path, Path | None]]:
        """Each file that may be different, and where it is now; None where it was removed."""
        for number, root in enumerate(self._roots):
            place = self._folder / str(number)
            yield from _overlaid(root, place / "upper") if self._is_overlay else _differing(root, place / "merged")

    @property
    def _is_overlay(self) -> bool:
        return self._kind == "overlay"

    def _of_its_mode(self, path: Path, now: Path | None) -> Iterator[str]:
        """What an edit of the content would not give the file: another mode, a hard link."""
        if now is None or now.is_symlink():
            return
        status = now.lstat()
        before = _mode(path) if path.is_file() and not path.is_symlink() else self._usual_mode
        if stat.S_IMODE(status.st_mode) != before:
            yield f"it gives {path.name} the mode {stat.S_IMODE(status.st_mode):o}"
        if status.st_nlink > 1 and (self._is_overlay or not path.exists()):
            yield f"it makes {path.name} a hard link"

    def _folder_changes(self, files: Sequence[Change]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
        """The folders that are gone with their files, and in words what else happened to folders."""
        filled = {above for change in files if change.after is not None for above in change.path.parents}
        emptied = {above for change in files if change.after is None for above in change.path.parents}
        removed: list[Path] = []
        words: list[str] = []
        for number, root in enumerate(self._roots):
            place = self._folder / str(number)
            for path, now in _folders(root, place / ("upper" if self._is_overlay else "merged"), self._is_overlay):
                if now is None:
                    removed.append(path)
                    words += [] if path in emptied else [f"it removes the empty folder {path.name}"]
                    continue
                was = path.is_dir() and not path.is_symlink()
                if not was and path not in filled:
                    words.append(f"it makes the empty folder {path.name}")
                if _mode(now) != (_mode(path) if was else self._usual_folder_mode):
                    words.append(f"it gives the folder {path.name} the mode {_mode(now):o}")
        return tuple(sorted(removed, key=lambda path: len(path.parts), reverse=True)), tuple(words)


class _Unfit(Exception):
    """Changes that cannot be given as bytes before and after."""


@functools.cache
def overlay_works() -> bool:
    """Whether this system lets us mount an overlay, tried once."""
    if any(_program(name) is None for name in ("unshare", "mount", "sh")):
        return False
    with tempfile.TemporaryDirectory(prefix="pilotfish-trial-") as name:
        folder, root = Path(name) / "view", Path(name) / "root"
        root.mkdir()
        for part in ("lower", "upper", "work", "merged"):
            (folder / "0" / part).mkdir(parents=True)
        probe = [*_prefix(folder, (root,)), "touch", str(folder / "0/merged/made")]
        try:
            done = subprocess.run(probe, capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return False
        made = (folder / "0/upper/made").exists() and not (root / "made").exists()
        return done.returncode == 0 and made


def _prefix(folder: Path, roots: Sequence[Path]) -> list[str]:
    unshare, mount, sh = (_program(name) or name for name in ("unshare", "mount", "sh"))
    options = ["--user", "--map-root-user", "--mount"]
    return [unshare, *options, sh, "-c", MOUNT, "sh", mount, str(folder), *map(str, roots), "--"]


def _program(name: str) -> str | None:
    """A program of the system: these run outside the sandbox, so the workspace must not provide them."""
    return shutil.which(name, path=SYSTEM_PATH)


def _check_size(roots: Sequence[Path]) -> None:
    files = size = 0
    for root in roots:
        for _, status in _walk(root):
            files, size = files + 1, size + status.st_size
            if files > MAX_COPIED_FILES or size > MAX_COPIED_BYTES:
                raise ToolError("The workspace is too large to be copied, and this system permits no overlay")


def _size(folder: Path) -> int:
    return sum(status.st_size for _, status in _walk(folder) if stat.S_ISREG(status.st_mode))


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below that is no folder. Links are not followed. `os.walk` calls itself for each level, and a command
    can nest folders deeper than that works."""
    pending = [str(folder)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                    continue
                with contextlib.suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _overlaid(lower: Path, upper: Path) -> Iterator[tuple[Path, Path | None]]:
    """Each file that an upper folder makes different, and where it is now; None where it was removed."""
    with os.scandir(upper) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            below, now = lower / entry.name, Path(entry.path)
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                yield from _removed(below)
            elif stat.S_ISDIR(status.st_mode):
                if below.is_symlink() or not below.is_dir():
                    yield from _removed(below)
                elif _is_opaque(now):
                    hidden = (path for path, _ in _walk(below))
                    yield from ((path, None) for path in hidden if not os.path.lexists(now / path.relative_to(below)))
                yield from _overlaid(below, now)
            else:
                if below.is_dir() and not below.is_symlink():
                    yield from _removed(below)
                yield below, now


def _differing(before: Path, after: Path) -> Iterator[tuple[Path, Path | None]]:
    for path, _ in _walk(after):
        yield before / path.relative_to(after), path
    for path, _ in _walk(before):
        now = after / path.relative_to(before)
        if not os.path.lexists(now) or (now.is_dir() and not now.is_symlink()):
            yield path, None


def _folders(before: Path, after: Path, overlaid: bool) -> Iterator[tuple[Path, Path | None]]:
    """Each folder that may be different, and where it is now; None where it was removed."""
    for place, names, _ in os.walk(after):
        for now in (Path(place, name) for name in names):
            if not now.is_symlink():
                yield before / now.relative_to(after), now
    for top in _hidden_folders(before, after) if overlaid else (before,):
        for place, _, _ in os.walk(top):
            now = after / Path(place).relative_to(before)
            if not now.is_dir() or now.is_symlink():
                yield Path(place), None


def _hidden_folders(lower: Path, upper: Path) -> Iterator[Path]:
    """The folders below that the upper folder takes away: with what is in them, unless the upper folder has it too."""
    with os.scandir(upper) as entries:
        for entry in entries:
            below, now = lower / entry.name, Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if _is_opaque(now):
                    yield below
                yield from _hidden_folders(below, now)
            elif below.is_dir() and not below.is_symlink():
                yield below


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def _removed(path: Path) -> Iterator[tuple[Path, Path | None]]:
    if path.is_dir() and not path.is_symlink():
        yield from ((inner, None) for inner, _ in _walk(path))
    elif os.path.lexists(path):
        yield path, None


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def _change(path: Path, now: Path | None) -> Change | None:
    """None if nothing is different."""
    before, was_executable = _content(path)
    after, executable = _content(now) if now is not None else (None, False)
    if before == after and executable == was_executable:
        return None
    return Change(path=path, before=before, after=after, executable=executable)


def _content(path: Path) -> tuple[Content, bool]:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None, False
    if stat.S_ISLNK(status.st_mode):
        return path.readlink(), False
    if stat.S_ISDIR(status.st_mode):
        return None, False
    if not stat.S_ISREG(status.st_mode):
        raise _Unfit(f"{path.name} is neither a file nor a link")
    if status.st_size > MAX_CHANGED_BYTES:
        raise _Unfit("the command changed too much to be shown")
    return path.read_bytes(), bool(status.st_mode & 0o100)
