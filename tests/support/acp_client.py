"""An ACP client written from the specification: lines of JSON over stdio, and no SDK."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.provider import Answer, Provider, serve
from tests.support.terminal import environment, work_folder

Message = dict[str, Any]


class Client:
    """Sends and hears lines. Permissions are answered with the option of the kind in `picks`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.heard: list[Message] = []
        self.updates: list[Message] = []
        self.questions: list[Message] = []
        self.picks: str | None = "allow_once"
        self.trusts: str | None = "allow_always"
        self.answers: dict[str, Callable[[Message], Message | None]] = {}
        """method → the result of another request of the agent; None for an error"""
        self._unanswered: list[Message] = []
        self.last_id = 0
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._reader = asyncio.ensure_future(self._read())

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, **params: Any) -> asyncio.Future[Message]:
        self.last_id = number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send({"id": number, "method": method, "params": params})
        return self._waiting[number]

    async def result(self, method: str, **params: Any) -> Message:
        answer = await asyncio.wait_for(self.ask(method, **params), 60)
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, method: str, **params: Any) -> Message:
        return (await asyncio.wait_for(self.ask(method, **params), 60))["error"]

    async def until(self, kind: str, count: int = 1) -> Message:
        """The last of the updates of this kind, when there are so many."""
        async with asyncio.timeout(60):
            while len(found := self.kinds(kind)) < count:
                await asyncio.sleep(0.01)
        return found[-1]

    def kinds(self, kind: str) -> list[Message]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.kinds(kind))

    async def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = await asyncio.wait_for(self.process.wait(), 20)
        await self._reader
        return code

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            self.heard.append(message)
            match message.get("method"):
                case None:
                    self._waiting.pop(message["id"]).set_result(message)
                case "session/update":
                    self.updates.append(message["params"]["update"])
                case "session/request_permission":
                    self.questions.append(message["params"])
                    self._answer(message)
                case other:
                    result = self.answers[other](message["params"]) if other in self.answers else None
                    error = {"code": -32601, "message": f"no {other} here"}
                    self.send({"id": message["id"], **({"error": error} if result is None else {"result": result})})

    def answer_open_questions(self) -> None:
        """Answer the permissions that were not answered."""
        waiting, self._unanswered = self._unanswered, []
        for message in waiting:
            self._answer(message)

    def _answer(self, message: Message) -> None:
        params = message["params"]
        wanted = self.trusts if params["toolCall"]["title"].startswith("Trust ") else self.picks
        if wanted is None:
            self._unanswered.append(message)
            return
        chosen = next(option["optionId"] for option in params["options"] if option["kind"] == wanted)
        self.send({"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": chosen}}})


@asynccontextmanager
async def connected(
    tmp_path: Path, *replies: Answer, offers: Message | None = None, servers: list[Message] | None = None, **more: str
) -> AsyncGenerator[tuple[Client, Provider, str]]:
    """A process, an answered `initialize` in which the client offers this, and a session with these MCP servers."""
    folder = work_folder(tmp_path)
    async with serve(*replies) as provider:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "pilotfish", "acp"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={**environment(tmp_path, provider), **more},
        )
        client = Client(process)
        try:
            hello = await client.result("initialize", protocolVersion=1, clientCapabilities=offers or {})
            assert hello["protocolVersion"] == 1
            assert hello["agentCapabilities"]["loadSession"] is True
            capabilities = list(hello["agentCapabilities"]["sessionCapabilities"])
            assert capabilities == ["list", "delete", "fork", "resume", "close"]
            made = await client.result("session/new", cwd=str(folder), mcpServers=servers or [])
            yield client, provider, made["sessionId"]
            assert await client.close() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def prompt(text: str) -> list[Message]:
    return [{"type": "text", "text": text}]
