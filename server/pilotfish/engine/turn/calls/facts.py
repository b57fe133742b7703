"""Collects the facts about a call for policy: resolves its paths and the words of its command.

Policy is pure, so all disk access for a decision happens here, right before the decision.
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
from pilotfish.policy.shell.effects import Effect
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import ResolvedPath
from pilotfish.workspace.git.repository import programs_in
from pilotfish.workspace.sandbox.sandbox import clean_environment

MAX_ENTRIES = 20_000  # checked for secrets before a command reads a whole tree
MAX_MATCHES = 200  # of one file name pattern
MAX_REPOSITORIES = 200  # whose settings are kept
SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", "target"})
"""Directories of published code: they contain no secrets of the user."""

BUILTINS = frozenset({"cd", "echo", "printf", "pwd", "true", "false", "test", "[", "type", "command"})
"""bash runs these itself, without a lookup in PATH"""

Resolve = Callable[[str], ResolvedPath]


def collect(
    tool: str,
    category: Category,
    subject: Subject,
    *,
    resolve: Resolve,
    directory: Path,
    walled: bool,
    confined: bool = False,
    args: Mapping[str, Any] | None = None,
) -> CallFacts:
    """Collect the facts of one call. `directory` is the working directory of a command; `walled` says that a read-only
    sandbox is available, `confined` that a workspace sandbox is; `args` are the arguments of the call as JSON.

    Raises Refused for a path that no tool may touch. In a command, such a path is an ordinary fact.
    """
    paths = [fact_of(touch.access, resolve(touch.path), recursive=touch.recursive) for touch in subject.touches]
    start = directory if subject.cwd is None else resolve(subject.cwd).path
    programs: list[str] = []
    own: tuple[str, ...] = ()
    if subject.command is not None:
        study = analysis.study(subject.command)
        paths += _touched(study, resolve, start, walled=walled)
        # The sandboxes do not look for programs in the workspace.
        own = () if walled else tuple(_own_programs(study, resolve, start))
        for folder in analysis.git_folders(study) if study.effect is Effect.READS else ():
            programs += _git_programs(start / folder)
    return CallFacts(
        tool=tool,
        category=category,
        paths=tuple(paths),
        command=subject.command,
        cwd=str(start) if subject.command is not None else None,
        url=subject.url,
        search=subject.search,
        mcp=subject.mcp,
        mcp_digest=subject.mcp_digest,
        mcp_reads=subject.mcp_reads,
        git_programs=tuple(dict.fromkeys(programs)),
        own_programs=own,
        masked=args is not None and category is Category.WRITE and has_mark(args),
        walled=walled and subject.command is not None,
        confined=confined and walled and subject.command is not None,
        for_real=subject.for_real,
        background=subject.background,
        scripts=() if subject.command is None else tuple(_scripts(analysis.study(subject.command), start)),
        folder="" if subject.command is None else _folder(start, resolve),
    )


INTERPRETERS = frozenset({
    "bash", "sh", "zsh", "dash", "ksh", "fish", "source", ".", "python", "python3", "node", "deno", "bun", "ruby",
    "perl", "php", "lua", "pwsh", "tsx", "ts-node",
})  # fmt: skip
MAX_SCRIPT = 4_000_000  # bytes


def _scripts(study: analysis.Study, start: Path) -> Iterator[tuple[str, str]]:
    """The files that a command would run, directly or through an interpreter, with their hashes."""
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


_known_programs: dict[tuple[object, ...], tuple[str, ...]] = {}


def _git_programs(folder: Path) -> tuple[str, ...]:
    """The programs that the repository of a folder makes git run. Asking git takes four processes, so the answer is
    kept until a file changes on which it depends."""
    key = _git_state(folder)
    if key is None or key not in _known_programs:
        found = programs_in(folder, clean_environment(os.environ))
        if key is None:
            return found
        if len(_known_programs) > MAX_REPOSITORIES:
            _known_programs.clear()
        _known_programs[key] = found
    return _known_programs[key]


def _git_state(folder: Path) -> tuple[object, ...] | None:
    """What the settings of a repository depend on: its place, and the state of git's files. None if there may be more:
    included files, submodules, linked work trees."""
    place = Path(os.path.realpath(folder))
    top = next((above for above in (place, *place.parents) if os.path.lexists(above / ".git")), None)
    if top is None or any(os.path.lexists(above / "HEAD") for above in (place, *place.parents) if above != top):
        return None
    git = top / ".git"
    try:
        config = (git / "config").read_bytes()
    except OSError:
        return None
    if b"include" in config.lower() or os.path.lexists(top / ".gitmodules") or os.path.lexists(top / "HEAD"):
        return None
    return (
        str(place),
        config,
        *(_state(git / name) for name in ("", "hooks", "config.worktree", "commondir", "index")),
    )


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _folder(directory: Path, resolve: Resolve) -> str:
    """A directory relative to its workspace root. Empty if it is the root."""
    try:
        place = resolve(str(directory))
    except (Refused, OSError, ValueError):
        return str(directory)
    root = place.path if place.root is None else Path(os.path.realpath(place.root))
    return "" if place.path == root else os.path.relpath(place.path, root)


def fact_of(
    access: Access, place: ResolvedPath, written: str | None = None, *, recursive: bool = False, missing: bool = False
) -> PathFact:
    """The fact that a call touches a resolved path."""
    return PathFact(
        missing=missing,
        path=str(place.path),
        access=access,
        inside=place.inside,
        sensitive=place.sensitive,
        secret=place.secret,
        root=None if place.root is None else str(place.root),
        written=written,
        recursive=recursive,
    )


def _touched(study: analysis.Study, resolve: Resolve, start: Path, *, walled: bool) -> Iterator[PathFact]:
    yield from _named_files(study, resolve, start)
    for touch in study.touched:
        if not study.parts and (matches := _matches(touch.path, start)):
            for match in matches:
                fact = _resolved(str(match), touch, resolve, start)
                # Nobody asked for the secret that `*` happens to match.
                yield replace(fact, below=fact.secret and Path(touch.path).name.startswith("*"))
        fact = _resolved(touch.path, touch, resolve, start)
        yield fact
        # In the read-only sandbox the secrets in a tree are empty; a link may still lead out of it.
        if touch.recursive and fact.inside and (touch.follows or not walled):
            yield from _below(Path(fact.path), touch, resolve)


def _named_files(study: analysis.Study, resolve: Resolve, start: Path) -> Iterator[PathFact]:
    """Every word that names an existing file outside the workspace or a secret, whatever the program does with it."""
    home = analysis.start_folder(study)
    known = {touch.path for touch in study.touched}
    back = analysis.returning(study.text)
    named = [word for part in study.parts if part.words not in back for word in part.words[1:]]
    for word in dict.fromkeys(named):
        for text in _names_in(word):
            path = analysis.seen_from(home, text)
            if path in known or not os.path.lexists(start / path):
                continue
            fact = _resolved(path, analysis.Touched(path, "read"), resolve, start)
            if not fact.inside or (fact.sensitive is not None and fact.secret):
                yield fact


def _names_in(word: str) -> Iterator[str]:
    """The word, and its parts that may be a path: after `=`, `@` or an option letter."""
    yield word
    if "=" in word:
        yield word.partition("=")[2]
    if word.startswith("@"):
        yield word[1:]
    if re.match(r"-[A-Za-z].", word):
        yield word[2:]


def _resolved(text: str, touch: analysis.Touched, resolve: Resolve, start: Path) -> PathFact:
    """The path as the command would resolve it. A path that cannot be resolved counts as outside the workspace."""
    if text.startswith("~") and not text.startswith("~/") and text != "~":
        return PathFact(path=text, access=touch.access, inside=False, written=touch.path)
    try:
        place = resolve(text if text.startswith(("/", "~")) else f"{start}/{text}")
    except (Refused, OSError, ValueError):
        return PathFact(path=text, access=touch.access, inside=False, written=touch.path)
    # A program that may write could make a file in an existing folder.
    nearest = place.path if touch.sure and touch.access == "read" else place.path.parent
    missing = not place.inside and not re.search(r"[*?\[$]", text) and not os.path.lexists(nearest)
    return fact_of(touch.access, place, touch.path, recursive=touch.recursive, missing=missing)


def _own_programs(study: analysis.Study, resolve: Resolve, start: Path) -> Iterator[str]:
    """The commands that PATH resolves to programs inside the workspace, for example in a virtual environment, or in
    a relative entry of PATH."""
    names = sorted({part.words[0] for part in study.parts} - BUILTINS)
    own_bin = os.path.realpath(Path(sys.executable).parent)  # write access to it means control of the server anyway
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if names else ():
        folder = Path(entry if entry.startswith("/") else f"{start}/{entry}")
        if os.path.realpath(folder) == own_bin:
            continue
        for name in names:
            if os.access(folder / name, os.X_OK) and _is_own(
                folder / name, resolve, relative=not entry.startswith("/")
            ):
                yield name


def _is_own(program: Path, resolve: Resolve, *, relative: bool) -> bool:
    """Whether a program belongs to the workspace. A link to a system program of the same name does not."""
    try:
        inside, real = resolve(str(program.parent)).inside, resolve(str(program))
    except (Refused, OSError, ValueError):
        return True
    return (inside or relative) and (real.inside or not real.path.name.startswith(program.name))


def _matches(text: str, start: Path) -> list[Path]:
    """The first MAX_MATCHES expansions of a glob pattern. As in bash, `*` matches no hidden files."""
    if not re.search(r"[*?\[]", text):
        return []
    pattern = str(Path(text).expanduser()) if text.startswith("~/") else text
    found = glob.iglob(pattern, root_dir=start)  # noqa: PTH207 -- Path.glob takes no absolute pattern
    return [start / match for match in itertools.islice(found, MAX_MATCHES)]


_SUSPECT = re.compile(
    r"^[._]|env|key|secret|credential|id_|token|auth|account|\.(?:pem|p12|pfx|ppk|p8|jks|kdbx?|asc|gpg|tfstate|tfvars)",
    re.IGNORECASE,
)
"""a cheap filter of names before the path is resolved and classified"""


def _below(folder: Path, touch: analysis.Touched, resolve: Resolve) -> Iterator[PathFact]:
    """The first secret in a directory tree, and the first link that leads out of it where links are followed. A tree
    that is too large to check counts as one that contains a secret."""
    checked = 0
    secret = link = False
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED and (touch.hidden or not name.startswith("."))]
        checked += len(files) + len(folders)
        if checked > MAX_ENTRIES:
            why = "it contains too many files to check them for secrets"
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
