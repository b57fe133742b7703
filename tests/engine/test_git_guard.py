"""A repository's own settings are searched for programs that reading it would run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pilotfish.engine.git_guard import dangerous, programs_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[core]\n\tbare = false\n[user]\n\tname = x\n", ()),
        ('[filter "x"]\n\tclean = evil\n', ("filter.x.clean",)),
        ('[filter "X y"]\n  Process=evil\n', ("filter.x y.process",)),
        ('[diff "x"] textconv = evil', ("diff.x.textconv",)),
        ("[diff]\nexternal = evil", ("diff.external",)),
        ('[diff "x"]\ncommand = evil', ("diff.x.command",)),
        ("[include]\npath = ../x", ("include.path",)),
        ('[includeIf "gitdir:/"]\npath = x', ("includeif.gitdir:/.path",)),
        ("[gpg]\nprogram = evil", ("gpg.program",)),
        ('[gpg "ssh"]\nprogram = evil', ("gpg.ssh.program",)),
        ("[core]\nworktree = /", ("core.worktree",)),
        ('[filter\\\n "x"]\nclean = e\\\nvil', ("filter.x.clean",)),
        ('# [filter "x"]\n; clean = x\n[core]\n# fsmonitor = evil', ()),
        ('[filter "lfs"]\nclean = git-lfs clean -- %f\nprocess = git-lfs filter-process\n', ()),
        ('[filter "lfs"]\nclean = evil\n', ("filter.lfs.clean",)),
        ("[core]\nsshCommand = ssh -i key", ()),
        ('[core]\nsshCommand = evil\n[remote "o"]\npromisor = true', ("core.sshcommand",)),
    ],
)
def test_settings_that_run_something(text: str, found: tuple[str, ...]) -> None:
    assert dangerous(text) == found


def test_a_submodule_is_not_given_the_overrides() -> None:
    text = "[core]\nfsmonitor = ./evil\nworktree = ../../sub"
    assert dangerous(text, submodule=True) == ("core.fsmonitor",)
    assert dangerous("[core]\nfsmonitor = true", submodule=True) == ()


def make(folder: Path, config: str = "") -> Path:
    git = folder / ".git"
    (git / "objects").mkdir(parents=True)
    (git / "refs").mkdir()
    (git / "hooks").mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(config)
    return folder


EVIL = '[filter "x"]\n\tclean = evil\n'


def test_the_repository_above_a_directory_counts(tmp_path: Path) -> None:
    make(tmp_path, EVIL)
    (tmp_path / "a/b").mkdir(parents=True)
    assert programs_in(tmp_path / "a/b") == ("filter.x.clean",)


def test_no_repository_names_nothing(tmp_path: Path) -> None:
    assert programs_in(tmp_path) == ()
    assert programs_in(tmp_path / "gone") == ()


def test_a_linked_work_tree_obeys_the_common_settings(tmp_path: Path) -> None:
    main = make(tmp_path / "main", EVIL)
    git = main / ".git/worktrees/w"
    git.mkdir(parents=True)
    (git / "commondir").write_text("../..\n")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {git}\n")
    assert programs_in(linked) == ("filter.x.clean",)


def test_hooks_that_reading_runs_count(tmp_path: Path) -> None:
    make(tmp_path, "[core]\nhooksPath = .husky\n")
    assert programs_in(tmp_path) == ()
    (tmp_path / ".husky").mkdir()
    (tmp_path / ".husky/pre-commit").touch()
    assert programs_in(tmp_path) == ()
    (tmp_path / ".husky/post-index-change").touch()
    assert programs_in(tmp_path) == ("the hook post-index-change",)


def test_submodules_count(tmp_path: Path) -> None:
    make(tmp_path)
    module = tmp_path / ".git/modules/sub"
    module.mkdir(parents=True)
    (module / "HEAD").write_text("x")
    (module / "config").write_text("[core]\nworktree = ../../../sub\nfsmonitor = evil\n")
    assert programs_in(tmp_path) == ("core.fsmonitor (submodule)",)


def test_a_repository_inside_the_repository_counts_when_the_index_links_to_it(tmp_path: Path) -> None:
    make(tmp_path)
    make(tmp_path / "deep/inner", EVIL)
    assert programs_in(tmp_path) == ()
    (tmp_path / ".git/index").write_bytes(b"DIRC" + b"\0" * 20 + b"\x00\x00\xe0\x00" + b"\0" * 40)
    assert programs_in(tmp_path) == ("filter.x.clean (submodule)",)


def test_a_repository_in_disguise_counts(tmp_path: Path) -> None:
    bare = tmp_path / "fixture"
    (make(tmp_path / "x", EVIL) / ".git").rename(bare)
    (bare / "sub").mkdir()
    assert programs_in(bare / "sub") == ("filter.x.clean",)


def test_a_git_that_leads_nowhere_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("not a link")
    assert programs_in(tmp_path) == ("a .git that cannot be followed",)
    (tmp_path / ".git").unlink()
    os.mkfifo(tmp_path / ".git")
    assert programs_in(tmp_path) == ("a .git that cannot be followed",)


def test_a_settings_file_that_is_no_file_does_not_block(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / ".git/config").unlink()
    os.mkfifo(tmp_path / ".git/config")
    assert programs_in(tmp_path) == ()
