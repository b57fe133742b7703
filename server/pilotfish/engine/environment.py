"""Describes to the model where it works and what the user looks at.

What never changes in a session is in the instructions of every request. What changes (date, mode, trust, open files,
cursor, git) is a part of the user's message and stored with it, so that the beginning of all requests stays the same
and the provider's prompt cache stays valid.
"""

from __future__ import annotations

import json
import platform
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, cast

from pilotfish.conversation.messages import as_news
from pilotfish.engine.prompting.prompt import line_bounds, shown, without_tags
from pilotfish.errors import PilotfishError
from pilotfish.policy.secrets import mask
from pilotfish.text.display_safe import one_line
from pilotfish.text.uris import path_of
from pilotfish.tools.families import family_of
from pilotfish.workspace.git.summary import GitSummary
from pilotfish.workspace.language_servers import SEVERITIES
from pilotfish.workspace.workspace import Workspace

INSTRUCTIONS = Path(__file__).with_name("instructions")

AROUND = 10  # lines above and below the cursor
MAX_SELECTED = 120  # lines of a selection
MAX_OPEN = 20  # open files that are named
MAX_PROBLEMS = 20  # of the active file
MAX_COMMANDS = 16
MAX_FILE = 200_000  # bytes of a file that is searched for commands
_TARGET = re.compile(r"^([A-Za-z][\w-]*)\s*:(?![=:])", re.MULTILINE)
_NAME = re.compile(r"[\w:.-]{1,40}\Z")

_MODE_WORDS = {
    "ask": "Changes and commands are shown to the user first.",
    "plan": "Change nothing and run nothing that changes anything: investigate, then present a plan.",
    "edit": "Edits and commands that stay inside the workspace run at once; others are shown to the user first.",
    "auto": "Calls run without a question unless a rule says otherwise.",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """What the user's message says beside the user's words."""

    today: date
    mode: str
    trusted: bool
    context: Mapping[str, Any]
    """`ContextBlock` of the wire, as JSON values"""
    open_files: Sequence[Path] = ()
    git: GitSummary | None = None
    rules: str = ""
    """instruction files that apply to the open files and were not given yet"""
    first: bool = False
    """nothing was said before, so the project is described too"""


def instructions(model: str, workspace: Workspace, rules: str) -> str:
    """The instructions of every request: words for the family of the model, the platform, the rules of the roots."""
    roots = ", ".join(str(root) for root in workspace.roots) or "none"
    facts = f"Workspace: {roots}\nPlatform: {platform.system()} {platform.machine()}"
    return "\n\n".join(filter(None, (standing_instructions(model), facts, rules)))


def standing_instructions(model: str) -> str:
    """The instructions for this model: those of its family."""
    return "\n\n".join(map(_prose, family_of(model).words))


@cache
def _prose(name: str) -> str:
    return (INSTRUCTIONS / f"{name}.md").read_text("utf-8").strip()


async def situation_text(situation: Situation, workspace: Workspace) -> str:
    """The part of the user's message that describes the situation."""
    active = cast("Mapping[str, Any]", situation.context.get("active") or {})
    path = _inside(path_of(str(active.get("uri", ""))), workspace)
    lines = [f"Date: {situation.today.isoformat()}", mode_text(situation.mode)]
    if not situation.trusted:
        lines.append("The workspace is not trusted: read and explain only.")
    if situation.git is not None and situation.context.get("git", True):
        lines += _git_lines(situation.git, with_commits=situation.first)
    if situation.first and situation.trusted and (commands := project_commands(workspace.roots)):
        lines.append(f"Commands of the project: {', '.join(commands)}")
    names = [workspace.relative(file) for file in situation.open_files if file != path][:MAX_OPEN]
    if path is not None:
        names.insert(0, f"{workspace.relative(path)} (active)")
    if names:
        lines.append(f"Open in the editor: {', '.join(names)}")
    blocks = [as_news("\n".join(lines)), situation.rules]
    if path is not None:
        blocks.append(await _active_file(path, active, workspace))
    return "\n".join(filter(None, blocks))


def mode_text(mode: str) -> str:
    return f"Mode: {mode}. {_MODE_WORDS.get(mode, '')}".rstrip()


def _git_lines(git: GitSummary, *, with_commits: bool) -> Iterator[str]:
    state = "" if git.changed is None else ", clean" if not git.changed else f", {git.changed} changed file(s)"
    yield f"Git: branch {without_tags(one_line(git.branch))}{state}"
    if with_commits and git.commits:
        yield "Last commits: " + without_tags("; ".join(map(one_line, git.commits)))


async def _active_file(path: Path, active: Mapping[str, Any], workspace: Workspace) -> str:
    """The lines around the cursor, or the selected lines, with the problems of the file."""
    try:
        view = await workspace.look(path)
    except PilotfishError:
        return ""
    place = f'path="{workspace.relative(path)}"'
    if selected := line_bounds(active.get("selection")):
        first, last = selected
        place += f' selected="{first + 1}-{last + 1}"'
        last = min(last, first + MAX_SELECTED - 1)
    else:
        cursor = cast("Mapping[str, int]", active.get("cursor") or {})
        line = cursor.get("line", 0)
        place += f' cursor="{line + 1}:{cursor.get("character", 0) + 1}"'
        first, last = max(0, line - AROUND), line + AROUND
    if visible := line_bounds(active.get("visible")):
        place += f' visible="{visible[0] + 1}-{visible[1] + 1}"'
    text = without_tags(mask(shown(view, (first, last), workspace)[0])[0])
    numbered = [f"{number:>5} {row}" for number, row in enumerate(text.split("\n"), first + 1)]
    problems = [_problem(problem) for problem in cast("Sequence[Mapping[str, Any]]", active.get("diagnostics") or ())]
    return "\n".join((f"<active_file {place}>", *numbered, *problems[:MAX_PROBLEMS], "</active_file>"))


def _problem(problem: Mapping[str, Any]) -> str:
    line = (line_bounds(problem.get("range")) or (0, 0))[0] + 1
    severity = SEVERITIES.get(problem.get("severity", 1), "error")
    source = f" [{problem['source']}]" if problem.get("source") else ""
    return f"{severity}{source} in line {line}: {without_tags(one_line(str(problem.get('message', ''))))}"


def _inside(path: Path | None, workspace: Workspace) -> Path | None:
    """The resolved path, if the model may see the file without a question."""
    if path is None:
        return None
    try:
        place = workspace.resolve(str(path))
    except PilotfishError:
        return None
    return place.path if place.inside and not place.sensitive else None


def project_commands(roots: Sequence[Path]) -> list[str]:
    """The commands that the files of a project offer: scripts of npm, targets of make, test runners and linters."""
    found: dict[str, None] = {}
    for root in roots[:1]:
        found.update(dict.fromkeys(_npm_scripts(root)))
        found.update(dict.fromkeys(f"make {name}" for name in _TARGET.findall(_read(root / "Makefile"))))
        found.update(dict.fromkeys(_python_commands(root)))
        for file, commands in (("Cargo.toml", ("cargo test", "cargo clippy")), ("go.mod", ("go test ./...", "go vet"))):
            if (root / file).is_file():
                found.update(dict.fromkeys(commands))
    return list(found)[:MAX_COMMANDS]


def _npm_scripts(root: Path) -> Iterator[str]:
    try:
        scripts = json.loads(_read(root / "package.json") or "{}").get("scripts", {})
    except (ValueError, AttributeError):
        return
    runner = next((tool for tool in ("pnpm", "yarn", "bun") if any(root.glob(f"{tool}*lock*"))), "npm")
    for name in cast("Mapping[str, Any]", scripts) if isinstance(scripts, dict) else ():
        if _NAME.match(name):
            yield f"{runner} run {name}"


def _python_commands(root: Path) -> Iterator[str]:
    try:
        tools: object = tomllib.loads(_read(root / "pyproject.toml")).get("tool")
    except tomllib.TOMLDecodeError:
        return
    names = cast("Mapping[str, Any]", tools if isinstance(tools, dict) else {})
    for name, command in (("pytest", "pytest"), ("ruff", "ruff check"), ("mypy", "mypy"), ("pyright", "pyright")):
        if name in names:
            yield command


def _read(file: Path) -> str:
    try:
        if not file.is_file():
            return ""  # a pipe would block
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(MAX_FILE)
    except OSError:
        return ""
