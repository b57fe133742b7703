"""What the whole product costs: `python -m tests.bench.bench_server [--json FILE]`.

The real server process over stdio and the scripted provider in a process of its own, on loopback. CPU time is the
server's own (`/proc`); wall times are medians and noisy on a shared machine: read the ratios. Where there is a floor
(bare pygls), it stands beside the figure, measured in the same run, interleaved.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parents[2]

BARE_PYGLS = "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()"


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    target: float | None = None
    floor: float | None = None


class Server:
    """A server process and the frames it sends. Blocking on purpose: the client must cost the server nothing."""

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
        body = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return self._next

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end >= 0:
                length = int(self._buffer[:end].split(b":")[1].split(b"\r\n")[0])
                if len(self._buffer) >= end + 4 + length:
                    body = bytes(self._buffer[end + 4 : end + 4 + length])
                    del self._buffer[: end + 4 + length]
                    return json.loads(body)
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise EOFError("the server went away")
            self._buffer += data

    def answer(self, number: int) -> Any:
        """The answer to a request; approvals are allowed on the way."""
        while True:
            message = self.read()
            if message.get("method") == "pilotfish/approval/request":
                self.reply(message["id"], {"optionId": "allow_once"})
            elif "method" not in message and message.get("id") == number:
                return message.get("result")

    def reply(self, number: Any, result: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def request(self, method: str, params: Any) -> Any:
        return self.answer(self.send(method, params))

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident(self) -> float:
        """Megabytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]) * 4096 / 1e6

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Bench:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place / "work"
        self.folder.mkdir()
        (self.folder / "a.txt").write_text("hello\n" * 20, "utf-8")
        self.figures: list[Figure] = []
        self.count = 0

    def run(self) -> list[Figure]:
        self.start_up()
        self.first_request()
        self.turns()
        self.stream()
        self.rounds()
        return self.figures

    def add(self, name: str, value: float, unit: str, target: float | None = None, floor: float | None = None) -> None:
        figure = Figure(name, round(value, 2), unit, target, None if floor is None else round(floor, 2))
        self.figures.append(figure)
        aim = "" if target is None else f"≤ {target:g}"
        below = "" if floor is None else f"floor {floor:.1f}"
        mark = "" if target is None else ("ok" if value <= target else "MISSED")
        print(f"{name:<58} {value:>9.2f} {unit:<8} {aim:<9} {mark:<7} {below}", flush=True)

    # -- figures ----------------------------------------------------------------------------------------------------

    def start_up(self) -> None:
        ours, second, bare = list[float](), list[float](), list[float]()
        for _ in range(7):
            with self.server("http://127.0.0.1:9/v1", greet=False) as server:
                server.request("initialize", hello(self.folder))
                ours.append((time.perf_counter() - server.began) * 1000)
                again = time.perf_counter()
                server.request("pilotfish/status", {})
                second.append((time.perf_counter() - again) * 1000)
            floor = Server([sys.executable, "-c", BARE_PYGLS], dict(os.environ), self.folder)
            floor.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
            bare.append((time.perf_counter() - floor.began) * 1000)
            floor.close()
        self.add("spawn → initialize answered", median(ours), "ms", 30, median(bare))
        self.add("a second request at once, while the rest loads", median(second), "ms", 10)

    def first_request(self) -> None:
        cpu, sizes = list[float](), list[int]()
        for _ in range(3):
            with self.provider([{"text": "hi"}]) as url, self.server(url) as server:
                server.request("pilotfish/session/prompt", prompt(server, self.folder))
                cpu.append(server.cpu())
                sizes.append(requests(url)[0]["size"])
        self.add("spawn → first prompt answered, CPU", median(cpu), "s", 1.2)
        self.add("first request of a plain prompt", sizes[0] / 1000, "kB", 12)

    def turns(self) -> None:
        with self.provider([{"text": "hi"} for _ in range(20)]) as url, self.server(url) as server:
            session = new_session(server, self.folder)
            server.answer(begin(server, session, "warm"))
            waits = list[float]()
            for _ in range(10):
                sent = time.monotonic()
                server.answer(begin(server, session, "hi"))
                waits.append((requests(url)[-1]["at"] - sent) * 1000)
            self.add("warm prompt → request at the provider", median(waits), "ms", 5)
            self.add("idle memory after a turn with an OpenAI model", server.resident(), "MB", 110)
        script = [{"parts": [{"text": "one"}, {"gate": True}]} for _ in range(10)]
        with self.provider(script) as url, self.server(url) as server:
            session = new_session(server, self.folder)
            gone, ended = list[float](), list[float]()
            for _ in range(8):
                number = begin(server, session, "hi")
                while server.read().get("params", {}).get("update", {}).get("kind") != "agent_message_chunk":
                    pass
                sent = time.monotonic()
                server.send("pilotfish/session/cancel", {"sessionId": session})
                server.answer(number)
                ended.append((time.monotonic() - sent) * 1000)
                time.sleep(0.05)
                gone.append((requests(url)[-1]["disconnected_at"] - sent) * 1000)
            self.add("cancel → provider disconnected", median(gone), "ms", 3)
            self.add("cancel → turn ended", median(ended), "ms", 5)

    def stream(self) -> None:
        for name, delay, target in (("flood", 0.0, 0.4), ("at 500 a second", 0.002, None)):
            script = [{"text": "warm"}, {"text": ["word "] * 5000, "delay": delay}]
            with self.provider(script) as url, self.server(url) as server:
                session = new_session(server, self.folder)
                server.answer(begin(server, session, "warm"))
                before = server.cpu()
                server.answer(begin(server, session, "go"))
                self.add(f"CPU for 5,000 deltas through to the client, {name}", server.cpu() - before, "s", target)

    def rounds(self) -> None:
        script = [{"text": "warm"}] + [{"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}] * 200
        with self.provider([*script, {"text": "done"}]) as url, self.server(url, maxIterations=1000) as server:
            session = new_session(server, self.folder)
            server.answer(begin(server, session, "warm"))
            before, memory = server.cpu(), server.resident()
            marks = [before]
            number = begin(server, session, "go")
            while True:
                message = server.read()
                update = message.get("params", {}).get("update", {})
                if update.get("kind") == "state" and update["state"] == "assistant":
                    marks.append(server.cpu())
                if message.get("method") == "pilotfish/user/ask":
                    server.reply(message["id"], {"answer": "Go on"})
                if "method" not in message and message.get("id") == number:
                    break
            early = (marks[21] - marks[1]) / 20 * 1000
            late = (marks[200] - marks[180]) / 20 * 1000
            self.add("a tool round (read_file), rounds 1–20, CPU", early, "ms", 10)
            self.add("rounds 180–200 against rounds 1–20", late / max(early, 0.01), "×", 2)
            self.add("200 rounds, CPU", server.cpu() - before, "s", 3.0)
            self.add("memory growth over 200 rounds", server.resident() - memory, "MB", 5)

    # -- processes --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def provider(self, script: list[dict[str, Any]]) -> Generator[str]:
        self.count += 1
        file = self.place / f"script{self.count}.json"
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
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def server(self, url: str, *, greet: bool = True, **settings: Any) -> Generator[Server]:
        self.count += 1
        environment = {
            **os.environ,
            "PILOTFISH_MODEL": "openai-chat:scripted",
            "PILOTFISH_BASE_URL": url,
            "OPENAI_API_KEY": "key",
            "PILOTFISH_STORAGE": str(self.place / f"store{self.count}"),
            "PILOTFISH_CONFIG": str(self.place / "config.toml"),
            "PILOTFISH_LOG": "off",
        }
        command = [str(Path(sys.executable).with_name("pilotfish")), "serve"]
        server = Server(command, environment, self.folder)
        try:
            if greet:
                server.request("initialize", hello(self.folder, **settings))
                server.send("initialized", {}, wants_answer=False)
            yield server
        finally:
            server.close()


def hello(folder: Path, **settings: Any) -> dict[str, Any]:
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
                "settings": {"maxIterations": 1000, **settings},
            }
        },
    }


def new_session(server: Server, folder: Path) -> str:
    return server.request("pilotfish/session/new", {"workspaceFolder": folder.as_uri()})["session"]["id"]


def prompt(server: Server, folder: Path) -> dict[str, Any]:
    return {"sessionId": new_session(server, folder), "prompt": [{"type": "text", "text": "hi"}]}


def begin(server: Server, session: str, text: str) -> int:
    return server.send("pilotfish/session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


def requests(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/_requests") as answer:
        return json.loads(answer.read())


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        figures = Bench(Path(place)).run()
    if arguments.json:
        table = [{"name": figure.name, "value": figure.value, "unit": figure.unit} for figure in figures]
        arguments.json.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
