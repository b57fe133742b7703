"""Attribution in a real git: notes on commits, trailers in their messages, and nothing when the setting is off."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Rig, rig
from tests.support.provider import Call, call, calls, say

from pilotfish.engine import git_attribution
from pilotfish.workspace.git import attribution
from pilotfish.workspace.git.attribution import HOOK

FIRST = "one\ntwo\nthree\n"
EDIT = call("update_file", path="a.txt", edits=[{"old_string": "two\n", "new_string": "TWO\nand a half\n"}])
READ = call("read_file", path="a.txt")


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setattr(git_attribution, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr("pilotfish.workspace.git.repository.TIMEOUT", 60)  # a busy machine starts git slowly


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / "a.txt").write_text(FIRST)
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    return root


async def note_of(root: Path, commit: str) -> str:
    while True:
        listed = subprocess.run(
            ["git", "notes", "--ref=pilotfish", "show", commit], cwd=root, capture_output=True, text=True, check=False
        )
        if listed.returncode == 0:
            return listed.stdout.strip()
        await asyncio.sleep(0.02)


async def edited(turn: Rig) -> str:
    return (await turn.prompt("change it")).turn_id


def trailers_in(turn: Rig, *turns: str) -> str:
    lines = [f"Pilotfish-Turn: {turn.session_id}/{each}" for each in turns]
    return "\n".join(("Assisted-by: Pilotfish (openai-chat:scripted)", *lines))


async def test_a_commit_gets_a_note_with_the_lines_that_each_turn_wrote(tmp_path: Path) -> None:
    root = repository(tmp_path)
    async with rig(tmp_path, READ, EDIT, say("done"), mode="edit", gitAttribution="notes") as turn:
        done = await edited(turn)
        (root / "a.txt").write_text("mine\n" + (root / "a.txt").read_text())
        git(root, "commit", "--quiet", "-a", "-m", "second")
        note = await note_of(root, "HEAD")
        assert note == f"a.txt:3-4 {turn.session_id}/{done}\n\n{trailers_in(turn, done)}"
        assert git(root, "log", "-1", "--format=%B") == "second"
        # An amended commit is another one. The commit before, and one without lines of a turn, get none.
        git(root, "commit", "--quiet", "--amend", "-m", "better")
        assert await note_of(root, "HEAD") == note
        amended = git(root, "rev-parse", "HEAD")
        (root / "b.txt").write_text("mine\n")
        git(root, "add", "b.txt")
        git(root, "commit", "--quiet", "-m", "third")
        (root / "a.txt").write_text("all mine\n")
        git(root, "commit", "--quiet", "-a", "-m", "fourth")
        git(root, "checkout", "--quiet", "-b", "side", amended)
        await asyncio.sleep(0.2)
        noted = {line.split()[1] for line in git(root, "notes", "--ref=pilotfish", "list").splitlines()}
        assert noted.isdisjoint(git(root, "rev-list", "master", f"^{amended}").splitlines())
        assert git(root, "rev-list", "--max-parents=0", "HEAD") not in noted


async def test_a_commit_message_gets_trailers_of_the_turns_whose_files_are_staged(tmp_path: Path) -> None:
    root = repository(tmp_path)
    new = call("write_file", path="sub/b.txt", content="b\n")
    script = (READ, EDIT, say("done"), new, say("done"))
    async with rig(tmp_path, *script, mode="edit", gitAttribution="trailer") as turn:
        first, second = await edited(turn), await edited(turn)
        git(root, "add", "a.txt")
        git(root, "commit", "--quiet", "-m", "Change a\n\nWhy: because.")
        written = git(root, "log", "-1", "--format=%B")
        assert written == f"Change a\n\nWhy: because.\n{trailers_in(turn, first)}"
        # The list is made anew for the new commit, and the hook uses no older one.
        offered = root / ".git/pilotfish/trailers"
        while offered.read_text().split("\n")[0] != git(root, "rev-parse", "HEAD"):
            await asyncio.sleep(0.02)
        git(root, "add", ".")
        git(root, "commit", "--quiet", "-m", "Add b")
        assert git(root, "log", "-1", "--format=%B") == f"Add b\n\n{trailers_in(turn, second)}"
        git(root, "commit", "--quiet", "--allow-empty", "-m", "Nothing")
        assert git(root, "log", "-1", "--format=%B") == "Nothing"


async def test_a_commit_of_the_agent_right_after_its_edit_has_the_trailers(tmp_path: Path) -> None:
    root = repository(tmp_path)
    both = calls(
        Call("update_file", {"path": "a.txt", "edits": [{"old_string": "two", "new_string": "2"}]}),
        Call("bash", {"command": "git commit -a -m Agent", "for_real": True}),
    )
    async with rig(tmp_path, READ, both, say("done"), mode="auto", gitAttribution="trailer") as turn:
        done = await edited(turn)
        assert git(root, "log", "-1", "--format=%B") == f"Agent\n\n{trailers_in(turn, done)}"


async def test_a_commit_right_before_the_end_of_the_process_gets_its_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path)
    monkeypatch.setattr(git_attribution, "LOOK_SECONDS", 3600)
    monkeypatch.setattr(git_attribution, "CLOSE_SECONDS", 60)
    commit = call("bash", command="git commit -a -m Agent", for_real=True)
    async with rig(tmp_path, READ, EDIT, commit, say("done"), mode="auto", gitAttribution="notes") as turn:
        done = await edited(turn)
    assert (await note_of(root, "HEAD")).startswith(f"a.txt:2-3 {turn.session_id}/{done}\n")


async def test_the_hook_goes_with_the_setting(tmp_path: Path) -> None:
    root = repository(tmp_path)
    hook = root / ".git/hooks/prepare-commit-msg"
    async with rig(tmp_path, READ, EDIT, say("done"), mode="edit", gitAttribution="trailer") as turn:
        await edited(turn)
        assert hook.read_text() == HOOK
        turn.engine.set_settings(turn.engine.settings.model_copy(update={"git_attribution": "off"}))
        while hook.exists() or (root / ".git/pilotfish").exists():
            await asyncio.sleep(0.02)
        git(root, "commit", "--quiet", "-a", "-m", "plain")
        assert git(root, "log", "-1", "--format=%B") == "plain"
    # One that a process could not remove is removed by the next.
    hook.write_text(HOOK)
    async with rig(tmp_path):
        while hook.exists():
            await asyncio.sleep(0.02)


async def test_notes_in_place_of_trailers_remove_the_hook(tmp_path: Path) -> None:
    root = repository(tmp_path)
    async with rig(tmp_path, READ, EDIT, say("done"), mode="edit", gitAttribution="trailer") as turn:
        await edited(turn)
        turn.engine.set_settings(turn.engine.settings.model_copy(update={"git_attribution": "notes"}))
        while (root / ".git/hooks/prepare-commit-msg").exists():
            await asyncio.sleep(0.02)
        git(root, "commit", "--quiet", "-a", "-m", "plain")
        assert (await note_of(root, "HEAD")).startswith("a.txt:2-3 ")
        assert git(root, "log", "-1", "--format=%B") == "plain"


@pytest.mark.parametrize("place", ["a hook", "a folder of hooks", "no trust"])
async def test_hooks_of_the_user_are_left_alone(tmp_path: Path, place: str) -> None:
    root = repository(tmp_path)
    hook = root / ".git/hooks/prepare-commit-msg"
    if place == "a hook":
        hook.write_text("#!/bin/sh\nexit 0\n")
    elif place == "a folder of hooks":
        git(root, "config", "core.hooksPath", ".husky")
    before = hook.read_text() if hook.exists() else None
    script = (READ, EDIT, say("done"), say("more"))
    trusted = place != "no trust"
    async with rig(tmp_path, *script, mode="edit", trusted=trusted, gitAttribution="trailer") as turn:
        await edited(turn)
        await turn.prompt("more")
        assert (hook.read_text() if hook.exists() else None) == before
        assert not (root / ".husky").exists()
        warned = [notice for notice in turn.notices() if "get no trailers" in notice]
        assert len(warned) == trusted


def test_nothing_is_written_or_removed_through_a_link(tmp_path: Path) -> None:
    """A command in the workspace sandbox that runs git can put links there."""
    root, outside = repository(tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "trailers").write_text("of somebody else\n")
    shutil.rmtree(root / ".git/hooks")
    (root / ".git/hooks").symlink_to(outside)
    (root / ".git/pilotfish").symlink_to(outside)
    place = attribution.repository(root, dict(os.environ))
    assert place is not None
    attribution.write_trailers(place, "a commit", [("a.txt", "Pilotfish-Turn: x")])
    assert attribution.install_hook(place) == "the folder of the hooks of this repository is a link"
    attribution.remove_hook(place)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"trailers": "of somebody else\n"}


async def test_a_linked_work_tree_has_trailers_of_its_own(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "--quiet")
    (main / "a.txt").write_text(FIRST)
    git(main, "add", ".")
    git(main, "commit", "--quiet", "-m", "first")
    root = tmp_path / "work"
    git(main, "worktree", "add", "--quiet", str(root))
    async with rig(tmp_path, READ, EDIT, say("done"), mode="edit", gitAttribution="trailer") as turn:
        done = await edited(turn)
        git(root, "commit", "--quiet", "-a", "-m", "linked")
        assert git(root, "log", "-1", "--format=%B") == f"linked\n\n{trailers_in(turn, done)}"


async def test_with_the_setting_off_git_gets_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path)
    before = {path.name for path in (root / ".git/hooks").iterdir()}
    async with rig(tmp_path, READ, EDIT, say("done"), mode="edit") as turn:
        await edited(turn)
        git(root, "commit", "--quiet", "-a", "-m", "second")
        assert {path.name for path in (root / ".git/hooks").iterdir()} == before
        assert not (root / ".git/pilotfish").exists()
        assert git(root, "notes", "--ref=pilotfish", "list") == ""


async def test_a_look_at_a_repository_without_new_commits_runs_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path)
    asked: list[str] = []
    looked = asyncio.Event()
    look = git_attribution.GitAttribution._look  # pyright: ignore[reportPrivateUsage] -- to see that it looks on

    async def noted(*given: Any) -> None:
        await look(*given)
        asked.append("look")
        if len(asked) > 5:
            looked.set()

    def run_git(*_: object) -> None:
        asked.append("git")

    async with rig(tmp_path, say("hello"), gitAttribution="notes"):
        monkeypatch.setattr(git_attribution.GitAttribution, "_look", noted)
        while not asked:
            await asyncio.sleep(0.01)
        monkeypatch.setattr("pilotfish.workspace.git.attribution.run_git", run_git)
        asked.clear()
        await looked.wait()
        assert set(asked) == {"look"}
