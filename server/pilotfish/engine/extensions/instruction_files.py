"""Reads the instruction files of a workspace: `AGENTS.md` and what other agents call theirs.

Root files are in every request. Files of a folder below, and Cursor's rules for some files, are given once, when a file
they apply to is open or was read. Promises: files are read under the rules of `guarded_files.py`; a text that two
files share is given once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from pilotfish.engine.extensions.guarded_files import GuardedFiles
from pilotfish.engine.prompting.prompt import without_tags
from pilotfish.text.front_matter import split_front_matter
from pilotfish.workspace.sandbox.readonly_sandbox import PUBLISHED
from pilotfish.workspace.workspace import Workspace

MAX_CURSOR_RULES = 40  # files in one `.cursor/rules`
CURSOR_RULES = ".cursor/rules"
FOLDER_RULES = frozenset({"AGENTS.md", "CLAUDE.md"})
"""names that apply in every folder; other names apply in the root folders only"""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The text of an instruction file, and the files it applies to."""

    file: Path
    text: str
    globs: tuple[str, ...] = ()
    """patterns relative to the folder; empty: all files below the folder"""


class InstructionFiles:
    """The instruction files of a session's workspace. A file is read again when it has changed."""

    def __init__(self, workspace: Workspace, names: Sequence[str] = ("AGENTS.md",)) -> None:
        self._workspace = workspace
        self._files = GuardedFiles(workspace)
        self._names = tuple(names)
        self._given: set[Path] = set()

    def text(self) -> str:
        """The files of the roots, marked by origin. They are a part of every request."""
        return self._marked(rules for root in self._workspace.roots for rules in self._in_root(root) if not rules.globs)

    def text_for(self, near: Sequence[Path]) -> str:
        """The files that apply to these files beyond `text`, outermost folder first, each once."""
        found: dict[Path, _Rules] = {}
        for file in near:
            for root in self._workspace.roots:
                if file.is_relative_to(root):
                    inner = file.relative_to(root)
                    for rules in self._in_root(root):
                        if rules.globs and _matches(rules.globs, inner):
                            found.setdefault(rules.file, rules)
                    if not PUBLISHED.isdisjoint(inner.parts):
                        continue  # what a package says to agents is not what the user wants
                    for folder in reversed(inner.parents[:-1]):
                        for rules in self._in_folder(root / folder):
                            found.setdefault(rules.file, rules)
        new = [rules for file, rules in found.items() if file not in self._given]
        self._given.update(rules.file for rules in new)
        return self._marked(sorted(new, key=lambda rules: len(rules.file.parts)))

    def forget(self) -> None:
        """Give every file again: a summary has replaced the messages that had them."""
        self._given.clear()

    def there(self, near: Sequence[Path] = ()) -> bool:
        """Whether any file exists, without giving it."""
        roots = self._workspace.roots
        folders = [folder for file in near for folder in file.parents if any(map(folder.is_relative_to, roots))]
        return any(self._in_root(root) for root in roots) or any(map(self._in_folder, folders))

    def _in_root(self, root: Path) -> list[_Rules]:
        found = self._in_folder(root)
        for name in self._names:
            if name == CURSOR_RULES:
                found += self._cursor_rules(root)
            elif name not in FOLDER_RULES:
                found += self._read(_joined(root, name))
        return found

    def _in_folder(self, folder: Path) -> list[_Rules]:
        return [rules for name in self._names if name in FOLDER_RULES for rules in self._read(_joined(folder, name))]

    def _cursor_rules(self, root: Path) -> list[_Rules]:
        folder = _joined(root, CURSOR_RULES)
        try:
            files = sorted(folder.glob("*.mdc"))[:MAX_CURSOR_RULES] if folder.is_dir() else []
        except OSError:
            return []
        return [rules for file in files for read in self._read(file) if (rules := _cursor_rule(read))]

    def _read(self, file: Path) -> list[_Rules]:
        """The file as a list of one, or an empty list if it does not exist or may not be read."""
        found = self._files.read(file)
        return [_Rules(*found)] if found is not None else []

    def _marked(self, found: Iterable[_Rules]) -> str:
        """Equal texts are given once: `CLAUDE.md` is often a link to `AGENTS.md` or a copy of it."""
        texts: dict[str, _Rules] = {}
        for rules in found:
            if rules.text not in ("@AGENTS.md", "@./AGENTS.md"):  # how CLAUDE.md includes the other file
                texts.setdefault(rules.text, rules)
        return "\n\n".join(
            f'<rules from="{self._workspace.relative(rules.file)}">\n{without_tags(text)}\n</rules>'
            for text, rules in texts.items()
        )


@lru_cache(maxsize=1024)
def _joined(folder: Path, name: str) -> Path:
    return folder / name


def _cursor_rule(read: _Rules) -> _Rules | None:
    """A rule of Cursor without its front matter: for all files, for some (`globs`), or by its description."""
    fields, body = split_front_matter(read.text)
    globs = tuple(glob.strip().strip("\"'") for glob in fields.get("globs", "").strip("[]").split(",") if glob.strip())
    if not fields or fields.get("alwaysapply") == "true":
        return _Rules(read.file, body)
    if globs:
        return _Rules(read.file, body, globs)
    if description := fields.get("description", ""):
        return _Rules(read.file, f"Read {PurePosixPath(CURSOR_RULES) / read.file.name} for: {description}")
    return None


def _matches(globs: Sequence[str], file: Path) -> bool:
    from pathspec import GitIgnoreSpec  # needed by few workspaces

    return GitIgnoreSpec.from_lines(globs).match_file(file.as_posix())
