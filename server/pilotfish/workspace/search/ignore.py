"""Decides which paths a search skips: `.gitignore` at every level, `.ignore`, and `.pilotfishignore`, which only hides.

ripgrep knows the first two and applies them while it walks; this module says the same of single paths, and knows the
third. A set of rules is a snapshot: make one for an operation, then let it go.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pilotfish.workspace.search.gitignore import IgnoreFile, read_rules

OWN_RULES = ".pilotfishignore"
VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj"})
GIT_RULE_FILES = (".rgignore", ".ignore", ".gitignore")
"""The strongest first."""
RULE_FILES = frozenset({*GIT_RULE_FILES, OWN_RULES})
"""A change of one of these changes the file list."""
EXCLUDES = ".git/info/exclude"


class IgnoreRules:
    """The rules that hold below `root`. In a repository those of the folders above it hold too, as git has it; outside
    of one, nothing above the root counts: a stray `.gitignore` in a home folder would hide every project in it."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._in_repository = any((folder / ".git").exists() for folder in (root, *root.parents))
        self._read: dict[str, IgnoreFile | None] = {}
        self._chains: dict[tuple[str, str], tuple[tuple[int, IgnoreFile], ...]] = {}
        self._ignored: dict[str, bool] = {}
        self._hidden: dict[str, bool] = {}
        self._free: dict[str, dict[str, bool]] = {}
        self._repositories: dict[str, bool] = {}

    def ignored(self, path: Path, *, is_dir: bool) -> bool:
        """Whether a search leaves this path out: it, or a folder above it, is ignored."""
        name = str(path)
        if not self._is_below(name):
            return False
        if self._folder_ignored(_parent(name)):
            return True
        return self._folder_ignored(name) if is_dir else self._matches(name, is_dir=False)

    def options(self, folder: Path) -> tuple[str, ...]:
        """What makes ripgrep, walking this folder, judge as these rules do (`.pilotfishignore` apart)."""
        if self._in_repository:
            return ()
        above = str(folder) == self._root
        return ("--no-require-git", "--no-ignore-parent") if above else ("--no-require-git",)

    def unhidden(self, folder: Path, names: Sequence[str]) -> list[str]:
        """Of files below a folder, given relative to it, those that `.pilotfishignore` does not hide. Quick where it
        hides nothing."""
        base = str(folder)
        free = self._free.setdefault(base, {"": not self._chain(base, OWN_RULES)})
        parents = {name.rpartition("/")[0] for name in names}
        untouched = [self._untouched(base, parent, free) for parent in parents]  # all of them: `free` is filled
        if all(untouched):
            return list(names)
        return [name for name in names if free[name.rpartition("/")[0]] or not self._file_hidden(f"{base}/{name}")]

    def _untouched(self, base: str, relative: str, free: dict[str, bool]) -> bool:
        """Whether no own rules can reach the files of a folder; what is found is kept in `free`."""
        known = free.get(relative)
        if known is None:
            above = self._untouched(base, relative.rpartition("/")[0], free)
            known = above and not os.path.lexists(f"{base}/{relative}/{OWN_RULES}")
            free[relative] = known
        return known

    def _folder_ignored(self, folder: str) -> bool:
        if not self._is_below(folder):
            return False
        known = self._ignored.get(folder)
        if known is None:
            known = self._folder_ignored(_parent(folder)) or self._matches(folder, is_dir=True)
            self._ignored[folder] = known
        return known

    def _file_hidden(self, file: str) -> bool:
        return self._folder_hidden(_parent(file)) or self._verdict(file, OWN_RULES, is_dir=False) is True

    def _folder_hidden(self, folder: str) -> bool:
        if not self._is_below(folder):
            return False
        known = self._hidden.get(folder)
        if known is None:
            hidden = self._folder_hidden(_parent(folder)) or self._verdict(folder, OWN_RULES, is_dir=True) is True
            known = self._hidden[folder] = hidden
        return known

    def _matches(self, path: str, *, is_dir: bool) -> bool:
        if path.rpartition("/")[2] in VERSION_CONTROL or self._verdict(path, OWN_RULES, is_dir=is_dir):
            return True
        for name in (*GIT_RULE_FILES, EXCLUDES):
            verdict = self._verdict(path, name, is_dir=is_dir)
            if verdict is not None:
                return verdict
        everywhere = self._rules(_global_file())
        return everywhere is not None and everywhere.verdict(path[len(self._root) + 1 :], is_dir=is_dir) is True

    def _verdict(self, path: str, name: str, *, is_dir: bool) -> bool | None:
        """By the nearest folder's rules that say anything."""
        for start, rules in self._chain(_parent(path), name):
            verdict = rules.verdict(path[start:], is_dir=is_dir)
            if verdict is not None:
                return verdict
        return None

    def _chain(self, folder: str, name: str) -> tuple[tuple[int, IgnoreFile], ...]:
        """The rules of one kind that reach what is in a folder, nearest first, with where their paths begin."""
        known = self._chains.get((folder, name))
        if known is None:
            rules = self._rules(_join(folder, name))
            here = () if rules is None else ((len(_join(folder, "")), rules),)
            known = here if self._is_last(folder, name) else here + self._chain(_parent(folder), name)
            self._chains[folder, name] = known
        return known

    def _is_last(self, folder: str, name: str) -> bool:
        """Whether rules of this kind above the folder do not reach into it. git's end at their repository."""
        if folder in ("/", "") or (folder == self._root and (name == OWN_RULES or not self._in_repository)):
            return True
        return name in (".gitignore", EXCLUDES) and self._in_repository and self._is_repository(folder)

    def _is_repository(self, folder: str) -> bool:
        known = self._repositories.get(folder)
        if known is None:
            known = self._repositories[folder] = os.path.lexists(f"{folder}/.git")
        return known

    def _rules(self, file: str) -> IgnoreFile | None:
        if file not in self._read:
            self._read[file] = read_rules(file)
        return self._read[file]

    def _is_below(self, path: str) -> bool:
        return path.startswith(_join(self._root, "")) and path != self._root


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _join(folder: str, name: str) -> str:
    return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"


def _global_file() -> str:
    configured = os.environ.get("XDG_CONFIG_HOME")
    return os.path.join(configured or os.path.expanduser("~/.config"), "git/ignore")  # noqa: PTH111, PTH118 - a key, often
