from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.tools import plant_empty

from pilotfish.workspace.search import file_index as module
from pilotfish.workspace.search.file_index import FileIndex
from pilotfish.workspace.search.fuzzy_paths import Names


def plant(root: Path, *names: str) -> None:
    plant_empty(root, *names)
    settle(root)


def settle(root: Path) -> None:
    """Make every folder look as if it had been changed a while ago, each at its own time."""
    now = time.time_ns() - 10_000_000_000
    for number, folder in enumerate([root, *(path for path in root.rglob("*") if path.is_dir())]):
        os.utime(folder, ns=(now + number, now + number))


@pytest.fixture
async def index(tmp_path: Path) -> AsyncGenerator[FileIndex]:
    made = FileIndex([tmp_path])
    yield made
    await made.aclose()


async def names(index: FileIndex, query: str = "", limit: int = 50) -> list[str]:
    await index.refresh()
    return [mention.name for mention in await index.search(query, limit)]


async def test_files_and_folders_are_found_and_ignored_ones_are_not(index: FileIndex, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n")
    plant(tmp_path, "src/app.py", "build/app.py", "node/app.js")
    assert await names(index, "app") == ["src/app.py", "node/app.js"]
    assert await names(index, "src") == ["src/", "src/app.py"]


async def test_open_files_come_first(index: FileIndex, tmp_path: Path) -> None:
    plant(tmp_path, "a/model.py", "b/model.py")
    await index.refresh()
    found = await index.search("model", open_files={tmp_path / "b/model.py"})
    assert [mention.name for mention in found] == ["b/model.py", "a/model.py"]
    empty = await index.search("", open_files={tmp_path / "b/model.py"})
    assert [mention.name for mention in empty][:3] == ["b/model.py", "a/", "a/model.py"]


async def test_roots_are_told_apart_by_their_names(tmp_path: Path) -> None:
    plant(tmp_path, "one/x.py", "two/x.py")
    index = FileIndex([tmp_path / "one", tmp_path / "two"])
    found = await index.search("x.py")
    assert [(mention.name, mention.path) for mention in found] == [
        ("one/x.py", tmp_path / "one/x.py"),
        ("two/x.py", tmp_path / "two/x.py"),
    ]
    await index.aclose()


async def test_a_new_a_deleted_and_a_moved_file_are_noticed(
    index: FileIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, "a/one.py", "a/two.py", "b/three.py")
    assert await names(index, ".py") == ["a/one.py", "a/two.py", "b/three.py"]
    monkeypatch.setattr(module, "_make", None)  # the whole list is not made again
    (tmp_path / "a/two.py").unlink()
    (tmp_path / "b/three.py").rename(tmp_path / "b/3.py")
    (tmp_path / "c/d").mkdir(parents=True)
    (tmp_path / "c/d/new.py").write_text("")
    assert await names(index, ".py") == ["b/3.py", "a/one.py", "c/d/new.py"]


async def test_a_deleted_folder_is_noticed(index: FileIndex, tmp_path: Path) -> None:
    plant(tmp_path, "a/b/one.py", "two.py")
    assert await names(index, ".py") == ["two.py", "a/b/one.py"]
    (tmp_path / "a/b/one.py").unlink()
    (tmp_path / "a/b").rmdir()
    (tmp_path / "a").rmdir()
    assert await names(index, ".py") == ["two.py"]
    assert await names(index, "a/b") == []


async def test_new_ignored_files_and_folders_stay_out(index: FileIndex, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\ndist/\n")
    plant(tmp_path, "keep.py")
    assert await names(index) == [".gitignore", "keep.py"]
    plant(tmp_path, "x.log", "dist/y.py", "new/z.log", "new/z.py")
    assert await names(index) == [".gitignore", "keep.py", "new/", "new/z.py"]


async def test_changed_rules_change_the_list(index: FileIndex, tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_text("nothing\n")
    assert await names(index, ".py") == ["a.py", "b.py"]
    (tmp_path / ".gitignore").write_text("b.py\n")
    assert await names(index, ".py") == ["a.py"]
    (tmp_path / ".pilotfishignore").write_text("a.py\n")
    assert await names(index, ".py") == []


async def test_a_file_made_within_the_same_tick_is_not_missed(
    index: FileIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pilotfish.workspace.search.file_index.SETTLED", 3_600_000_000_000
    )  # this machine may be busy meanwhile
    (tmp_path / "a").write_text("")
    await names(index)
    before = tmp_path.stat().st_mtime_ns
    (tmp_path / "b").write_text("")
    os.utime(tmp_path, ns=(before, before))
    assert await names(index) == ["a", "b"]


async def test_a_file_that_was_just_made_is_found_by_its_name(index: FileIndex, tmp_path: Path) -> None:
    plant(tmp_path, "src/app.py")
    assert await names(index, "app") == ["src/app.py"]
    (tmp_path / "src" / "brand_new.py").write_text("")
    assert [mention.name for mention in await index.search("brand")] == ["src/brand_new.py"]


async def test_a_name_that_is_no_text_is_spelled_out(index: FileIndex, tmp_path: Path) -> None:
    plant(tmp_path, os.fsdecode(b"caf\xe9"))
    assert await names(index, "caf") == ["caf\\udce9"]


async def test_a_vanished_root_is_empty(tmp_path: Path) -> None:
    index = FileIndex([tmp_path / "gone"])
    assert await index.search("x") == []
    await index.aclose()


async def test_a_search_does_not_wait_for_a_refresh(
    index: FileIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, "a.py")
    assert await names(index, ".py") == ["a.py"]
    plant(tmp_path, "b.py")
    index.stale()
    assert [mention.name for mention in await index.search(".py")] == ["a.py"]
    await index.refresh()
    assert [mention.name for mention in await index.search(".py")] == ["a.py", "b.py"]


PATHS = [
    "README.md",
    "server/app/core/messages.py",
    "server/app/core/message_store.py",
    "server/app/engine/models.py",
    "server/app/engine/demo_model.py",
    "client/src/ChatView.tsx",
    "client/src/chatViewState.ts",
    "docs/model/",
    "tests/core/test_messages.py",
    "Straße/İstanbul.txt",
]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("messages", "server/app/core/messages.py"),
        ("messages.py", "server/app/core/messages.py"),
        ("testmess", "tests/core/test_messages.py"),
        ("models", "server/app/engine/models.py"),
        ("model", "docs/model/"),
        ("demo", "server/app/engine/demo_model.py"),
        ("chatview", "client/src/ChatView.tsx"),
        ("cvs", "client/src/chatViewState.ts"),
        ("core/mess", "server/app/core/messages.py"),
        ("readme", "README.md"),
        ("READ", "README.md"),
        ("sacm", "server/app/core/messages.py"),
        ("./client/src/Chat", "client/src/ChatView.tsx"),
        ("stanbul", "Straße/İstanbul.txt"),
    ],
)
def test_the_best_match_is_what_a_person_means(query: str, best: str) -> None:
    assert Names(PATHS).search(query, 3)[0].path == best


def test_what_does_not_match_is_not_found() -> None:
    assert Names(PATHS).search("zzz", 5) == []
    assert Names([]).search("a", 5) == []
    assert Names(PATHS).search("  ", 5) == []


def test_letters_that_mean_something_in_patterns_are_letters() -> None:
    assert [match.path for match in Names(["a^b].txt", "a-b.txt", "x"]).search("^b]", 5)] == ["a^b].txt"]


def test_in_a_long_list_the_better_kinds_of_match_survive() -> None:
    many = [f"some/element/number{number}.ext" for number in range(20_000)]
    found = Names([*many, "lib/e.c", "deep/down/e"]).search("e", 2)
    assert [match.path for match in found] == ["deep/down/e", "lib/e.c"]


async def test_closing_ends_the_search_that_still_runs(tmp_path: Path) -> None:
    index = FileIndex([tmp_path])
    searching = asyncio.ensure_future(index.search("x"))
    await asyncio.sleep(0)
    await index.aclose()
    refreshing = index._refreshing
    assert refreshing is not None
    assert refreshing.done()
    searching.cancel()
