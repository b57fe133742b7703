"""While the engine loads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lsprotocol import types
from pygls.progress import Progress
from tests.support.waiting import until

from pilotfish.lsp import engine_loader
from pilotfish.lsp.engine_loader import LoadedEngine, Loader, Parts, World
from pilotfish.lsp.generic_client.progress import Progresses


class Connection:
    """A client that shows progress."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.progress = Progress(cast("Any", self))

    def notify(self, _method: str, params: types.ProgressParams) -> None:
        self.shown.append(cast("Any", params.value).kind)

    async def request(self, *_: Any) -> None: ...


async def test_however_many_wait_for_the_engine_they_see_once_that_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_loader, "PATIENCE", 0.0)
    connection, client = cast("Any", Connection()), cast("Any", SimpleNamespace(progress=True))
    nothing, engine, goes_on = cast("Any", None), cast("LoadedEngine", object()), asyncio.Event()
    loader = Loader(
        Parts(connection, client, nothing, nothing, nothing, nothing, Progresses(connection, client), nothing),
        World({}, [], trusted=True, problems=()),
    )

    async def load() -> LoadedEngine:
        await goes_on.wait()
        return engine

    monkeypatch.setattr(loader, "_load", load)
    waiting = [asyncio.ensure_future(loader.engine()) for _ in range(3)]
    await until(lambda: not ("begin" not in connection.shown))
    goes_on.set()
    assert await asyncio.gather(*waiting) == [engine] * 3
    await until(lambda: not ("end" not in connection.shown))
    assert connection.shown == ["begin", "end"]
