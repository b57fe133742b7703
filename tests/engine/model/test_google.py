"""Turns of the real server process over Google's API: tools, streaming, errors, cancel and restart."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import Client, connect
from tests.support.provider import Answer, Call, Gate, Provider, Reply, Text, calls, fails, say, serve

READS = calls(
    Call("read_file", {"path": "a.txt"}), Call("read_file", {"path": "b.txt"}), text="Look.", thoughts=("Hm", "m.")
)


@contextlib.asynccontextmanager
async def started(folder: Path, provider: Provider) -> AsyncGenerator[Client]:
    """A server whose settings name Google's model and the address of the scripted provider, as a user's would."""
    settings = {"model": "google:scripted", "baseUrl": provider.base_url("google")}
    async with connect(folder, settings=settings, GOOGLE_API_KEY="key-of-google") as client:
        yield client


@contextlib.asynccontextmanager
async def google(folder: Path, *replies: Answer, **more: Any) -> AsyncGenerator[tuple[Client, Provider]]:
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.txt").write_text(f"{name}\n", "utf-8")
    async with serve(*replies, key="key-of-google", **more) as provider, started(folder, provider) as client:
        yield client, provider


def text(client: Client, kind: str = "agent_message_chunk") -> str:
    chunks: list[Any] = [sent.update for sent in client.updates if sent.update.kind == kind]
    return "".join(chunk.text for chunk in chunks)


def function_parts(provider: Provider, request: int, name: str) -> list[dict[str, Any]]:
    """The parts of one kind in a request's history."""
    contents = provider.requests[request].messages
    return [part for content in contents for part in content["parts"] if name in part]


async def test_a_turn_calls_tools_in_parallel_and_streams_its_answer(tmp_path: Path) -> None:
    async with google(tmp_path / "work", READS, say("All ", "done.")) as (client, provider):
        result = await client.prompt(await client.new_session(), "look at both")
        assert result.stop_reason == "end_turn"
        assert text(client) == "Look.All done."
        assert text(client, "agent_thought_chunk") == "Hmm."
        assert [request.refused for request in provider.requests] == [None, None]
        assert {request.path for request in provider.requests} == {"/v1/models/scripted:streamGenerateContent"}
        results = [part["functionResponse"] for part in function_parts(provider, 1, "functionResponse")]
        assert [each["name"] for each in results] == ["read_file", "read_file"]
        assert ["a" in str(each["response"]) for each in results] == [True, True]


async def test_a_signature_is_sent_back_on_its_call_even_after_a_restart(tmp_path: Path) -> None:
    async with google(tmp_path / "work", READS, say("done"), say("again")) as (client, provider):
        session = await client.new_session()
        await client.prompt(session, "look")
        await client.stop()
        async with started(tmp_path / "work", provider) as second:
            await second.load(session)
            await second.prompt(session, "and now?")
        first, other = function_parts(provider, 2, "functionCall")
        signature = base64.b64encode(base64.urlsafe_b64decode(first["thoughtSignature"])).decode()
        assert signature in provider.memory.google_signatures
        assert "thoughtSignature" not in other
        assert [request.refused for request in provider.requests] == [None] * 3


async def test_an_error_of_google_ends_the_turn_with_its_kind(tmp_path: Path) -> None:
    kinds = {
        "context": "context",  # first: with nothing said before there is nothing to compact
        "authentication": "authentication",
        "not_found": "configuration",
        "bad_request": "bad_request",
    }
    async with google(tmp_path / "work", *map(fails, kinds)) as (client, provider):
        session = await client.new_session()
        results = [await client.prompt(session, "hi") for _ in kinds]
        assert {result.stop_reason for result in results} == {"failed"}
        assert [result.error.kind for result in results if result.error is not None] == list(kinds.values())
        assert len(provider.requests) == len(kinds), "none of these is asked again"


@pytest.mark.parametrize("first", [fails("overloaded"), say("half", end="error:overloaded", after=1)])
async def test_an_overloaded_google_is_asked_again(tmp_path: Path, first: Reply) -> None:
    async with google(tmp_path / "work", first, say("whole")) as (client, provider):
        result = await client.prompt(await client.new_session(), "hi")
        assert result.stop_reason == "end_turn"
        assert text(client).endswith("whole")
        assert len(provider.requests) == 2


async def test_a_cancel_disconnects_google_and_the_session_goes_on(tmp_path: Path) -> None:
    held = Reply(parts=(Text("one "), Gate(), Text("two")))
    async with google(tmp_path / "work", held, say("fine")) as (client, provider):
        session = await client.new_session()
        running = client.begin(session, "first")
        await client.first_update("agent_message_chunk")
        await client.request("pilotfish/session/cancel", {"sessionId": session})
        assert (await running).stop_reason == "cancelled"
        assert provider.requests[0].disconnected.is_set()
        assert (await client.prompt(session, "second")).stop_reason == "end_turn"
        assert provider.requests[1].refused is None
        assert "second" in str(provider.requests[1].messages[-1])
