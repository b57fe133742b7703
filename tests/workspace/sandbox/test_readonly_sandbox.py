"""The read-only sandbox, attacked from inside: whatever a command tries, nothing changes and nothing leaves."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from pilotfish.errors import ToolError
from pilotfish.workspace.process.launcher import READ_ONLY_LEAVE, Leave
from pilotfish.workspace.process.processes import Finished, Processes
from pilotfish.workspace.sandbox import landlock, readonly_sandbox, seccomp
from pilotfish.workspace.sandbox.readonly_sandbox import (
    Kind,
    ReadOnlySandbox,
    Scene,
    find_read_only_sandbox,
    no_read_only_sandbox,
    profile,
    secret_files,
    trial,
)
from pilotfish.workspace.sandbox.sandbox import find_sandbox, no_sandbox

PROGRAMS: dict[Kind, str | None] = {"bubblewrap": shutil.which("bwrap"), "landlock": sys.executable}


def standing(kind: Kind, home: Path) -> ReadOnlySandbox:
    """The sandbox of this kind. The gate has both; a developer's machine may lack one."""
    missing = pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip
    program = PROGRAMS[kind] or missing(f"{kind} is not installed")
    sandbox = ReadOnlySandbox(kind=kind, program=program, home=home)
    if sys.platform != "linux" or trial(sandbox) is not None:
        missing(f"{kind} does not work here")
    return sandbox


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    (place / ".ssh").mkdir(parents=True)
    (place / ".ssh/id_rsa").write_text("the private key\n")
    (place / "notes.txt").write_text("private notes\n")
    (place / ".cargo/bin").mkdir(parents=True)
    (place / ".cargo/credentials.toml").write_text("a token\n")
    monkeypatch.setenv("HOME", str(place))
    return place


@pytest.fixture
def root(home: Path) -> Path:
    place = home / "work" / "project"
    place.mkdir(parents=True)
    (place / "a.txt").write_text("one\n")
    (place / ".env").write_text("KEY=the-secret\n")
    os.link(place / ".env", place / "hard.txt")
    (place / "soft.txt").symlink_to(".env")
    os.link(home / ".ssh/id_rsa", place / "key.txt")
    (place / "home.txt").symlink_to(home / "notes.txt")
    return place


@pytest.fixture(params=["bubblewrap", "landlock"])
async def walled(request: pytest.FixtureRequest, home: Path, root: Path) -> AsyncGenerator[Processes]:
    sandbox = replace(find_sandbox(), read_only=standing(request.param, home))
    made = Processes([root], sandbox=lambda: sandbox, environ={"PATH": SYSTEM_PATH, "HOME": str(home)})
    yield made
    await made.aclose()


async def run(processes: Processes, command: str, leave: Leave = READ_ONLY_LEAVE) -> Finished:
    return await processes.run(command, timeout=60, tell=lambda _: None, leave=leave)


def snapshot(place: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path): (status.st_mode, status.st_size, status.st_mtime_ns)
        for path in sorted(place.rglob("*"))
        if (status := path.lstat())
    }


async def test_ordinary_reading_works(walled: Processes, root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    told = await run(
        walled, "cat a.txt; ls | head -1; git status --short | grep a.txt; grep -c one a.txt; echo $((1+1))"
    )
    assert told.output == "one\na.txt\n?? a.txt\n1\n2\n"
    assert (await run(walled, "sort <<< $'b\\na' > /dev/null && echo sorted")).output == "sorted\n"
    assert (await run(walled, "mkdir -p x 2>/dev/null || cd ..; pwd")).code == 0


SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""A Python of a hidden home does not start, and an attack that does not start proves nothing."""


async def test_the_attacks_below_really_start(walled: Processes) -> None:
    programs = "for one in mount unshare chroot mkfifo truncate find; do command -v $one || exit; done"
    assert (await run(walled, f"python3 -c pass && git --version && {programs}")).code == 0


CHANGES = [
    "echo x > a.txt",
    "echo x > new",
    "echo x >> /var/log/new",
    "rm a.txt",
    "mv a.txt b.txt",
    "ln -s a.txt c.txt",
    "ln a.txt d.txt",
    "mkdir folder",
    "chmod 777 a.txt",
    "touch -d 2001-01-01 a.txt",
    "truncate -s 0 a.txt",
    "mkfifo pipe",
    "python3 -c \"import os; os.open('a.txt', os.O_RDONLY | os.O_TRUNC)\"",
    "python3 -c \"import os; os.truncate('a.txt', 0)\"",
    "python3 -c \"import os; os.setxattr('a.txt', 'user.x', b'1')\"",
    "python3 -c \"import os; os.chown('a.txt', 1, 1)\"",
    *(
        f"python3 -c \"import fcntl; fcntl.ioctl(open('a.txt'), {request}, bytes([{flag}]) + bytes(31))\""
        for request, flag in ((0x40086602, 0x10), (0x40086602, 0x40), (0x401C5820, 0x40), (0x40087602, 5))
    ),  # chattr +i and +d, in both forms; the number of the inode's version
    "mount -o remount,rw /",
    "mount -t tmpfs none /mnt",
    "x=$(cat /proc/sys/vm/swappiness); echo ${x:-60} > /proc/sys/vm/swappiness",
    "x=$(cat /proc/sys/kernel/core_pattern); echo ${x:-core} > /proc/sys/kernel/core_pattern",
    "unshare -Ur true",
    "unshare -m true",
    "chroot / true",
    'python3 -c "import socket; socket.socket(socket.AF_UNIX)"',
    'python3 -c "import socket; socket.socket()"',
    'python3 -c "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"',
    'python3 -c "import ctypes; raise SystemExit(ctypes.CDLL(None).syscall(425, 8, bytes(120)) < 0)"',  # io_uring
    'python3 -c "import ctypes; raise SystemExit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) < 0)"',
    'python3 -c "import ctypes; raise SystemExit(ctypes.CDLL(None).syscall(435, bytes(88), 88) < 0)"',  # clone3
]


@pytest.mark.parametrize("command", CHANGES)
async def test_nothing_can_be_changed_and_no_socket_opened(
    walled: Processes, root: Path, home: Path, command: str
) -> None:
    before = snapshot(home)
    finished = await run(walled, command)
    assert finished.code, (command, finished.output)
    assert snapshot(home) == before
    assert not Path("/var/log/new").exists()


async def test_secrets_and_the_home_cannot_be_read(walled: Processes, home: Path) -> None:
    told = await run(
        walled,
        f"cat .env hard.txt soft.txt key.txt home.txt {home}/.ssh/id_rsa {home}/notes.txt"
        f" {home}/.cargo/credentials.toml /etc/shadow;"
        f" ls -A {home}/.ssh; grep -r the-secret . ; head -c 20 /proc/{os.getpid()}/environ",
    )
    for secret in ("the-secret", "private", "token", "root:", "id_rsa\n", "="):
        assert secret not in told.output.replace("Permission denied", ""), secret


async def test_what_a_person_allowed_is_shown(walled: Processes, home: Path, root: Path) -> None:
    leave = Leave(wall="read_only", paths=(home / "notes.txt", root / ".env"))
    assert (await run(walled, f"cat {home}/notes.txt .env", leave)).output == "private notes\nKEY=the-secret\n"


async def test_no_listener_of_the_machine_is_reached(
    walled: Processes, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        monkeypatch.chdir(root)  # the path of a socket must be short
        unix.bind("s.sock")
        unix.listen()
        port = tcp.getsockname()[1]
        told = await run(
            walled, f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached; curl -s --unix-socket s.sock http://x/"
        )
        assert "reached" not in told.output
        unix.setblocking(False)
        tcp.setblocking(False)
        for listener in (unix, tcp):
            with pytest.raises(BlockingIOError):
                listener.accept()


async def test_no_process_outside_is_signalled(walled: Processes) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        assert (await run(walled, f"kill -9 {other.pid}")).code
        assert other.poll() is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()


@pytest.mark.parametrize("change", ["setpriority(0, {pid}, 19)", "sched_setaffinity({pid}, {{0}})"])
async def test_no_process_outside_is_slowed_down(walled: Processes, change: str) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        code = f"import os; os.{change.format(pid=other.pid)}"
        assert (await run(walled, f'python3 -c "{code}"')).code
        assert (await run(walled, f'python3 -c "{code.replace(str(other.pid), "0")}"')).code == 0
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()


async def test_no_privilege_is_held_or_gained(walled: Processes) -> None:
    told = await run(walled, "while read -r name value; do echo $name$value; done < /proc/$$/status")
    none = "0" * 16
    assert {"NoNewPrivs:1", "Seccomp:2", f"CapPrm:{none}", f"CapEff:{none}"} <= set(told.output.splitlines())


async def test_programs_of_the_workspace_are_not_on_the_search_path(home: Path, root: Path) -> None:
    sandbox = replace(find_sandbox(), read_only=standing("bubblewrap", home))
    (root / "bin").mkdir()
    (root / "bin/grep").write_text("#!/bin/sh\necho evil\n")
    (root / "bin/grep").chmod(0o755)
    processes = Processes([root], sandbox=lambda: sandbox, environ={"PATH": f"{root}/bin:{os.environ['PATH']}"})
    assert (await run(processes, "egrep -s one a.txt 2>/dev/null")).output == "one\n"
    await processes.aclose()


async def test_a_tracked_secret_is_not_emptied_under_git(walled: Processes, root: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=b"]
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "cert.pem").write_text("a test certificate\n")
    subprocess.run(["git", "add", "cert.pem"], cwd=root, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "one"], cwd=root, check=True)
    (root / "cert.pem").touch()
    assert (await run(walled, "git status --short cert.pem; git diff --stat")).output == ""
    assert "certificate" not in (await run(walled, "cat cert.pem")).output


async def test_where_no_sandbox_stands_nothing_runs_in_it(root: Path) -> None:
    processes = Processes([root], sandbox=lambda: no_sandbox("none"))
    with pytest.raises(ToolError, match="no read-only sandbox"):
        await run(processes, "ls")
    await processes.aclose()


def test_secrets_hard_links_to_them_and_folders_of_them_are_found(root: Path, home: Path) -> None:
    (root / "deep/.aws").mkdir(parents=True)
    (root / "deep/.aws/credentials").write_text("x")
    (root / "node_modules").mkdir()
    (root / "node_modules/test.pem").write_text("x")
    found = {str(path.relative_to(root)) for path in secret_files([root], home)}
    assert found == {".env", "hard.txt", "key.txt", "deep/.aws"}


def test_a_workspace_too_large_to_look_through_is_refused(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readonly_sandbox, "MAX_ENTRIES", 2)
    with pytest.raises(ToolError, match="Set for_real to ask the user"):
        secret_files([root], home)


def test_a_git_file_cannot_have_any_folder_shown(root: Path, home: Path) -> None:
    (root / ".git").write_text(f"gitdir: {home}/.ssh\n")
    assert readonly_sandbox.linked_git_folder(root) is None
    assert str(home / ".ssh") not in profile(Scene(roots=[root], cwd=root, scratch=root), home)


def test_a_sandbox_that_does_not_hold_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program called bwrap that runs the command without confining it."""
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    assert trial(ReadOnlySandbox(kind="bubblewrap", program=str(fake))) == "a hidden file can be read"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(landlock, "version", lambda: 0)
    found = find_read_only_sandbox.__wrapped__()
    assert (found.kind, found.reason) == (
        "none",
        "bubblewrap does not work here (a hidden file can be read); the kernel has no Landlock",
    )
    assert found.words.startswith("no read-only sandbox (bubblewrap does not work here")


def test_the_profile_for_macos_denies_by_default_and_the_deeper_place_counts(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "home/project"
    (root / "sub").mkdir(parents=True)
    (root / ".env").touch()
    text = profile(Scene(roots=[root], cwd=root, scratch=tmp_path, secrets=[root / ".env"]), home)
    lines = text.splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert lines[-1] == "(deny network*)"
    order = [
        lines.index(f'({action} file-read-data (subpath "{place}"))')
        for action, place in (("deny", home), ("allow", root), ("deny", root / ".env"))
    ]
    assert order == sorted(order)
    assert [line for line in lines if "file-write" in line] == [
        f'(allow file-write-data file-read-data (literal "{device}"))'
        for device in ("/dev/null", "/dev/zero", "/dev/full")
    ]
    assert "network" not in text.replace("(deny network*)", "")


def test_a_name_cannot_leave_its_quotes_in_the_profile(tmp_path: Path) -> None:
    root = tmp_path / 'a") (allow default) ("'
    root.mkdir()
    text = profile(Scene(roots=[root], cwd=root, scratch=tmp_path), None)
    assert "(allow default)" not in text.replace('\\"', "").replace(f"{root}".replace('"', ""), "")


def test_the_filters_fit_the_kernel_and_differ() -> None:
    plain, metadata = seccomp.program(), seccomp.program(landlock_abi=3)
    assert len(plain) % 8 == 0
    assert len(metadata) > len(plain)
    assert len(metadata) // 8 < 4096  # instructions the kernel takes
    assert plain[-8:] == metadata[-8:]


def test_a_plan_that_cannot_be_read_runs_nothing(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_text("{}")
    with plan.open() as file:
        done = subprocess.run(
            [sys.executable, "-I", "-S", landlock.__file__, str(file.fileno()), "/bin/echo", "ran"],
            pass_fds=(file.fileno(),),
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stdout) == (landlock.NEEDED_EXIT, "")


def test_there_is_a_reason_where_none_stands() -> None:
    assert no_read_only_sandbox("x").words == "no read-only sandbox (x): all but a few plain commands are asked about"
