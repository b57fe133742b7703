"""A cloned repository is asked, by git itself, which programs reading it would run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pilotfish.workspace.git import repository
from pilotfish.workspace.git.repository import Setting, dangerous, own_settings, programs_in, tracked
from pilotfish.workspace.sandbox.sandbox import clean_environment

EVIL = '[filter "x"]\n\tclean = evil\n'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return clean_environment({"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})


def git(folder: Path, *words: str) -> None:
    who = {f"GIT_{role}_{what}": "x@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **who}
    subprocess.run(["git", "-C", str(folder), *words], env=environment, check=True, capture_output=True)


def make(folder: Path, config: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    with (folder / ".git/config").open("a") as file:
        file.write(config)
    return folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[user]\n\tname = x\n", ()),
        (EVIL, ("filter.x.clean",)),
        ('[filter "X y"]\n  Process=evil\n', ("filter.X y.process",)),
        ('[diff "x"] textconv = evil\n', ("diff.x.textconv",)),
        ("[diff]\nexternal = evil", ("diff.external",)),
        ('[diff "x"]\ncommand = evil', ("diff.x.command",)),
        ("[include]\npath = ../more", ("filter.more.clean",)),
        ('[includeIf "gitdir:**"]\npath = ../more', ("filter.more.clean",)),
        ("[gpg]\nprogram = evil", ("gpg.program",)),
        ('[gpg "ssh"]\nprogram = evil', ("gpg.ssh.program",)),
        ("[core]\nworktree = /", ("core.worktree",)),
        # what a reading of our own got wrong
        ('[core] # a comment that goes on \\\n[filter "x"] clean = evil\n', ("filter.x.clean",)),
        ('[core][filter "x"] clean = evil\n', ("filter.x.clean",)),
        ('[user]\nname = a\u2028\n[filter "x"]\nclean = evil\n', ("filter.x.clean",)),
        (f"[user]\nname = {'a' * 1_100_000}\n{EVIL}", ("filter.x.clean",)),
        ('[lfs "extension.x"]\nclean = evil\n', ("lfs.extension.x.clean",)),
        ('[trailer "x"]\ncommand = evil\n', ("trailer.x.command",)),
        ('# [filter "x"]\n; clean = x\n[core]\n# fsmonitor = evil', ()),
        ('[filter "lfs"]\nclean = git-lfs clean -- %f\nprocess = git-lfs filter-process\n', ()),
        ('[filter "lfs"]\nclean = evil\n', ("filter.lfs.clean",)),
        ("[core]\nsshCommand = ssh -i key", ()),
        ('[core]\nsshCommand = evil\n[remote "o"]\npromisor = true', ("core.sshcommand",)),
        ('[credential]\nhelper = !evil\n[remote "o"]\npromisor = true', ("credential.helper",)),
    ],
)
def test_settings_that_run_something(
    text: str, found: tuple[str, ...], tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / "more").write_text('[filter "more"]\nclean = evil\n')
    make(tmp_path, text)
    assert programs_in(tmp_path, environ) == found


def test_the_repository_above_a_directory_counts(tmp_path: Path, environ: dict[str, str]) -> None:
    make(tmp_path, EVIL)
    (tmp_path / "a/b").mkdir(parents=True)
    assert programs_in(tmp_path / "a/b", environ) == ("filter.x.clean",)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link").symlink_to(tmp_path / "a/b")
    assert programs_in(tmp_path / "elsewhere/link", environ) == ("filter.x.clean",)


def test_no_repository_names_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    assert programs_in(tmp_path, environ) == ()
    assert programs_in(tmp_path / "gone", environ) == ()


def test_a_linked_work_tree_obeys_the_common_settings(tmp_path: Path, environ: dict[str, str]) -> None:
    main = make(tmp_path / "main", EVIL)
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert programs_in(tmp_path / "linked", environ) == ("filter.x.clean",)


def test_hooks_that_reading_runs_count(tmp_path: Path, environ: dict[str, str]) -> None:
    make(tmp_path, "[core]\nhooksPath = .husky\n")
    (tmp_path / ".husky").mkdir()
    (tmp_path / ".husky/pre-commit").touch()
    assert programs_in(tmp_path, environ) == ()
    (tmp_path / ".husky/post-index-change").touch()
    assert programs_in(tmp_path, environ) == ("the hook post-index-change",)


def test_hooks_in_their_usual_place_count_from_below_too(tmp_path: Path, environ: dict[str, str]) -> None:
    make(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git/hooks").mkdir(exist_ok=True)
    (tmp_path / ".git/hooks/reference-transaction").touch()
    assert programs_in(tmp_path / "sub", environ) == ("the hook reference-transaction",)


def test_submodules_count(tmp_path: Path, environ: dict[str, str]) -> None:
    make(tmp_path)
    inner = make(tmp_path / "deep/inner", "[core]\nfsmonitor = ./evil\n")
    assert programs_in(tmp_path, environ) == ()
    git(inner, "-c", "core.fsmonitor=false", "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path, "-c", "core.fsmonitor=false", "add", "deep/inner")
    assert programs_in(tmp_path, environ) == ("core.fsmonitor (submodule)",)


@pytest.mark.parametrize("head", ["file", "dangling link"])
def test_a_repository_in_disguise_runs_nothing(head: str, tmp_path: Path, environ: dict[str, str]) -> None:
    """`git -C docs diff`, where docs leads to a folder that is a repository itself."""
    root = make(tmp_path / "project")
    disguised = root / "fixture"
    (make(tmp_path / "x", f"[core]\n\tfsmonitor = {tmp_path}/evil\n") / ".git").rename(disguised)
    git(disguised, "config", "core.bare", "false")
    git(disguised, "config", "core.worktree", ".")
    if head == "dangling link":
        (disguised / "HEAD").unlink()
        (disguised / "HEAD").symlink_to("refs/heads/none")
    (tmp_path / "evil").write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    (tmp_path / "evil").chmod(0o755)
    (root / "docs").symlink_to(disguised)
    programs_in(root / "docs", environ)
    for words in (["status"], ["diff"], ["log"]):
        subprocess.run(["git", "-C", "docs", *words], cwd=root, env=environ, capture_output=True)
    assert not (tmp_path / "sprung").exists()


def test_a_settings_file_that_is_no_file_does_not_block(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "TIMEOUT", 0.5)
    make(tmp_path)
    (tmp_path / ".git/config").unlink()
    os.mkfifo(tmp_path / ".git/config")
    assert programs_in(tmp_path, environ) == ("a repository that git could not read in time",)
    assert own_settings(tmp_path, environ) is None


def test_a_submodule_is_not_given_the_overrides() -> None:
    settings = [Setting("core.fsmonitor", "./evil"), Setting("core.worktree", "../../sub")]
    assert dangerous(settings, inner=True) == ("core.fsmonitor",)
    assert dangerous([Setting("core.fsmonitor", "true")], inner=True) == ()


def test_asking_runs_nothing_of_the_repositorys(tmp_path: Path, environ: dict[str, str]) -> None:
    root = make(tmp_path / "project")
    (root / "a").write_text("x")
    git(root, "add", "a")
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    evil.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.sshCommand", "filter.x.clean"):
        git(root, "config", key, str(evil))
    assert programs_in(root, environ) == ("diff.external", "filter.x.clean")
    assert tracked([root / "a", root / "b"], [root], environ) == {root / "a": True}
    (root / "a").write_text("y")
    assert tracked([root / "a"], [root], environ) == {root / "a": False}
    assert not (tmp_path / "sprung").exists()
