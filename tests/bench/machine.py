"""Runs the processes of a benchmark: a server over stdio, and the scripted provider in its own process.

The client is blocking and runs outside the server process, so it adds no CPU time to the server.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotfish.tools import BY_NAME
from pilotfish.tools.families import offered
from pilotfish.tools.tool import Tool, parameters

CPUCLOCK_SCHED = 2  # of Linux: the lowest bits of a process's clock (clock_getcpuclockid)
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Wire:
    """A provider API, and the settings with which Pilotfish uses it."""

    name: str
    model: str
    key: str
    path: str
    """what the base URL ends with: OpenAI's has the version in it"""


CHAT = Wire("Chat", "openai-chat:scripted", "OPENAI_API_KEY", "/v1")
WIRES = (
    CHAT,
    Wire("Responses", "openai-responses:scripted", "OPENAI_API_KEY", "/v1"),
    Wire("Anthropic", "anthropic:scripted", "ANTHROPIC_API_KEY", ""),
    Wire("Google", "google:scripted", "GOOGLE_API_KEY", ""),
)


class Server:
    """A server process and the frames it sends."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environment, bufsize=0
        )
        self._buffer = bytearray()
        self._next = 0

    def send(self, method: str, params: Any, *, wants_answer: bool = True) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if wants_answer:
            self._next += 1
            message["id"] = self._next
        self._write(message)
        return self._next

    def read(self, seconds: float = 120) -> dict[str, Any]:
        assert self.process.stdout is not None
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end >= 0:
                length = int(self._buffer[:end].lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                if len(self._buffer) >= end + 4 + length:
                    body = bytes(self._buffer[end + 4 : end + 4 + length])
                    del self._buffer[: end + 4 + length]
                    return json.loads(body)
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                raise TimeoutError(f"the server said nothing for {seconds:g} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise EOFError("the server went away")
            self._buffer += data

    def read_update(self, kind: str) -> float:
        """Read up to an update of this kind; when it was here."""
        while self.read().get("params", {}).get("update", {}).get("kind") != kind:
            pass
        return time.monotonic()

    def answer(self, number: int) -> Any:
        """Wait for the response to a request. Approvals are granted and questions answered meanwhile."""
        while True:
            message = self.read()
            if message.get("method") == "pilotfish/approval/request":
                self.reply(message["id"], {"optionId": "allow_once"})
            elif message.get("method") == "pilotfish/user/ask":
                self.reply(message["id"], {"answer": "Go on"})
            elif "method" not in message and message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message.get("result")

    def reply(self, number: Any, result: Any) -> None:
        self._write({"jsonrpc": "2.0", "id": number, "result": result})

    def request(self, method: str, params: Any) -> Any:
        return self.answer(self.send(method, params))

    def new_session(self, folder: Path) -> str:
        return self.request("pilotfish/session/new", {"workspaceFolder": folder.as_uri()})["session"]["id"]

    def begin(self, session: str, text: str) -> int:
        prompt = [{"type": "text", "text": text}]
        return self.send("pilotfish/session/prompt", {"sessionId": session, "prompt": prompt})

    def cpu(self) -> float:
        """Seconds of CPU so far, of all its threads, to the nanosecond."""
        return time.clock_gettime(~self.process.pid << 3 | CPUCLOCK_SCHED)

    def resident(self) -> float:
        """Megabytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]) * 4096 / 1e6

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _write(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


class Place:
    """The folders of a benchmark: a workspace and temporary stores."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place / "work"
        self.folder.mkdir()
        (self.folder / "a.txt").write_text("hello\n" * 20, "utf-8")
        self.tools = place / "tools.json"
        """what Pilotfish offers a model, for the floor that offers the same"""
        self.tools.write_text(json.dumps([_described(BY_NAME[name]) for name in offered("scripted", BY_NAME)]), "utf-8")
        self._count = 0
        dropped = ("PYTHONDONTWRITEBYTECODE", "PILOTFISH_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_")
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self._environment["PYTHONPATH"] = str(ROOT)

    def settle(self) -> None:
        """Run one turn on every API first, so that all measured starts find compiled bytecode."""
        with self.provider({"otherwise": {"text": "hi"}}) as address:
            for wire in WIRES:
                for kind in ("ours", "stock"):
                    with self.start(kind, address, wire) as server:
                        server.answer(server.begin(server.new_session(self.folder), "hi"))
                        time.sleep(1)  # some files are written after the turn

    @contextlib.contextmanager
    def provider(self, script: dict[str, Any]) -> Generator[str]:
        """The address of a provider with this script."""
        self._count += 1
        file = self.place / f"script{self._count}.json"
        file.write_text(json.dumps(script), "utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.provider", "--script", str(file), "--port", "0"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[-1].rpartition(":")[2])
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()

    @contextlib.contextmanager
    def ours(self, address: str, wire: Wire = CHAT, *, greet: bool = True) -> Generator[Server]:
        """Pilotfish, as an editor starts it."""
        self._count += 1
        environment = {
            **self._environment,
            "PILOTFISH_MODEL": wire.model,
            "PILOTFISH_BASE_URL": address + wire.path,
            wire.key: "key",
            "PILOTFISH_STORAGE": str(self.place / f"store{self._count}"),
            "PILOTFISH_CONFIG": str(self.place / "config.toml"),
            "PILOTFISH_LOG": "off",
        }
        server = Server([str(Path(sys.executable).with_name("pilotfish")), "serve"], environment, self.folder)
        with contextlib.closing(server):
            if greet:
                server.request("initialize", hello(self.folder))
                server.send("initialized", {}, wants_answer=False)
            yield server

    @contextlib.contextmanager
    def floor(self, kind: str, address: str = "", wire: Wire = CHAT) -> Generator[Server]:
        """One of the programs in `floors.py`, initialized like our server."""
        floor = [sys.executable, "-m", "tests.bench.floors", kind]
        command = [*floor, wire.name.lower(), address + wire.path, str(self.tools)]
        server = Server(command, self._environment, self.folder)
        with contextlib.closing(server):
            server.request("initialize", hello(self.folder))
            yield server

    def start(self, kind: str, address: str, wire: Wire) -> contextlib.AbstractContextManager[Server]:
        return self.ours(address, wire) if kind == "ours" else self.floor(kind, address, wire)


def _described(tool: Tool[Any]) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "json_schema": parameters(tool.args)}


def hello(folder: Path) -> dict[str, Any]:
    return {
        "processId": None,
        "rootUri": folder.as_uri(),
        "capabilities": {},
        "workspaceFolders": [{"uri": folder.as_uri(), "name": "work"}],
        "initializationOptions": {
            "pilotfish": {
                "protocolVersion": 1,
                "client": {"approvals": True},
                "trusted": True,
                "settings": {"maxIterations": 1000},
            }
        },
    }


def requests(address: str) -> list[dict[str, Any]]:
    """The requests that the provider has received so far."""
    with urllib.request.urlopen(f"{address}/_requests") as answer:
        return json.loads(answer.read())


def tell(address: str, what: str, replies: Sequence[dict[str, Any]] = ()) -> None:
    """Control the provider: `script` adds replies, `hold` closes the gates, `release` opens them."""
    body = json.dumps({"replies": list(replies)}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{address}/_{what}", body, method="POST")).close()
