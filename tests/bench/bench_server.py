"""What the whole product costs: `python -m tests.bench.bench_server [--json FILE] [--commit] [figure …]`.

The real server process over stdio and the scripted provider in a process of its own, on loopback. CPU time is the
server's own; wall times are medians, and noisy on a shared machine: read the ratios. Floors are measured in
the same run, in turns with ours (`floors.py`). `then` is the ratio to the committed figures (`figures.json`), which
`--commit` writes.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.figures import COMMITTED, Table, fsync, middle, pace
from tests.bench.machine import ROOT, Place, Server, hello, requests

SILENCE = 10.0  # seconds a client does not read
SESSIONS = 50
READ = {"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}


class Bench:
    def __init__(self, place: Path, table: Table) -> None:
        self.at = Place(place)
        self.table = table

    def run(self, wanted: list[str]) -> None:
        parts: dict[str, Callable[[], None]] = {
            "start": self.start,
            "first": self.first_request,
            "warm": self.warm,
            "cancel": self.cancel,
            "flood": self.flood,
            "paced": self.paced,
            "rounds": self.rounds,
            "many": self.many,
            "silence": self.silence,
        }
        self.at.settle()
        for name, part in parts.items():
            if not wanted or name in wanted:
                part()

    def start(self) -> None:
        paces, script, module, second, bare = list[float](), list[float](), list[float](), list[float](), list[float]()
        for _ in range(7):
            paces.append(pace())
            for command, found in (((), script), ((sys.executable, "-m", "pilotfish", "serve"), module)):
                with self.at.ours("http://127.0.0.1:9/v1", greet=False, command=command) as server:
                    server.request("initialize", hello(self.at.folder))
                    found.append((time.perf_counter() - server.began) * 1000)
                    again = time.perf_counter()
                    server.request("pilotfish/status", {})
                    second.append((time.perf_counter() - again) * 1000)
            with self.at.floor("pygls") as server:
                bare.append((time.perf_counter() - server.began) * 1000)
        self.table.add("this machine now: CPU of 1,000,000 turns of a loop", middle(paces), "ms")
        self.table.add("spawn → initialize answered", middle(script), "ms", 30, pygls=bare, minus_m=module)
        self.table.add("a second request at once, while the rest loads", middle(second), "ms", 10)

    def first_request(self) -> None:
        cpu: dict[str, list[float]] = {"ours": [], "stock": []}
        size = 0
        for _ in range(3):
            for kind, found in cpu.items():
                with ExitStack() as stack:
                    url = stack.enter_context(self.at.provider([{"parts": [{"gate": True}, {"text": "hi"}]}]))
                    server = stack.enter_context(self.at.ours(url) if kind == "ours" else self.at.floor(kind, url))
                    server.begin(server.new_session(self.at.folder), "hi")
                    while not (seen := requests(url)):
                        time.sleep(0.02)
                    found.append(server.cpu())
                    if kind == "ours":
                        size = seen[0]["size"]
        self.table.add("spawn → first request at the provider, CPU", middle(cpu["ours"]), "s", 1.2, stock=cpu["stock"])
        self.table.add("first request of a plain prompt", size / 1000, "kB", 12)

    def warm(self) -> None:
        kinds = ("ours", "stock", "socket")
        waits: dict[str, list[float]] = {kind: [] for kind in kinds}
        tokens: dict[str, list[float]] = {kind: [] for kind in kinds}
        cpu: dict[str, float] = {}
        with ExitStack() as stack:
            servers: dict[str, tuple[str, Server]] = {}
            for kind in kinds:
                url = stack.enter_context(self.at.provider({"replies": [], "otherwise": {"text": "hi", "wait": 0.02}}))
                server = stack.enter_context(self.at.ours(url) if kind == "ours" else self.at.floor(kind, url))
                for _ in range(3):
                    server.answer(server.begin(server.new_session(self.at.folder), "warm"))
                servers[kind] = (url, server)
            session = {kind: server.new_session(self.at.folder) for kind, (_, server) in servers.items()}
            before = {kind: server.cpu() for kind, (_, server) in servers.items()}
            for _ in range(15):
                for kind, (url, server) in servers.items():
                    sent = time.monotonic()
                    number = server.begin(session[kind], "hi")
                    here = server.read_update("agent_message_chunk")
                    server.answer(number)
                    last = requests(url)[-1]
                    waits[kind].append((last["at"] - sent) * 1000)
                    tokens[kind].append((here - last["first_byte_at"]) * 1000)
            cpu = {kind: (server.cpu() - before[kind]) / 15 * 1000 for kind, (_, server) in servers.items()}
            memory = {kind: server.resident() for kind, (_, server) in servers.items()}
        floors = {kind: waits[kind] for kind in ("stock", "socket")}
        self.table.add("warm prompt → request at the provider", middle(waits["ours"]), "ms", 5, **floors)
        self.table.add(
            "    CPU of such a turn, to its end", cpu["ours"], "ms", stock=cpu["stock"], socket=cpu["socket"]
        )
        over = middle(tokens["ours"]) - middle(tokens["socket"])
        self.table.add(
            "first token → on the wire, over a bare socket",
            over,
            "ms",
            1,
            stock=middle(tokens["stock"]) - middle(tokens["socket"]),
        )
        self.table.add(
            "idle memory after a turn with an OpenAI model", memory["ours"], "MB", 110, stock=memory["stock"]
        )

    def cancel(self) -> None:
        gone: dict[str, list[float]] = {"ours": [], "stock": []}
        ended: dict[str, list[float]] = {"ours": [], "stock": []}
        syncs = list[float]()
        with ExitStack() as stack:
            servers: dict[str, tuple[str, Server, str]] = {}
            for kind in gone:
                script: dict[str, Any] = {"replies": [], "otherwise": {"parts": [{"text": "one"}, {"gate": True}]}}
                url = stack.enter_context(self.at.provider(script))
                server = stack.enter_context(self.at.ours(url) if kind == "ours" else self.at.floor(kind, url))
                servers[kind] = (url, server, server.new_session(self.at.folder))
            for _ in range(10):
                for kind, (url, server, session) in servers.items():
                    number = server.begin(session, "hi")
                    server.read_update("agent_message_chunk")
                    time.sleep(0.02)
                    sent = time.monotonic()
                    server.send("pilotfish/session/cancel", {"sessionId": session})
                    server.answer(number)
                    ended[kind].append((time.monotonic() - sent) * 1000)
                    time.sleep(0.05)
                    gone[kind].append((requests(url)[-1]["disconnected_at"] - sent) * 1000)
                syncs.append(fsync(self.at.place))
        self.table.add("cancel → provider disconnected", middle(gone["ours"]), "ms", 3, stock=gone["stock"])
        self.table.add("cancel → turn ended", middle(ended["ours"]), "ms", 5, stock=ended["stock"], fsync=syncs)

    def flood(self) -> None:
        found = self._stream(("ours", "stock", "socket"), 5000, 0.0, rounds=3)
        floors = {kind: found[kind] for kind in ("stock", "socket")}
        self.table.add("CPU for 5,000 deltas through to the client, flood", middle(found["ours"]), "s", 0.4, **floors)

    def paced(self) -> None:
        found = self._stream(("ours", "stock", "socket"), 2000, 0.002, rounds=2)
        floors = {kind: found[kind] for kind in ("stock", "socket")}
        self.table.add("CPU for 2,000 deltas at 500 a second", middle(found["ours"]), "s", None, **floors)
        ratio = middle(found["ours"]) / max(middle(found["stock"]), 0.01)
        self.table.add("    against stock pydantic-ai with pygls' notify", ratio, "×", 0.5)

    def _stream(self, kinds: tuple[str, ...], count: int, delay: float, rounds: int) -> dict[str, list[float]]:
        """Seconds of CPU for an answer of so many deltas."""
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        flood = {"text": ["word "] * count, "delay": delay}
        with ExitStack() as stack:
            servers: dict[str, tuple[Server, str]] = {}
            for kind in kinds:
                url = stack.enter_context(self.at.provider([{"text": "warm"}] + [flood] * rounds))
                server = stack.enter_context(self.at.ours(url) if kind == "ours" else self.at.floor(kind, url))
                session = server.new_session(self.at.folder)
                server.answer(server.begin(session, "warm"))
                servers[kind] = (server, session)
            for _ in range(rounds):
                for kind, (server, session) in servers.items():
                    before = server.cpu()
                    server.answer(server.begin(session, "go"))
                    found[kind].append(server.cpu() - before)
        return found

    def rounds(self) -> None:
        marks: dict[str, list[list[float]]] = {"ours": [], "stock": []}
        growth = list[float]()
        for kind, count in (("ours", 200), ("stock", 60), ("ours", 200), ("stock", 60), ("ours", 200)):
            script: list[dict[str, Any]] = [{"text": "warm"}, *[READ] * count, {"text": "done"}]
            with self.at.provider(script) as url, ExitStack() as stack:
                server = stack.enter_context(self.at.ours(url) if kind == "ours" else self.at.floor(kind, url))
                session = server.new_session(self.at.folder)
                server.answer(server.begin(session, "warm"))
                memory = server.resident()
                marks[kind].append(self._marks(server, session))
                if kind == "ours":
                    growth.append(server.resident() - memory)

        def cost(kind: str, first: int, last: int) -> float:
            """Milliseconds of CPU for a round between these."""
            return middle([(found[last] - found[first]) / (last - first) * 1000 for found in marks[kind]])

        def whole(kind: str) -> float:
            return middle([found[-1] - found[0] for found in marks[kind]])

        early, stock = cost("ours", 5, 25), cost("stock", 5, 25)
        self.table.add("a tool round (read_file), round 10, CPU", early, "ms", 10, stock=stock)
        against = cost("stock", 40, 60) / stock
        self.table.add("    round 195 (of stock: 50) against it", cost("ours", 180, 200) / early, "×", 2, stock=against)
        self.table.add("200 rounds (of stock: 60), CPU", whole("ours"), "s", 3.0, stock=whole("stock"))
        self.table.add("memory growth over 200 rounds", middle(growth), "MB", 5)

    def _marks(self, server: Server, session: str) -> list[float]:
        """CPU at the start, at every request, and at the end."""
        marks = [server.cpu()]
        number = server.begin(session, "go")
        while True:
            message = server.read()
            update = message.get("params", {}).get("update", {})
            if update.get("kind") == "state" and update["state"] == "assistant":
                marks.append(server.cpu())
            if message.get("method") == "pilotfish/user/ask":
                server.reply(message["id"], {"answer": "Go on"})
            if "method" not in message and message.get("id") == number:
                return [*marks, server.cpu()]

    def many(self) -> None:
        """Fifty turns at the same time, and somebody who asks how the server is."""
        lag, idle = self.at.place / "lag many", self.at.place / "idle many"
        watched = (sys.executable, "-m", "tests.bench.watched", str(lag))
        talk = {"text": [f"word {number} " for number in range(100)], "delay": 0.02}
        script = {"replies": [{"text": "warm"}, *[READ] * SESSIONS], "otherwise": talk}
        waits = list[float]()
        with self.at.provider(script) as url, self.at.ours(url, command=watched) as server:
            beside = subprocess.Popen([*watched[:3], str(idle), "idle"], cwd=ROOT)
            try:
                server.answer(server.begin(server.new_session(self.at.folder), "warm"))
                sessions = [server.new_session(self.at.folder) for _ in range(SESSIONS)]
                time.sleep(2)
                for process in (server.process, beside):
                    process.send_signal(signal.SIGUSR1)
                left = {server.begin(session, "go") for session in sessions}
                while left:
                    asked, status = time.perf_counter(), server.send("pilotfish/status", {})
                    number = None
                    while number != status:
                        message = server.read()
                        number = None if "method" in message else message.get("id")
                        left.discard(number)
                    waits.append((time.perf_counter() - asked) * 1000)
                time.sleep(1)
                away, beyond = [[float(each) for each in file.read_text("ascii").split()] for file in (lag, idle)]
            finally:
                beside.kill()
                beside.wait()
        waits.sort()
        at = f"{SESSIONS} turns at once: "
        self.table.add(f"{at}status answered, median", middle(waits), "ms")
        self.table.add("    95 of 100", waits[len(waits) * 95 // 100], "ms")
        self.table.add("    longest", waits[-1], "ms", 100, idle_process=beyond[0])
        self.table.add("    longest that the loop was away: its own CPU", away[1], "ms", 50)

    def silence(self) -> None:
        """A client that stops reading under a flood."""
        lag, idle = self.at.place / "lag", self.at.place / "idle"
        watched = (sys.executable, "-m", "tests.bench.watched", str(lag))
        flood = {"text": ["some words of an answer "] * 5000, "times": 600}
        with self.at.provider([{"text": "warm"}, flood]) as url, self.at.ours(url, command=watched) as server:
            beside = subprocess.Popen([*watched[:3], str(idle), "idle"], cwd=ROOT)
            try:
                session = server.new_session(self.at.folder)
                server.answer(server.begin(session, "warm"))
                memory = server.resident()
                for process in (server.process, beside):
                    process.send_signal(signal.SIGUSR1)
                number = server.begin(session, "go")
                most, until = 0.0, time.monotonic() + SILENCE
                while time.monotonic() < until:
                    time.sleep(0.1)
                    most = max(most, server.resident() - memory)
                away, beyond = [[float(each) for each in file.read_text("ascii").split()] for file in (lag, idle)]
                server.send("pilotfish/session/cancel", {"sessionId": session})
                numbers = list[int]()
                while True:
                    message = server.read()
                    if "method" not in message and message.get("id") == number:
                        break
                    if "seq" in message.get("params", {}):
                        numbers.append(message["params"]["seq"])
            finally:
                beside.kill()
                beside.wait()
        gaps = sum(after != before + 1 for before, after in itertools.pairwise(numbers))
        self.table.add("a client that does not read for 10 s: longest lag", away[0], "ms", 50, idle_process=beyond[0])
        self.table.add("    of it the loop's own CPU", away[1], "ms", 50)
        self.table.add("    memory it costs", most, "MB", 64)
        self.table.add("    gaps in the numbers of its updates", gaps, "", 0)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--commit", action="store_true", help="write figures.json")
    arguments = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory() as place:
        Bench(Path(place), table).run(arguments.figures)
    if arguments.json:
        table.write(arguments.json)
    if arguments.commit:
        table.write(COMMITTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
