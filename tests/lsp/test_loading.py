"""While the engine loads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pilotfish.lsp import loading
from pilotfish.lsp.loading import Engine, Loader, Parts, World
from pilotfish.lsp.progress import Progresses


class Peer:
    """A client that shows progress."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def notify(self, _method: str, params: dict[str, Any]) -> None:
        self.shown.append(params["value"]["kind"])

    async def request(self, *_: Any) -> None: ...


async def test_however_many_wait_for_the_engine_they_see_once_that_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PATIENCE", 0.0)
    peer, client = cast("Any", Peer()), cast("Any", SimpleNamespace(progress=True))
    nothing, engine, goes_on = cast("Any", None), cast("Engine", object()), asyncio.Event()
    loader = Loader(
        Parts(peer, client, nothing, nothing, nothing, Progresses(peer, client)),
        World({}, [], trusted=True, problems=()),
    )

    async def load() -> Engine:
        await goes_on.wait()
        return engine

    monkeypatch.setattr(loader, "_load", load)
    waiting = [asyncio.ensure_future(loader.engine()) for _ in range(3)]
    while "begin" not in peer.shown:
        await asyncio.sleep(0.001)
    goes_on.set()
    assert await asyncio.gather(*waiting) == [engine] * 3
    while "end" not in peer.shown:
        await asyncio.sleep(0.001)
    assert peer.shown == ["begin", "end"]
