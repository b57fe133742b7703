"""The workspace sandbox, attacked from inside, and what it leaves in the workspace: nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pilotfish.workspace.process.launcher import READ_ONLY_LEAVE, WORKSPACE_LEAVE, Leave
from pilotfish.workspace.process.process_tree import find
from pilotfish.workspace.process.processes import Finished, Processes
from pilotfish.workspace.sandbox import readonly_sandbox
from pilotfish.workspace.sandbox import sandbox as sandbox_module
from pilotfish.workspace.sandbox.confinement import NOTHING_DENIED, Denied
from pilotfish.workspace.sandbox.protected import MASK_MODE
from pilotfish.workspace.sandbox.sandbox import find_sandbox

if find_sandbox().bwrap is None and not os.environ.get("PILOTFISH_GATE"):
    pytest.skip(f"the workspace sandbox does not work here: {find_sandbox().reason}", allow_module_level=True)


SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""A Python of a hidden home does not start, and an attack that does not start proves nothing."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    (place / ".ssh").mkdir(parents=True)
    (place / ".ssh/id_rsa").write_text("the private key\n")
    (place / ".cargo/bin").mkdir(parents=True)
    (place / ".cargo/bin/tool").write_text("a tool\n")
    (place / ".cargo/credentials.toml").write_text("a token\n")
    return place


@pytest.fixture
def root(home: Path) -> Path:
    place = home / "work/project"
    place.mkdir(parents=True)
    git(place, "init", "-q")
    (place / "a.txt").write_text("one\n")
    git(place, "add", "a.txt")
    git(place, "commit", "-qm", "one")
    return place


@pytest.fixture
async def confined(home: Path, root: Path) -> AsyncGenerator[Processes]:
    sandbox = replace(find_sandbox(), identity='[user]\n\tname = "A"\n\temail = "a@b"\n', home=home)
    environ = {"PATH": SYSTEM_PATH, "HOME": str(home)}
    made = Processes([root], sandbox=lambda: sandbox, environ=environ)
    yield made
    await made.aclose()
    assert find(made._launcher.name).sure == set()


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=b", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


async def run(processes: Processes, command: str, leave: Leave = WORKSPACE_LEAVE, timeout: float = 60) -> Finished:
    return await processes.run(command, timeout=timeout, tell=lambda _: None, leave=leave)


async def told(processes: Processes, command: str) -> str:
    return (await run(processes, command)).output


def names(root: Path) -> set[str]:
    """Everything in the workspace but git's own growing files."""
    parts = (path.relative_to(root) for path in root.rglob("*"))
    return {str(path) for path in parts if path.parts[:2] not in {(".git", "objects"), (".git", "logs")}}


async def test_only_the_workspace_is_written(confined: Processes, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    done = await run(confined, f"echo in > a; cat a; echo out > {other}/file; touch /usr/x")
    assert ((root / "a").read_text(), list(other.iterdir())) == ("in\n", [])
    assert done.denied == Denied(paths=(Path("/usr/x"),))  # the other is in a `/tmp` of the sandbox's own
    done = await run(confined, f"echo out > {other}/file", Leave(wall="workspace", writable=(other,)))
    assert (done.code, (other / "file").read_text()) == (0, "out\n")
    everything = Leave(wall="workspace", writable=(Path("/"), Path("/etc"), root.parents[1]))
    assert (await run(confined, "touch /usr/x || touch /etc/x || cat ~/.ssh/id_rsa", everything)).code == 1


# What an editor, git, a shell, a build server or an agent obeys later: a setup, an attempt, what must not be there.
PLANTS = [
    ("", "mkdir -p .vscode && echo x > .vscode/tasks.json", ".vscode/tasks.json"),
    ("", "mkdir -p .husky/_; echo x > .husky/pre-commit", ".husky/pre-commit"),
    ("", "echo x > AGENTS.md", "AGENTS.md"),
    ("", "ln -s a.txt AGENTS.md", "AGENTS.md"),
    ("", "mv a.txt CLAUDE.md", "CLAUDE.md"),
    ("", "rm -rf AGENTS.md; rmdir AGENTS.md; mv AGENTS.md b; echo x > AGENTS.md", "AGENTS.md"),
    ("", "echo '{}' > .mcp.json", ".mcp.json"),
    ("", "mkdir -p .github/workflows && echo x > .github/workflows/ci.yml", ".github/workflows/ci.yml"),
    ("mkdir .github", "mkdir .github/workflows; echo x > .github/workflows/ci.yml", ".github/workflows/ci.yml"),
    ("mkdir -p .github/workflows", "mv .github g; mkdir -p .github/workflows/x", ".github/workflows/x"),
    ("", "mkdir -p .pilotfish; echo x > .pilotfish/rules.toml", ".pilotfish/rules.toml"),
    ("", "mkdir -p .claude .cursor .codex; touch .claude/settings.json", ".claude/settings.json"),
    ("", "echo x > .envrc; echo x > .gdbinit; echo x > sitecustomize.py", ".envrc"),
    ("touch Cargo.toml", "mkdir .cargo; echo x > .cargo/config.toml", ".cargo/config.toml"),
    ("touch pom.xml", "mkdir -p .mvn; echo x > .mvn/extensions.xml", ".mvn/extensions.xml"),
    ("touch build.gradle", "echo x > gradlew; chmod +x gradlew", "gradlew"),
    ("mkdir -p .venv/lib", "echo 'import os' > .venv/lib/x.pth", ".venv/lib/x.pth"),
    ("mkdir -p node_modules/.bin", "echo x > node_modules/.bin/eslint", "node_modules/.bin/eslint"),
    ("mkdir -p node_modules/.bin", "mv node_modules n; mkdir -p node_modules/.bin/x", "node_modules/.bin/x"),
    ("rm -r .git/hooks", "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    ("rm -r .git/hooks", "git status; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    ("", "git status; mv .git g; cp -r g .git; echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    ("", "mv .git g; mkdir .git; echo x > .git/evil", ".git/evil"),
    ("", "git status; git config core.fsmonitor /bin/evil; touch .git/evil", ".git/config.lock"),
    ("rm -rf .git", "mkdir .git; echo x > .git/config", ".git/config"),
    ("rm -rf .git", "ln -s /tmp .git; touch .git/HEAD", ".git/HEAD"),
    ("", "mkdir e; git status; echo ../e > .git/commondir", ".git/commondir"),
    ("git config extensions.worktreeConfig true", "git status; touch .git/config.worktree", ".git/config.worktree"),
    ("git config core.hooksPath tools/hooks", "mkdir -p tools/hooks; touch tools/hooks/x", "tools/hooks/x"),
    ("mkdir t; echo > t/inc; git config include.path ../t/inc", "mv t u", "u"),
]


@pytest.mark.parametrize(("setup", "attempt", "planted"), PLANTS, ids=[attempt for _, attempt, _ in PLANTS])
async def test_nothing_is_planted_and_no_mask_is_left(
    confined: Processes, root: Path, setup: str, attempt: str, planted: str
) -> None:
    subprocess.run(["bash", "-ec", setup], cwd=root, check=True)
    before = {name: (root / name).read_bytes() for name in names(root) if (root / name).is_file()}
    await run(confined, attempt)
    assert not (os.path.lexists(root / planted))
    assert {name: (root / name).read_bytes() for name in before if (root / name).exists()} == before
    assert [path for path in root.rglob("*") if path.lstat().st_mode & 0o7777 == MASK_MODE] == []


async def test_an_include_of_gits_settings_is_not_written(confined: Processes, root: Path) -> None:
    (root / "shared.inc").write_text("[core]\n\tabbrev = 9\n")
    git(root, "config", "include.path", "../shared.inc")
    assert "Read-only file system" in await told(confined, "echo evil >> shared.inc")


async def test_a_submodule_keeps_its_own_git_file(confined: Processes, root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "inner")
    git(tmp_path / "inner", "commit", "-q", "--allow-empty", "-m", "x")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "inner"), "sub")
    plant = (
        "mv sub s; rm sub/.git; mkdir sub/.git; echo x > .git/modules/sub/hooks/a; echo x >> .git/modules/sub/config"
    )
    for command in (plant, f"git status; {plant}"):
        await run(confined, command)
    assert (root / "sub/.git").is_file()
    assert not (root / ".git/modules/sub/hooks/a").exists()
    assert not (root / ".git/modules/sub/config").read_text().endswith("x\n")


async def test_a_linked_work_tree_reaches_its_repository(confined: Processes, root: Path, tmp_path: Path) -> None:
    linked = tmp_path / "home/linked"
    git(root, "worktree", "add", "-q", str(linked))
    made = Processes([linked], sandbox=lambda: confined.sandbox, environ={"PATH": os.environ["PATH"], "HOME": "/"})
    plant = f"echo x > {root}/.git/hooks/a; echo x >> {root}/.git/config; rm .git"
    assert (await told(made, f"git commit -qm linked --allow-empty && git log -1 --format=%s; {plant}"))[
        :7
    ] == "linked\n"
    (linked / "log.sh").write_text("git log -1 --format=%s; git commit -qm no --allow-empty")
    assert (await told(made, f"bash log.sh; {plant}")).startswith("linked\n")
    await made.aclose()
    assert git(linked, "log", "-1", "--format=%s") == "linked\n"
    assert not (root / ".git/hooks/a").exists()
    assert not (root / ".git/config").read_text().endswith("x\n")


async def test_a_protected_link_is_put_back(confined: Processes, root: Path) -> None:
    (root / "AGENTS.md").symlink_to("a.txt")
    done = await run(confined, "rm AGENTS.md; echo evil > AGENTS.md")
    assert (str((root / "AGENTS.md").readlink()), (root / "AGENTS.md.blocked1").read_text()) == ("a.txt", "evil\n")
    assert done.notes == (f"{root}/AGENTS.md is protected: what the command made there is now AGENTS.md.blocked1",)


@pytest.mark.parametrize(
    "attempt",
    [
        "mkdir -p src/new && echo evil > src/new/AGENTS.md",
        "echo evil > src/AGENTS.md",
        "rm -f src/AGENTS.md; echo evil > src/AGENTS.md",
        "mv src s; mkdir src; echo evil > src/AGENTS.md",
        "echo evil > x; mv x src/CLAUDE.md",
        "echo evil > x; ln -s ../x src/CLAUDE.md",
        "echo evil > x; ln src/../x src/GEMINI.md",
        "echo evil > docs/shared.md",
        "mv docs d; mkdir docs; echo evil > docs/shared.md",
        "echo evil > .github/copilot-instructions.md",
        "mkdir -p node_modules/p; echo evil > node_modules/p/AGENTS.md; mv node_modules/p src/p",
    ],
)
async def test_a_command_that_nobody_approved_leaves_no_instructions(
    confined: Processes, root: Path, attempt: str
) -> None:
    for name in ("src", "docs", ".github"):
        (root / name).mkdir()
    (root / "src/AGENTS.md").write_text("mine\n")
    (root / "docs/shared.md").write_text("mine too\n")
    (root / "docs/CLAUDE.md").symlink_to("shared.md")
    done = await run(confined, attempt, Leave(wall="workspace", hides_secrets=True))
    found = [path for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "copilot-*") for path in root.rglob(name)]
    assert {str(path.relative_to(root)): path.read_text() for path in found} == {
        "src/AGENTS.md": "mine\n",
        "docs/CLAUDE.md": "mine too\n",
    }
    assert done.code != 0 or "set for_real" in " ".join(done.notes)


EVIL = "printf '[core]\n\tfsmonitor = touch /x\n'"
COPY = f"git --version; cp -r .git g; {EVIL} >> g/config"
BAD = f"git --version; {EVIL} > node_modules/.git/config"
MAKE = "mkdir -p sub/.git/objects sub/.git/refs sub/.git/hooks; echo ref: refs/heads/main > sub/.git/HEAD"


@pytest.mark.parametrize(
    "attempts",
    [
        [f"{MAKE}; {EVIL} > sub/.git/config"],
        [f"git --version; {MAKE}; {EVIL} > sub/.git/config"],
        [f"git init -q sub; {EVIL} > sub/.git/config"],
        ["git init -q sub; echo evil > sub/.git/hooks/post-checkout"],
        ["git init -q sub; echo '[include] path = ../../inc' > sub/.git/config"],
        ["git init -q sub", f"{EVIL} >> sub/.git/config; git -C sub config alias.st '!evil'"],
        ["git init -q sub", f"git --version; {EVIL} >> sub/.git/config; {EVIL} >> sub/.git/config.worktree"],
        ["git init -q sub", "git --version; echo evil > sub/.git/hooks/post-checkout"],
        ["git init -q sub", "git --version; rm -r sub/.git/hooks; mkdir sub/.git/hooks; echo e > sub/.git/hooks/x"],
        ["git init -q sub", f"git --version; mv sub s; {MAKE}; {EVIL} > sub/.git/config"],
        ["git init -q sub", f"git --version; mv sub/.git g; {MAKE}; {EVIL} > sub/.git/config"],
        ["git init -q sub", f"mkdir e; cp -r sub/.git/* e; {EVIL} > e/config; echo ../../e > sub/.git/commondir"],
        [f"{MAKE}; mv sub/.git d; rm -r sub; {EVIL} > d/config"],
        [f"{MAKE}; mv sub/.git/* .; {EVIL} > config"],
        [f"{MAKE}; mkdir node_modules; mv sub/.git node_modules; echo gitdir: ../node_modules/.git > sub/.git", BAD],
        [f"{MAKE}; rm sub/.git/HEAD; {EVIL} > sub/.git/config", "git --version; echo ref: refs/x > sub/.git/HEAD"],
        ["git worktree add -q sub", f"{COPY}; echo ../../../g > .git/worktrees/sub/commondir"],
        ["git worktree add -q sub", f"{COPY}; echo gitdir: ../g/worktrees/sub > sub/.git"],
        [f"{MAKE}; ln -s /tmp/x sub/.git/config; {EVIL} > /tmp/x"],
        [f"{MAKE}; mv sub/.git g; {EVIL} > g/config; ln -s ../g sub/.git"],
    ],
    ids=str,
)  # fmt: skip
async def test_a_command_that_nobody_approved_leaves_no_repository_that_runs_programs(
    confined: Processes, root: Path, attempts: list[str]
) -> None:
    for attempt in attempts:
        await run(confined, attempt, Leave(wall="workspace", hides_secrets=True))
    for folder, _, _ in os.walk(root):
        if not {".git", "node_modules"} & set(Path(folder).relative_to(root).parts):
            settings = subprocess.run(
                ["git", "config", "--list", "--local"], cwd=folder, check=False, capture_output=True, text=True
            ).stdout
            assert not any(name in settings for name in ("fsmonitor", "alias", "include")), folder
            common = subprocess.run(
                ["git", "rev-parse", "--git-path", "hooks"], cwd=folder, check=False, capture_output=True, text=True
            )
            hooks = Path(folder, common.stdout.strip())
            assert common.returncode or all(hook.suffix == ".sample" for hook in hooks.glob("*"))
    assert [path for path in root.rglob("*") if path.lstat().st_mode & 0o7777 == MASK_MODE] == []


async def test_a_repository_with_plain_settings_stays_and_works(confined: Processes, root: Path) -> None:
    nobody = Leave(wall="workspace", hides_secrets=True)
    made = "git init -q sub && cd sub && git remote add origin https://example.org/x && git config user.name B"
    assert (await run(confined, made, nobody)).notes == ()
    again = f"cd {root}/sub && echo x > y && git add y && git commit -qm one && git log -1 --format=%s"
    assert (await run(confined, again, nobody)).output == "one\n"
    tree = await run(
        confined, f"cd {root} && git worktree add -q tree && git -C tree commit -qm t --allow-empty", nobody
    )
    assert ((tree.code, tree.notes), git(root / "tree", "log", "-1", "--format=%s")) == ((0, ()), "t\n")
    assert (await run(confined, f"cd {root}/sub && mkdir a && mv a b && git status --short", nobody)).code == 0


@pytest.mark.parametrize(
    ("reads", "plant", "writes"),
    [
        ("pip list; npm --version", "echo 'import os' > .venv/x.pth", "pip install -e . || true"),
        ("npm test; yarn list", "echo evil > node_modules/.bin/tsc", "npm install || true"),
        ("git status", "touch .git/x", "git add a.txt"),
    ],
)
async def test_a_program_that_only_reads_opens_nothing_for_the_rest_of_an_unapproved_line(
    confined: Processes, root: Path, reads: str, plant: str, writes: str
) -> None:
    (root / ".venv").mkdir()
    (root / "node_modules/.bin").mkdir(parents=True)
    nobody = Leave(wall="workspace", hides_secrets=True)
    planted = root / plant.rsplit(maxsplit=1)[-1]
    await run(confined, f"{reads}; {plant}", nobody)
    assert not planted.exists()
    await run(confined, f"{writes}; {plant}", nobody)
    assert planted.exists()


async def test_the_folders_of_other_sessions_are_out_of_sight(
    confined: Processes, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where `TMPDIR` is no hidden folder: a proxy of another command lies there."""
    assert (await run(confined, "ls /usr/share/doc | grep -c .")).code == 0
    for module in (sandbox_module, readonly_sandbox):
        monkeypatch.setattr(module, "tempfile", SimpleNamespace(gettempdir=lambda: "/usr/share/doc"))
    for leave in (WORKSPACE_LEAVE, READ_ONLY_LEAVE):
        assert (await run(confined, "ls /usr/share/doc | wc -l", leave)).output == "0\n"
    monkeypatch.undo()
    (root / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(root / "tmp"))
    inner = Processes([root], sandbox=lambda: confined.sandbox, environ={"PATH": SYSTEM_PATH})
    # Without a proxy: the path of its socket would be too long here.
    for leave in (Leave(wall="workspace", hosts=("*",)), READ_ONLY_LEAVE):
        assert (await run(inner, "ls tmp/*; echo x > tmp/*/gitconfig", leave)).output.count("pilotfish") <= 1
    folder = next((root / "tmp").iterdir())
    assert {path.name for path in folder.iterdir()} >= {"tmp", "home", "gitconfig"}
    assert (folder / "gitconfig").read_text() != "x\n"
    await inner.aclose()


async def test_an_approved_command_makes_instructions(confined: Processes, root: Path) -> None:
    await run(confined, "mkdir src; echo good > src/AGENTS.md")
    named = Leave(wall="workspace", hides_secrets=True, paths=(root / "src/CLAUDE.md",))
    await run(confined, "echo good > src/CLAUDE.md", named)
    assert [(root / "src" / name).read_text() for name in ("AGENTS.md", "CLAUDE.md")] == ["good\n", "good\n"]


async def test_ordinary_work_goes_on(confined: Processes, root: Path) -> None:
    """git commits no mask; a new repository, a virtual environment and what the user allowed are made."""
    done = await told(
        confined, "echo two > b.txt && git add -A && git commit -qm two && git show --stat --format=%an%ae"
    )
    assert done.splitlines() == ["Aa@b", "", " b.txt | 1 +", " 1 file changed, 1 insertion(+)"]
    assert git(root, "status", "--short") == ""
    await run(confined, "git init -q inner && mkdir .venv && touch .venv/x")
    assert (root / "inner/.git/HEAD").exists()
    assert (root / ".venv/x").exists()
    allowed = Leave(wall="workspace", paths=(root / "AGENTS.md", root / ".vscode/settings.json"))
    await run(confined, "echo hi > AGENTS.md; mkdir .vscode; echo x > .vscode/settings.json", allowed)
    assert ((root / "AGENTS.md").read_text(), (root / ".vscode/settings.json").read_text()) == ("hi\n", "x\n")
    assert (await run(confined, "pip --version; touch .venv/y")).code == 0


async def test_a_repository_is_allowed_without_its_hooks(confined: Processes, root: Path) -> None:
    (root / "commit.sh").write_text("git commit -qm three --allow-empty; echo x > .git/hooks/a")
    done = await run(confined, "bash commit.sh")
    assert any(path.is_relative_to(root / ".git") for path in done.denied.paths)
    await run(confined, "bash commit.sh", Leave(wall="workspace", paths=(root / ".git",)))
    assert git(root, "log", "-1", "--format=%s") == "three\n"
    assert not (root / ".git/hooks/a").exists()


async def test_masks_stay_until_the_last_command_ends(confined: Processes, root: Path) -> None:
    job, _ = await confined.start("echo up; read < <(sleep 60); mkdir .vscode/x", tell=lambda _: None)
    await job.watched(20, until="up")
    await run(confined, "true")
    assert (root / ".vscode").is_dir()
    (root / ".vscode/settings.json").write_text("the user's own")
    os.kill(job.tree.leader, signal.SIGKILL)
    await job.ended()
    await gone(root / "AGENTS.md")
    assert names(root) & {".vscode", "AGENTS.md", ".vscode/settings.json"} == {".vscode", ".vscode/settings.json"}


async def gone(place: Path) -> None:
    async with asyncio.timeout(20):
        while place.exists():
            await asyncio.sleep(0.01)


SERVER = """
import asyncio, os, sys
from pathlib import Path
from pilotfish.workspace.process.processes import Processes
async def main():
    processes = Processes([Path(sys.argv[1])])
    job, _ = await processes.start("echo up; sleep 60", tell=lambda _: None)
    await job.watched(20, until="up")
    print(os.path.isdir(sys.argv[1] + "/.vscode"), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_a_killed_server_leaves_no_mask(root: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(root), stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    assert await server.stdout.readline() == b"True\n"
    server.kill()
    await server.wait()
    async with asyncio.timeout(20):
        while (root / ".vscode").exists() or (root / "AGENTS.md").exists():
            await asyncio.sleep(0.05)


async def test_the_home_lasts_as_long_as_the_session(confined: Processes, home: Path) -> None:
    await told(confined, "mkdir -p ~/.cache/go-build && chmod 555 ~/.cache && echo warm > ~/x; echo kept > /tmp/kept")
    assert await told(confined, "cat ~/x /tmp/kept; ls -A ~/.ssh; cat ~/.cargo/bin/tool ~/.cargo/credentials.toml") == (
        "warm\nkept\nls: cannot access '" + str(home) + "/.ssh': No such file or directory\na tool\n"
    )
    assert (await run(confined, "echo x > ~/.cargo/bin/tool")).denied.paths == ()
    assert (home / ".cargo/bin/tool").read_text() == "a tool\n"
    assert not (home / "x").exists()
    folders = confined._launcher.folders
    assert folders is not None
    await confined.aclose()
    assert not folders.base.exists()


async def test_a_link_in_the_sessions_folders_leads_the_server_nowhere(confined: Processes, root: Path) -> None:
    """What the server writes for a session is out of a command's reach."""
    victim = root / "a.txt"
    await run(
        confined,
        f"cd /tmp; for f in .gitconfig empty gitconfig; do ln -sf {victim} $f; done; ln -s {victim} ~/gitconfig",
    )
    await run(confined, "git status")
    assert victim.read_text() == "one\n"


OPENAT2 = 'import ctypes, struct; ctypes.CDLL(None).syscall(437, -100, b"t", struct.pack("QQQ", 65, 0o4755, 0), 24)'
ESCAPES = [
    "mount -o remount,rw /",
    "mount --bind / /mnt",
    "unshare -Ur true",
    "unshare -Urm umount .git",
    "python3 -c 'import socket; socket.socket(40, 1)'",  # vsock reaches the host of a virtual machine
    "python3 -c 'import socket; socket.socket(17, 3)'",
    "python3 -c 'import socket; socket.socket(38, 5)'",
    "cp /bin/true t; chmod u+s t",
    "python3 -c 'import os; os.open(\"t\", os.O_CREAT, 0o4755)'; find . -perm -4000 | grep .",
    "python3 -c 'import ctypes; ctypes.CDLL(None).creat(b\"t\", 0o4755)'; find . -perm -4000 | grep .",
    "python3 -c 'import os; os.mknod(\"t\", 0o104755)'; find . -perm -4000 | grep .",
    f"python3 -c '{OPENAT2}'; find . -perm -4000 | grep .",
    "cp /bin/true t; chmod g+s t",
    "python3 -c 'import os; os.open(\"t\", os.O_CREAT, 0o2755)'; find . -perm -2000 | grep .",
    "python3 -c 'import ctypes; ctypes.CDLL(None).creat(b\"t\", 0o2755)'; find . -perm -2000 | grep .",
    "python3 -c 'import os; os.mknod(\"t\", 0o102755)'; find . -perm -2000 | grep .",
    "cat /etc/shadow | grep .",
    "ls -A /run/user /run/dbus /run/docker.sock 2>/dev/null | grep .",
    "x=$(cat /proc/sys/kernel/core_pattern); echo $x > /proc/sys/kernel/core_pattern",
    "x=$(cat /proc/sys/vm/swappiness); echo $x > /proc/sys/vm/swappiness",
    "find /proc -maxdepth 2 -type f -writable ! -path '/proc/[0-9]*' ! -path '/proc/self/*' | grep .",
    "ls /proc/1/root/root/.ssh",
    "kill -0 $SERVER",
]


async def test_the_attempts_below_really_start(confined: Processes) -> None:
    programs = "python3 -c pass && for one in mount unshare find cp ps; do command -v $one; done"
    assert (await run(confined, programs)).code == 0


@pytest.mark.parametrize("attempt", ESCAPES)
async def test_the_sandbox_is_not_left(confined: Processes, attempt: str) -> None:
    assert (await run(confined, f"SERVER={os.getpid()}; {attempt}")).code not in (0, None)


async def test_other_processes_are_out_of_sight(confined: Processes) -> None:
    assert int(await told(confined, "ps ax | wc -l")) < 10


async def test_an_abstract_socket_is_not_reached(confined: Processes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0pilotfish-test")
        listener.listen()
        connect = "import socket; socket.socket(socket.AF_UNIX).connect('\\0pilotfish-test')"
        assert "ConnectionRefusedError" in await told(confined, f'python3 -c "{connect}"')


async def test_the_network_is_off_and_the_refused_host_is_named(confined: Processes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        direct = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo cut off"
        assert await told(confined, direct) == "cut off\n"
        opened = Leave(wall="workspace", hosts=("*",))
        assert (await run(confined, direct, opened)).output == "reached\n"
        confined.confine(replace(confined.sandbox, network=False))
        assert (await run(confined, direct, opened)).output == "cut off\n"
    done = await run(confined, "curl -sSf https://pypi.org/simple/ || curl -sSf http://example.org:8080/")
    assert done.denied == Denied(network=True, hosts=("pypi.org", "example.org:8080"))
    unnamed = await run(confined, "echo 'fatal: unable to access: Could not resolve host: x' >&2; exit 128")
    assert unnamed.denied == Denied(network=True)
    assert (await run(confined, "exit 3")).denied == NOTHING_DENIED


async def test_a_host_of_the_allow_list_is_reached_and_no_other(confined: Processes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readuntil(b"\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + first)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    confined.confine(replace(confined.sandbox, hosts=(f"localhost:{port}",)))
    fetch = f"NO_PROXY= no_proxy= curl -sSf -m 20 http://localhost:{port}/a?b"
    assert (await told(confined, fetch)).strip() == "GET /a?b HTTP/1.1"
    assert (await told(confined, f"{fetch} -p")).strip() == "GET /a?b HTTP/1.1"  # by CONNECT
    other = await run(confined, f"NO_PROXY= no_proxy= curl -sSf -m 20 http://127.0.0.1:{port}/")
    assert other.denied == Denied(network=True, hosts=(f"127.0.0.1:{port}",))
    server.close()


async def test_a_server_and_its_client_meet_on_the_sandboxs_own_loopback(confined: Processes) -> None:
    assert (
        await told(
            confined,
            "python3 -m http.server 8123 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3; "
            "curl -sf http://localhost:8123/a.txt && break; done",
        )
        == "one\n"
    )


async def test_what_is_left_behind_ends_with_the_sandbox_and_is_told(confined: Processes) -> None:
    finished = await run(confined, "sleep 60 & echo started")
    assert (finished.output, finished.left) == ("started\n", None)
    assert finished.notes == ("the sandbox ended 1 processes when the command ended; for a server, set background",)


async def test_a_confined_command_is_stopped_with_all_it_started(confined: Processes) -> None:
    assert (await run(confined, "setsid sleep 60 & sleep 60", timeout=0.5)).stopped
    job, _ = await confined.start("echo up; setsid sleep 60", tell=lambda _: None)
    await job.watched(10, until="up")
    await confined.stop(job)
    assert job.over
