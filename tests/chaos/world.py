"""The world a fault strikes: a real server, a scripted provider, a client that checks the laws; what must hold after.

    async with world(tmp_path, seed) as it:
        session = await it.session()
        await it.turn(session, say("hello"))          # what the model does, one reply a request
        await it.check(session)                       # the same after every fault

`check`: the laws hold, everything that was told is there, the history is sendable (the provider is strict), the next
prompt succeeds, no process and no temporary file is left, memory and descriptors are back where they were.
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

from tests.chaos.nursery import Births, nursery
from tests.support.client import OURS, Client
from tests.support.laws import FINAL
from tests.support.provider import Provider, Reply, Request, call, say, serve

from pilotfish.protocol import wire

KEY = "sk-chaos-0123456789abcdef0123456789abcdef"
PATIENCE = 150.0
"""seconds for anything that must happen, on a machine that is busy with other things"""
MORE_MEMORY = 96_000_000  # that a server may hold after a fault: open sessions, and the allocator's reserve
MORE_DESCRIPTORS = 4  # a connection kept for the next request, a database read along the way

Fault = Callable[["World"], Awaitable[str]]
"""strikes, and gives the session it struck"""
Act = Reply | Callable[[], Reply]
"""what the model does with a request, or what makes it when the request is here"""


@dataclass
class World:
    place: Path
    births: Births
    provider: Provider
    dice: random.Random
    client: Client = field(init=False)
    told: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict[str, tuple[int, dict[str, str]]])
    """session → the last number and the texts that any client was told"""
    _acts: dict[str, deque[Act]] = field(default_factory=dict[str, "deque[Act]"])
    usual: tuple[int, int] = (0, 0)
    """bytes and descriptors of a server that has done some work"""

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

    async def start(self, births: Births | None = None, /, **environment: str) -> Client:
        """A server on the store of this world, initialized."""
        self.client = await self.another(births, **environment)
        return self.client

    async def another(self, births: Births | None = None, /, **environment: str) -> Client:
        client = await self.born(births, **environment)
        hello = {**OURS, "settings": self.settings}
        await client.initialize(hello=hello, capabilities={}, folders=[self.folder])
        return client

    async def born(self, births: Births | None = None, /, **environment: str) -> Client:
        """A server that has been told nothing yet."""
        return await (births or self.births)(self.home, TMPDIR=str(self.temporary), OPENAI_API_KEY=KEY, **environment)

    async def restart(self, births: Births | None = None, /, **environment: str) -> Client:
        """Whatever is left of the server is gone, and another is there."""
        await self.leave()
        return await self.start(births, **environment)

    async def leave(self) -> None:
        self.note(self.client)
        await self.client.close()

    async def gone(self) -> None:
        """Returns when the server has ended."""
        await asyncio.wait_for(self.client.process.wait(), PATIENCE)

    def note(self, client: Client) -> None:
        """Remember what this client was told: it must be there for the next one."""
        for session, seq in client.laws.seq.items():
            before, texts = self.told.get(session, (0, {}))
            self.told[session] = max(before, seq), {**texts, **client.laws.texts[session]}

    # -- what happens -------------------------------------------------------------------------------------------------

    async def session(self, **params: Any) -> str:
        return await self.client.new_session(**params)

    def script(self, *acts: Act) -> str:
        """A prompt that makes the model do this."""
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
        said = json.dumps(request.messages)
        at, name = max(((said.rfind(name), name) for name, acts in self._acts.items() if acts), default=(-1, ""))
        if at < 0:
            return say("Nothing more is scripted.")
        act = self._acts[name].popleft()
        return act if isinstance(act, Reply) else act()

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    async def moment(self, longest: float = 0.5) -> None:
        """Some time passes."""
        await asyncio.sleep(self.dice.random() ** 2 * longest)

    async def status_of_call(self, session: str, status: str) -> None:
        """Returns when a call of this session has this status."""
        calls = self.client.laws.calls[session]
        await self.client.until(lambda: any(call.status == status for call in calls.values()), PATIENCE)

    async def measure(self) -> None:
        """What a server holds that is well: all later ones are compared with it."""
        await self.turn(await self.session(), call("bash", command="true"), say("ready"))
        self.usual = memory(self.pid), descriptors(self.pid)

    # -- what must hold -----------------------------------------------------------------------------------------------

    async def check(self, session: str) -> wire.SessionLoadResult:
        """Everything that must hold after any fault."""
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
        last, texts = self.told.get(session, (0, {}))
        assert loaded.last_seq >= last, f"{last} was told, {loaded.last_seq} is there"
        kept = {item.id: item.text for item in loaded.items if isinstance(item, wire.MessageItem | wire.ThoughtItem)}
        if not loaded.has_more:
            lost = [item for item, text in texts.items() if text.strip() and not kept.get(item, "").startswith(text)]
            assert lost == [], "what was told is not there"
        open_calls = [item.id for item in loaded.items if item.kind == "tool_call" and item.call.status not in FINAL]
        assert open_calls == [] or loaded.session.busy or loaded.pending_approvals
        return loaded

    def _refused(self) -> list[str]:
        return [request.refused for request in self.provider.requests if request.refused]

    async def _quiet(self) -> None:
        """No process, no temporary file, no memory and no descriptor is left over."""
        await _until(lambda: self.processes() == {}, lambda: f"left running: {self.processes()}")
        await _until(lambda: self.leftovers() == [], lambda: f"left lying: {self.leftovers()}")
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
        """Every process that has to do with this world, but for its server and itself."""
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
        """Files that nobody needs any more: half-written ones, and the scratch folders of servers that are gone."""
        scratch = [path.name for path in self.temporary.iterdir()]
        half = [
            path.name for path in self.folder.rglob("*") if path.name.startswith(".pilotfish") or "tmp" in path.suffix
        ]
        live = 1 if self.client.process.returncode is None else 0  # the scratch folder of the server that runs
        return [*scratch[live:], *half]


async def _until(holds: Callable[[], bool], words: Callable[[], str]) -> None:
    try:
        async with asyncio.timeout(PATIENCE / 5):
            while not holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(words()) from None


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 -- names are enough


def _seen(task: asyncio.Task[Any]) -> None:
    """A prompt may die with its server."""
    if not task.cancelled():
        task.exception()


@contextlib.asynccontextmanager
async def world(place: Path, seed: int, **environment: str) -> AsyncGenerator[World]:
    async with nursery() as births, serve() as provider:
        it = World(place, births, provider, random.Random(seed))
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
