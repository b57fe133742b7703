"""The HTTP client: nothing is sent before what it waits for is done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.engine import Dialect, rig
from tests.support.provider import call, say, serve

from pilotfish.core.records import MessageRecord
from pilotfish.engine.http import create_client, holding, is_held


async def test_a_request_is_sent_when_what_it_waits_for_is_done() -> None:
    async with serve(say("hi")) as provider, create_client(5) as client:
        done = asyncio.Event()

        async def wait() -> None:
            await done.wait()

        with holding(wait):
            asking = asyncio.create_task(client.get(f"{provider.openai_url}/models"))
        await asyncio.sleep(0.1)
        assert not asking.done()
        done.set()
        assert (await asking).status_code == 200
        assert (await client.get(f"{provider.openai_url}/models")).status_code == 200


@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic"])
async def test_models_talk_through_it(tmp_path: Path, dialect: Dialect) -> None:
    async with rig(tmp_path, say("hi"), dialect=dialect) as turn:
        assert is_held(turn.live.model_for(turn.live.settings.model))
    assert not is_held(object())


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
