from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from pilotfish.config.settings import Settings
from pilotfish.workspace.git.repository import tame_repository
from pilotfish.workspace.process import sandbox as module
from pilotfish.workspace.process.process_tree import find
from pilotfish.workspace.process.processes import Processes
from pilotfish.workspace.process.sandbox import Sandbox, chosen_sandbox, clean_environment, find_sandbox, no_sandbox

# Stands in for bubblewrap: says how it was called, then runs the command after `--` where --chdir says.
FAKE = """#!/usr/bin/env bash
printf '%s\\n' "$@" > "$BWRAP_LOG"
while [ "$1" != -- ]; do [ "$1" = --chdir ] && cd "$2"; shift; done
shift
exec "$@"
"""


@pytest.fixture
def fake(tmp_path: Path) -> str:
    path = tmp_path / "bin" / "bwrap"
    path.parent.mkdir()
    path.write_text(FAKE)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "NPM_TOKEN",
        "DB_PASSWORD",
        "PGPASSWORD",
        "MY_PASS",
        "DATABASE_URL",
        "SENTRY_DSN",
        "SLACK_WEBHOOK",
        "SIGNING_KEY",
        "GITLAB_PAT",
        "NPM_CONFIG__AUTH",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_STORAGE_CONNECTION_STRING",
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "BASH_FUNC_ls%%",
        "PILOTFISH_MODEL",
        "ELECTRON_RUN_AS_NODE",
        "VSCODE_IPC_HOOK",
        "GIT_DIR",
        "GIT_ASKPASS",
        "GIT_CONFIG_PARAMETERS",
        "GIT_EXTERNAL_DIFF",
    ],
)
def test_secrets_and_hooks_do_not_reach_a_command(name: str) -> None:
    assert name not in clean_environment({name: "value"})


@pytest.mark.parametrize(
    "name", ["HOME", "LANG", "SSH_AUTH_SOCK", "HTTP_PROXY", "VIRTUAL_ENV", "JAVA_HOME", "KEYBOARD", "NODE_ENV"]
)
def test_what_commands_need_reaches_them(name: str) -> None:
    assert clean_environment({name: "value"})[name] == "value"


def test_nobody_sits_at_a_terminal() -> None:
    environment = clean_environment({"TERM": "xterm", "PAGER": "less", "EDITOR": "vim", "GIT_PAGER": "less"})
    assert {name: environment[name] for name in ("TERM", "PAGER", "EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT")} == {
        "TERM": "dumb",
        "PAGER": "cat",
        "EDITOR": "true",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }


def git(folder: Path, *arguments: str) -> str:
    clean = clean_environment({"PATH": os.environ["PATH"], "HOME": str(folder)})
    environment = clean | tame_repository(folder, clean)
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


TRAPS = [
    "core.fsmonitor",
    "core.pager",
    "core.sshCommand",
    "core.askPass",
    "core.editor",
    "diff.external",
    "diff.trap.textconv",
    "diff.trap.command",
    "filter.trap.clean",
    "filter.trap.smudge",
    "filter.trap.process",
]


def hostile(folder: Path, *keys: str) -> None:
    """A repository with a changed file, in which these settings name a program that leaves a trace."""
    git(folder, "init", "-q")
    (folder / "file").write_text("one\n")
    git(folder, "add", "file")
    git(folder, "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "one")
    (folder / "file").write_text("two\n")
    trap = folder / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {folder}/sprung\n")
    trap.chmod(0o755)
    (folder / ".gitattributes").write_text("file diff=trap filter=trap\n")
    for key in keys:
        git(folder, "config", "--local", key, str(trap))


@pytest.mark.parametrize("keys", [[key] for key in TRAPS] + [TRAPS], ids=[*TRAPS, "all"])
def test_reading_a_hostile_repository_runs_none_of_its_programs(tmp_path: Path, keys: list[str]) -> None:
    hostile(tmp_path, *keys)
    assert "modified:   file" in git(tmp_path, "status")
    told = git(tmp_path, "diff")
    assert ("-one\n+two\n" in told, "cannot run" in told) == (True, False)
    git(tmp_path, "log", "-p")
    git(tmp_path, "show")
    git(tmp_path, "add", "file")
    git(tmp_path, "fetch", "ssh://127.0.0.1:1/x")
    assert not (tmp_path / "sprung").exists()


def test_settings_that_a_repository_includes_are_tamed_too(tmp_path: Path) -> None:
    hostile(tmp_path)
    (tmp_path / "more").write_text(f"[diff]\n\texternal = {tmp_path}/trap\n")
    git(tmp_path, "config", "--local", "include.path", "../more")
    assert "-one\n+two\n" in git(tmp_path, "diff")
    assert not (tmp_path / "sprung").exists()


def test_an_ordinary_repository_and_lfs_are_left_alone(tmp_path: Path) -> None:
    hostile(tmp_path)
    assert tame_repository(tmp_path, {}) == {}
    git(tmp_path, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    assert tame_repository(tmp_path, os.environ) == {}


@pytest.mark.parametrize("key", ["core.fsmonitor", "diff.external", "diff.trap.textconv", "filter.trap.clean"])
def test_those_traps_spring_without_this(tmp_path: Path, key: str) -> None:
    hostile(tmp_path, key)
    subprocess.run(["git", "status"], cwd=tmp_path, capture_output=True)
    subprocess.run(["git", "diff"], cwd=tmp_path, capture_output=True)
    assert (tmp_path / "sprung").exists()


def pairs(argv: list[str], option: str) -> list[str]:
    """The places that an option of bubblewrap is given for."""
    size = 2 if option == "--tmpfs" else 3
    return [argv[at + size - 1] for at, word in enumerate(argv[: argv.index("--")]) if word == option]


def test_the_workspace_is_writable_the_home_hidden_and_its_tools_readable(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "home" / "work"
    for folder in (root / ".git/hooks", home / ".cargo/bin", home / ".ssh"):
        folder.mkdir(parents=True)
    (root / ".git/config").write_text("")
    (home / ".cargo/credentials.toml").write_text("token")
    made = Sandbox(bwrap="bwrap", home=home)
    argv = made.wrap(["true"], roots=[root], cwd=root, scratch=tmp_path / "scratch")
    assert pairs(argv, "--bind") == ["/tmp", str(root)]
    assert str(home) in pairs(argv, "--tmpfs")
    readable = pairs(argv, "--ro-bind")
    assert readable[0] == "/"
    assert readable[-4:] == [
        str(home / ".cargo"),
        str(home / ".cargo/credentials.toml"),
        str(root / ".git/hooks"),
        str(root / ".git/config"),
    ]
    assert argv[-2:] == ["--", "true"]
    assert argv.index(str(home)) < argv.index(str(root))  # later binds lie over earlier ones


def test_the_network_is_by_setting(tmp_path: Path) -> None:
    for network in (True, False):
        argv = Sandbox(bwrap="bwrap", network=network).wrap(["true"], roots=[], cwd=tmp_path, scratch=tmp_path)
        assert ("--unshare-net" in argv) is not network


def test_a_linked_worktree_reaches_its_repository(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    inner = main / ".git/worktrees/linked"
    inner.mkdir(parents=True)
    linked.mkdir()
    (main / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (main / ".git/objects").mkdir()
    (inner / "commondir").write_text("../..\n")
    (inner / "gitdir").write_text(f"{linked}/.git\n")
    (linked / ".git").write_text(f"gitdir: {inner}\n")
    argv = Sandbox(bwrap="bwrap").wrap(["true"], roots=[linked], cwd=linked, scratch=tmp_path)
    assert pairs(argv, "--bind") == ["/tmp", str(linked), str(main / ".git")]
    (inner / "gitdir").unlink()  # a repository that knows nothing of this work tree
    argv = Sandbox(bwrap="bwrap").wrap(["true"], roots=[linked], cwd=linked, scratch=tmp_path)
    assert pairs(argv, "--bind") == ["/tmp", str(linked)]


def test_without_bubblewrap_it_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_sandbox.__wrapped__()
    assert (found.bwrap, found.words.partition(";")[0]) == (None, "no sandbox: bubblewrap is not installed")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n", "does not work here (bwrap: No permissions)"),
        ("not a program", "does not start (OSError)"),
    ],
)
def test_a_bubblewrap_that_does_not_work_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    (tmp_path / "bwrap").write_text(script)
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = find_sandbox.__wrapped__()
    assert found.bwrap is None
    assert words in found.words


def test_a_path_entry_that_the_workspace_would_fill_is_dropped() -> None:
    assert clean_environment({"PATH": "node_modules/.bin:/usr/bin::.:/bin"})["PATH"] == "/usr/bin:/bin"
    assert clean_environment({"PATH": "."})["PATH"] == clean_environment({})["PATH"] == os.defpath


def test_the_settings_choose_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(network: bool) -> Sandbox:
        return Sandbox(bwrap="bwrap", network=network)

    monkeypatch.setattr(module, "find_sandbox", find)
    words = {
        (sandbox, network): chosen_sandbox(Settings(sandbox=sandbox, network=network)).words.partition(";")[0]
        for sandbox in ("auto", "off")
        for network in (True, False)
    }
    assert words == {
        ("auto", True): "bubblewrap: workspace writable, home hidden, network on",
        ("auto", False): "bubblewrap: workspace writable, home hidden, network off",
        ("off", True): "no sandbox: turned off",
        ("off", False): "no sandbox: turned off, and the network cannot be closed",
    }


async def test_commands_run_in_the_sandbox_and_keep_their_directory(
    fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    environ = {"PATH": os.environ["PATH"], "BWRAP_LOG": str(tmp_path / "log")}
    identity = '[user]\n\tname = "A"\n'
    processes = Processes([root], sandbox=lambda: Sandbox(bwrap=fake, identity=identity), environ=environ)
    finished = await processes.run("cd in; echo $GIT_CONFIG_GLOBAL $TMPDIR", timeout=20, tell=lambda _: None)
    assert finished.output == "/tmp/.gitconfig /tmp\n"
    assert processes.cwd == root / "in"
    called = (tmp_path / "log").read_text().splitlines()
    assert called[called.index("--chdir") + 1] == str(root)
    scratch = Path(called[called.index("--bind") + 1])
    assert (scratch / ".gitconfig").read_text() == identity
    await processes.aclose()
    assert not scratch.exists()


async def test_a_sandbox_can_be_turned_off(fake: str, tmp_path: Path) -> None:
    processes = Processes([tmp_path], sandbox=lambda: Sandbox(bwrap=fake), environ={"PATH": os.environ["PATH"]})
    processes.confine(no_sandbox("turned off"))
    assert (await processes.run("echo hi", timeout=20, tell=lambda _: None)).output == "hi\n"
    assert processes.sandbox.words.startswith("no sandbox: turned off; no read-only sandbox")
    await processes.aclose()


def test_the_users_name_is_carried_into_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    (tmp_path / "config").write_text(
        '[user]\n\tname = Ann \\"A\\" B\n\temail = a@b.c\n[credential]\n\thelper = secret\n'
    )
    (tmp_path / "identity").write_text(module._identity())
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "identity"))
    told = subprocess.run(["git", "config", "--global", "--list"], capture_output=True, text=True).stdout
    assert told == 'user.name=Ann "A" B\nuser.email=a@b.c\n'


needs_bubblewrap = pytest.mark.skipif(find_sandbox().bwrap is None, reason="bubblewrap does not work on this machine")


@pytest.fixture
async def confined(tmp_path: Path) -> AsyncGenerator[Processes]:
    root = tmp_path / "root"
    root.mkdir()
    sandbox = replace(find_sandbox(), identity='[user]\n\tname = "A"\n\temail = "a@b"\n')
    made = Processes([root], sandbox=lambda: sandbox)
    yield made
    await made.aclose()
    assert find(made._name).sure == set()


async def told(processes: Processes, command: str, timeout: float = 20) -> str:
    return (await processes.run(command, timeout=timeout, tell=lambda _: None)).output


@needs_bubblewrap
async def test_only_the_workspace_is_written(confined: Processes, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    output = await told(confined, f"echo in > a; echo out > {tmp_path}/outside; cat a; touch /usr/x {Path.home()}/x")
    assert ((tmp_path / "outside").read_text(), (tmp_path / "root/a").read_text()) == ("x", "in\n")
    assert "Read-only file system" in output
    assert not (Path.home() / "x").exists()


@needs_bubblewrap
async def test_the_home_and_other_processes_are_out_of_sight(confined: Processes) -> None:
    assert await told(confined, f"ls -A {Path.home()} | grep -c ssh; kill -0 {os.getpid()} 2>&1") != ""
    assert int(await told(confined, "ps ax | wc -l")) < 10


@needs_bubblewrap
async def test_the_temporary_folder_is_kept_between_commands(confined: Processes) -> None:
    name = f"/tmp/kept-{os.getpid()}"
    await told(confined, f"echo kept > {name}")
    assert await told(confined, f"cat {name}") == "kept\n"
    assert not Path(name).exists()


@needs_bubblewrap
async def test_a_commit_has_its_author_and_hooks_cannot_be_planted(confined: Processes, tmp_path: Path) -> None:
    await told(confined, "git init -q")
    output = await told(
        confined, "git commit -q --allow-empty -m one && git log --format=%an%ae; echo x > .git/hooks/a"
    )
    assert output.startswith("Aa@b\n")
    assert "Read-only file system" in output


@needs_bubblewrap
async def test_without_network_nothing_is_reached(confined: Processes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    reach = f"(exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}) 2>/dev/null && echo reached || echo cut off"
    assert await told(confined, reach) == "reached\n"
    confined.confine(replace(confined.sandbox, network=False))
    assert await told(confined, reach) == "cut off\n"
    listener.close()


@needs_bubblewrap
async def test_what_is_left_behind_ends_with_the_sandbox_and_is_told(confined: Processes) -> None:
    finished = await confined.run("sleep 60 & echo started", timeout=20, tell=lambda _: None)
    assert (finished.output, finished.left) == ("started\n", None)
    assert finished.notes == ("the sandbox ended 1 processes when the command ended; for a server, set background",)


@needs_bubblewrap
async def test_a_confined_command_is_stopped_with_all_it_started(confined: Processes) -> None:
    finished = await confined.run("setsid sleep 60 & sleep 60", timeout=0.5, tell=lambda _: None)
    assert finished.stopped
    job, _ = await confined.start("echo up; setsid sleep 60", tell=lambda _: None)
    await job.watched(10, until="up")
    await confined.stop(job)
    assert job.over
