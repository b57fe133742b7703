"""Gathers what policy is told of a call: each path resolved, each word of a command bound to its place.

Policy is pure, so everything that must be looked up on the disk is looked up here, right before it is judged.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pilotfish.conversation.messages import Category
from pilotfish.errors import Refused
from pilotfish.policy.rules import Access, CallFacts, PathFact
from pilotfish.policy.secrets import has_mark
from pilotfish.policy.shell import analysis
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import ResolvedPath
from pilotfish.workspace.git.repository import programs_in
from pilotfish.workspace.process.sandbox import clean_environment

MAX_ENTRIES = 20_000  # looked at for secrets before a command reads a whole tree
MAX_MATCHES = 200  # of one file name pattern
SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", "target"})
"""What others published is not the user's secret."""

BUILTINS = frozenset({"cd", "echo", "printf", "pwd", "true", "false", "test", "[", "type", "command"})
"""what bash runs itself, whatever the search path says"""

Resolve = Callable[[str], ResolvedPath]


def collect(
    tool: str,
    category: Category,
    subject: Subject,
    *,
    resolve: Resolve,
    directory: Path,
    walled: bool,
    args: Mapping[str, Any] | None = None,
) -> CallFacts:
    """The facts of one call. `directory` is where a command would start; `walled` says that a read-only sandbox stands;
    `args` are the call's arguments as JSON.

    Raises Refused for a path that no tool may touch; in a command such a path is a fact like any other.
    """
    paths = [_fact(touch.access, resolve(touch.path), recursive=touch.recursive) for touch in subject.touches]
    start = directory if subject.cwd is None else resolve(subject.cwd).path
    programs: list[str] = []
    own: tuple[str, ...] = ()
    if subject.command is not None:
        study = analysis.study(subject.command)
        paths += _touched(study, resolve, start)
        own = tuple(_own_programs(study, resolve, start))
        folders = analysis.git_folders(study)
        environ = clean_environment(os.environ) if folders else {}
        for folder in folders:
            programs += programs_in(start / folder, environ)
    return CallFacts(
        tool=tool,
        category=category,
        paths=tuple(paths),
        command=subject.command,
        cwd=str(start) if subject.command is not None else None,
        url=subject.url,
        mcp=subject.mcp,
        git_programs=tuple(dict.fromkeys(programs)),
        own_programs=own,
        masked=args is not None and category is Category.WRITE and has_mark(args),
        walled=walled and subject.command is not None,
        for_real=subject.for_real,
        scripts=() if subject.command is None else tuple(_scripts(analysis.study(subject.command), start)),
        elsewhere=subject.command is not None and not _is_root(start, resolve),
    )


INTERPRETERS = frozenset({
    "bash", "sh", "zsh", "dash", "ksh", "fish", "source", ".", "python", "python3", "node", "deno", "bun", "ruby",
    "perl", "php", "lua", "pwsh", "tsx", "ts-node",
})  # fmt: skip
MAX_SCRIPT = 4_000_000  # bytes


def _scripts(study: analysis.Study, start: Path) -> Iterator[tuple[str, str]]:
    """What of the workspace a command would run: a file that an interpreter is given, or that is named to run."""
    folder = start / analysis.start_folder(study)
    named = [part.words for part in study.parts] or list(study.shown)
    for words in dict.fromkeys((*named, *study.found)):
        first = words[:1] if "/" in words[0] else ()
        for word in (*first, *(words[1:] if words[0] in INTERPRETERS else ())):
            path = folder / word
            try:
                if path.is_file() and path.stat().st_size <= MAX_SCRIPT:
                    yield str(path), hashlib.sha256(path.read_bytes()).hexdigest()
            except (OSError, ValueError):
                continue


def _is_root(directory: Path, resolve: Resolve) -> bool:
    try:
        place = resolve(str(directory))
    except (Refused, OSError, ValueError):
        return False
    return place.root is None or os.path.realpath(place.root) == str(place.path)


def _fact(access: Access, place: ResolvedPath, written: str | None = None, *, recursive: bool = False) -> PathFact:
    return PathFact(
        path=str(place.path),
        access=access,
        inside=place.inside,
        sensitive=place.sensitive,
        secret=place.secret,
        root=None if place.root is None else str(place.root),
        written=written,
        recursive=recursive,
    )


def _touched(study: analysis.Study, resolve: Resolve, start: Path) -> Iterator[PathFact]:
    yield from _named_files(study, resolve, start)
    for touch in study.touched:
        if not study.parts and (matches := _matches(touch.path, start)):
            for match in matches:
                yield _resolved(str(match), touch, resolve, start)
        fact = _resolved(touch.path, touch, resolve, start)
        yield fact
        if touch.recursive and fact.inside:
            yield from _below(Path(fact.path), touch, resolve)


def _named_files(study: analysis.Study, resolve: Resolve, start: Path) -> Iterator[PathFact]:
    """Every word that is the name of a file there is, whatever its program takes it for, if policy asks about it."""
    home = analysis.start_folder(study)
    known = {touch.path for touch in study.touched}
    for word in dict.fromkeys(word for part in study.parts for word in part.words[1:]):
        for text in _names_in(word):
            path = analysis.seen_from(home, text)
            if path in known or not os.path.lexists(start / path):
                continue
            fact = _resolved(path, analysis.Touched(path, "read"), resolve, start)
            if not fact.inside or (fact.sensitive is not None and fact.secret):
                yield fact


def _names_in(word: str) -> Iterator[str]:
    """A word, and what of it may be a file: behind `=`, `@` or the letter of an option."""
    yield word
    if "=" in word:
        yield word.partition("=")[2]
    if word.startswith("@"):
        yield word[1:]
    if re.match(r"-[A-Za-z].", word):
        yield word[2:]


def _resolved(text: str, touch: analysis.Touched, resolve: Resolve, start: Path) -> PathFact:
    """A path as the command would find it; what cannot be resolved counts as outside."""
    if text.startswith("~") and not text.startswith("~/") and text != "~":
        return PathFact(path=text, access=touch.access, inside=False, written=touch.path)
    try:
        place = resolve(text if text.startswith(("/", "~")) else f"{start}/{text}")
    except (Refused, OSError, ValueError):
        return PathFact(path=text, access=touch.access, inside=False, written=touch.path)
    return _fact(touch.access, place, touch.path, recursive=touch.recursive)


def _own_programs(study: analysis.Study, resolve: Resolve, start: Path) -> Iterator[str]:
    """The commands that the search path would find inside the workspace: in a virtual environment, or in a
    directory that the path names relative to where the command starts."""
    names = sorted({part.words[0] for part in study.parts} - BUILTINS)
    beside_us = os.path.realpath(Path(sys.executable).parent)  # whoever can write there has the server already
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if names else ():
        folder = Path(entry if entry.startswith("/") else f"{start}/{entry}")
        if os.path.realpath(folder) == beside_us:
            continue
        for name in names:
            if os.access(folder / name, os.X_OK) and _is_own(
                folder / name, resolve, relative=not entry.startswith("/")
            ):
                yield name


def _is_own(program: Path, resolve: Resolve, *, relative: bool) -> bool:
    """Whether a program is the workspace's. A link to the system's program of the same name is not."""
    try:
        inside, real = resolve(str(program.parent)).inside, resolve(str(program))
    except (Refused, OSError, ValueError):
        return True
    return (inside or relative) and (real.inside or not real.path.name.startswith(program.name))


def _matches(text: str, start: Path) -> list[Path]:
    """What the shell would put in the place of a file name pattern, hidden files too: some of it, if much."""
    if not re.search(r"[*?\[]", text):
        return []
    pattern = str(Path(text).expanduser()) if text.startswith("~/") else text
    found = glob.iglob(pattern, root_dir=start, include_hidden=True)  # noqa: PTH207 -- Path.glob takes no absolute pattern
    return [start / match for match in itertools.islice(found, MAX_MATCHES)]


_SUSPECT = re.compile(
    r"^[._]|env|key|secret|credential|id_|token|auth|account|\.(?:pem|p12|pfx|ppk|p8|jks|kdbx?|asc|gpg|tfstate|tfvars)",
    re.IGNORECASE,
)
"""a quick look at a name before the workspace's own marks are asked"""


def _below(folder: Path, touch: analysis.Touched, resolve: Resolve) -> Iterator[PathFact]:
    """A secret that reading a whole tree would meet, and a link that leads out of it, where links are followed. A tree
    too large to tell counts as one that has a secret."""
    looked = 0
    secret = link = False
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED and (touch.hidden or not name.startswith("."))]
        looked += len(files) + len(folders)
        if looked > MAX_ENTRIES:
            why = "there are too many files to tell whether a secret is among them"
            yield PathFact(path=str(folder), sensitive=why, root=str(folder), written=touch.path, below=True)
            return
        for name in (*files, *folders):
            may_leave = not link and touch.follows and Path(place, name).is_symlink()
            may_tell = not secret and _SUSPECT.search(name) and touch.meets(name)
            if not may_leave and not may_tell:
                continue
            fact = _resolved(str(Path(place, name)), touch, resolve, folder)
            if may_leave and not fact.inside:
                link = True
                yield fact
            elif fact.sensitive is not None and fact.secret:
                secret = True
                yield replace(fact, below=True)
