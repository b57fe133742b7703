"""Endpoints of models and MCP servers, added, tried and removed through the real process over stdio."""

from __future__ import annotations

import asyncio
import json
import sys
import tomllib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support import mcp_server
from tests.support.client import OURS, RpcError
from tests.support.provider import fails, say, serve
from tests.support.served import Rig, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVER = [mcp_server.__file__]
HELLO = {**OURS, "client": {**OURS["client"], "mcp": True}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("served") / "work"
    folder.mkdir()
    async with served(folder, hello=HELLO) as rig:
        yield rig


def home(rig: Rig) -> Path:
    """The folder of the user's configuration."""
    folder = rig.folder.parent / f"{rig.folder.name}-home"
    folder.mkdir(exist_ok=True)
    return folder


async def refused(rig: Rig, method: str, params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await rig.client.request(method, params)
    return caught.value


# ---- endpoints ------------------------------------------------------------------------------------------------------


async def test_an_endpoint_is_tried_stored_used_and_removed(rig: Rig):
    async with serve(otherwise=say("from the gateway"), models=["m1", "text-embed"]) as gateway:
        endpoint = {"name": "Work", "url": gateway.openai_url, "api": "chat"}
        tried = await rig.client.request("pilotfish/endpoint/test", {"endpoint": endpoint, "key": "sk-typed"})
        assert (tried["ok"], [model["id"] for model in tried["models"]]) == (True, ["Work:m1"])
        assert await rig.client.request("pilotfish/endpoint/list", {}) == {"endpoints": []}, "a test stores nothing"

        await rig.client.request("pilotfish/endpoint/add", {"endpoint": endpoint})
        await rig.client.request("pilotfish/secret/set", {"provider": "Work", "key": "sk-work"})
        listed = {**endpoint, "hasKey": True, "stored": True}
        assert await rig.client.request("pilotfish/endpoint/list", {}) == {"endpoints": [listed]}
        models = (await rig.client.request("pilotfish/model/list", {}))["models"]
        assert [model["id"] for model in models if model["provider"] == "Work"] == ["Work:m1"]
        session = await rig.client.new_session(model="Work:m1")
        assert (await rig.client.prompt(session, "hello")).stop_reason == "end_turn"
        assert gateway.requests[-1].headers["authorization"] == "Bearer sk-work"
        stored = tomllib.loads((home(rig) / "config.toml").read_text())["endpoints"]
        assert stored == [endpoint], "the key is in no file"

        await rig.client.request("pilotfish/endpoint/remove", {"name": "Work"})
        assert await rig.client.request("pilotfish/endpoint/list", {}) == {"endpoints": []}
        error = await refused(rig, "pilotfish/endpoint/remove", {"name": "Work"})
        assert error.message == "Your config.toml has no endpoint Work."


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "google"])
async def test_a_model_of_every_api_is_tried_with_one_request(rig: Rig, api: str):
    async with serve(otherwise=say("OK"), models=["m1"]) as gateway:
        endpoint = {"name": "new", "url": gateway.base_url(api), "api": api}
        tried = await rig.client.request("pilotfish/endpoint/test", {"endpoint": endpoint, "key": "k", "model": "m1"})
        assert (tried["ok"], tried.get("error")) == (True, None)
        assert [(request.kind, request.asked["model"]) for request in gateway.requests] == [(api, "m1")]


async def test_what_the_provider_says_is_said_when_a_model_is_tried(rig: Rig):
    async with serve(fails("authentication")) as gateway:
        endpoint = {"name": "new", "url": gateway.openai_url}
        tried = await rig.client.request("pilotfish/endpoint/test", {"endpoint": endpoint, "key": "k", "model": "m1"})
        assert (tried["ok"], tried["error"]["kind"]) == (False, "authentication")
        assert "“" in tried["error"]["message"]
    tried = await rig.client.request("pilotfish/endpoint/test", {"model": "anthropic:claude-sonnet-5-5"})
    assert (tried["ok"], tried["error"]["message"]) == (False, "No API key for Anthropic.")


async def test_an_endpoint_that_refuses_the_key_or_is_not_there_is_said(rig: Rig):
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"error": {"message": "This key was revoked."}}'
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        endpoint = {"name": "new", "url": f"http://127.0.0.1:{port}/v1"}
        tried = await rig.client.request("pilotfish/endpoint/test", {"endpoint": endpoint, "key": "k"})
        assert tried["error"]["message"] == "new did not accept the API key (HTTP 401): “This key was revoked”."
    gone = await rig.client.request("pilotfish/endpoint/test", {"endpoint": endpoint})
    assert gone["error"]["message"] == f"The provider at 127.0.0.1:{port} could not be reached."


@pytest.mark.parametrize(
    ("endpoint", "field"),
    [
        ({"name": "openai", "url": "http://127.0.0.1:9/v1"}, "endpoint"),
        ({"name": "two words", "url": "http://127.0.0.1:9/v1"}, "endpoint.name"),
        ({"name": "new", "url": "gateway.example"}, "endpoint"),
    ],
)
async def test_an_endpoint_that_cannot_be_used_is_not_stored(rig: Rig, endpoint: Any, field: str):
    error = await refused(rig, "pilotfish/endpoint/add", {"endpoint": endpoint})
    assert (error.code, error.data) == (-32602, {"field": field})
    assert await rig.client.request("pilotfish/endpoint/list", {}) == {"endpoints": []}


# ---- MCP servers ----------------------------------------------------------------------------------------------------


async def listed(rig: Rig) -> list[tuple[str, str]]:
    found = await rig.client.request("pilotfish/mcp/list", {})
    return [(server["name"], server["state"]) for server in found["servers"]]


async def told(rig: Rig, name: str, state: str) -> None:
    """Wait until the client is told that a server has this state."""

    def last() -> list[Any]:
        told = rig.client.of("pilotfish/mcp/changed")
        return told[-1]["servers"] if told else []

    await rig.client.until(lambda: (name, state) in [(server["name"], server["state"]) for server in last()])


async def test_a_server_is_tried_added_switched_off_and_on_and_removed(rig: Rig):
    server = {"name": "tiny", "command": sys.executable, "args": SERVER, "env": {"TOKEN": "${input:tiny-token}"}}
    missing = await rig.client.request("pilotfish/mcp/test", {"server": server})
    assert (missing["ok"], "${input:tiny-token}" in missing["error"]) == (False, True)
    tried = await rig.client.request("pilotfish/mcp/test", {"server": server, "inputs": {"tiny-token": "secret"}})
    assert tried["ok"]
    assert [tool["name"] for tool in tried["tools"]] == [tool["name"] for tool in mcp_server.TOOLS]
    assert await listed(rig) == [], "a test stores nothing"

    await rig.client.request("pilotfish/mcp/add", {"server": server})
    await told(rig, "tiny", "failed")
    await rig.client.request("pilotfish/secret/set", {"provider": "input:tiny-token", "key": "secret"})
    await told(rig, "tiny", "ready")
    file = home(rig) / "mcp.json"
    assert "secret" not in file.read_text()
    assert json.loads(file.read_text()) == {
        "mcpServers": {"tiny": {key: server[key] for key in server if key != "name"}}
    }
    assert file.stat().st_mode & 0o077 == 0

    await rig.client.request("pilotfish/mcp/enable", {"name": "tiny", "enabled": False})
    assert await listed(rig) == [("tiny", "disabled")]
    await rig.client.request("pilotfish/mcp/enable", {"name": "tiny", "enabled": True})
    await told(rig, "tiny", "ready")
    await rig.client.request("pilotfish/mcp/remove", {"name": "tiny"})
    assert await listed(rig) == []
    error = await refused(rig, "pilotfish/mcp/remove", {"name": "tiny"})
    assert (error.code, error.data) == (-32602, {"field": "name"})


async def test_a_file_with_comments_is_not_changed(rig: Rig):
    file = home(rig) / "mcp.json"
    text = '{\n  // mine\n  "servers": { "off": { "command": "x", "disabled": true } }\n}\n'
    file.write_text(text)
    try:
        assert await listed(rig) == [("off", "disabled")]
        error = await refused(rig, "pilotfish/mcp/remove", {"name": "off"})
        assert error.message == "mcp.json has comments, which would be lost."
        assert file.read_text() == text
    finally:
        file.unlink()


async def test_other_entries_and_keys_of_the_file_are_kept(rig: Rig):
    file = home(rig) / "mcp.json"
    before: dict[str, Any] = {
        "inputs": [{"id": "a"}],
        "servers": {"off": {"command": "x", "disabled": True, "cwd": "/"}},
    }
    file.write_text(json.dumps(before))
    try:
        server = {"name": "hub", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${input:hub}"}}
        await rig.client.request("pilotfish/mcp/add", {"server": server})
        added = {"type": "http", "url": server["url"], "headers": server["headers"]}
        expected = {**before, "servers": {**before["servers"], "hub": added}}
        assert json.loads(file.read_text()) == expected
        (hub,) = [
            one for one in (await rig.client.request("pilotfish/mcp/list", {}))["servers"] if one["name"] == "hub"
        ]
        assert hub["inputs"] == ["hub"]
    finally:
        await rig.client.request("pilotfish/mcp/remove", {"name": "hub"})
        file.unlink()


async def test_no_server_is_started_for_a_test_in_a_folder_that_is_not_trusted(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    async with served(folder, hello={**HELLO, "trusted": False}) as rig:
        ran = tmp_path / "ran"
        server = {"name": "x", "command": "touch", "args": [str(ran)]}
        assert (await refused(rig, "pilotfish/mcp/test", {"server": server})).code == 3
        await rig.client.request("pilotfish/mcp/add", {"server": server})
        assert await listed(rig) == [("x", "stopped")]
        assert not ran.exists()
