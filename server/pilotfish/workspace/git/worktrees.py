"""Worktrees of a repository for background tasks: made from a commit, read as one result commit, removed.

Promises: the user's working tree, index and branches are not touched; no hook of the repository runs; git is told where
the repository is, so what a task wrote into its worktree cannot name another one. Everything here is blocking.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pilotfish.errors import BadRequest, GitError
from pilotfish.workspace.git.repository import GIT_SETTINGS, git_settings

SECONDS: Final = 600.0
"""time limit of one git command; a checkout of a large repository takes minutes"""
MAX_BUNDLE: Final = 64 << 20
MAX_FILES: Final = 5_000

_AUTHOR: Final = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in (("NAME", "Pilotfish"), ("EMAIL", "pilotfish@localhost"))
}
_FILE_MODES: Final = ("100644", "100755")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a background task starts from."""

    top: Path
    """the top folder of the repository's working tree"""
    prefix: str
    """the folder below it that the session is about, with `/` at its end; empty for the top"""
    commit: str
    changed: int
    """files with changes that are not committed, new ones included"""
    remote: str | None
    """where others can fetch the commit: the repository's remote, without a password; None if it is not there"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that differs between two commits, with its content in a working tree. None means that there is none."""

    path: str
    before: bytes | None
    after: bytes | None
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDiff:
    """What two commits differ in. `left_out` has what is no file: links and submodules."""

    files: tuple[ChangedFile, ...]
    left_out: tuple[str, ...]


class Repository:
    """A repository, named by its `.git` directory. `environ` is the environment of git."""

    def __init__(self, git_dir: Path, environ: Mapping[str, str]) -> None:
        self.git_dir = git_dir
        self._environ = dict(environ)

    @classmethod
    def of(cls, folder: Path, environ: Mapping[str, str]) -> Repository:
        """The repository that a folder belongs to. Raises GitError if there is none."""
        found = _git(["rev-parse", "--path-format=absolute", "--git-common-dir"], environ, cwd=folder)
        return cls(Path(found.decode().rstrip("\n")), environ)

    @classmethod
    def clone(cls, remote: str, git_dir: Path, environ: Mapping[str, str]) -> Repository:
        """A bare repository for what is fetched from a remote, made if it is not there."""
        repository = cls(git_dir, environ)
        if not (git_dir / "HEAD").is_file():
            git_dir.mkdir(parents=True, exist_ok=True)
            _git(["init", "--quiet", "--bare", "--template=", str(git_dir)], environ, cwd=git_dir)
        with contextlib.suppress(GitError):
            repository.run("remote", "add", "origin", remote)
        repository.run("remote", "set-url", "origin", remote)
        return repository

    def run(self, *words: str, environ: Mapping[str, str] | None = None, data: bytes | None = None) -> bytes:
        """What git says. Raises GitError with its error."""
        named = {**self._environ, "GIT_DIR": str(self.git_dir), **(environ or {})}
        return _git(words, named, cwd=self.git_dir, data=data)

    @property
    def origin(self) -> str | None:
        """Where the repository was cloned from."""
        with contextlib.suppress(GitError):
            return self.run("remote", "get-url", "origin").decode().strip()
        return None

    def has(self, commit: str) -> bool:
        try:
            self.run("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            return False
        return True

    def fetch(self, commit: str) -> None:
        """Fetch a commit from `origin`: alone if the server allows it, otherwise with all branches."""
        protocols = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
        quiet = ("-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
        with contextlib.suppress(GitError):
            self.run(*quiet, "origin", commit, environ=protocols)
        if not self.has(commit):
            self.run(*quiet, "--prune", "origin", "+refs/heads/*:refs/heads/*", environ=protocols)

    # -- worktrees ------------------------------------------------------------------------------------------------

    def add_worktree(self, tree: Path, commit: str) -> None:
        """Check a commit out into a new folder. What an interrupted attempt left there is replaced."""
        if (tree / ".git").is_file() and self._knows(tree):
            return
        self.remove_worktree(tree)
        tree.parent.mkdir(parents=True, exist_ok=True)
        # Checked out under another name, so that a worktree that is there is complete.
        part = tree.with_name(f"{tree.name}.part")
        self.remove_worktree(part)
        self.run("worktree", "add", "--quiet", "--force", "--detach", str(part), commit)
        self.run("worktree", "move", "--force", "--force", str(part), str(tree))

    def remove_worktree(self, tree: Path) -> None:
        """Remove a worktree with everything in it. Does nothing if there is none."""
        with contextlib.suppress(GitError):
            self.run("worktree", "remove", "--force", "--force", str(tree))
        if tree.exists():
            shutil.rmtree(tree, ignore_errors=True)
        with contextlib.suppress(GitError):
            self.run("worktree", "prune")

    def _own_dir(self, tree: Path) -> Path | None:
        """The directory of the repository that belongs to a worktree, as the repository says it: the worktree's own
        `.git` file may have been changed."""
        pointer = f"{tree / '.git'}"
        for entry in sorted((self.git_dir / "worktrees").glob("*/gitdir")):
            with contextlib.suppress(OSError):
                if os.path.realpath(entry.read_text().strip()) == os.path.realpath(pointer):
                    return entry.parent
        return None

    def _knows(self, tree: Path) -> bool:
        return self._own_dir(tree) is not None

    def snapshot(self, tree: Path, base: str, message: str) -> str | None:
        """The commit with everything that a task changed in its worktree, ignored files left out. Commits that the
        task made are its parents. None if nothing differs from `base`."""
        own = self._own_dir(tree)
        if own is None:
            raise GitError(f"The worktree {tree} is gone.")
        with tempfile.TemporaryDirectory(prefix="pilotfish-") as folder:
            named = {"GIT_DIR": str(own), "GIT_WORK_TREE": str(tree), "GIT_INDEX_FILE": str(Path(folder) / "index")}
            head = self.run("rev-parse", "HEAD^{commit}", environ=named).decode().strip()
            self.run("read-tree", head, environ=named)
            _git(["add", "--all", "--", ":/"], {**self._environ, **named}, cwd=tree)
            written = self.run("write-tree", environ=named).decode().strip()
        if written == self._tree_of(head):
            return None if self._tree_of(base) == written and head == base else head
        if written == self._tree_of(base) and head == base:
            return None
        made = self.run("commit-tree", written, "-p", head, "-F", "-", environ=_AUTHOR, data=message.encode())
        return made.decode().strip()

    def _tree_of(self, commit: str) -> str:
        return self.run("rev-parse", f"{commit}^{{tree}}").decode().strip()

    # -- results --------------------------------------------------------------------------------------------------

    def keep(self, session_id: str, commit: str) -> None:
        """Keep a result until `forget`."""
        self.run("update-ref", _ref(session_id), commit)

    def forget(self, session_id: str) -> None:
        with contextlib.suppress(GitError):
            self.run("update-ref", "-d", _ref(session_id))

    def pack(self, session_id: str, base: str) -> bytes:
        """A bundle with the kept result, for a repository that has `base`. Raises GitError if it is too large."""
        with tempfile.TemporaryDirectory(prefix="pilotfish-") as folder:
            file = Path(folder) / "result.bundle"
            self.run("bundle", "create", "--quiet", str(file), _ref(session_id), f"^{base}")
            if file.stat().st_size > MAX_BUNDLE:
                raise GitError(f"The changes are larger than {MAX_BUNDLE >> 20} MB; they stay where the task ran.")
            return file.read_bytes()

    def unpack(self, session_id: str, bundle: bytes, commit: str) -> None:
        """Take a result out of a bundle. Raises GitError if it is not that commit, or not a sound one."""
        with tempfile.TemporaryDirectory(prefix="pilotfish-") as folder:
            file = Path(folder) / "result.bundle"
            file.write_bytes(bundle)
            ref = _ref(session_id)
            options = ("-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
            self.run(*options, str(file), f"+{ref}:{ref}", environ={"GIT_ALLOW_PROTOCOL": "file"})
        if self.run("rev-parse", ref).decode().strip() != commit:
            self.forget(session_id)
            raise GitError("The result of the task is not the commit that it named.")

    def branch(self, name: str, commit: str) -> None:
        """Make a branch. Raises GitError if there is one of this name."""
        self.run("check-ref-format", "--branch", name)
        self.run("branch", "--no-track", "--", name, commit)

    def diff(self, base: str, result: str, top: Path) -> CommitDiff:
        """The files that differ, with the content that a checkout in `top` has."""
        words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv", "--full-index")
        fields = self.run(*words, base, result).decode(errors="surrogateescape").split("\0")
        files: list[ChangedFile] = []
        left_out: list[str] = []
        for facts, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, _, _, status = facts.removeprefix(":").split(" ")
            modes = [mode for mode, missing in ((old_mode, "A"), (new_mode, "D")) if status != missing]
            if any(mode not in _FILE_MODES for mode in modes) or len(files) >= MAX_FILES:
                left_out.append(path)
                continue
            files.append(
                ChangedFile(
                    path=path,
                    before=None if status == "A" else self._content(base, path, top),
                    after=None if status == "D" else self._content(result, path, top),
                    executable=new_mode == "100755" and old_mode != new_mode,
                )
            )
        return CommitDiff(files=tuple(files), left_out=tuple(left_out))

    def _content(self, commit: str, path: str, top: Path) -> bytes:
        return self.run("cat-file", "--filters", f"{commit}:{path}", environ={"GIT_WORK_TREE": str(top)})


def find_base(folder: Path, environ: Mapping[str, str]) -> Base:
    """What a task in this folder would start from. Raises BadRequest if the folder is in no repository with a
    commit."""
    try:
        top = _git(["rev-parse", "--show-toplevel"], environ, cwd=folder).decode().rstrip("\n")
        prefix = _git(["rev-parse", "--show-prefix"], environ, cwd=folder).decode().rstrip("\n")
        commit = _git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], environ, cwd=folder).decode().strip()
    except GitError as error:
        raise BadRequest(
            f"{folder} is not in a git repository with a commit. A task in the background starts from a commit.",
            field="workspaceFolder",
        ) from error
    status = _git(["status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"], environ, cwd=folder)
    remote = None
    pushed = _git(["for-each-ref", "--count=1", "--contains", commit, "refs/remotes/origin"], environ, cwd=folder)
    with contextlib.suppress(GitError):
        remote = _without_password(_git(["remote", "get-url", "origin"], environ, cwd=folder).decode().strip())
    return Base(
        top=Path(top),
        prefix=prefix,
        commit=commit,
        changed=status.count(b"\0"),
        remote=remote if pushed else None,
    )


def _ref(session_id: str) -> str:
    return f"refs/pilotfish/{session_id}"


def _without_password(remote: str) -> str:
    parts = urlsplit(remote)
    if not parts.password:
        return remote
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")).geturl()


_SAFE: Final = (*GIT_SETTINGS, ("core.hooksPath", os.devnull), ("gc.auto", "0"), ("maintenance.auto", "false"))


def _git(
    words: tuple[str, ...] | list[str], environ: Mapping[str, str], *, cwd: Path, data: bytes | None = None
) -> bytes:
    environment = {**environ, **git_settings(_SAFE), "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *words],  # noqa: S607 - the user's own git
            cwd=cwd,
            env=environment,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            input=data or b"",
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} took longer than {SECONDS:.0f} seconds.") from None
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror or error}.") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(f"git {words[0]}: {said[-1][:300] if said else f'it failed with code {done.returncode}'}")
    return done.stdout
