"""All language servers of this process: chooses who answers for a file, and joins the answers of several.

Hides: which servers are installed and run, and how they are started. One server runs for each language and folder,
whichever session asks. Promises: none is started in a folder that is not allowed, and a query ends within its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotfish.language_servers.known_servers import Folder, FoundServer, KnownServer
from pilotfish.text.uris import path_of
from pilotfish.workspace.own_servers import ServedWorkspace
from pilotfish.workspace.process.programs import Program, Programs
from pilotfish.workspace.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from pilotfish.language_servers.server import LanguageServer

IDLE_SECONDS = 600.0
"""without a question, after which a server is ended"""


class LanguageServers:
    """Implements `workspace.own_servers.OwnLanguageServers`."""

    def __init__(self, sandbox: Callable[[], Sandbox], idle_seconds: float = IDLE_SECONDS) -> None:
        self._programs = Programs(sandbox)
        self._idle_seconds = idle_seconds
        self._folders: dict[Path, Folder] = {}
        self._servers: dict[tuple[Path, str], LanguageServer] = {}

    def for_workspace(self, workspace: ServedWorkspace, allowed: Callable[[Path], bool]) -> WorkspaceQueries:
        return WorkspaceQueries(self, workspace, allowed)

    def folder(self, root: Path) -> Folder:
        return self._folders.setdefault(root, Folder(root))

    def is_given_up(self, root: Path, known: KnownServer) -> bool:
        """Whether the server ended too often in this folder to be started again."""
        server = self._servers.get((root, known.name))
        return server is not None and not server.usable

    async def server(self, root: Path, found: FoundServer) -> LanguageServer:
        """The server for a folder. It is not started yet."""
        # pygls is loaded with the first server; it takes too long for the event loop.
        module = await asyncio.to_thread(_load)
        key = (root, found.known.name)
        if key not in self._servers:
            self._servers[key] = module(found, root, self._launch, self._idle_seconds)
        return self._servers[key]

    def running(self, root: Path) -> list[LanguageServer]:
        return [server for (folder, _), server in self._servers.items() if folder == root]

    async def aclose(self) -> None:
        await asyncio.gather(*(server.aclose() for server in self._servers.values()), return_exceptions=True)
        await self._programs.aclose()

    async def _launch(self, found: FoundServer, root: Path) -> Program:
        shown = found.places(Path.home())
        return await self._programs.start(found.argv, root=root, shown=shown, environ=found.known.environment)


class WorkspaceQueries:
    """Implements `workspace.editor.LanguageQueries` for one workspace."""

    encoding = "utf-16"

    def __init__(self, servers: LanguageServers, workspace: ServedWorkspace, allowed: Callable[[Path], bool]) -> None:
        self._servers = servers
        self._workspace = workspace
        self._allowed = allowed

    def can_answer(self, method: str) -> bool:
        return any(
            method in found.known.answers and self._servers.folder(root).has_language(found.known)
            for root in self._workspace.roots
            for found in self._found(root)
        )

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        match method, params:
            case "diagnostics", {"uri": str() as uri}:
                return await self._diagnostics(path_of(uri), params, timeout)
            case "diagnostics", _:
                return await self._all_diagnostics(params, timeout)
            case "symbols", {"query": _}:
                return _joined("symbols", await self._ask_all(None, method, params, timeout))
            case "codeActions", {"uri": str() as uri}:
                return _joined("actions", await self._ask_all(path_of(uri), method, params, timeout))
            case _, {"uri": str() as uri}:
                answers = await self._ask_all(path_of(uri), method, params, timeout)
                return answers[0] if answers else None
            case _:
                return None

    def _found(self, root: Path) -> list[FoundServer]:
        """The servers that may answer for a folder."""
        if not self._allowed(root):
            return []
        folder = self._servers.folder(root)
        return [found for found in folder.servers() if not self._servers.is_given_up(root, found.known)]

    async def _serving(self, path: Path | None, method: str) -> list[LanguageServer]:
        """The servers for a file, or for all languages of the workspace."""
        chosen: list[LanguageServer] = []
        for root in self._workspace.roots:
            if path is not None and not path.is_relative_to(root):
                continue
            for found in self._found(root):
                known = found.known
                fits = (
                    self._servers.folder(root).has_language(known) if path is None else path.suffix in known.languages
                )
                if fits and method in known.answers:
                    chosen.append(await self._servers.server(root, found))
            if path is not None:
                break  # the first folder that has the file
        return chosen

    def _fits(self, root: Path, known: KnownServer, path: Path | None) -> bool:
        return self._servers.folder(root).has_language(known) if path is None else path.suffix in known.languages

    async def _ask_all(
        self, path: Path | None, method: str, params: Mapping[str, Any], seconds: float
    ) -> list[Mapping[str, Any]]:
        """The answers of all servers that have one in time."""
        asked = [server.ask(method, params, self._workspace) for server in await self._serving(path, method)]
        return [answer for answer in await _within(seconds, asked) if answer is not None]

    async def _diagnostics(self, path: Path | None, params: Mapping[str, Any], seconds: float) -> Any:
        """The diagnostics of a file from all its servers. A file of no server has none. From a server that is late come
        those of an earlier text, after the caller's `timeoutMs`; one that has just been started gets the whole time."""
        servers = [] if path is None else await self._serving(path, "diagnostics")
        if path is None or not servers:
            return {"documents": []}
        if all(server.settled for server in servers):
            seconds = min(seconds, params.get("timeoutMs", seconds * 1000) / 1000)
        asked = {"uri": path.as_uri()}
        answers = await _within(seconds, [server.ask("diagnostics", asked, self._workspace) for server in servers])
        found = [
            answer["documents"][0]["diagnostics"] if answer is not None else server.published(path)
            for server, answer in zip(servers, answers, strict=True)
        ]
        if all(diagnostics is None for diagnostics in found):
            return None
        known = [item for diagnostics in found for item in diagnostics or ()]
        return {"documents": [{"uri": path.as_uri(), "diagnostics": known}]}

    async def _all_diagnostics(self, params: Mapping[str, Any], seconds: float) -> Any:
        """The diagnostics of the open documents, and of the files that were asked about."""
        paths = [buffer.path for buffer in self._workspace.open_documents()]
        paths += [
            path
            for root in self._workspace.roots
            for server in self._servers.running(root)
            for path in server.open_files
        ]
        answers = await asyncio.gather(*(self._diagnostics(path, params, seconds) for path in dict.fromkeys(paths)))
        return _joined("documents", [answer for answer in answers if answer is not None]) or {"documents": []}


async def _within(seconds: float, asked: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """The result of each in time; None for those that are late."""

    async def limited(work: Coroutine[Any, Any, Any]) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            return None

    return await asyncio.gather(*map(limited, asked))


def _joined(key: str, answers: Sequence[Mapping[str, Any]]) -> Any:
    return {key: [item for answer in answers for item in answer[key]]} if answers else None


def _load() -> type[LanguageServer]:
    from pilotfish.language_servers.server import LanguageServer

    return LanguageServer
