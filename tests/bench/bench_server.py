"""What the whole product costs: `python -m tests.bench.bench_server [--json FILE] [PART …]`, see `Bench.run`.

The real server process over stdio and the scripted provider in a process of its own, on loopback: everything is
measured from outside. CPU time is that of the server process; times on the clock are medians. The floors
(`floors.py`) take turns with ours in the same run.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.figures import Table, fsync, middle, pace
from tests.bench.machine import CHAT, WIRES, Place, Server, Wire, hello, requests, tell

SILENCE = 10.0  # seconds for which the client does not read
SESSIONS = 50
STARTS = 3
FLOODS = 3
DELTAS = 5000
CANCELS = 10
COMPLETIONS = 40
KINDS = ("ours", "stock")
READ = {"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}
HELD: dict[str, Any] = {"parts": [{"text": "one"}, {"gate": True}, {"text": "two"}]}
DELTA_TARGET = {"Chat": 0.4, "Responses": 0.4, "Anthropic": 1.0, "Google": 1.0}
MEMORY_TARGET = {"Chat": 110, "Responses": 110, "Google": 110}  # stock with Anthropic's SDK takes 127
OTHER_ROUNDS = (("ours", 200), ("stock", 30), ("ours", 200))
CHAT_ROUNDS = (("ours", 200), ("stock", 200), ("ours", 200), ("stock", 200), ("ours", 200))


@dataclass
class Started:
    """A running server with its scripted provider."""

    server: Server
    address: str
    folder: Path

    def script(self, *replies: dict[str, Any]) -> None:
        tell(self.address, "script", replies)

    def new_session(self) -> str:
        return self.server.new_session(self.folder)


@dataclass
class Samples:
    """The samples of one API, by kind of server."""

    first: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    memory: dict[str, float] = field(default_factory=dict[str, float])
    flood: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    cancel: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    syncs: list[float] = field(default_factory=list[float])
    rounds: dict[str, list[list[float]]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    growth: list[float] = field(default_factory=list[float])
    size: int = 0


class Bench:
    def __init__(self, place: Path, table: Table) -> None:
        self.at = Place(place)
        self.table = table

    def run(self, wanted: list[str]) -> None:
        parts: dict[str, Callable[[], None]] = {
            "start": self.start,
            "wires": self.wires,
            "paced": self.paced,
            "many": self.many,
            "silence": self.silence,
            "completion": self.completion,
        }
        self.at.settle()
        for name, part in parts.items():
            if not wanted or name in wanted:
                part()

    def start(self) -> None:
        paces, clock, cpu = list[float](), dict[str, list[float]](), dict[str, list[float]]()
        for _ in range(7):
            paces.append(pace())
            for kind in ("ours", "pygls"):
                starts = self.at.ours("http://127.0.0.1:9", greet=False) if kind == "ours" else self.at.floor(kind)
                with starts as server:
                    if kind == "ours":
                        server.request("initialize", hello(self.at.folder))
                    cpu.setdefault(kind, []).append(server.cpu() * 1000)
                    clock.setdefault(kind, []).append((time.perf_counter() - server.began) * 1000)
        self.table.add("this machine now: CPU of a loop of 1,000,000 steps", middle(paces), "ms")
        self.table.add(
            "spawn → initialize answered, CPU", middle(cpu["ours"]), "ms", ratio_target=1.2, pygls=cpu["pygls"]
        )
        self.table.add("spawn → initialize answered, clock", middle(clock["ours"]), "ms", pygls=clock["pygls"])

    def wires(self) -> None:
        for wire in WIRES:
            found = Samples()
            with ExitStack() as stack:
                started = self._start(wire, found, stack)
                self._flood(started, found)
                self._cancel(started, found)
                self._rounds(started, found, CHAT_ROUNDS if wire is CHAT else OTHER_ROUNDS)
            self._report(wire, found)

    def _start(self, wire: Wire, found: Samples, stack: ExitStack) -> dict[str, Started]:
        """Start each server `STARTS` times, measure up to the first request, and keep the last servers running."""
        started: dict[str, Started] = {}
        for number in range(STARTS):
            for kind in KINDS:
                with ExitStack() as until:
                    address = until.enter_context(self.at.provider({"replies": [HELD], "otherwise": {"text": "hi"}}))
                    server = until.enter_context(self.at.start(kind, address, wire))
                    prompt = server.begin(server.new_session(self.at.folder), "hi")
                    while not (seen := requests(address)):
                        time.sleep(0.02)
                    found.first[kind].append(server.cpu())
                    tell(address, "release")
                    server.answer(prompt)
                    if kind == "ours":
                        found.size = seen[0]["size"]
                    if number == STARTS - 1:
                        stack.push(until.pop_all())
                        started[kind] = Started(server, address, self.at.folder)
        time.sleep(1)  # wait for background loading after the first turn
        found.memory = {kind: each.server.resident() for kind, each in started.items()}
        return started

    def _flood(self, started: dict[str, Started], found: Samples) -> None:
        for _ in range(FLOODS):
            for kind, each in started.items():
                each.script({"text": ["word "] * DELTAS})
                session = each.new_session()
                before = each.server.cpu()
                each.server.answer(each.server.begin(session, "go"))
                found.flood[kind].append(each.server.cpu() - before)

    def _cancel(self, started: dict[str, Started], found: Samples) -> None:
        for each in started.values():
            tell(each.address, "hold")
            each.script(*[HELD] * CANCELS)
        sessions = {kind: each.new_session() for kind, each in started.items()}
        for _ in range(CANCELS):
            for kind, each in started.items():
                prompt = each.server.begin(sessions[kind], "hi")
                each.server.read_update("agent_message_chunk")
                time.sleep(0.02)
                sent = time.monotonic()
                each.server.send("pilotfish/session/cancel", {"sessionId": sessions[kind]})
                each.server.answer(prompt)
                found.cancel[kind].append((time.monotonic() - sent) * 1000)
            found.syncs.append(fsync(self.at.place))

    def _rounds(self, started: dict[str, Started], found: Samples, plan: tuple[tuple[str, int], ...]) -> None:
        for kind, count in plan:
            each = started[kind]
            each.script(*[READ] * count, {"text": "done"})
            session = each.new_session()
            memory = each.server.resident()
            found.rounds[kind].append(self._marks(each.server, session))
            if kind == "ours":
                found.growth.append(each.server.resident() - memory)

    def _marks(self, server: Server, session: str) -> list[float]:
        """CPU at the start, at every request, and at the end."""
        marks = [server.cpu()]
        prompt = server.begin(session, "go")
        while True:
            message = server.read()
            update = message.get("params", {}).get("update", {})
            if update.get("kind") == "state" and update["state"] == "assistant":
                marks.append(server.cpu())
            if message.get("method") == "pilotfish/user/ask":
                server.reply(message["id"], {"answer": "Go on"})
            if "method" not in message and message.get("id") == prompt:
                return [*marks, server.cpu()]

    def _report(self, wire: Wire, found: Samples) -> None:
        def add(name: str, value: float, unit: str, **more: Any) -> None:
            self.table.add(f"{wire.name}: {name}", value, unit, **more)

        def cost(kind: str, first: int, last: int) -> float:
            """Milliseconds of CPU per round in this range."""
            return middle([(marks[last] - marks[first]) / (last - first) * 1000 for marks in found.rounds[kind]])

        def whole(kind: str) -> float:
            return middle([marks[-1] - marks[0] for marks in found.rounds[kind]])

        add(
            "spawn → first request, CPU",
            middle(found.first["ours"]),
            "s",
            ratio_target=1.1,
            stock=found.first["stock"],
        )
        if wire is CHAT:
            add("first request of a plain prompt", found.size / 1000, "kB")
        add(
            "idle memory after a turn",
            found.memory["ours"],
            "MB",
            target=MEMORY_TARGET.get(wire.name),
            stock=found.memory["stock"],
        )
        add(
            f"{DELTAS:,} deltas in a flood, CPU",
            middle(found.flood["ours"]),
            "s",
            target=DELTA_TARGET[wire.name],
            stock=found.flood["stock"],
        )
        add(
            "cancel → turn ended", middle(found.cancel["ours"]), "ms", target=10, stock=found.cancel["stock"],
            sync=found.syncs,
        )  # fmt: skip
        targets = (0.75, 0.3) if wire is CHAT else (None, None)
        add(
            "a tool round, round 10, CPU",
            cost("ours", 5, 25),
            "ms",
            ratio_target=targets[0],
            stock=cost("stock", 5, 25),
        )
        floors = {"stock": cost("stock", 180, 200)} if wire is CHAT else {}
        add("a tool round, round 195, CPU", cost("ours", 180, 200), "ms", ratio_target=targets[1], **floors)
        floors = {"stock": whole("stock")} if wire is CHAT else {}
        add("200 rounds, CPU", whole("ours"), "s", target=9, **floors)
        add("memory that 200 rounds add", middle(found.growth), "MB")

    def paced(self) -> None:
        """Deltas at the rate of a fast model, so that each one wakes the server."""
        flood = {"text": ["word "] * 2000, "delay": 0.002}
        cpu: dict[str, float] = {}
        for kind in ("ours", "stock", "socket"):
            with (
                self.at.provider({"replies": [{"text": "warm"}, flood]}) as address,
                self.at.start(kind, address, CHAT) as server,
            ):
                session = server.new_session(self.at.folder)
                server.answer(server.begin(session, "warm"))
                before = server.cpu()
                server.answer(server.begin(session, "go"))
                cpu[kind] = server.cpu() - before
        self.table.add("2,000 deltas at 500 a second, CPU", cpu["ours"], "s", stock=cpu["stock"], socket=cpu["socket"])

    def many(self) -> None:
        """Fifty concurrent turns, while a client requests the status."""
        talk = {"text": [f"word {number} " for number in range(100)], "delay": 0.02}
        script = {"replies": [{"text": "warm"}, *[READ] * SESSIONS], "otherwise": talk}
        idle, behind, busy = list[float](), list[float](), list[float]()
        with self.at.provider(script) as address, self.at.ours(address) as server:
            server.answer(server.begin(server.new_session(self.at.folder), "warm"))
            sessions = [server.new_session(self.at.folder) for _ in range(SESSIONS)]
            time.sleep(2)
            for _ in range(200):
                self._ask_status(server, idle, set())
            left = {server.begin(session, "go") for session in sessions}
            self._ask_status(server, behind, left)  # it waits until the prompts before it are read
            while left:
                self._ask_status(server, busy, left)
        busy.sort()
        self.table.add(f"{SESSIONS} prompts sent at once: status behind them answered", behind[0], "ms")
        self.table.add(f"{SESSIONS} turns at once: status answered, median", middle(busy), "ms", idle=idle)
        self.table.add(f"{SESSIONS} turns at once: status answered, 95 of 100", busy[len(busy) * 95 // 100], "ms")
        self.table.add(
            f"{SESSIONS} turns at once: status answered, longest",
            busy[-1],
            "ms",
            target=100,
            longest_when_idle=max(idle),
        )

    def _ask_status(self, server: Server, waits: list[float], left: set[int]) -> None:
        """Measure a `status` request. Prompts that are answered meanwhile are removed from `left`."""
        asked, status = time.perf_counter(), server.send("pilotfish/status", {})
        number = None
        while number != status:
            message = server.read()
            number = None if "method" in message else message.get("id")
            left.discard(number or 0)
        waits.append((time.perf_counter() - asked) * 1000)

    def silence(self) -> None:
        """A client that stops reading during a flood: whether its cancel is handled, and how much is buffered."""
        flood = {"text": ["some words of an answer "] * 5000, "times": 600}
        with self.at.provider({"replies": [{"text": "warm"}, flood]}) as address, self.at.ours(address) as server:
            session = server.new_session(self.at.folder)
            server.answer(server.begin(session, "warm"))
            memory = server.resident()
            prompt = server.begin(session, "go")
            most, until = 0.0, time.monotonic() + SILENCE
            while time.monotonic() < until:
                time.sleep(0.1)
                most = max(most, server.resident() - memory)
            sent = time.monotonic()
            server.send("pilotfish/session/cancel", {"sessionId": session})
            while (gone := requests(address)[-1]["disconnected_at"]) is None and time.monotonic() < sent + 5:
                time.sleep(0.05)
            numbers = list[int]()
            while True:
                message = server.read()
                if "method" not in message and message.get("id") == prompt:
                    break
                if "seq" in message.get("params", {}):
                    numbers.append(message["params"]["seq"])
        gaps = sum(after != before + 1 for before, after in itertools.pairwise(numbers))
        client = f"a client silent for {SILENCE:.0f} s: "
        self.table.add(f"{client}cancel → disconnected", ((gone or time.monotonic()) - sent) * 1000, "ms", target=50)
        self.table.add(f"{client}memory it costs", most, "MB", target=64)
        self.table.add(f"{client}gaps in the numbers of its updates", gaps, "", target=0)

    def completion(self) -> None:
        """Inline completion of a file of 40 kB: the time from the request to the answer, without the provider's."""
        file = self.at.folder / "long.py"
        text = "".join(f"def function_{number}(a, b):\n    return \n\n\n" for number in range(1000))
        item: dict[str, Any] = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": text}
        params = hello(self.at.folder)
        params["initializationOptions"]["pilotfish"]["settings"]["completionModel"] = "openai-compatible:scripted"
        reply = {"text": "a + b", "wait": 0.03}
        with self.at.provider({"otherwise": reply}) as address, self.at.ours(address, greet=False) as server:
            server.request("initialize", params)
            server.send("initialized", {}, wants_answer=False)
            server.new_session(self.at.folder)
            server.send("textDocument/didOpen", {"textDocument": item}, wants_answer=False)
            waits = [self._complete(server, item["uri"], 4 * number + 1) for number in range(COMPLETIONS + 1)]
            spent = [each["finished_at"] - each["at"] for each in requests(address)]
        added = [(wait - own) * 1000 for wait, own in zip(waits[1:], spent[1:], strict=True)]
        self.table.add("inline completion: added to the provider's time", middle(added), "ms", target=20)

    def _complete(self, server: Server, uri: str, line: int) -> float:
        asked = time.monotonic()
        at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 11}}
        found = server.request("textDocument/inlineCompletion", {**at, "context": {"triggerKind": 1}})
        assert found["items"][0]["insertText"] == "a + b", found
        return time.monotonic() - asked


def main() -> int:
    parts = ("start", "wires", "paced", "many", "silence", "completion")
    wanted = [argument for argument in sys.argv[1:] if argument in parts]
    table = Table("server")
    with tempfile.TemporaryDirectory() as place:
        Bench(Path(place), table).run(wanted)
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
