"""The HTTP client of the models: what is on disk before a request, bodies that are read ahead, stalls and proxies."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.support.engine import Dialect, rig
from tests.support.provider import call, say, serve

from pilotfish.core.records import MessageRecord
from pilotfish.engine.http import Client, Watched, body_of, create_client, holding, is_held
from pilotfish.store import quick


async def test_what_the_provider_sees_is_in_the_ledger_by_then(tmp_path: Path) -> None:
    kept: list[list[str]] = []
    async with rig(tmp_path, call("read_file", path="a.txt"), say("done"), say("fine"), files={"a.txt": "a\n"}) as turn:
        for prompt, requests in (("first", (1, 2)), ("second", (3,))):
            running = asyncio.create_task(turn.prompt(prompt))
            for number in requests:
                await turn.provider.received(number)
                entries = await turn.live.ledger.history(turn.session_id)
                kept.append([entry.record.role for entry in entries if isinstance(entry.record, MessageRecord)])
            await running
    said = ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert [roles == said[: len(roles)] for roles in kept] == [True, True, True]
    assert [len(roles) >= number for roles, number in zip(kept, (1, 3, 5), strict=True)] == [True, True, True]


async def test_a_request_does_not_wait_until_its_prompt_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick, "QUICK_SECONDS", 60.0)
    goes_on, fsync = threading.Event(), os.fsync

    def slow(descriptor: int) -> None:
        goes_on.wait(10)
        fsync(descriptor)

    async with rig(tmp_path, say("first"), say("second")) as turn:
        await turn.prompt("first")
        monkeypatch.setattr(os, "fsync", slow)
        running = asyncio.create_task(turn.prompt("second"))
        try:
            async with asyncio.timeout(5):
                await turn.provider.received(2)
            assert not goes_on.is_set()
            assert not running.done()
        finally:
            goes_on.set()
        await running
