"""One language server for one folder: started when it is first asked, ended when nobody asks any more.

Promises: a server that crashes, hangs or floods costs its caller the time that the caller gave, and is started again a
few times only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types

from pilotfish.errors import ToolError
from pilotfish.language_servers.client import ServerClient, ServerError, locations, objects
from pilotfish.language_servers.documents import SentDocuments
from pilotfish.language_servers.known_servers import FoundServer
from pilotfish.text.uris import path_of
from pilotfish.workspace.own_servers import ServedWorkspace
from pilotfish.workspace.process.programs import Program

log = logging.getLogger(__name__)

START_SECONDS = 30.0
"""for the answer to `initialize`"""
QUIET_SECONDS = 0.25
"""without new diagnostics, after which those without a version are complete"""
MAX_STARTS = 3
"""a server that ended or hung this often is not started again"""
MAX_SILENCES = 2
"""requests in a row that were not answered in time, after which the server is ended"""

PROVIDERS = {
    "definition": "definitionProvider",
    "references": "referencesProvider",
    "symbols": "documentSymbolProvider",
    "codeActions": "codeActionProvider",
    "rename": "renameProvider",
}
"""method of `LanguageQueries.query` → the capability of the server"""

Launch = Callable[[FoundServer, Path], Awaitable[Program]]


@dataclass(slots=True)
class Published:
    """The newest diagnostics of a document."""

    diagnostics: list[Any]
    version: int | None
    at: float


@dataclass(slots=True)
class Running:
    """A started server."""

    program: Program
    client: ServerClient
    serving: asyncio.Task[None]
    documents: SentDocuments
    settle_seconds: float
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    published: dict[Path, Published] = field(default_factory=dict[Path, Published])
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """set when diagnostics arrive, then replaced"""
    settled: bool = False

    @property
    def alive(self) -> bool:
        return self.program.code is None and not self.serving.done()

    async def wait_for_news(self) -> None:
        """Return when diagnostics arrive. Raises ConnectionError when the server has ended."""
        if self.alive:
            await self.news.wait()
        if not self.alive:
            raise ConnectionError("the language server has ended")

    def wake(self) -> None:
        """Wake those who wait for news."""
        self.news.set()
        self.news = asyncio.Event()


class LanguageServer:
    """One known server in one folder."""

    def __init__(self, found: FoundServer, root: Path, launch: Launch, idle_seconds: float) -> None:
        self.found = found
        self.known = found.known
        self._root = root
        self._launch = launch
        self._idle_seconds = idle_seconds
        self._running: Running | None = None
        self._starting: asyncio.Task[Running] | None = None
        self._starts = 0
        self._idle: asyncio.TimerHandle | None = None
        self._users = 0
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def usable(self) -> bool:
        """Whether it runs or may be started."""
        return (self._running is not None and self._running.alive) or self._starts < MAX_STARTS

    async def ask(self, method: str, params: Mapping[str, Any], workspace: ServedWorkspace) -> Any:
        """The answer in the form of `LanguageQueries.query`; None if this server has none. Takes as long as it takes:
        the caller has a time limit."""
        if method not in self.known.answers:
            return None
        self._users += 1
        try:
            running = await self._start()
            try:
                return await _Query(running, workspace).answer(method, params)
            finally:
                if running.client.silences >= MAX_SILENCES:
                    log.warning("%s does not answer and is ended", self.known.name)
                    self._end_soon(running)
        except (ServerError, ConnectionError, ToolError) as error:
            log.info("%s: %s: %s", self.known.name, method, error)
            return None
        finally:
            self._users -= 1
            self._restart_idle_timer()

    @property
    def settled(self) -> bool:
        """Whether it has sent diagnostics since it was started."""
        return self._running is not None and bool(self._running.published)

    def published(self, path: Path) -> list[Any] | None:
        """The newest diagnostics of a file, for whatever text; None if there are none yet."""
        found = None if self._running is None else self._running.published.get(path)
        return None if found is None else found.diagnostics

    @property
    def open_files(self) -> tuple[Path, ...]:
        """The files whose text the server was sent."""
        return () if self._running is None else self._running.documents.paths

    async def aclose(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        if self._running is not None:
            await self._end(self._running)
        if self._ending:
            await asyncio.wait(self._ending)

    async def _start(self) -> Running:
        """The running server; it is started if it does not run. A caller that is cancelled does not stop the start."""
        if self._running is not None and self._running.alive:
            return self._running
        if self._starting is None:
            if self._starts >= MAX_STARTS:
                raise ToolError("it ended too often")
            self._starts += 1
            self._starting = asyncio.ensure_future(self._launched())
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    def _started(self, starting: asyncio.Task[Running]) -> None:
        self._starting = None
        if not starting.cancelled() and (error := starting.exception()) is not None:
            log.warning("%s could not be started: %s", self.known.name, error or type(error).__name__)
            if isinstance(error, ToolError):  # it never can be: there is no sandbox, or no program any more
                self._starts = MAX_STARTS

    async def _launched(self) -> Running:
        if self._running is not None:
            await self._end(self._running)
        client = ServerClient(self._root, settings_for(self._root))
        program = await self._launch(self.found, self._root)
        serving = client.serve(program.stdout, program.stdin)
        documents = SentDocuments(client.notify, self._root, self.known.languages)
        running = Running(program, client, serving, documents, self.known.settle_seconds)
        client.on_diagnostics = lambda params: _note_diagnostics(running, params)
        serving.add_done_callback(lambda _: self._end_soon(running))
        try:
            async with asyncio.timeout(START_SECONDS):
                running.capabilities = await client.initialize(self.known.options)
        except BaseException as error:
            await self._end(running)
            if isinstance(error, TimeoutError):
                raise ConnectionError("it did not answer `initialize`") from error
            raise
        log.info("%s started in %s", self.known.name, self._root)
        self._running = running
        return running

    async def _end(self, running: Running) -> None:
        if self._running is running:
            self._running = None
        running.wake()
        await running.program.kill()
        running.serving.cancel()
        await asyncio.wait((running.serving,))

    def _end_soon(self, running: Running) -> None:
        task = asyncio.ensure_future(self._end(running))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _restart_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        if self._running is not None and not self._users:
            log.info("%s is not used any more and is ended", self.known.name)
            self._starts -= 1  # it did nothing wrong
            self._end_soon(self._running)


class _Query:
    """One question to a running server."""

    def __init__(self, running: Running, workspace: ServedWorkspace) -> None:
        self._running = running
        self._workspace = workspace

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        path = path_of(params["uri"]) if "uri" in params else None
        running = self._running
        if method in PROVIDERS and not running.capabilities.get(PROVIDERS[method]):
            return None
        await running.documents.send(self._workspace, () if path is None else (path,))
        if path is None and (sample := running.documents.sample()) is not None:
            await running.documents.send(self._workspace, (sample,))  # servers begin with the first document
        if method == "diagnostics":
            return None if path is None else {"documents": [await self._diagnostics(path)]}
        await self._settle()
        document = {"textDocument": {"uri": params.get("uri")}}
        place = {**document, "position": params.get("position")}
        ask = running.client.request
        match method:
            case "definition":
                return {"locations": locations(await ask(types.TEXT_DOCUMENT_DEFINITION, place))}
            case "references":
                context = {"context": {"includeDeclaration": True}}
                return {"locations": locations(await ask(types.TEXT_DOCUMENT_REFERENCES, {**place, **context}))}
            case "symbols" if path is None:
                return {"symbols": objects(await ask(types.WORKSPACE_SYMBOL, {"query": params.get("query", "")}))}
            case "symbols":
                return {"symbols": objects(await ask(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, document))}
            case "codeActions" if path is not None:
                return {"actions": await self._code_actions(path, document, params)}
            case "rename":
                edit = await ask(types.TEXT_DOCUMENT_RENAME, {**place, "newName": params.get("newName")})
                return {"edit": edit} if await self._is_current(edit) else None
            case _:
                return None

    async def _settle(self) -> None:
        """Wait for a server that has just started and may not know all files yet."""
        running = self._running
        if not running.settled:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(running.settle_seconds):
                    while not running.published:
                        await running.wait_for_news()
            running.settled = True
        await running.client.idle.wait()

    async def _diagnostics(self, path: Path) -> dict[str, Any]:
        """The diagnostics of the text as it was sent. Waits for them."""
        running, sent = self._running, self._running.documents.get(path)
        loop = asyncio.get_running_loop()
        while sent is not None:
            published = running.published.get(path)
            if published is not None and published.version is not None and published.version >= sent.version:
                break
            if published is not None and published.version is None and published.at >= sent.at:
                if (left := published.at + QUIET_SECONDS - loop.time()) <= 0:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(running.wait_for_news(), left)
            else:
                await running.wait_for_news()
        published = running.published.get(path)
        return {"uri": path.as_uri(), "diagnostics": published.diagnostics if published else []}

    async def _code_actions(self, path: Path, document: Mapping[str, Any], params: Mapping[str, Any]) -> list[Any]:
        problems = (await self._diagnostics(path))["diagnostics"]
        span = {**params["range"], "end": self._within(path, params["range"]["end"])}
        near = [problem for problem in problems if _touches(problem, span)]
        context = {"diagnostics": near, "only": params.get("only") or ["quickfix"], "triggerKind": 1}
        asked = {**document, "range": span, "context": context}
        found = objects(await self._running.client.request(types.TEXT_DOCUMENT_CODE_ACTION, asked))
        return [action for action in found if await self._is_current(action.get("edit"))]

    def _within(self, path: Path, position: Mapping[str, Any]) -> Mapping[str, Any]:
        """The position, or the end of the text if it is behind that: clangd refuses such a range."""
        sent = self._running.documents.get(path)
        lines = sent.text.split("\n") if sent is not None else []
        if not lines or position["line"] < len(lines):
            return position
        return {"line": len(lines) - 1, "character": len(lines[-1].encode("utf-16-le", "surrogatepass")) // 2}

    async def _is_current(self, edit: Any) -> bool:
        """Whether the edit is for the texts as they are now."""
        documents = self._running.documents
        return all([await documents.is_current(self._workspace, part) for part in objects(edit)])


def settings_for(root: Path) -> dict[str, Any]:
    """What the servers are told as the user's settings: the interpreter of the project."""
    for name in (".venv/bin/python", "venv/bin/python"):
        if (python := root / name).exists():
            return {"python": {"pythonPath": str(python)}}
    return {}


def _note_diagnostics(running: Running, params: Any) -> None:
    match params:
        case {"uri": str() as uri, "diagnostics": diagnostics} if (path := path_of(uri)) is not None:
            version = params.get("version")
            at = asyncio.get_running_loop().time()
            running.published[path] = Published(objects(diagnostics), version if isinstance(version, int) else None, at)
            running.wake()
        case _:
            pass


def _touches(problem: Any, span: Mapping[str, Any]) -> bool:
    """Whether a diagnostic begins between the lines of a range."""
    match problem, span:
        case {"range": {"start": {"line": int() as line}}}, {
            "start": {"line": int() as first},
            "end": {"line": int() as last, "character": int() as character},
        }:
            return first <= line < last or (line == last and (character > 0 or first == last))
        case _:
            return False
