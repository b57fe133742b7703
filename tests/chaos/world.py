"""The test environment for faults: a real server, a scripted provider, and a client that checks the protocol laws.

    async with world(tmp_path, seed) as it:
        session = await it.session()
        await it.turn(session, say("hello"))          # what the model does, one reply per request
        await it.check(session)                       # what must hold after every fault

`check` asserts that the laws hold, everything that was sent to a client is stored, the strict provider accepts the
history, the next prompt succeeds, no process or temporary file is left, and memory and descriptors are back to normal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.fork_server import Spawn, fork_server
from tests.support.client import OURS, Client
from tests.support.laws import FINAL
from tests.support.provider import Provider, Reply, Request, call, say, serve
from tests.support.waiting import until

from pilotfish.protocol import wire

KEY = "sk-chaos-0123456789abcdef0123456789abcdef"
PATIENCE = 150.0
"""timeout in seconds for anything that must happen, on a busy machine"""
MORE_MEMORY = 96_000_000  # bytes that a server may use in addition after a fault: open sessions, allocator reserve
MORE_DESCRIPTORS = 4  # an idle connection to the provider, a database connection for reading

Fault = Callable[["World"], Awaitable[str]]
"""causes the failure, and returns the affected session"""
Act = Reply | Callable[[], Reply]
"""a reply of the model, or a function that creates it when the request arrives"""


@dataclass
class World:
    place: Path
    spawn_fork: Spawn
    provider: Provider
    dice: random.Random
    client: Client = field(init=False)
    delivered: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict[str, tuple[int, dict[str, str]]])
    """session → the last number and the texts that were sent to any client"""
    _acts: dict[str, deque[Act]] = field(default_factory=dict[str, "deque[Act]"])
    usual: tuple[int, int] = (0, 0)
    """memory and descriptors of a healthy server after some work"""

    @property
    def folder(self) -> Path:
        return self.place / "work"

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def temporary(self) -> Path:
        return self.place / "tmp"

    @property
    def pid(self) -> int:
        return self.client.process.pid

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "model": "openai-chat:scripted",
            "baseUrl": self.provider.openai_url,
            "mode": "auto",
            "maxIterations": 6,
            "stallTimeout": 3,
        }

    # -- a server and its client --------------------------------------------------------------------------------------

    async def start(self, spawn_fork: Spawn | None = None, /, **environment: str) -> Client:
        """An initialized server on the store of this world."""
        self.client = await self.another(spawn_fork, **environment)
        return self.client

    async def another(self, spawn_fork: Spawn | None = None, /, **environment: str) -> Client:
        client = await self.born(spawn_fork, **environment)
        hello = {**OURS, "settings": self.settings}
        await client.initialize(hello=hello, capabilities={}, folders=[self.folder])
        return client

    async def born(self, spawn_fork: Spawn | None = None, /, **environment: str) -> Client:
        """A server that is not initialized yet."""
        return await (spawn_fork or self.spawn_fork)(
            self.home, TMPDIR=str(self.temporary), OPENAI_API_KEY=KEY, **environment
        )

    async def restart(self, spawn_fork: Spawn | None = None, /, **environment: str) -> Client:
        """Kill what is left of the server, and start another."""
        await self.leave()
        return await self.start(spawn_fork, **environment)

    async def leave(self) -> None:
        self.note(self.client)
        await self.client.close()

    async def gone(self) -> None:
        """Wait until the server has exited."""
        await asyncio.wait_for(self.client.process.wait(), PATIENCE)

    def note(self, client: Client) -> None:
        """Remember what this client received: the next one must find it in the store."""
        for session, seq in client.laws.seq.items():
            before, texts = self.delivered.get(session, (0, {}))
            self.delivered[session] = max(before, seq), {**texts, **client.laws.texts[session]}

    # -- what happens -------------------------------------------------------------------------------------------------

    async def session(self, **params: Any) -> str:
        return await self.client.new_session(**params)

    def script(self, *acts: Act) -> str:
        """Send a prompt to which the model replies like this."""
        name = f"#{len(self._acts)}#"
        self._acts[name] = deque(acts)
        return name

    def begin(self, session: str, *acts: Act) -> asyncio.Task[wire.PromptResult]:
        task = self.client.begin(session, self.script(*acts))
        task.add_done_callback(_seen)
        return task

    async def turn(self, session: str, *acts: Act) -> wire.PromptResult:
        return await asyncio.wait_for(self.begin(session, *acts), PATIENCE)

    def choose(self, request: Request) -> Reply:
        history = json.dumps(request.messages)
        at, name = max(((history.rfind(name), name) for name, acts in self._acts.items() if acts), default=(-1, ""))
        if at < 0:
            return say("Nothing more is scripted.")
        act = self._acts[name].popleft()
        return act if isinstance(act, Reply) else act()

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    async def moment(self, longest: float = 0.5) -> None:
        """Wait for a random time."""
        await asyncio.sleep(self.dice.random() ** 2 * longest)

    async def status_of_call(self, session: str, status: str) -> None:
        """Wait until a call of this session has this status."""
        calls = self.client.laws.calls[session]
        await self.client.until(lambda: any(call.status == status for call in calls.values()), PATIENCE)

    async def measure(self) -> None:
        """Measure a healthy server, as the baseline for all later ones."""
        await self.turn(await self.session(), call("bash", command="true"), say("ready"))
        self.usual = memory(self.pid), descriptors(self.pid)

    # -- what must hold -----------------------------------------------------------------------------------------------

    async def check(self, session: str) -> wire.SessionLoadResult:
        """Assert everything that must hold after any fault."""
        if self.client.process.returncode is not None:
            await self.restart()
        self.client.laws.check()
        self.note(self.client)
        loaded = await self.still_there(session)
        refused = len(self._refused())
        answer = await self.turn(session, say("fine"))
        assert (answer.stop_reason, answer.error) == ("end_turn", None)
        assert self._refused()[refused:] == []
        await self.client.load(session)
        await self._quiet()
        return loaded

    async def still_there(self, session: str) -> wire.SessionLoadResult:
        loaded = await self.client.load(session, limit=500)
        last, texts = self.delivered.get(session, (0, {}))
        assert loaded.last_seq >= last, f"{last} was sent, {loaded.last_seq} is stored"
        kept = {item.id: item.text for item in loaded.items if isinstance(item, wire.MessageItem | wire.ThoughtItem)}
        if not loaded.has_more:
            lost = [item for item, text in texts.items() if text.strip() and not kept.get(item, "").startswith(text)]
            assert lost == [], "text that was sent is not stored"
        open_calls = [item.id for item in loaded.items if item.kind == "tool_call" and item.call.status not in FINAL]
        assert open_calls == [] or loaded.session.busy or loaded.pending_approvals
        return loaded

    def _refused(self) -> list[str]:
        return [request.refused for request in self.provider.requests if request.refused]

    async def _quiet(self) -> None:
        """Assert that no process, temporary file, memory or descriptor is left over."""
        await _until(lambda: self.processes() == {}, lambda: f"left running: {self.processes()}")
        await _until(lambda: self.leftovers() == [], lambda: f"temporary files left: {self.leftovers()}")
        held, opened = self.usual
        await _until(
            lambda: descriptors(self.pid) <= opened + MORE_DESCRIPTORS,
            lambda: f"{opened} descriptors before, {descriptors(self.pid)} after",
        )
        await _until(
            lambda: memory(self.pid) <= held + MORE_MEMORY,
            lambda: f"{held:,} bytes before, {memory(self.pid):,} after",
        )

    def processes(self) -> dict[int, str]:
        """Every process of this world except its server and the test itself."""
        found: dict[int, str] = {}
        mark = os.fsencode(self.place)
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in (self.pid, os.getpid()):
                continue
            with contextlib.suppress(OSError):
                about = (entry / "environ").read_bytes() + b"\0" + os.fsencode((entry / "cwd").readlink())
                if mark in about:
                    found[int(entry.name)] = (
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    )
        return found

    def leftovers(self) -> list[str]:
        """Leftover files: partially written ones, and the scratch folders of servers that have exited."""
        scratch = [path.name for path in self.temporary.iterdir()]
        half = [
            path.name for path in self.folder.rglob("*") if path.name.startswith(".pilotfish") or "tmp" in path.suffix
        ]
        engine = 1 if self.client.process.returncode is None else 0  # the scratch folder of the server that runs
        return [*scratch[engine:], *half]


async def _until(holds: Callable[[], bool], words: Callable[[], str]) -> None:
    try:
        async with asyncio.timeout(PATIENCE / 5):
            await until(holds)
    except TimeoutError:
        raise AssertionError(words()) from None


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 -- names are enough


def _seen(task: asyncio.Task[Any]) -> None:
    """Ignore the error of a prompt whose server was killed."""
    if not task.cancelled():
        task.exception()


@contextlib.asynccontextmanager
async def world(place: Path, seed: int, **environment: str) -> AsyncGenerator[World]:
    async with fork_server() as spawn_fork, serve() as provider:
        it = World(place, spawn_fork, provider, random.Random(seed))
        provider.otherwise = it.choose
        for path in (it.folder, it.home, it.temporary):
            path.mkdir(parents=True, exist_ok=True)
        await it.start(**environment)
        try:
            await it.measure()
            yield it
            assert await it.client.stop(PATIENCE) == 0
            assert it.processes() == {}
            assert it.leftovers() == []
        finally:
            await it.client.close()
