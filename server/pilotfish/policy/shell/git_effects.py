"""Classifies git commands: what they change, and what cannot be taken back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pilotfish.policy.shell.git_commands import GIT

EffectName = Literal["READS", "CHANGES", "NETWORK", "DESTROYS"]

_VALUED = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_STRICT = frozenset({"branch", "tag", "remote", "stash", "worktree", "config", "reflog"})
"""They read only with the arguments of the table in `git_commands.py`."""
_WRITING_FLAGS = re.compile(r"--outp.*|--ext-diff|--textconv|--filters|-O.*|--open.*|--show-signature")
_READERS = frozenset({
    *GIT, "help", "version", "var", "check-attr", "check-mailmap", "cherry", "range-diff", "diff-index", "diff-files",
    "fsck",
})  # fmt: skip
_NETWORK = frozenset({"fetch", "pull", "clone", "ls-remote", "submodule", "lfs", "send-email", "request-pull", "svn"})
_FINAL: dict[str, str] = {
    "push": "git push publishes commits",
    "clean": "git clean deletes files that git does not track",
    "rm": "git rm deletes files",
    "restore": "git restore throws away changes",
    "filter-branch": "it rewrites the history",
    "filter-repo": "it rewrites the history",
    "update-ref": "it moves a branch by force",
    "gc": "git gc deletes commits that nothing names",
    "prune": "git prune deletes commits that nothing names",
    "replace": "it rewrites the history",
    "symbolic-ref": "it changes which branch is checked out",
    "config": "it changes the settings of git",
    "remote": "it changes the settings of git",
    "hook": "it runs a hook of the repository",
    "reflog": "it deletes entries of the reflog",
}
_BRANCH = re.compile(
    r"-|main|master|develop|dev|trunk|(?:feat|feature|fix|bugfix|hotfix|chore|release|docs|test|refactor|origin)/[^.]+"
)


def git_effect(rest: Sequence[str], only_reads: bool) -> tuple[EffectName, str]:
    """Return the effect of `git REST`, and the reason to ask. `only_reads` is the verdict of the strict table."""
    at, configured = 0, False
    while at < len(rest) and rest[at].startswith("-"):
        configured |= rest[at].startswith(("-c", "--exec-path", "--config-env")) and rest[at] != "-C"
        at += 2 if rest[at] in _VALUED else 1
    if at >= len(rest):
        return "READS", ""
    command, flags = rest[at], list(rest[at + 1 :])
    reads = command in _READERS and not any(map(_WRITING_FLAGS.fullmatch, flags))
    if reads and (command not in _STRICT or only_reads):
        return ("CHANGES", "its settings can make git run a program") if configured else ("READS", "")
    if reason := _final(command, flags):
        return "DESTROYS", reason
    if command in _NETWORK and not (command == "submodule" and flags[:1] in (["status"], ["foreach"], [])):
        return "NETWORK", f"git {command} needs the network"
    return "CHANGES", f"git {command} changes the repository"


def _final(command: str, flags: list[str]) -> str | None:
    """Return why a git command cannot be taken back, or does more than its name says. None if it can."""
    given = set(flags)
    letters = {letter for flag in flags if re.fullmatch(r"-[A-Za-z]+", flag) for letter in flag[1:]}
    match command:
        case "clean" if letters & {"n"} or "--dry-run" in given:
            return None
        case "rm" if "--cached" in given:
            return None
        case "restore" if "--staged" in given and "--worktree" not in given:
            return None
        case "remote" if flags[:1] in (["update"], ["show"], ["prune"]):
            return None
        case "reset":
            return "it throws away changes" if given & {"--hard", "--merge", "--keep"} else None
        case "checkout":
            return _checkout(flags, given)
        case "switch":
            thrown = given & {"-f", "--force", "--discard-changes", "-C", "--force-create"}
            return "it throws away changes" if thrown else None
        case "branch":
            moves = letters & set("dDmMfC") or given & {"--delete", "--move", "--force", "--copy"}
            return "it deletes or moves a branch" if moves else None
        case "tag":
            return "it deletes or moves a tag" if letters & set("df") or given & {"--delete", "--force"} else None
        case "stash":
            return "it deletes stashed changes" if flags[:1] in (["drop"], ["clear"]) else None
        case "worktree":
            return "it deletes a work tree" if flags[:1] in (["remove"], ["prune"]) else None
        case "commit" | "merge" | "rebase" | "am" | "push" if command != "push" and (
            "--no-verify" in given or (command == "commit" and "n" in letters)
        ):
            return "it skips the checks that the repository runs on a commit"
        case "rebase":
            return "it runs a command for every commit" if given & {"-x", "--exec"} or "-i" in given else None
        case "bisect":
            return "it runs a command for every commit" if flags[:1] == ["run"] else None
        case _:
            return _FINAL.get(command)


def _checkout(flags: list[str], given: set[str]) -> str | None:
    operands = [flag for flag in flags if not flag.startswith("-") or flag == "-"]
    if given & {"-f", "--force", "--", "-p", "--patch", "--ours", "--theirs", "-B"}:
        return "it throws away changes"
    if given & {"-b", "--orphan", "-t", "--track", "--detach"}:
        return None
    if len(operands) == 1 and _BRANCH.fullmatch(operands[0]):
        return None
    return "git checkout may throw away changes"
