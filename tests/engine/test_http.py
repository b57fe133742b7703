"""The HTTP client: nothing is sent before what it waits for is done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.engine import Dialect, rig
from tests.support.provider import call, say, serve

from pilotfish.core.records import MessageRecord
from pilotfish.engine.http import Client, Watched, body_of, create_client, holding, is_held


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


async def test_a_request_does_not_wait_until_its_prompt_is_durable_and_the_end_of_the_turn_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, say("first"), say("second")) as turn:
        await turn.prompt("first")
        goes_on, ledger = asyncio.Event(), turn.live.ledger
        sync = ledger.sync

        async def slow(session_id: str) -> None:
            await goes_on.wait()
            await sync(session_id)

        monkeypatch.setattr(ledger, "sync", slow)
        running = asyncio.create_task(turn.prompt("second"))
        async with asyncio.timeout(10):
            await turn.provider.received(2)
            while "turn_end" not in [told.record.type for told in turn.face.told[-2:]]:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not running.done()
        goes_on.set()
        await running


async def test_the_short_way_gives_what_httpx2_gives_for_the_same_answer() -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        head = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\n"
        writer.write(head + b"hi")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    found: list[object] = []
    async with server:
        for short in (False, True):
            async with create_client(5) as client:
                assert isinstance(client, Client)
                assert client.lean is not None
                held = list[None]()

                async def hold(held: list[None] = held) -> None:
                    held.append(None)

                request = client.build_request("POST", url, headers={"x-own": "1"})
                with holding(hold):
                    response = await (client.stream_of(request) if short else client.send(request, stream=True))
                assert isinstance(response.stream, Watched)
                body = [piece async for piece in body_of(response)]
                await response.aclose()
                headers = [(name, value) for name, value in response.headers.items() if name != "location"]
                found.append((response.status_code, headers, body, dict(client.cookies), held, response.request.url))
    assert found[0] == found[1]
    assert asked[0] == asked[1]


async def test_credentials_in_an_address_go_httpx2_s_own_way() -> None:
    async with serve(say("hi")) as provider, create_client(5) as client:
        assert isinstance(client, Client)
        address = provider.openai_url.replace("http://", "http://me:secret@") + "/models"
        response = await client.stream_of(client.build_request("GET", address))
        assert response.request.headers["authorization"].startswith("Basic ")
        await response.aclose()
