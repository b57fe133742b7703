"""A fuzzer for what runs without a question: generated commands that policy allows are run under strace.

Commands are generated from the programs of the table with arguments that have misled the parser before. The allowed
ones run in a workspace full of traps, many in one traced process: in the read-only sandbox, as the server would run
them, and, where policy knows of no sandbox, without one. A line is a hit if it made a system call that changes a file,
if it ran a program of the workspace without a sandbox, if it opened a socket, or if the bytes of a secret were read or
printed. What a sandbox keeps in memory of its own (`/tmp`, homes, `/run`) is no file.

`PILOTFISH_LONG=1` (make chaos) generates 100,000 lines for each case, `PILOTFISH_LINES` another number.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pilotfish.conversation.messages import Category
from pilotfish.engine.turn.calls import facts as facts_module
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.policy.judge import judge
from pilotfish.policy.shell.git_commands import GIT
from pilotfish.policy.shell.read_only_commands import TABLE
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import resolve
from pilotfish.workspace.git.repository import programs_in, tame_repository
from pilotfish.workspace.sandbox.readonly_sandbox import Confined, Scene, secret_files
from pilotfish.workspace.sandbox.sandbox import clean_environment, find_sandbox

LINES = int(os.environ.get("PILOTFISH_LINES") or (100_000 if os.environ.get("PILOTFISH_LONG") else 400))
SEED = int(os.environ.get("PILOTFISH_SEED", "18"))
BATCH = 120
"""lines in one traced process"""
SECONDS = 5
"""for one line"""
SECRET = "fuzz-secret-value"
WORDS = (
    "a.txt", ".env", "src", "-", "--", "-r", "-R", "-n", "-o", "-f", "-e", "-i", "-x", "-exec", "x", "link",
    "16", "*", "@list", "'{.env,q}'", "--include='\\.env'", "-g", "--iglob", "--output=made", "'s/a/b/w made'",
    "'1e ./evil'", "$fX-exec", "sh", "-c", "'./evil > made'", "';'", "+", "{}", "--pre=./evil",
    "--compress-program=./evil", "HEAD", "docs", "-C", "$(./evil)", "`./evil`", "<(./evil)", "2>/dev/null",
    "'BEGIN{system(\"./evil\")}'", "'{print > \"made\"}'", "~/.ssh/id_rsa", "hard.txt", "-delete",
    # Ordinary ones, so that more lines are allowed and really run.
    "README.md", "src/b.py", "one", "-l", "-c", "-w", "--", "src/*.py", "'*.py'", "-name", "-type", "f", "--oneline",
    "--stat", "HEAD~0", ".", "-1", "-v", "--color=never",
)  # fmt: skip
JOINS = (" | ", " && ", "; ", " || ", "\n")

CALLS = (
    "execve,execveat,open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,"
    "symlink,symlinkat,mknod,mknodat,truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utime,utimes,"
    "utimensat,setxattr,lsetxattr,fsetxattr,removexattr,mount,socket,connect,sendto,ptrace,read,pread64"
)
CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
UNFINISHED, RESUMED = " <unfinished ...>", re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)")
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
READS = frozenset({"read", "pread64"})
OPENS = frozenset({"open", "openat", "openat2", "creat"})
DEVICES = ("/dev/null", "/dev/tty", "/dev/zero", "/dev/full")
OWN_MEMORY = (*DEVICES, "/tmp/", "/run/", "/root/", "/home/", "/var/tmp/", "/proc/self/")
"""with a sandbox: what is its own, and gone with it"""
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/")


def made(dice: random.Random) -> str:
    parts: list[str] = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        name = dice.choice(
            [*sorted(TABLE), "find", "xargs", "bash -c", "timeout 5", "env", *(f"git {one}" for one in GIT)]
        )
        parts.append(" ".join((name, *(dice.choice(WORDS) for _ in range(dice.randint(0, 5))))))
    text = dice.choice(JOINS).join(parts)
    return f"for f in x; do {text} ; done" if dice.random() < 0.15 else text


def hostile(place: Path) -> Path:
    root = place / "home/project"
    (root / "src").mkdir(parents=True)
    (place / "home/.ssh").mkdir()
    (place / "home/.ssh/id_rsa").write_text(SECRET)
    (root / "a.txt").write_text("one\n")
    (root / "README.md").write_text("one\ntwo\n")
    (root / "src/b.py").write_text("one = 1\n")
    (root / ".env").write_text(f"{SECRET}=1\n")
    os.link(root / ".env", root / "hard.txt")
    (root / "link").symlink_to(place / "home/.ssh")
    (root / "16").symlink_to(".env")
    (root / "list").write_text(".env\n")
    (root / "evil").write_text(f"#!/bin/sh\necho evil >> {place}/trace; echo evil >> {root}/trace; cat .env\n")
    (root / "evil").chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    subprocess.run([*git, "init", "-q"], cwd=root, check=True)
    subprocess.run([*git, "add", "a.txt", "README.md", "src"], cwd=root, check=True)
    subprocess.run([*git, "commit", "-qm", "one"], cwd=root, check=True)
    (root / "docs").mkdir()
    return root


def snapshot(place: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path): (path.lstat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@dataclass(frozen=True, slots=True)
class Tracer:
    """Runs lines under strace. `place` holds the home and the workspace."""

    place: Path
    root: Path
    walled: bool

    def hits(self, lines: Sequence[str]) -> list[str]:
        """What these lines did that they must not."""
        log, before = self.place / "log", snapshot(self.root)
        environ = clean_environment({"PATH": os.environ["PATH"], "HOME": str(self.place / "home")})
        bash = ["bash", "--noprofile", "--norc", "-c"]
        each = f'for line; do timeout -k 1 {SECONDS} {" ".join(bash)} "$line" </dev/null; done'
        argv = [shutil.which("bash") or "bash", *bash[1:], each, "bash", *lines]
        confined = Confined(argv)
        if self.walled:
            sandbox = find_sandbox().read_only
            secrets = secret_files((self.root,), self.place / "home")
            scratch = self.place / "scratch"
            scratch.mkdir(exist_ok=True)
            confined = sandbox.wrap(argv, Scene(roots=(self.root,), cwd=self.root, scratch=scratch, secrets=secrets))
            environ |= sandbox.environment(environ, (self.root,))
            environ |= tame_repository(self.root, environ, sandbox.git_settings())
        else:
            environ |= tame_repository(self.root, environ)
        trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "80", "-o", str(log), "-e", f"trace={CALLS}"]
        try:
            done = subprocess.run(
                [*trace, *confined.argv], cwd=self.root, env=environ, pass_fds=confined.fds, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        finally:
            confined.close()
        found = list(self._judged(log.read_text(errors="replace")))
        if SECRET.encode() in done.stdout:
            found.append("a secret was printed")
        if snapshot(self.root) != before or (self.place / "trace").exists():
            found.append("a file changed")
        assert found or "execve(" in log.read_text(errors="replace"), done.stdout
        return found

    def _judged(self, log: str) -> Iterator[str]:
        # Before the first bash, bubblewrap puts up the sandbox.
        begun = log.find('bash", "--noprofile"') if self.walled else 0
        assert begun >= 0
        for line in _joined(log[begun:].splitlines()):
            call = CALL.match(line)
            if call is None or int(call[3]) < 0:
                continue
            name, words = call[1], call[2]
            if name in READS and SECRET in words:
                yield f"a secret was read: {line}"
            path = found[1] if (found := PATH.search(words)) else ""
            if name in READS or name == "ptrace":
                continue
            if name in ("socket", "connect", "sendto"):
                # The name service asks its daemon first; only an answer would be a connection.
                if name != "socket" or not words.startswith("AF_UNIX"):
                    yield f"a socket was opened: {line}"
            elif name.startswith("execve"):
                if not self.walled and not path.startswith(SYSTEM):
                    yield f"a foreign program ran: {line}"
            elif name in OPENS:
                writes = name == "creat" or re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", words)
                if writes and not self._own(path):
                    yield f"a file was opened for writing: {line}"
            elif not self._own(path):
                yield f"a file was changed: {line}"

    def _own(self, path: str) -> bool:
        inside = path.startswith(str(self.root)) or not path.startswith("/")
        own = OWN_MEMORY if self.walled else DEVICES
        return path.startswith(own) and not (self.walled and inside)


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Calls that others interrupted, in one line each."""
    begun: dict[str, str] = {}
    for line in lines:
        if line.endswith(UNFINISHED):
            begun[line.split(" ", 1)[0]] = line.removesuffix(UNFINISHED)
        elif (rest := RESUMED.match(line)) is not None:
            yield begun.pop(rest[1], rest[1]) + rest[2]
        else:
            yield line


@pytest.mark.parametrize("walled", [True, False], ids=["sandbox", "no sandbox"])
def test_generated_commands_that_are_not_asked_about_do_nothing(
    walled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip
    if walled and not find_sandbox().read_only.stands:
        missing("no read-only sandbox works here")
    if shutil.which("strace") is None:
        missing("strace is not installed")
    root = hostile(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    clean = clean_environment({"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})

    @functools.cache
    def asked(folder: Path) -> tuple[str, ...]:
        return programs_in(folder, clean)

    def programs(folder: Path, _: object) -> tuple[str, ...]:
        return asked(folder)

    # git says the same of the same folder each time, and would be most of the time.
    monkeypatch.setattr(facts_module, "programs_in", programs)
    where = partial(resolve, roots=(root,), home=tmp_path / "home")
    tracer = Tracer(tmp_path, root, walled)
    dice, allowed, waiting = random.Random(SEED), 0, list[str]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for number in range(LINES):
            text = made(dice)
            facts = collect(
                "bash", Category.EXECUTE, Subject(command=text), resolve=where, directory=root, walled=walled
            )
            verdict = judge(facts, "ask")
            if verdict.decision == "allow":
                assert verdict.wall == ("read_only" if walled else "workspace")
                allowed += 1
                waiting.append(text)
            if len(waiting) == BATCH or number == LINES - 1:
                if together := tracer.hits(waiting):
                    blame = {line: found for line in waiting if (found := tracer.hits([line]))}
                    pytest.fail(f"seed {SEED}: {blame or (together, waiting)}")
                waiting.clear()
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert allowed > (LINES // 10 if walled else 0)
    print(f"fuzzed {LINES} lines, {allowed} allowed and traced, {walled=}, seed {SEED}: no hit")  # noqa: T201


@pytest.mark.parametrize(
    ("line", "hit"),
    [
        ("echo x > made", "opened for writing"),
        ("rm a.txt", "changed"),
        ("chmod 600 a.txt", "changed"),
        ("./evil", "foreign program"),
        ("cat .env > /dev/null", "secret was read"),
        ("cat ~/.ssh/id_rsa", "secret was printed"),
        ("(exec 3<>/dev/tcp/127.0.0.1/9)", "socket"),
    ],
)
def test_the_tracer_sees_what_it_looks_for(line: str, hit: str, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tracer = Tracer(tmp_path, hostile(tmp_path), walled=False)
    assert tracer.hits(["cat a.txt"]) == []
    assert any(hit in found for found in tracer.hits([line]))


def test_the_tracer_sees_into_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("strace") is None or not find_sandbox().read_only.stands:
        pytest.skip("strace or the read-only sandbox is missing")
    tracer = Tracer(tmp_path, hostile(tmp_path), walled=True)
    assert tracer.hits(["cat .env hard.txt; ./evil; echo x > made; rm a.txt; echo x > /tmp/own"]) == []

    def none(*_: object) -> tuple[Path, ...]:
        return ()

    monkeypatch.setattr("tests.chaos.test_fuzz_commands.secret_files", none)
    assert len(tracer.hits(["cat .env > /dev/null"])) == 1
    assert "a secret was printed" in tracer.hits(["cat hard.txt"])
