"""Reads files on disk safely.

Every path that comes here is resolved: none of its parts was a symbolic link when it was judged. The way to a file
is walked again part by part without following links, so that a link put there since is refused, not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from pilotfish.errors import Refused, ToolError
from pilotfish.workspace.files.encoding import MAX_TEXT_BYTES

_WALKS = os.open in os.supports_dir_fd
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW | _CLOEXEC | getattr(os, "O_PATH", 0)
_COMMON = _NOFOLLOW | _CLOEXEC | getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | _COMMON | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

MAX_SCANNED = 2 << 30  # bytes of a big file passed over to reach a line
MAX_WINDOW = 1 << 20  # bytes of a big file given at once

_KINDS = (
    (stat.S_ISDIR, "a directory; use list_dir"),
    (stat.S_ISFIFO, "a pipe, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
    (stat.S_ISCHR, "a device, not a file"),
    (stat.S_ISBLK, "a device, not a file"),
    (stat.S_ISLNK, "a link that was created after the path was checked"),
)


@dataclass(frozen=True, slots=True)
class Disk:
    """The content of a file at one moment, and an identity that changes with it."""

    data: bytes
    identity: str
    mode: int
    owner: tuple[int, int]
    modified: float
    """seconds since the epoch"""


@dataclass(frozen=True, slots=True)
class Window:
    """Some lines of a file that is too big to be read whole."""

    lines: tuple[bytes, ...]
    size: int
    """of the file, in bytes"""
    more: bool
    """the file goes on"""


class TooBig(Refused):
    """The file has more bytes than are read at once."""


class Moved(Exception):
    """The file changed since it was read."""


def read(path: Path, limit: int = MAX_TEXT_BYTES) -> Disk | None:
    """The file, or None when there is none. Never waits on a pipe or device; never more than `limit` bytes."""
    with os_errors(path):
        try:
            with folder_of(path.parent) as folder:
                return _read(path, folder, limit)
        except FileNotFoundError:
            return None


def window(path: Path, first: int, count: int) -> Window:
    """Lines from the `first` (counting from 1), read on the way through the file; not the file."""
    with os_errors(path), folder_of(path.parent) as folder:
        name, at = name_in(path, folder)
        _regular(path, os.stat(name, dir_fd=at, follow_symlinks=False))
        with open(os.open(name, _READ, dir_fd=at), "rb") as file:  # noqa: PTH123 -- an open descriptor has no path
            size = os.fstat(file.fileno()).st_size
            before, found, gathered = 1, list[bytes](), 0
            while before < first and (block := file.read(1 << 20)):
                ends = block.count(b"\n")
                if before + ends >= first:
                    inner = _after_lines(block, first - before)
                    file.seek(inner - len(block), os.SEEK_CUR)
                    break
                before += ends
                if file.tell() > MAX_SCANNED:
                    raise TooBig(
                        f"{path}: line {first} is too far from the start; use a command such as sed -n {first},+100p"
                    )
            while len(found) < count and gathered < MAX_WINDOW and (line := file.readline(MAX_WINDOW)):
                found.append(line.rstrip(b"\r\n"))
                gathered += len(line)
            return Window(tuple(found), size, more=bool(file.read(1)))


def identity(path: Path) -> str | None:
    """The current `Disk.identity`, without reading the file. None if there is no file."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return _identity(found) if stat.S_ISREG(found.st_mode) else None


@contextlib.contextmanager
def folder_of(path: Path, *, make: bool = False) -> Generator[int | None]:
    """A descriptor of this directory, reached without following a link; None where the system has no such way."""
    if not _WALKS:
        if make:
            path.mkdir(parents=True, exist_ok=True)
        yield None
        return
    handle = os.open(path.anchor or "/", _DIRECTORY & ~_NOFOLLOW)
    try:
        for part in path.parts[1:]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            try:
                inner = os.open(part, _DIRECTORY, dir_fd=handle)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(part, handle):
                    raise Refused(f"{path}: {part} was replaced by a link") from error
                raise
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def check_same(path: Path, folder: int | None, expected: Disk) -> None:
    """`Moved` unless the file still holds these bytes."""
    name, handle = name_in(path, folder)
    try:
        _regular(path, os.stat(name, dir_fd=handle, follow_symlinks=False))
        with open(os.open(name, _READ, dir_fd=handle), "rb", buffering=0) as file:  # noqa: PTH123 -- has no path
            at = 0
            while piece := os.read(file.fileno(), 1 << 20):
                if expected.data[at : at + len(piece)] != piece:
                    raise Moved
                at += len(piece)
    except (FileNotFoundError, Refused) as error:
        raise Moved from error
    if at != len(expected.data):
        raise Moved


def name_in(path: Path, folder: int | None) -> tuple[str, int | None]:
    """How to name a file to the system: by its name in the open directory, or by its path where there is none."""
    return (str(path), None) if folder is None else (path.name, folder)


@contextlib.contextmanager
def os_errors(path: Path) -> Generator[None]:
    """Turns OSError into ToolError with a message for the model. FileNotFoundError and FileExistsError pass."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except PermissionError as error:
        raise ToolError(f"{path}: permission denied") from error
    except NotADirectoryError as error:
        raise ToolError(f"{path}: a part of this path is a file, not a directory") from error
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}") from error


def _read(path: Path, folder: int | None, limit: int) -> Disk:
    name, at = name_in(path, folder)
    _regular(path, os.stat(name, dir_fd=at, follow_symlinks=False))  # opening a device may already do something
    found, data = _read_once(path, name, at, limit)
    for _ in range(4):
        if _identity(os.stat(name, dir_fd=at, follow_symlinks=False)) == _identity(found):
            break
        found, data = _read_once(path, name, at, limit)  # somebody was writing: not half of it
    return _disk(found, data)


def _read_once(path: Path, name: str, at: int | None, limit: int) -> tuple[os.stat_result, bytes]:
    with open(os.open(name, _READ, dir_fd=at), "rb", buffering=0) as file:  # noqa: PTH123 -- an open descriptor has no path
        found = os.fstat(file.fileno())
        _regular(path, found)
        if found.st_size > limit:
            raise TooBig(_too_big(path, found.st_size, limit))
        data = _read_all(file.fileno(), limit)
        if len(data) > limit:
            raise TooBig(_too_big(path, len(data), limit))
        return found, data


def _disk(found: os.stat_result, data: bytes) -> Disk:
    mode = stat.S_IMODE(found.st_mode)
    return Disk(data, _identity(found), mode, (found.st_uid, found.st_gid), found.st_mtime)


def _regular(path: Path, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    for test, words in _KINDS:
        if test(found.st_mode):
            raise Refused(f"{path} is {words}")
    raise Refused(f"{path} is not a file")


def _identity(found: os.stat_result) -> str:
    return f"disk:{found.st_dev:x}.{found.st_ino:x}.{found.st_size:x}.{found.st_mtime_ns:x}.{found.st_ctime_ns:x}"


def _is_link(name: str, folder: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _read_all(handle: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= limit and (piece := os.read(handle, 1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _after_lines(block: bytes, count: int) -> int:
    at = 0
    for _ in range(count):
        at = block.index(b"\n", at) + 1
    return at


def _too_big(path: Path, size: int, limit: int) -> str:
    return (
        f"{path} is too big ({size / 1e6:,.1f} MB; the limit is {limit / 1e6:,.0f} MB). "
        "Use grep, or read_file with offset and limit, or a command"
    )
