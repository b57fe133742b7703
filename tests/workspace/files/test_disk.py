from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pilotfish.errors import Refused, ToolError
from pilotfish.workspace.files import disk
from pilotfish.workspace.files.disk import TooBig, Window, identity, read, window

ROOT = os.geteuid() == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def data(path: Path) -> bytes | None:
    found = read(path)
    return None if found is None else found.data


def test_a_file_is_read(folder: Path) -> None:
    (folder / "x").write_bytes(b"a\0b")
    assert data(folder / "x") == b"a\0b"


def test_what_is_not_there_is_none(folder: Path) -> None:
    assert data(folder / "x") is None
    assert data(folder / "no/such/x") is None
    assert identity(folder / "x") is None


def test_a_path_through_a_file_is_an_error(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(ToolError, match="a part of this path is a file"):
        read(folder / "file/x")


def test_a_directory_is_refused_with_advice(folder: Path) -> None:
    with pytest.raises(Refused, match="is a directory; use list_dir"):
        read(folder)


def test_a_pipe_never_blocks(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(Refused, match="is a pipe"):
        read(folder / "pipe")
    with pytest.raises(Refused, match="is a pipe"):
        window(folder / "pipe", 1, 1)


def test_a_socket_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(Refused, match="is a socket"):
            read(folder / "s")


def test_a_device_is_refused() -> None:
    with pytest.raises(Refused, match="is a device"):
        read(Path("/dev/null"))


def test_a_file_that_became_a_link_is_not_followed(folder: Path) -> None:
    (folder / "secret").write_text("s")
    (folder / "x").symlink_to("secret")
    with pytest.raises(Refused, match="a link that was created after"):
        read(folder / "x")


def test_a_directory_that_became_a_link_is_not_followed(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real/x").write_text("s")
    (folder / "link").symlink_to("real")
    with pytest.raises(Refused, match="link was replaced by a link"):
        read(folder / "link/x")


def test_a_link_that_appears_after_the_last_check_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking at a name and opening it the name is made a link."""
    (folder / "secret").write_text("s")
    (folder / "x").write_text("harmless")
    really = disk._regular

    def swap(path: Path, found: os.stat_result) -> None:
        really(path, found)
        if not path.is_symlink():
            path.unlink()
            path.symlink_to("secret")

    monkeypatch.setattr(disk, "_regular", swap)
    with pytest.raises(ToolError, match="symbolic links"):
        read(folder / "x")


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_permission_denied_is_said(folder: Path) -> None:
    (folder / "x").touch(0)
    with pytest.raises(ToolError, match="permission denied"):
        read(folder / "x")


def test_a_name_that_is_too_long_is_an_error(folder: Path) -> None:
    with pytest.raises(ToolError, match="File name too long"):
        read(folder / ("x" * 300))


def test_a_file_over_the_limit_is_refused_with_advice(folder: Path) -> None:
    (folder / "x").write_bytes(b"x" * 11)
    with pytest.raises(TooBig, match=r"too big .* Use grep, or read_file with offset"):
        read(folder / "x", limit=10)
    found = read(folder / "x", limit=11)
    assert found is not None


def test_the_identity_tells_two_moments_apart(folder: Path) -> None:
    path = folder / "x"
    path.write_text("a")
    before = read(path)
    assert before is not None
    assert identity(path) == before.identity
    path.write_text("bb")
    assert identity(path) != before.identity


def test_a_window_of_a_big_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "x"
    path.write_bytes(b"".join(b"line %d\r\n" % number for number in range(1, 200_001)))
    size = path.stat().st_size
    assert window(path, 1, 2) == Window((b"line 1", b"line 2"), size, more=True)
    assert window(path, 150_000, 1) == Window((b"line 150000",), size, more=True)
    assert window(path, 199_999, 5) == Window((b"line 199999", b"line 200000"), size, more=False)
    assert window(path, 200_002, 5) == Window((), size, more=False)
    monkeypatch.setattr(disk, "MAX_SCANNED", 1_000_000)
    with pytest.raises(TooBig, match="too far from the start"):
        window(path, 200_000, 1)


def test_a_window_of_one_endless_line_is_bounded(folder: Path) -> None:
    (folder / "x").write_bytes(b"x" * 3_000_000)
    found = window(folder / "x", 1, 10)
    assert (len(found.lines), len(found.lines[0]), found.more) == (1, disk.MAX_WINDOW, True)


def test_a_half_written_file_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "x"
    path.write_bytes(b"half")
    really = disk._read_all
    writes = [b"whole text"]

    def write_meanwhile(handle: int, limit: int) -> bytes:
        found = really(handle, limit)
        if writes:
            path.write_bytes(writes.pop())
        return found

    monkeypatch.setattr(disk, "_read_all", write_meanwhile)
    assert data(path) == b"whole text"
