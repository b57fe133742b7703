"""Facts: every path of a call is resolved before policy judges it, also in commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from pilotfish.conversation.messages import Category
from pilotfish.engine.turn.calls import facts as gathering
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.errors import Refused
from pilotfish.policy.judge import judge
from pilotfish.policy.rules import CallFacts, Decision, Rule
from pilotfish.tools.tool import Subject, Touch
from pilotfish.workspace.files.paths import resolve


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / "src").mkdir(parents=True)
    (place / "src/app.py").write_text("x\n")
    (place / "README.md").write_text("x\n")
    return place.resolve()


def bash(command: str, root: Path, directory: Path | None = None, *, walled: bool = True) -> CallFacts:
    where = partial(resolve, roots=(root,), home=root.parent / "home")
    return collect(
        "bash", Category.EXECUTE, Subject(command=command), resolve=where, directory=directory or root, walled=walled
    )


def decide(command: str, root: Path, mode: str = "ask", directory: Path | None = None) -> Decision:
    return judge(bash(command, root, directory), mode).decision


def test_the_words_of_a_command_are_resolved_to_paths(root: Path) -> None:
    found = bash("cat src/app.py ../x", root)
    assert [(fact.path, fact.written, fact.inside) for fact in found.paths] == [
        (str(root / "src/app.py"), "src/app.py", True),
        (str(root.parent / "x"), "../x", False),
    ]
    assert found.cwd == str(root)


def test_relative_paths_are_resolved_from_the_working_directory(root: Path) -> None:
    assert decide("cat app.py ../README.md", root, directory=root / "src") == "allow"
    assert decide("cat ../../x", root, directory=root / "src") == "ask"
    assert decide("cd src && cat app.py", root) == "allow"
    assert decide("cd src && cat ../../x", root) == "ask"


def test_a_link_out_of_the_workspace_is_followed(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "notes").symlink_to("/etc/passwd")
    assert decide("cat README.md", root) == "allow"
    assert decide("cat notes", root) == "ask"
    assert decide("ls link", root) == "ask"
    assert decide("cat link/x", root) == "ask"
    assert decide("cat link/../x", root) == "ask"
    assert decide("cd link && ls", root) == "ask"
    assert decide("wc -l < notes", root) == "ask"
    assert decide("cat notes", root, "auto") == "ask"


def test_sensitive_names_are_known_behind_links_and_spellings(root: Path) -> None:
    (root / ".env").write_text("A=b\n")
    (root / "innocent").symlink_to(".env")
    for command in (
        "cat .env",
        "cat innocent",
        "cat src/../.env",
        "cat ./.env",
        "head -1 '.env'",
        "git show HEAD:.env",
    ):
        assert decide(command, root) == "ask", command
        assert decide(command, root, "auto") == "ask", command


def test_the_matches_of_a_pattern_are_checked(root: Path) -> None:
    (root / ".env").write_text("A=b\n")
    (root / "out").symlink_to("/etc")
    assert decide("cat .en*", root, "auto") == "ask"
    assert decide("cat ou*/passwd", root, "auto") == "ask"
    assert decide("cat src/*.py", root, "auto") == "allow"


def test_reading_a_whole_tree_reports_the_secrets_in_it(root: Path) -> None:
    assert decide("grep -rn x .", root) == "allow"
    (root / "src/deep").mkdir()
    (root / "src/deep/.env").write_text("A=b\n")
    for command in ("grep -rn x .", "grep -rn x", "grep -r x src", "rg --hidden x", "rg -uu x src", "diff -r src lib"):
        assert judge(bash(command, root, walled=False), "auto").decision == "ask", command
        assert judge(bash(command, root), "auto").wall == "read_only", command  # where that file is empty
    for command in (
        "grep -rn --include='*.py' x .",
        "rg x",
        "rg -t py --hidden x",
        "grep -n x src/app.py",
        "ls -R",
        "find .",
    ):
        assert decide(command, root) == "allow", command
    (root / "server.pem").write_text("x")
    assert judge(bash("rg x", root, walled=False), "auto").decision == "ask"
    assert judge(bash("rg x src", root, walled=False), "auto").decision == "allow"


def test_published_packages_contain_no_secret(root: Path) -> None:
    (root / "node_modules/x").mkdir(parents=True)
    (root / "node_modules/x/test.pem").write_text("x")
    assert decide("grep -rn x .", root) == "allow"


def test_a_tree_too_large_to_look_through_asks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MAX_ENTRIES", 1)
    assert judge(bash("grep -rn x .", root, walled=False), "auto").reason == (
        f"it reads {root} (it contains too many files to check them for secrets)"
    )


def test_an_unresolvable_path_counts_as_outside(root: Path) -> None:
    for command in ("cat /proc/self/environ", "cat /dev/sda", "cat '~nobody/x'", "cat < /dev/tcp/example.com/80"):
        assert decide(command, root) == "ask", command
        assert decide(command, root, "auto") == "ask", command


def test_git_settings_are_looked_for_where_git_would_run(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root / "sub")], check=True)
    (root / "sub/.git/config").write_text('[core]\nrepositoryformatversion = 0\n[filter "x"]\nclean = evil\n')
    assert bash("git status", root).git_programs == ()
    assert bash("cat README.md", root, root / "sub").git_programs == ()
    for command, directory in (
        ("git status", root / "sub"),
        ("git -C sub status", root),
        ("cd sub && git diff | head", root),
    ):
        found = bash(command, root, directory)
        assert found.git_programs == ("filter.x.clean",), command
        assert judge(found, "ask").reason == ("the git settings of this repository run programs (filter.x.clean)")
        assert bash(command, root, directory) == bash(command, root, directory)
        (root / "sub/.git/config").write_text("[core]\nrepositoryformatversion = 0\n")
        assert bash(command, root, directory).git_programs == ()
        (root / "sub/.git/config").write_text('[core]\nrepositoryformatversion = 0\n[filter "x"]\nclean = evil\n')


@pytest.mark.parametrize("entry", ["{root}/.venv/bin", ".venv/bin", "./.venv/bin", ".venv/bin/"])
def test_a_program_of_the_workspace_is_not_the_systems(entry: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def verdict(command: str) -> Decision:
        return judge(bash(command, root, walled=False), "ask").decision

    monkeypatch.setenv("PATH", f"{entry.format(root=root)}:{os.environ['PATH']}")
    folder = root / ".venv/bin"
    folder.mkdir(parents=True)
    assert verdict("git status") == "allow"
    (folder / "git").write_text("#!/bin/sh\nevil\n")
    assert verdict("git status") == "allow"
    (folder / "git").chmod(0o755)
    found = bash("git status", root, walled=False)
    assert found.own_programs == ("git",)
    assert judge(found, "ask").reason == "git is a program in this workspace, not the one of the system"
    assert judge(found, "ask", [Rule(decision="allow", tool="bash", pattern="git status")]).decision == "allow"
    (folder / "git").unlink()
    (folder / "git").symlink_to("/bin/sh")
    assert verdict("git status") == "ask"
    (folder / "git").unlink()
    (folder / "git").symlink_to(shutil.which("git") or "/usr/bin/git")
    assert verdict("git status") == "allow"
    (folder / "echo").write_text("evil\n")
    (folder / "echo").chmod(0o755)
    assert bash("echo hello", root, walled=False).own_programs == ()


def test_the_paths_of_a_tool_are_resolved_or_refused(root: Path) -> None:
    where = partial(resolve, roots=(root,), home=root.parent)
    subject = Subject(
        touches=(Touch(path="src/new.py", access="write"), Touch(path=".vscode/settings.json", access="read"))
    )
    found = collect("write_file", Category.WRITE, subject, resolve=where, directory=root, walled=True)
    assert [(fact.path, fact.access, fact.root, fact.secret) for fact in found.paths] == [
        (str(root / "src/new.py"), "write", str(root), False),
        (str(root / ".vscode/settings.json"), "read", str(root), False),
    ]
    with pytest.raises(Refused):
        collect(
            "read_file",
            Category.READ_ONLY,
            Subject(touches=(Touch(path="/proc/1/mem", access="read"),)),
            resolve=where,
            directory=root,
            walled=True,
        )


def test_the_mark_of_a_hidden_secret_in_what_is_written_is_seen(root: Path) -> None:
    where = partial(resolve, roots=(root,), home=root.parent)
    subject = Subject(touches=(Touch(path="a.py", access="write"),))

    def masked(content: str) -> bool:
        args = {"path": "a.py", "content": content}
        return collect(
            "write_file", Category.WRITE, subject, resolve=where, directory=root, walled=True, args=args
        ).masked

    assert masked("k = '[hidden: GitHub token]'")
    assert not masked("k = 'x'")


def test_an_endless_link_is_no_crash(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    assert decide("cat loop/x", root) in {"ask", "allow"}
    assert decide("cat " + "a/" * 3000 + "x", root) in {"ask", "allow"}
