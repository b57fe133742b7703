"""The language servers that are known, where their programs are found, and which languages a folder has."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

METHODS = frozenset({"diagnostics", "definition", "references", "symbols", "codeActions", "rename"})
PROGRAM_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")
"""folders of a workspace whose programs come before those of the machine: the project's own version"""
LEFT_OUT = frozenset(
    {"node_modules", "venv", "site-packages", "__pycache__", "target", "dist", "build", "out", "vendor"}
)
"""folders that are not searched for files, as are those whose name begins with a dot"""
MAX_ENTRIES = 5_000
"""entries of a folder that are looked at to know its languages"""
FRESH_SECONDS = 60.0
"""how long the languages and programs of a folder are taken as they were"""

_PYTHON = {".py": "python", ".pyi": "python"}
_TYPESCRIPT = {
    ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescriptreact",
    ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact",
}  # fmt: skip
_C = {
    ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hh": "cpp", ".hpp": "cpp", ".hxx": "cpp",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownServer:
    """A language server. Of several with the same `role` in a folder the first that is installed is used."""

    name: str
    role: str
    command: tuple[str, ...]
    languages: Mapping[str, str]
    """file suffix → LSP's language id"""
    answers: frozenset[str] = METHODS
    shown: tuple[str, ...] = ()
    """places of the home that it reads, beside those of every command"""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """keeps it from the network, and what it writes in the sandbox's own `/tmp`"""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`initializationOptions`"""
    settle_seconds: float = 60.0
    """how long its first diagnostics are waited for: before them it may not know all files yet"""


SERVERS = (
    KnownServer(
        name="basedpyright",
        role="python",
        command=("basedpyright-langserver", "--stdio"),
        languages=_PYTHON,
    ),
    KnownServer(
        name="pyright",
        role="python",
        command=("pyright-langserver", "--stdio"),
        languages=_PYTHON,
        shown=(".cache/pyright-python",),
    ),
    KnownServer(
        name="ruff",
        role="python lint",
        command=("ruff", "server"),
        languages=_PYTHON,
        answers=frozenset({"diagnostics", "codeActions"}),
    ),
    KnownServer(
        name="gopls",
        role="go",
        command=("gopls",),
        languages={".go": "go"},
        environment={"GOPROXY": "off", "GOFLAGS": "-mod=readonly", "GOTELEMETRY": "off", "GOCACHE": "/tmp/go-build"},  # noqa: S108 - the sandbox's own
        settle_seconds=5.0,  # it sends none for files without problems, and reports its progress
    ),
    KnownServer(
        name="rust-analyzer",
        role="rust",
        command=("rust-analyzer",),
        languages={".rs": "rust"},
        environment={"CARGO_NET_OFFLINE": "true", "CARGO_TARGET_DIR": "/tmp/target"},  # noqa: S108 - the sandbox's own
        options={"checkOnSave": False},
        settle_seconds=5.0,  # as gopls
    ),
    KnownServer(
        name="typescript-language-server",
        role="typescript",
        command=("typescript-language-server", "--stdio"),
        languages=_TYPESCRIPT,
        options={"disableAutomaticTypingAcquisition": True},
    ),
    KnownServer(
        name="clangd",
        role="c",
        command=("clangd",),
        languages=_C,
    ),
)


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A known server with the program that was found for a folder."""

    known: KnownServer
    program: Path

    @property
    def argv(self) -> list[str]:
        return [str(self.program), *self.known.command[1:]]

    def places(self, home: Path) -> list[Path]:
        """What it must read, in case the sandbox hides it: what it and its interpreter are installed with, `shown`."""
        programs = [self.program, *_interpreters(self.program)]
        installed = [_installation(program, home) for program in programs]
        return [self.program.parent, *installed, *(home / place for place in self.known.shown)]


class Folder:
    """One folder: which servers are installed for it, and which languages it has. Both are looked up again in time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._looked = float("-inf")
        self._servers: tuple[FoundServer, ...] = ()
        self._suffixes: frozenset[str] = frozenset()

    def servers(self) -> tuple[FoundServer, ...]:
        """The servers that are installed, one for each role."""
        self._look()
        return self._servers

    def has_language(self, server: KnownServer) -> bool:
        """Whether the folder has a file of the server's languages, as far as it was looked at."""
        self._look()
        return not self._suffixes.isdisjoint(server.languages)

    def _look(self) -> None:
        if time.monotonic() - self._looked < FRESH_SECONDS:
            return
        self._looked = time.monotonic()
        found: dict[str, FoundServer] = {}
        for known in SERVERS:
            if known.role not in found and (program := find_program(known.command[0], self.root)) is not None:
                found[known.role] = FoundServer(known, program)
        self._servers = tuple(found.values())
        self._suffixes = suffixes_in(self.root) if found else frozenset()


def find_program(name: str, root: Path) -> Path | None:
    """The program of the workspace itself, or the one on PATH. Entries of PATH that are relative or inside the
    workspace are left out, so that a workspace cannot put its program in place of another."""
    entries = (Path(entry) for entry in os.environ.get("PATH", os.defpath).split(os.pathsep))
    outside = [
        str(entry)
        for entry in entries
        if entry.is_absolute() and not Path(os.path.realpath(entry)).is_relative_to(root)
    ]
    own = [str(root / folder) for folder in PROGRAM_FOLDERS]
    found = shutil.which(name, path=os.pathsep.join([*own, *outside]))
    return None if found is None else Path(found)


def _installation(program: Path, home: Path) -> Path:
    """The folder that a program is installed in; never the home itself or what is above it."""
    folder = Path(os.path.realpath(program)).parent
    for place in reversed((folder, *folder.parents)):
        if place.name == "node_modules":
            return place
    above = folder.parent if folder.name == "bin" else folder
    return folder if home.is_relative_to(above) else above


def _interpreters(program: Path) -> list[Path]:
    """The interpreter that the first line of a script names."""
    try:
        with program.open("rb") as file:
            line = file.readline(500)
    except OSError:
        return []
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [found for word in words[1:] if not word.startswith("-") and (found := shutil.which(word))]
    return [Path(words[0])] if words else []


def suffixes_in(root: Path) -> frozenset[str]:
    """The suffixes of the files of a folder; of the first ones, from the top down, if there are many."""
    found: set[str] = set()
    looked = 0
    waiting = [root]
    while waiting and looked < MAX_ENTRIES:
        below: list[Path] = []
        for folder in waiting:
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            looked += len(entries)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if is_searched(entry.name):
                        below.append(Path(entry.path))
                else:
                    found.add(os.path.splitext(entry.name)[1])  # noqa: PTH122 - for thousands of names
            if looked >= MAX_ENTRIES:
                break
        waiting = below
    return frozenset(found)


def is_searched(name: str) -> bool:
    """Whether a folder of this name may have files of the project."""
    return not name.startswith(".") and name not in LEFT_OUT
