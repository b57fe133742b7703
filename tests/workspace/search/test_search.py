from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackagePath
from pathlib import Path
from typing import Any

import pytest
from tests.support.tools import plant
from tests.support.waiting import until

from pilotfish.errors import ToolError
from pilotfish.workspace.search import ripgrep, search
from pilotfish.workspace.search.search import Hit, Query, SearchResult, TextSearch

NOTHING: Mapping[Path, str] = {}


async def find(
    root: Path, pattern: str, *, unsaved: Mapping[Path, str] = NOTHING, places: Sequence[Path] = (), **more: Any
) -> SearchResult:
    query = Query(pattern=pattern, **more)
    made = TextSearch(query=query, roots=(root,), unsaved=unsaved, on_hits=lambda _: None, home=Path("/home/nobody"))
    return await made.over(places or (root,))


def lines(found: SearchResult, root: Path) -> list[tuple[str, int, str]]:
    return [(os.path.relpath(hit.path, root), hit.line, hit.text) for hit in found.hits]


async def test_lines_come_sorted_by_path_and_number(tmp_path: Path) -> None:
    plant(tmp_path, {"b.txt": "no\nfish\n", "a/c.txt": "fish\nno\nfish and fish\n"})
    found = await find(tmp_path, "fish")
    assert lines(found, tmp_path) == [("a/c.txt", 1, "fish"), ("a/c.txt", 3, "fish and fish"), ("b.txt", 2, "fish")]


async def test_ignored_hidden_and_binary_files_are_left_out(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            ".gitignore": "out/\n",
            ".pilotfishignore": "mine.txt\n",
            "out/x.txt": "fish",
            "mine.txt": "fish",
            "a.bin": b"fish\n\0\0fish\n",
            ".git/x": "fish",
            ".github/ci.yml": "fish",
        },
    )
    assert lines(await find(tmp_path, "fish"), tmp_path) == [(".github/ci.yml", 1, "fish")]
    every = await find(tmp_path, "fish", include_ignored=True)
    assert [name for name, _, _ in lines(every, tmp_path)] == [".github/ci.yml", "mine.txt", "out/x.txt"]


async def test_huge_files_are_left_out_unless_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_FILE_BYTES", 100)
    plant(tmp_path, {"big.txt": "fish\n" * 50, "small.txt": "fish\n"})
    assert lines(await find(tmp_path, "fish"), tmp_path) == [("small.txt", 1, "fish")]
    assert len((await find(tmp_path, "fish", places=[tmp_path / "big.txt"])).hits) == 50


async def test_secrets_are_named_and_not_shown(tmp_path: Path) -> None:
    plant(tmp_path, {".env": "KEY=fish", "a.txt": "fish"})
    found = await find(tmp_path, "fish")
    assert (lines(found, tmp_path), found.secret) == ([("a.txt", 1, "fish")], {str(tmp_path / ".env")})


async def test_a_hard_link_to_a_secret_file_is_not_shown(tmp_path: Path) -> None:
    plant(tmp_path, {".env": "fish\n", "src/a.txt": "fish\n"})
    (tmp_path / "src/notes.txt").hardlink_to(tmp_path / ".env")
    found = await find(tmp_path, "fish", places=(tmp_path / "src",))
    assert (lines(found, tmp_path), found.secret) == ([("src/a.txt", 1, "fish")], {str(tmp_path / "src/notes.txt")})


async def test_unsaved_text_stands_for_the_file(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "old fish\n", "b.py": "fish\n", "c.py": "nothing\n"})
    unsaved = {tmp_path / "a.py": "one\ntwo\n", tmp_path / "c.py": "x\nnew fish\n", tmp_path / "new.py": "fish!\n"}
    found = await find(tmp_path, "fish", unsaved=unsaved)
    assert lines(found, tmp_path) == [("b.py", 1, "fish"), ("c.py", 2, "new fish"), ("new.py", 1, "fish!")]


async def test_unsaved_text_of_ignored_and_other_files_is_not_searched(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "out/\n*.log\n", "src/a.py": ""})
    unsaved = {tmp_path / name: "fish\n" for name in ("out/x.py", "a.log", "src/a.py", "src/a.ts")}
    unsaved[tmp_path.parent / "outside.py"] = "fish\n"
    assert lines(await find(tmp_path, "fish", unsaved=unsaved, glob="*.py"), tmp_path) == [("src/a.py", 1, "fish")]


async def test_a_named_file_is_searched_as_the_user_sees_it(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "old\n"})
    named = [tmp_path / "a.py"]
    found = await find(tmp_path, "new", places=named, unsaved={tmp_path / "a.py": "new\n", tmp_path / "b.py": "new\n"})
    assert lines(found, tmp_path) == [("a.py", 1, "new")]


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("*.{ts,py}", ["a.py", "src/b.py", "src/d.ts", "src/deep/c.py"]),
        ("!*.py", [".gitignore", "src/d.ts"]),
        ("src/**", ["src/b.py", "src/d.ts", "src/deep/c.py"]),
        ("*.log", []),
    ],
)
async def test_globs_limit_the_files_and_never_bring_ignored_ones_back(
    tmp_path: Path, glob: str, names: list[str]
) -> None:
    plant(
        tmp_path,
        {
            ".gitignore": "*.log # fish\n*.log\n",
            "a.py": "fish",
            "src/b.py": "fish",
            "src/deep/c.py": "fish",
            "src/d.ts": "fish",
            "src/e.log": "fish",
        },
    )
    found = await find(tmp_path, "fish", glob=glob, mode="files")
    assert [os.path.relpath(hit.path, tmp_path) for hit in found.hits] == names


async def test_counts_context_case_and_literals(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "x\nFish(1)\ny\nfish(2)\n"})
    counted = await find(tmp_path, "fish", mode="count", ignore_case=True)
    assert [(hit.line, hit.matched) for hit in counted.hits] == [(2, True)]
    around = await find(tmp_path, "Fish(", literal=True, context=1)
    assert [(hit.line, hit.text, hit.matched) for hit in around.hits] == [
        (1, "x", False),
        (2, "Fish(1)", True),
        (3, "y", False),
    ]


async def test_a_pattern_over_several_lines(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "one\ntwo\nthree\n"})
    assert lines(await find(tmp_path, r"one\ntwo"), tmp_path) == [("a", 1, "one"), ("a", 2, "two")]


async def test_a_pattern_over_several_lines_does_not_take_a_giant_into_memory(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "one\ntwo\n", "giant": "one\ntwo\n"})
    os.truncate(tmp_path / "giant", 8 << 30)
    found = await asyncio.wait_for(find(tmp_path, "one\ntwo"), 60)
    assert lines(found, tmp_path) == [("a.txt", 1, "one"), ("a.txt", 2, "two")]


async def test_a_name_that_is_too_long_names_nothing(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"x does not exist$"):
        await find(tmp_path, "one", places=(tmp_path / ("x" * 5000),))


async def test_long_lines_and_other_encodings_are_shown_as_well_as_can_be(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {"long": "fish" + "x" * 100_000, "latin": b"caf\xe9 fish\r\n", "wide": "\ufefffish ü\n".encode("utf-16-le")},
    )
    found = {os.path.relpath(hit.path, tmp_path): hit.text for hit in (await find(tmp_path, "fish")).hits}
    assert found["latin"] == "caf\ufffd fish"
    assert found["wide"] == "fish ü"
    assert len(found["long"]) < 500


async def test_names_that_are_not_text_are_found(tmp_path: Path) -> None:
    plant(tmp_path, {os.fsdecode(b"caf\xe9:1-2.txt"): "fish", "with\nnewline": "fish", "-dash": "fish"})
    found = await find(tmp_path, "fish", mode="files")
    assert {os.fsencode(Path(hit.path).name) for hit in found.hits} == {b"caf\xe9:1-2.txt", b"with\nnewline", b"-dash"}


async def test_a_pattern_may_begin_with_a_dash(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "--files\n"})
    assert lines(await find(tmp_path, "--files"), tmp_path) == [("a", 1, "--files")]


@pytest.mark.parametrize("pattern", ["fish(", "(?=fish)", "[z-a]"])
async def test_a_broken_pattern_is_explained(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match=r"(?s)rejected the search: .*literal"):
        await find(tmp_path, pattern)


async def test_a_flood_of_hits_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "GATHER", 10)
    plant(tmp_path, {f"{number}.txt": "fish\n" * 100 for number in range(200)})
    told: list[Hit] = []
    made = TextSearch(query=Query(pattern="fish"), roots=(tmp_path,), unsaved={}, on_hits=told.extend)
    found = await made.over((tmp_path,))
    assert found.more
    assert len(told) == len(found.hits) < 20_000


async def test_what_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        root.chmod(0o755)
        plant(root, {"a": "fish", "locked": "fish"})
        (root / "locked").chmod(0)
        if os.geteuid() == 0:  # root may read everything: nobody searches instead
            wrapper = root / ".rg"
            wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid=65534 --clear-groups {ripgrep.find_rg()} "$@"\n')
            wrapper.chmod(0o755)
            monkeypatch.setattr(ripgrep, "find_rg", lambda: wrapper)
        found = await find(root, "^fish")
    assert lines(found, root) == [("a", 1, "fish")]
    assert found.unreadable == ["locked: Permission denied (os error 13)"]


async def test_a_vanished_folder_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="does not exist"):
        await find(tmp_path, "fish", places=[tmp_path / "gone" / "deeper"])


async def test_an_interrupted_search_leaves_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "rg"
    fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nprintf 'x\\0001:fish\\n'\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(ripgrep, "find_rg", lambda: fake)
    task = asyncio.ensure_future(find(tmp_path, "fish"))
    await until(lambda: not (not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text()))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def hide_ripgrep(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Neither beside Python nor on PATH."""

    def scripts(_: str) -> str:
        return str(folder)

    monkeypatch.setattr(ripgrep.sys, "executable", str(folder / "python"))
    monkeypatch.setattr(ripgrep.sysconfig, "get_path", scripts)
    monkeypatch.setenv("PATH", str(folder))


def test_without_ripgrep_the_model_hears_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files(_: str) -> list[PackagePath]:
        return []

    hide_ripgrep(monkeypatch, tmp_path)
    monkeypatch.setattr("importlib.metadata.files", files)
    with pytest.raises(ToolError, match="use bash with grep"):
        ripgrep.find_rg.__wrapped__()


def test_ripgrep_is_found_by_its_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_ripgrep(monkeypatch, tmp_path)
    assert ripgrep.find_rg.__wrapped__().name == "rg"
