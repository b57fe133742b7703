"""Skills: folders with a `SKILL.md` that say how to do a particular task.

The name and the description of each skill are in every request. The model reads the text, and other files of the
folder, when a task needs them (`read_skill`). Promises: skills of a workspace are used only when it is trusted, and are
read under the rules of instruction files (`guarded_files.py`); the user's skill wins over one with the same name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pilotfish.config.settings import config_path
from pilotfish.engine.extensions.guarded_files import GuardedFiles
from pilotfish.engine.prompting.prompt import without_tags
from pilotfish.errors import ToolError
from pilotfish.text.display_safe import one_line
from pilotfish.text.front_matter import split_front_matter
from pilotfish.workspace.workspace import Workspace

SKILL = "SKILL.md"
WORKSPACE_FOLDERS = (".pilotfish/skills", ".claude/skills", ".agents/skills")
MAX_SKILLS = 100
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_SKILL_CHARS = 60_000
MAX_FILES = 100  # of a skill that are listed

_HEAD = (
    "Skills are instructions for particular tasks. If the user names a skill, or a task fits a description, "
    "call read_skill before you begin, and do what it says."
)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. `files` guards the place that it is in."""

    name: str
    description: str
    folder: Path
    files: GuardedFiles


class Skills:
    """The skills of the user, and those of a workspace while it is trusted."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def found(self, *, trusted: bool) -> Mapping[str, Skill]:
        """The skills by name."""
        found: dict[str, Skill] = {}
        for place, files in self._places(trusted):
            for folder in _folders(place):
                if len(found) < MAX_SKILLS and (skill := _skill(folder, files)) is not None:
                    found.setdefault(skill.name, skill)
        return found

    def text(self, *, trusted: bool) -> str:
        """The names and descriptions, for every request."""
        rows = [f"- {skill.name}: {skill.description}" for skill in self.found(trusted=trusted).values()]
        return "\n".join(("<skills>", _HEAD, *rows, "</skills>")) if rows else ""

    def read(self, name: str, file: str, *, trusted: bool) -> str:
        """The text of a skill with the list of its files, or one of its files. Raises ToolError if there is none."""
        found = self.found(trusted=trusted)
        skill = found.get(name)
        if skill is None:
            raise ToolError(f"There is no skill {name!r}. The skills are: {', '.join(found) or 'none'}")
        read = skill.files.read(skill.folder / (file or SKILL), MAX_SKILL_CHARS)
        if read is None or not read[0].is_relative_to(skill.folder.resolve()):
            raise ToolError(f"The skill {name} has no text file {file!r}. Its files are: {', '.join(_listing(skill))}")
        if file:
            return without_tags(read[1])
        others = _listing(skill)
        note = f"\nOther files of the skill: {', '.join(others)}" if others else ""
        place = self._workspace.relative(skill.folder)
        body = without_tags(split_front_matter(read[1])[1])
        return f'<skill name="{skill.name}" folder="{place}">\n{body}\n</skill>{note}'

    def _places(self, trusted: bool) -> Iterator[tuple[Path, GuardedFiles]]:
        own = config_path().parent / "skills"
        yield own, GuardedFiles(self._workspace, own)
        if trusted:
            inside = GuardedFiles(self._workspace)
            for root in self._workspace.roots:
                for name in WORKSPACE_FOLDERS:
                    yield root / name, inside


def _folders(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            return sorted(place / entry.name for entry in islice(entries, 10 * MAX_SKILLS) if entry.is_dir())
    except OSError:
        return []


def _skill(folder: Path, files: GuardedFiles) -> Skill | None:
    read = files.read(folder / SKILL, MAX_SKILL_CHARS)
    if read is None:
        return None
    fields, body = split_front_matter(read[1])
    name = one_line(without_tags(fields.get("name") or folder.name))[:MAX_NAME]
    first = next((line.strip("# ").strip() for line in body.split("\n") if line.strip()), "")
    description = one_line(without_tags(fields.get("description") or first))[:MAX_DESCRIPTION]
    return Skill(name, description, folder, files) if description else None


def _listing(skill: Skill) -> list[str]:
    """The files of a skill that can be read, relative to its folder, without `SKILL.md`."""
    names = (
        Path(folder, name).relative_to(skill.folder)
        for folder, _, files in os.walk(skill.folder)
        for name in sorted(files)
    )
    return [name.as_posix() for name in islice(names, MAX_FILES) if name.name != SKILL]
