"""Changes files on disk atomically, and only if they have not changed since they were read.

New bytes are written beside the file, synced, and renamed over it; a new file is linked into place, so that it never
replaces one that came meanwhile. Where the system cannot do that, the file itself is written, and put back if that
fails.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from pathlib import Path

from pilotfish.errors import ToolError
from pilotfish.workspace.files.disk import Disk, Moved, check_same, folder_of, name_in, os_errors

_WRITE = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEW = _WRITE | os.O_CREAT | os.O_EXCL
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class Staged:
    """New content of a file, synced to a temporary file beside it. Call `commit` or `discard` once."""

    def __init__(self, path: Path, data: bytes, like: Disk | None) -> None:
        self.path = path
        self._data = data
        self._like = like
        self._temporary: str | None = None
        with os_errors(path):
            if like is not None and not os.access(path, os.W_OK):
                raise ToolError(f"{path} is read-only")
            with folder_of(path.parent, make=like is None) as folder:
                self._write(folder)

    def _write(self, folder: int | None) -> None:
        name = f".pilotfish-{secrets.token_hex(8)}.tmp"
        target, at = name_in(self.path.parent / name, folder)
        # A new file gets the user's usual rights; one that replaces another is private until it has the other's.
        try:
            handle = os.open(target, _NEW, 0o666 if self._like is None else 0o600, dir_fd=at)
        except PermissionError:
            if self._like is None:
                raise
            return  # the directory takes no new file, the file itself may still be written
        try:
            with open(handle, "wb", buffering=0) as file:  # noqa: PTH123 -- an open descriptor has no path
                _write_all(file.fileno(), self._data)
                if self._like is not None:
                    _copy_attributes(file.fileno(), self.path, self._like)
                os.fsync(file.fileno())
        except BaseException:
            os.unlink(target, dir_fd=at)
            raise
        self._temporary = name

    def commit(self) -> None:
        """Replace the file. Raises `Moved` if the file changed since it was read."""
        with os_errors(self.path), folder_of(self.path.parent) as folder:
            try:
                if self._like is None:
                    self._create(folder)
                else:
                    self._replace(folder, self._like)
            except BaseException:
                self._drop(folder)
                raise

    def discard(self) -> None:
        with contextlib.suppress(OSError, ToolError), folder_of(self.path.parent) as folder:
            self._drop(folder)

    def _create(self, folder: int | None) -> None:
        source, at = name_in(self.path.parent / str(self._temporary), folder)
        target, _ = name_in(self.path, folder)
        try:
            os.link(source, target, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
        except FileExistsError as error:
            raise Moved from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._create_in_place(target, at)
        self._drop(folder)
        _sync_folder(folder)

    def _create_in_place(self, target: str, at: int | None) -> None:
        try:
            handle = os.open(target, _NEW, 0o666, dir_fd=at)
        except FileExistsError as error:
            raise Moved from error
        try:
            with open(handle, "wb", buffering=0) as file:  # noqa: PTH123 -- an open descriptor has no path
                _write_all(file.fileno(), self._data)
                os.fsync(file.fileno())
        except BaseException:
            os.unlink(target, dir_fd=at)
            raise

    def _replace(self, folder: int | None, like: Disk) -> None:
        check_same(self.path, folder, like)
        target, at = name_in(self.path, folder)
        if self._temporary is not None:
            source, _ = name_in(self.path.parent / self._temporary, folder)
            try:
                os.replace(source, target, src_dir_fd=at, dst_dir_fd=at)
            except OSError as error:
                if error.errno != errno.EBUSY:  # a mount point: it can be written, not replaced
                    raise
            else:
                self._temporary = None
                _sync_folder(folder)
                return
        _overwrite(target, at, self._data, like.data)
        self._drop(folder)

    def _drop(self, folder: int | None) -> None:
        if self._temporary is not None:
            target, at = name_in(self.path.parent / self._temporary, folder)
            with contextlib.suppress(OSError):
                os.unlink(target, dir_fd=at)
            self._temporary = None


def remove(path: Path, expected: Disk) -> None:
    """Delete the file. Raises `Moved` if it changed since it was read."""
    with os_errors(path), folder_of(path.parent) as folder:
        check_same(path, folder, expected)
        target, at = name_in(path, folder)
        os.unlink(target, dir_fd=at)
        _sync_folder(folder)


def rename(old: Path, new: Path, expected: Disk) -> None:
    """Move a file. Raises `FileExistsError` instead of overwriting, and `Moved` if the file changed."""
    with os_errors(old), folder_of(old.parent) as source, folder_of(new.parent, make=True) as destination:
        check_same(old, source, expected)
        (name, at), (target, to) = name_in(old, source), name_in(new, destination)
        if new.exists() and old.samefile(new) and old.name.casefold() == new.name.casefold():
            os.rename(name, target, src_dir_fd=at, dst_dir_fd=to)  # only its case changes, on a disk that has none
            return
        try:
            os.link(name, target, src_dir_fd=at, dst_dir_fd=to, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if new.exists() or new.is_symlink():
                raise FileExistsError(errno.EEXIST, "exists", str(new)) from error
            os.rename(name, target, src_dir_fd=at, dst_dir_fd=to)
        else:
            os.unlink(name, dir_fd=at)
        _sync_folder(destination)


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _overwrite(target: str, at: int | None, data: bytes, before: bytes) -> None:
    """Write into the file itself; if that fails half way, put back what was there."""
    with open(os.open(target, _WRITE, dir_fd=at), "wb", buffering=0) as file:  # noqa: PTH123 -- an open descriptor has no path
        try:
            _write_all(file.fileno(), data)
            file.truncate(len(data))
            os.fsync(file.fileno())
        except OSError:
            file.seek(0)
            _write_all(file.fileno(), before)
            file.truncate(len(before))
            raise


def _copy_attributes(handle: int, path: Path, like: Disk) -> None:
    """Copy owner, mode and extended attributes of the replaced file; an owner that cannot be set is ignored."""
    if hasattr(os, "fchown") and like.owner != (os.fstat(handle).st_uid, os.fstat(handle).st_gid):
        with contextlib.suppress(OSError):
            os.fchown(handle, *like.owner)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, like.mode)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not every file system has them, not every one may be given
            for name in os.listxattr(path, follow_symlinks=False):
                os.setxattr(handle, name, os.getxattr(path, name, follow_symlinks=False))


def _sync_folder(folder: int | None) -> None:
    if folder is None:
        return
    with contextlib.suppress(OSError):  # some file systems do not sync directories
        handle = os.open(".", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0), dir_fd=folder)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
