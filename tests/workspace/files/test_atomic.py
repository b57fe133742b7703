from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from pilotfish.errors import Refused, ToolError
from pilotfish.workspace.files import atomic
from pilotfish.workspace.files.atomic import Staged, remove, rename
from pilotfish.workspace.files.disk import Disk, Moved, read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def made(path: Path, data: bytes) -> Disk:
    path.write_bytes(data)
    found = read(path)
    assert found is not None
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(folder: Path) -> None:
    like = made(folder / "x", b"old")
    Staged(folder / "x", b"new", like).commit()
    assert (folder / "x").read_bytes() == b"new"
    assert names(folder) == ["x"]


def test_until_the_commit_the_file_is_the_old_one(folder: Path) -> None:
    like = made(folder / "x", b"old")
    staged = Staged(folder / "x", b"new", like)
    assert (folder / "x").read_bytes() == b"old"
    staged.discard()
    assert names(folder) == ["x"]


def test_a_new_file_is_made_with_its_directories(folder: Path) -> None:
    Staged(folder / "a/b/x", b"new", None).commit()
    assert (folder / "a/b/x").read_bytes() == b"new"
    assert names(folder / "a/b") == ["x"]


def test_a_new_file_has_the_users_usual_rights(folder: Path) -> None:
    before = os.umask(0o027)
    try:
        Staged(folder / "x", b"new", None).commit()
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "x").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o2750])
def test_rights_are_kept(folder: Path, mode: int) -> None:
    (folder / "x").touch()
    (folder / "x").chmod(mode)
    like = made(folder / "x", b"#!/bin/sh\n")
    Staged(folder / "x", b"new", like).commit()
    assert stat.S_IMODE((folder / "x").stat().st_mode) == mode


def test_a_private_file_is_never_readable_by_others_on_the_way(folder: Path) -> None:
    (folder / "x").touch(0o600)
    staged = Staged(folder / "x", b"secret", made(folder / "x", b"old"))
    (temporary,) = (path for path in folder.iterdir() if path.name != "x")
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    staged.discard()


def test_attributes_are_kept_where_there_are_any(folder: Path) -> None:
    like = made(folder / "x", b"old")
    try:
        os.setxattr(folder / "x", "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes")
    Staged(folder / "x", b"new", like).commit()
    assert os.getxattr(folder / "x", "user.note") == b"mine"


def test_a_file_that_changed_meanwhile_is_not_replaced(folder: Path) -> None:
    like = made(folder / "x", b"old")
    staged = Staged(folder / "x", b"new", like)
    (folder / "x").write_bytes(b"abc")  # the same length, perhaps the same tick of the clock
    with pytest.raises(Moved):
        staged.commit()
    assert (folder / "x").read_bytes() == b"abc"
    assert names(folder) == ["x"]


def test_a_file_that_vanished_meanwhile_is_not_made_again(folder: Path) -> None:
    staged = Staged(folder / "x", b"new", made(folder / "x", b"old"))
    (folder / "x").unlink()
    with pytest.raises(Moved):
        staged.commit()
    assert names(folder) == []


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_a_new_file_never_replaces_one_that_came_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    staged = Staged(folder / "x", b"new", None)
    (folder / "x").write_bytes(b"theirs")
    with pytest.raises(Moved):
        staged.commit()
    assert (folder / "x").read_bytes() == b"theirs"
    assert names(folder) == ["x"]


def test_a_disk_without_links_gets_its_file_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", _no_links)
    Staged(folder / "x", b"new", None).commit()
    assert (folder / "x").read_bytes() == b"new"
    assert names(folder) == ["x"]


def test_a_directory_swapped_for_a_link_meanwhile_is_not_written_through(folder: Path) -> None:
    (folder / "dir").mkdir()
    (folder / "elsewhere").mkdir()
    staged = Staged(folder / "dir/x", b"new", None)
    (folder / "dir").rename(folder / "moved")
    (folder / "dir").symlink_to("elsewhere")
    with pytest.raises(Refused, match="was replaced by a link"):
        staged.commit()
    assert names(folder / "elsewhere") == []


def test_a_file_that_is_read_only_stays_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    like = made(folder / "x", b"old")

    def denied(_path: Path, _mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", denied)  # root may write everything
    with pytest.raises(ToolError, match="is read-only"):
        Staged(folder / "x", b"new", like)
    assert names(folder) == ["x"]


def test_a_full_disk_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    like = made(folder / "x", b"old")

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolError, match="No space left on device"):
        Staged(folder / "x", b"new", like)
    with pytest.raises(ToolError, match="No space left on device"):
        Staged(folder / "y", b"new", None)
    assert names(folder) == ["x"]
    assert (folder / "x").read_bytes() == b"old"


def test_where_the_directory_takes_no_file_the_file_itself_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like = made(folder / "x", b"something longer")
    really = os.open

    def closed(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "denied")
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", closed)
    Staged(folder / "x", b"new", like).commit()
    assert (folder / "x").read_bytes() == b"new"
    assert names(folder) == ["x"]
    with pytest.raises(ToolError, match="permission denied"):
        Staged(folder / "y", b"new", None)


def test_a_mounted_file_is_written_in_place_and_put_back_when_that_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like = made(folder / "x", b"something longer")

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(os, "replace", busy)
    Staged(folder / "x", b"new", like).commit()
    assert (folder / "x").read_bytes() == b"new"
    like = made(folder / "x", b"before")
    staged = Staged(folder / "x", b"half", like)
    really = atomic._write_all
    writes = 0

    def fail_once(handle: int, data: bytes) -> None:
        nonlocal writes
        writes += 1
        really(handle, data[:2] if writes == 1 else data)
        if writes == 1:
            raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(atomic, "_write_all", fail_once)
    with pytest.raises(ToolError, match="broken"):
        staged.commit()
    assert (folder / "x").read_bytes() == b"before"
    assert names(folder) == ["x"]


def test_a_file_is_removed_only_as_it_was(folder: Path) -> None:
    like = made(folder / "x", b"old")
    (folder / "x").write_bytes(b"new")
    with pytest.raises(Moved):
        remove(folder / "x", like)
    (folder / "x").write_bytes(b"old")
    remove(folder / "x", like)
    assert names(folder) == []


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_a_file_is_renamed_and_never_onto_another(folder: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    like = made(folder / "x", b"text")
    rename(folder / "x", folder / "sub/y", like)
    assert (names(folder), names(folder / "sub")) == (["sub"], ["y"])
    made(folder / "z", b"other")
    with pytest.raises(FileExistsError):
        rename(folder / "sub/y", folder / "z", like)
    assert (folder / "z").read_bytes() == b"other"
    assert (folder / "sub/y").read_bytes() == b"text"


def test_a_dangling_link_is_not_renamed_onto(folder: Path) -> None:
    like = made(folder / "x", b"text")
    (folder / "y").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        rename(folder / "x", folder / "y", like)


def _no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "no links here")
