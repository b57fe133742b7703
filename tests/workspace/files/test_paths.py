from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from pilotfish.errors import Refused
from pilotfish.workspace.files.paths import ResolvedPath, check_share, resolve


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    tmp_path = tmp_path.resolve()
    for name in ("app", "lib", "elsewhere", "home"):
        (tmp_path / name).mkdir()
    return [tmp_path / "app", tmp_path / "lib"]


@pytest.fixture
def home(roots: list[Path]) -> Path:
    return roots[0].parent / "home"


def test_a_relative_path_is_in_the_root(roots: list[Path], home: Path) -> None:
    assert resolve("src/x.py", roots[:1], home) == ResolvedPath(roots[0] / "src/x.py", True, roots[0], None)


def test_dots_are_followed_before_it_is_judged(roots: list[Path], home: Path) -> None:
    assert resolve("a/../../elsewhere/x", roots[:1], home) == ResolvedPath(
        roots[0].parent / "elsewhere/x", False, None, None
    )
    assert resolve("../app/./x", roots[:1], home).inside


def test_a_link_is_judged_by_where_it_leads(roots: list[Path], home: Path) -> None:
    outside = roots[0].parent / "elsewhere"
    (roots[0] / "link").symlink_to(outside)
    assert resolve("link/x", roots, home) == ResolvedPath(outside / "x", False, None, None)
    (outside / "back").symlink_to(roots[0])
    assert resolve(str(outside / "back/y"), roots, home) == ResolvedPath(roots[0] / "y", True, roots[0], None)


def test_a_link_loop_leads_nowhere_and_does_not_hang(roots: list[Path], home: Path) -> None:
    (roots[0] / "one").symlink_to("two")
    (roots[0] / "two").symlink_to("one")
    assert resolve("one", roots[:1], home).inside


def test_a_link_is_as_sensitive_as_its_name_and_its_goal(roots: list[Path], home: Path) -> None:
    (roots[0] / ".env").write_text("KEY=1")
    (roots[0] / "notes.txt").symlink_to(".env")
    (roots[0] / ".env.local").symlink_to("plain.txt")
    for name in ("notes.txt", ".env.local", ".env"):
        place = resolve(name, roots[:1], home)
        assert (place.sensitive, place.secret) == ("environment file, often with secrets", True)


def test_a_hard_link_to_a_secret_file_is_as_secret_as_the_file(roots: list[Path], home: Path) -> None:
    (roots[0] / "src").mkdir()
    (roots[0] / ".env").write_text("KEY=1")
    (roots[0] / "src/notes.txt").hardlink_to(roots[0] / ".env")
    (home / ".ssh").mkdir()
    (home / ".ssh/key").write_text("KEY")
    (roots[0] / "readme.txt").hardlink_to(home / ".ssh/key")
    (roots[0] / "plain.txt").write_text("plain")
    (roots[0] / "copy.txt").hardlink_to(roots[0] / "plain.txt")
    found = {name: resolve(name, roots[:1], home) for name in ("src/notes.txt", "readme.txt", "copy.txt")}
    assert {name: (place.sensitive, place.secret) for name, place in found.items()} == {
        "src/notes.txt": ("environment file, often with secrets", True),
        "readme.txt": ("hard link to a key or password file", True),
        "copy.txt": (None, False),
    }


def test_a_root_may_itself_be_a_sensitive_place(roots: list[Path], home: Path) -> None:
    place = resolve("~/.bashrc", roots, home)
    assert place == ResolvedPath(home / ".bashrc", False, None, "shell start-up file")


def test_a_file_is_found_in_whichever_root_has_it(roots: list[Path], home: Path) -> None:
    (roots[1] / "only.txt").touch()
    assert resolve("only.txt", roots, home).path == roots[1] / "only.txt"


def test_a_root_can_be_named(roots: list[Path], home: Path) -> None:
    assert resolve("lib/new.txt", roots, home) == ResolvedPath(roots[1] / "new.txt", True, roots[1], None)
    (roots[0] / "lib").mkdir()
    (roots[0] / "lib/new.txt").touch()
    assert resolve("lib/new.txt", roots, home).path == roots[0] / "lib/new.txt"


def test_a_path_in_several_roots_must_be_said_exactly(roots: list[Path], home: Path) -> None:
    for root in roots:
        (root / "README.md").touch()
    with pytest.raises(Refused, match="in several folders; name one of them"):
        resolve("README.md", roots, home)
    assert resolve(str(roots[1] / "README.md"), roots, home).root == roots[1]


def test_a_new_file_goes_where_its_directory_is(roots: list[Path], home: Path) -> None:
    (roots[1] / "src").mkdir()
    assert resolve("src/new.py", roots, home).path == roots[1] / "src/new.py"
    assert resolve("new.py", roots, home).path == roots[0] / "new.py"


def test_a_file_uri_is_a_path(roots: list[Path], home: Path) -> None:
    assert resolve((roots[0] / "a b.txt").as_uri(), roots, home).path == roots[0] / "a b.txt"


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/1/root/etc/passwd", "/sys/kernel", "/dev/stdin", "/dev/zero"]
)
def test_the_running_system_is_no_file(path: str, roots: list[Path], home: Path) -> None:
    with pytest.raises(Refused, match="is part of the running system"):
        resolve(path, roots, home)


def test_a_link_into_the_running_system_is_refused(roots: list[Path], home: Path) -> None:
    (roots[0] / "innocent").symlink_to("/proc/self/environ")
    with pytest.raises(Refused, match="is part of the running system"):
        resolve("innocent", roots[:1], home)


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
def test_what_cannot_be_a_path_is_refused(path: str, roots: list[Path], home: Path) -> None:
    with pytest.raises(Refused):
        resolve(path, roots, home)


def test_a_name_that_is_too_long_is_judged_all_the_same(roots: list[Path], home: Path) -> None:
    assert resolve("x" * 5000, roots[:1], home).inside


def test_without_a_folder_a_relative_path_is_refused(home: Path) -> None:
    with pytest.raises(Refused, match="no folder is open"):
        resolve("x", [], home)


def test_another_spelling_of_the_same_directory_is_inside(
    roots: list[Path], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = roots[0].parent / "APP"
    other.symlink_to(roots[0])
    # On a disk without case a real path keeps the spelling it was asked with.
    monkeypatch.setattr(os.path, "realpath", os.path.normpath)
    assert resolve(str(other / "x"), roots, home).inside


@pytest.mark.parametrize("path", [r"\\evil\share\x", "//evil/share/x", r"\\?\C:\x", r"\\.\pipe\x"])
def test_a_share_of_another_host_is_refused_before_anything_asks_that_host(path: str) -> None:
    with pytest.raises(Refused, match="network share"):
        check_share(PureWindowsPath(path), [PureWindowsPath("C:/work"), PureWindowsPath("//files/team/work")])


@pytest.mark.parametrize("path", ["C:/x", "D:/x", r"\\FILES\team\other\x"])
def test_drives_and_the_share_of_a_root_are_judged_like_any_path(path: str) -> None:
    check_share(PureWindowsPath(path), [PureWindowsPath("C:/work"), PureWindowsPath("//files/team/work")])
    check_share(PurePosixPath("//evil/share/x"), [])
