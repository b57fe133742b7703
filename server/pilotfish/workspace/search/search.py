"""Searches texts with ripgrep: files on disk, and unsaved buffers in place of their files.

Promises: what is found is what the user sees; ignored, secret, binary and huge files are left out (a file named by
its own path is always searched); results come as they are found and are bounded; a search that is given up leaves no
process and no file behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from pilotfish.errors import ToolError
from pilotfish.workspace.editor import Buffer
from pilotfish.workspace.files.sensitive import hard_link_mark, mark_of
from pilotfish.workspace.files.view import View
from pilotfish.workspace.search.globs import compile_glob, last_name, whole_in_name
from pilotfish.workspace.search.ignore import IgnoreRules
from pilotfish.workspace.search.ripgrep import WALK, Ripgrep

Mode = Literal["lines", "files", "count"]

_TYPE = "pilotfish"
"""name of the ripgrep file type that stands for the query's glob"""

MAX_FILE_BYTES = 10_000_000
"""Hits in larger files are left out: they are data. ripgrep's own limit would look at the size of every file, which
costs a quarter more than looking at those that have a hit."""
MAX_MULTILINE_BYTES = 100_000_000
"""A pattern over several lines needs a whole file in memory: larger ones are not looked into at all."""
MAX_COLUMNS = 400
"""bytes of one line that is shown; minified files have lines of megabytes"""
GATHER = 2_500
"""hits that are gathered before they are sorted and cut: below this, the same search gives the same answer"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to look for. `glob` limits the files, relative to each place."""

    pattern: str
    mode: Mode = "lines"
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    glob: str | None = None
    include_ignored: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """A line (`matched` or around a match), a file (line 0), or a file's count (in `line`)."""

    path: str
    line: int = 0
    text: str = ""
    matched: bool = True


@dataclass(slots=True)
class SearchResult:
    """`hits` in order of path and line. `secret` files held hits that are not shown."""

    hits: list[Hit] = field(default_factory=list[Hit])
    more: bool = False
    """the search was stopped at its bound"""
    secret: set[str] = field(default_factory=set[str])
    unreadable: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSearch:
    """One search. `unsaved` are texts that stand for their files; `on_hits` is called with hits as they arrive."""

    query: Query
    roots: Sequence[Path]
    unsaved: Mapping[Path, str]
    on_hits: Callable[[Sequence[Hit]], None]
    home: Path = field(default_factory=Path.home)
    found: SearchResult = field(default_factory=SearchResult)

    async def over(self, places: Sequence[Path]) -> SearchResult:
        """Search these. What was found by then is in `found` even when this is cancelled."""
        try:
            for place in places:
                if await asyncio.to_thread(os.path.isdir, place):
                    await self._folder(place)
                else:
                    await self._file(place)
        finally:
            self.found.hits.sort()
        return self.found

    async def _folder(self, folder: Path) -> None:
        unsaved = {path: text for path, text in self.unsaved.items() if path.is_relative_to(folder)}
        root = self._root_of(folder)
        rules = IgnoreRules(root)
        shown = None if self.query.include_ignored else rules
        sieve = _Sieve(self.query, folder, frozenset(map(str, unsaved)), self.home, shown, root)
        ignoring = ("--no-ignore",) if self.query.include_ignored else rules.options(folder)
        await self._run(folder, (*ignoring, "."), sieve)
        if not self.query.include_ignored and not rules.ignored(folder, is_dir=True):
            unsaved = {path: text for path, text in unsaved.items() if not rules.ignored(path, is_dir=False)}
        await self._copies(folder, unsaved, _Sieve(self.query, folder, frozenset(), self.home, shown, root))

    async def _file(self, file: Path) -> None:
        """A file that is named is searched, whatever it is: policy has judged it."""
        sieve = _Sieve(self.query, file.parent, frozenset(), None, None, None)
        if file in self.unsaved:
            await self._copies(file.parent, {file: self.unsaved[file]}, sieve)
            return
        # Of os.path: a name that is too long names no file, and is no error of its own.
        if not await asyncio.to_thread(os.path.exists, file):
            raise ToolError(f"{str(file)[:MAX_COLUMNS]} does not exist")
        if not await asyncio.to_thread(os.path.isfile, file):
            raise ToolError(f"{file} is neither a file nor a folder")
        await self._run(file.parent, (file.name,), sieve)
        if self.found.unreadable:
            raise ToolError(self.found.unreadable[0])

    async def _copies(self, folder: Path, unsaved: Mapping[Path, str], sieve: _Sieve) -> None:
        """The same ripgrep over copies, so that a pattern means the same in a buffer as on disk."""
        if not unsaved or self.found.more:
            return
        with tempfile.TemporaryDirectory(prefix="pilotfish-search-") as name:
            for path, text in unsaved.items():
                copy = Path(name) / path.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(text.encode(errors="surrogatepass"))
            await self._run(Path(name), ("--no-ignore", "."), sieve)

    async def _run(self, cwd: Path, extra: Sequence[str], sieve: _Sieve) -> None:
        *options, path = extra
        run = Ripgrep(
            cwd=cwd,
            arguments=(*_arguments(self.query), *WALK, *options),
            paths=(path,),
            separator=b"\0" if self.query.mode == "files" else b"\n",
        )
        async with contextlib.aclosing(run.batches()) as batches:
            async for records in batches:
                if self.found.more:
                    break
                hits = [hit for hit in map(sieve.read, records) if hit is not None]
                if hits:
                    self.found.hits += hits
                    self.on_hits(hits)
                self.found.more = len(self.found.hits) >= GATHER
        self.found.secret |= sieve.secret
        if run.ended.code == 2:
            _explain(run.ended.errors, self.found)

    def _root_of(self, place: Path) -> Path:
        return next((root for root in self.roots if place.is_relative_to(root)), place)


class OpenDocuments(Protocol):
    """Of a workspace: what is open in the editor, and files as the user sees them."""

    def open_documents(self) -> Sequence[Buffer]: ...

    async def look(self, path: Path) -> View: ...


async def unsaved_texts(documents: OpenDocuments, places: Sequence[Path]) -> dict[Path, str]:
    """Files below these places whose text in the editor is not on disk."""
    texts: dict[Path, str] = {}
    for buffer in documents.open_documents():
        if any(buffer.path.is_relative_to(place) for place in places):
            with contextlib.suppress(ToolError):  # closed and gone meanwhile, or not text
                view = await documents.look(buffer.path)
                if view.dirty:
                    texts[buffer.path] = view.exact
    return texts


def _arguments(query: Query) -> list[str]:
    arguments = ["--null", "--no-heading", "--color=never", "--with-filename"]
    match query.mode:
        case "lines":
            arguments += [
                "--line-number",
                f"--max-columns={MAX_COLUMNS}",
                "--max-columns-preview",
                f"--context={query.context}",
                "--no-context-separator",
            ]
        case "files":
            arguments.append("--files-with-matches")
        case "count":
            arguments.append("--count")
    if query.literal:
        arguments.append("--fixed-strings")
    if query.ignore_case:
        arguments.append("--ignore-case")
    if "\n" in query.pattern or (not query.literal and r"\n" in query.pattern):
        arguments += ["--multiline", f"--max-filesize={MAX_MULTILINE_BYTES}"]
    return [*arguments, *glob_arguments(query.glob), "--regexp", query.pattern]


def glob_arguments(glob: str | None) -> list[str]:
    """Makes ripgrep filter by the file name part of a glob.

    The glob is passed as a file type: unlike `--glob`, that does not override the ignore files.
    """
    if glob is None:
        return []
    if glob.startswith("!"):
        return [f"--glob={glob}"]  # excluding does not override them
    name = last_name(glob)
    return [] if name is None else [f"--type-add={_TYPE}:{name}", f"--type={_TYPE}"]


class _Sieve:
    """Reads ripgrep's records below `folder`, and lets go of those that are not for the model. With no `home` the file
    is one that was named: it is neither secret nor too big."""

    def __init__(
        self,
        query: Query,
        folder: Path,
        replaced: frozenset[str],
        home: Path | None,
        rules: IgnoreRules | None,
        root: Path | None,
    ) -> None:
        self._mode = query.mode
        self._folder = folder
        self._replaced = replaced
        self._home = home
        self._rules = rules
        self._root = root
        self._glob = None if query.glob is None or whole_in_name(query.glob) else compile_glob(query.glob)
        self._kept: dict[bytes, str | None] = {}
        self.secret: set[str] = set()

    def read(self, record: bytes) -> Hit | None:
        name, null, rest = record.partition(b"\0")
        if self._mode == "files":
            path = self._path(name)
            return None if path is None else Hit(path)
        if not null:
            return None  # "binary file matches", or a broken line
        path = self._path(name)
        if path is None:
            return None
        if self._mode == "count":
            return Hit(path, int(rest))
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        if not digits:
            return None
        text = rest[digits + 1 :].decode(errors="replace").rstrip("\r")
        return Hit(path, int(rest[:digits]), text, rest[digits : digits + 1] == b":")

    def _path(self, name: bytes) -> str | None:
        if name not in self._kept:
            self._kept[name] = self._judge(os.fsdecode(name.removeprefix(b"./")))
        return self._kept[name]

    def _judge(self, relative: str) -> str | None:
        path = f"{self._folder}/{relative}"
        if path in self._replaced or (self._glob is not None and not self._glob.fullmatch(relative)):
            return None
        if self._rules is not None and not self._rules.unhidden(self._folder, (relative,)):
            return None
        if self._home is None:
            return path
        mark = mark_of((path,), self._home)
        if mark is None or not mark.secret:
            mark = hard_link_mark(path, self._root, self._home)
        if mark is not None and mark.secret:
            self.secret.add(path)
            return None
        return None if _size(path) > MAX_FILE_BYTES else path


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - one of thousands
    except OSError:  # gone meanwhile
        return 0


def _explain(errors: str, found: SearchResult) -> None:
    """Report files that could not be read; any other error is a wrong pattern."""
    for line in errors.splitlines():
        if line.endswith(")") and "(os error" in line:
            found.unreadable.append(line.removeprefix("rg: ").removeprefix("./"))
    if not found.unreadable and errors.strip():
        message = errors.strip().removeprefix("rg: ")
        raise ToolError(f"ripgrep rejected the search: {message[:1500]}\nFor special characters, set literal.")
