from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pilotfish.config.settings import Settings
from pilotfish.workspace.git.repository import tame_repository
from pilotfish.workspace.process.processes import Processes
from pilotfish.workspace.sandbox import sandbox as module
from pilotfish.workspace.sandbox.sandbox import Sandbox, chosen_sandbox, clean_environment, find_sandbox, no_sandbox

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


def test_without_bubblewrap_it_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_sandbox.__wrapped__()
    assert (found.bwrap, found.words.partition(";")[0]) == (None, "no sandbox: bubblewrap is not installed")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n", "does not work here (bwrap: No permissions)"),
        ("not a program", "does not start (OSError)"),
        ("#!/bin/sh\necho lo; echo eth0\n", "does not work here (lo)"),
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


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(), "bubblewrap: workspace writable, home hidden, network off"),
        (
            Settings(allowed_hosts=("a.org", "*.b.org")),
            "bubblewrap: workspace writable, home hidden, network only to a.org, *.b.org",
        ),
        (Settings(allowed_hosts=("*",)), "bubblewrap: workspace writable, home hidden, network on"),
        (
            Settings(allowed_hosts=("*",), network=False),
            "bubblewrap: workspace writable, home hidden, network off",
        ),
        (Settings(sandbox="off"), "no sandbox: turned off"),
        (Settings(sandbox="off", network=False), "no sandbox: turned off, and the network cannot be closed"),
    ],
)
def test_the_settings_choose_the_sandbox(settings: Settings, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_sandbox", lambda: Sandbox(bwrap="bwrap"))
    assert chosen_sandbox(settings).words.partition(";")[0] == words


@pytest.mark.parametrize("host", ["", "http://a.org", "a.org/x", "a b", "**", "*org", "a.org:", "a.org:port", "-a"])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="allowedHosts"):
        Settings.model_validate({"allowedHosts": [host]})


async def test_commands_run_in_the_sandbox_and_keep_their_directory(fake: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    environ = {"PATH": os.environ["PATH"], "BWRAP_LOG": str(tmp_path / "log")}
    sandbox = Sandbox(bwrap=fake, hosts=("*",), identity='[user]\n\tname = "A"\n')
    processes = Processes([root], sandbox=lambda: sandbox, environ=environ)
    finished = await processes.run("cd in; echo $GIT_CONFIG_GLOBAL $TMPDIR", timeout=20, tell=lambda _: None)
    assert finished.output == "/run/pilotfish/gitconfig /tmp\n"
    assert processes.cwd == root / "in"
    called = (tmp_path / "log").read_text().splitlines()
    assert called[called.index("--chdir") + 1] == str(root)
    identity = Path(called[called.index("/run/pilotfish/gitconfig") - 1])
    assert identity.read_text() == sandbox.identity
    await processes.aclose()
    assert not identity.parent.exists()


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
