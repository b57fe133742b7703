"""A client of the real server process over stdio, sharing no code with its connection. Checks laws 1 to 5 all the time.

    async with connect(folder) as client:
        session = await client.new_session()
        result = await client.prompt(session, "hello")

`connect` starts `python -m pilotfish serve` with its own store, config and home, so that tests share nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.laws import Laws

from pilotfish.protocol import wire

SERVER = Path(__file__).parents[2] / "server"
Answerer = Callable[[dict[str, Any]], Awaitable[Any]]

OURS: dict[str, Any] = {
    "protocolVersion": 1,
    "client": {"approvals": True},
    "trusted": True,
    "settings": {},
}


class RpcError(Exception):
    """The server answered with an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Client:
    """One connection to one server process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.laws = Laws()
        self.updates: list[wire.UpdateParams] = []
        self.heard: list[dict[str, Any]] = []
        """every message of the server's, as it came"""
        self.unasked: list[dict[str, Any]] = []
        """answers with no id of ours, or a second answer to one"""
        self.answers: dict[str, Answerer] = {"pilotfish/approval/request": allow}
        """method → what answers the server's request; the rest is refused with -32601"""
        self.reading = asyncio.Event()
        """cleared: the client does not read"""
        self.reading.set()
        self.initialized: dict[str, Any] = {}
        self._waiting: dict[int | str, asyncio.Future[Any]] = {}
        self._next = 0
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self.taken_back: list[Any] = []
        """ids of the server's requests that it cancelled"""
        self.said: dict[Any, Any] = {}
        """id of the server's request → what it was answered"""
        self._reader = asyncio.create_task(self._read())

    def forget(self) -> None:
        """As if nothing had been heard yet; says yes to questions again. For tests that share a server."""
        self.laws = Laws()
        self.answers = {"pilotfish/approval/request": allow}
        for remembered in (self.updates, self.heard, self.unasked, self.taken_back):
            remembered.clear()

    # -- saying -----------------------------------------------------------------------------------------------------

    def send(self, message: Mapping[str, Any]) -> None:
        self.write(frame(message))

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any = None, key: int | str | None = None) -> asyncio.Future[Any]:
        """Send a request; the answer is a future."""
        if key is None:
            self._next += 1
            key = self._next
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": key, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return answer

    async def request(self, method: str, params: Any = None, timeout: float = 120.0) -> Any:
        """The answer to a request; RpcError when it is an error."""
        result = await asyncio.wait_for(self.ask(method, params), timeout)
        self.laws.check()
        return result

    # -- the usual things ---------------------------------------------------------------------------------------------

    async def initialize(
        self,
        *,
        hello: Mapping[str, Any] | None,
        capabilities: Mapping[str, Any],
        folders: Sequence[Path],
        process_id: int | None = None,
    ) -> Any:
        params: dict[str, Any] = {
            "processId": process_id,
            "rootUri": folders[0].as_uri() if folders else None,
            "capabilities": capabilities,
            "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders],
        }
        if hello is not None:
            params["initializationOptions"] = {"pilotfish": hello}
        self.initialized = await self.request("initialize", params)
        self.notify("initialized", {})
        return self.initialized

    async def new_session(self, **params: Any) -> str:
        return (await self.request("pilotfish/session/new", params))["session"]["id"]

    async def prompt(self, session: str, text: str, timeout: float = 240.0, **params: Any) -> wire.PromptResult:
        return await asyncio.wait_for(self.begin(session, text, **params), timeout)

    def begin(self, session: str, text: str, **params: Any) -> asyncio.Task[wire.PromptResult]:
        """Send a prompt; its checked answer is a task."""
        sent = {"sessionId": session, "prompt": [{"type": "text", "text": text}], **params}
        answer = self.ask("pilotfish/session/prompt", sent)

        async def checked() -> wire.PromptResult:
            return self.laws.answer(await answer)

        return asyncio.create_task(checked())

    async def load(self, session: str, **params: Any) -> wire.SessionLoadResult:
        result = await self.request("pilotfish/session/load", {"sessionId": session, **params})
        return self.laws.load(session, result, newest="before" not in params)

    async def until(self, found: Callable[[], bool], timeout: float = 120.0) -> None:
        """Returns when `found` holds; asked again after every message."""

        async def wait() -> None:
            async with self._news:
                await self._news.wait_for(found)

        await asyncio.wait_for(wait(), timeout)

    async def told(self, kind: str, session: str | None = None, timeout: float = 120.0) -> wire.UpdateParams:
        """The first update of this kind, as soon as it is here."""

        def matches() -> list[wire.UpdateParams]:
            return [told for told in self.updates if told.update.kind == kind and session in (None, told.session_id)]

        await self.until(lambda: bool(matches()), timeout)
        return matches()[0]

    def of(self, method: str) -> list[Any]:
        """The params of every message of this method so far."""
        return [message.get("params") for message in self.heard if message.get("method") == method]

    async def stop(self, timeout: float = 10.0) -> int:
        """Shut down as an editor does; the exit code."""
        self.reading.set()
        if self.process.returncode is None:
            with contextlib.suppress(ConnectionError):
                await self.request("shutdown", timeout=timeout)
                self.notify("exit")
        return await self.ended(timeout)

    async def ended(self, timeout: float = 10.0) -> int:
        """The exit code, once the process is gone."""
        try:
            return await asyncio.wait_for(self.process.wait(), timeout)
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of the process, whatever it does."""
        if self.process.returncode is None:
            self.process.kill()
        # asyncio's wait() ends when the pipes have ended, and a pipe that nobody reads, or that a grandchild holds,
        # may never do so.
        self.reading.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 10.0)
        self._reader.cancel()
        for task in (*self._tasks, *self._answering.values()):
            task.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    # -- hearing ------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        assert self.process.stdout is not None
        stdout = self.process.stdout
        try:
            while True:
                await self.reading.wait()
                head = await stdout.readuntil(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode("ascii").strip().split("\r\n"))
                body = await stdout.readexactly(int(fields["Content-Length"]))
                await self._hear(json.loads(body))
        except (asyncio.IncompleteReadError, ConnectionError):
            gone = ConnectionError("the server has closed the connection")
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(gone)
        finally:
            async with self._news:
                self._news.notify_all()

    async def _hear(self, message: dict[str, Any]) -> None:
        assert message.get("jsonrpc") == "2.0", message
        self.heard.append(message)
        method = message.get("method")
        if method is None:
            answer = self._waiting.get(message["id"]) if message["id"] is not None else None
            if answer is None or answer.done():
                self.unasked.append(message)
            elif "error" in message:
                answer.set_exception(RpcError(message["error"]))
            else:
                answer.set_result(message["result"])
        elif "id" in message:
            task = asyncio.create_task(self._answer(message))
            self._answering[message["id"]] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif method == "pilotfish/session/update":
            with contextlib.suppress(AssertionError):  # raised again by the next request
                self.updates.append(self.laws.update(message["params"]))
        elif method == "$/cancelRequest":
            self.taken_back.append(message["params"]["id"])
            if task := self._answering.get(message["params"]["id"]):
                task.cancel()
        async with self._news:
            self._news.notify_all()

    async def _answer(self, message: dict[str, Any]) -> None:
        answerer = self.answers.get(message["method"])
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if answerer is None:
            self.send({**reply, "error": {"code": -32601, "message": "not served here"}})
            return
        try:
            result = self.said[message["id"]] = await answerer(message["params"])
            self.send({**reply, "result": result})
        except RpcError as error:
            self.send({**reply, "error": {"code": error.code, "message": error.message}})


def frame(message: Any) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def option(name: str, **more: Any) -> Answerer:
    """Answers a question with this option."""

    async def answer(_: dict[str, Any]) -> Any:
        return {"optionId": name, **more}

    return answer


allow = option("allow_once")


async def never(_: dict[str, Any]) -> Any:
    """A client that shows a question and gets no answer."""
    await asyncio.Event().wait()


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which a server keeps everything below `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PILOTFISH_", "XDG_"))}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_STATE_HOME": str(home / "state"),
        "PILOTFISH_STORAGE": str(home / "store"),
        "PILOTFISH_CONFIG": str(home / "config.toml"),
        "PYTHONPATH": str(SERVER),
        "PYTHONDONTWRITEBYTECODE": "",  # a server that compiles itself anew each time starts half a second later
        **more,
    }


async def spawn(home: Path, **more: str) -> Client:
    """A server process that has been told nothing yet."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pilotfish",
        "serve",
        "--stdio",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(home, **more),
        limit=2**26,
    )
    return Client(process)


@contextlib.asynccontextmanager
async def connect(
    folder: Path,
    *,
    home: Path | None = None,
    hello: Mapping[str, Any] | None = OURS,
    capabilities: Mapping[str, Any] | None = None,
    folders: Sequence[Path] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: str,
) -> AsyncGenerator[Client]:
    """A client of a fresh server in this folder, initialized; both are gone afterwards."""
    client = await spawn(home or folder.parent / f"{folder.name}-home", **more)
    if hello is not None and settings is not None:
        hello = {**hello, "settings": settings}
    try:
        await client.initialize(hello=hello, capabilities=capabilities or {}, folders=folders or [folder])
        yield client
        client.laws.check()
    finally:
        await client.close()
