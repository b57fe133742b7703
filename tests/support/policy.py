"""Builds facts for policy without a disk: a workspace at /w, from text alone."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from pathlib import Path

from pilotfish.conversation.messages import Category
from pilotfish.policy.rules import Access, CallFacts, PathFact
from pilotfish.policy.shell.analysis import study

ROOT = "/w"
CORPUS = Path(__file__).parent.parent / "policy" / "corpus" / "commands.txt"


def place(text: str, access: Access = "read", written: str | None = None, start: str = ROOT) -> PathFact:
    """Resolve a path as a workspace at /w would on a disk without links."""
    path = posixpath.normpath(posixpath.join(start, text)) if not text.startswith("~") else f"/home/me/{text[2:]}"
    inside = path == ROOT or path.startswith(ROOT + "/")
    name = posixpath.basename(path)
    secret = name.startswith((".env", "id_rsa")) or name.endswith(".pem") or "secrets" in path.split("/")
    control = "/.git/" in path or path.startswith((f"{ROOT}/.github/", f"{ROOT}/.vscode/"))
    why = "it may hold secrets" if secret else "a program obeys it" if control else None
    return PathFact(
        path=path,
        access=access,
        inside=inside,
        sensitive=why,
        secret=secret,
        root=ROOT if inside else None,
        written=written,
    )


def command(text: str, *, walled: bool = True, confined: bool | None = None) -> CallFacts:
    """Return the facts of a bash call. `walled` says whether a read-only sandbox is available, `confined` whether a
    workspace sandbox is: by default both or none."""
    touched = study(text).touched
    return CallFacts(
        tool="bash",
        category=Category.EXECUTE,
        command=text,
        cwd=ROOT,
        walled=walled,
        confined=walled if confined is None else confined,
        paths=tuple(place(touch.path, touch.access, touch.path) for touch in touched),
    )


def edit(path: str, access: Access = "write", tool: str = "write_file") -> CallFacts:
    return CallFacts(tool=tool, category=Category.WRITE, paths=(place(path, access),))


def read(path: str) -> CallFacts:
    return CallFacts(tool="read_file", category=Category.READ_ONLY, paths=(place(path),))


def fetch(url: str) -> CallFacts:
    return CallFacts(tool="web_fetch", category=Category.RESEARCH, url=url)


def corpus() -> Iterator[tuple[str, str]]:
    """Yield the verdict and the command of every line of the corpus."""
    return _lines(CORPUS, {"allow", "try", "ask", "deny"})


def agent_commands(*, counted: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the label and the command of every line that a coding agent might run. `counted`: only those of the mix."""
    labels = {"read", "inside", "network", "outside", "deletes", "hidden", "destructive"}
    rare = set[str]() if counted else {f"+{label}" for label in labels}
    for label, line in _lines(CORPUS.with_name("agent_commands.txt"), labels | rare):
        yield label.removeprefix("+"), line


def _lines(file: Path, labels: set[str]) -> Iterator[tuple[str, str]]:
    for line in file.read_text("utf-8").splitlines():
        label, tab, text = line.partition("\t")
        if tab and label in labels:
            yield label, json.loads(text.removeprefix("$json ")) if text.startswith("$json ") else text
