"""The reference servers of MCP, from npm and PyPI, used in a turn of the real process.

`make servers` installs those of PyPI in `.servers`, apart from our own locked packages; those of npm are in `node`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import Client, connect
from tests.support.provider import Provider, Reply, call, say, serve

SERVERS = Path(os.environ.get("PILOTFISH_SERVERS", Path(__file__).parents[2] / ".servers"))
PYPI = SERVERS / "mcp/bin"
NPM = Path(__file__).parent / "node/node_modules/.bin"

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


def config(folder: Path, **servers: list[str]) -> str:
    """A configuration file with these servers: name → command line."""
    for program, *_ in servers.values():
        if not Path(program).exists():
            pytest.skip(f"{Path(program).name} is not installed; run `make servers`")
    entries = {name: {"command": words[0], "args": words[1:]} for name, words in servers.items()}
    (folder / "mcp.json").write_text(json.dumps({"servers": entries}), "utf-8")
    return str(folder / "mcp.json")


async def results(folder: Path, file: str, *calls: Reply) -> tuple[list[str], dict[str, Any], Provider]:
    """What the model was given for each call, in mode auto, and the status of the servers."""
    async with serve(*calls, say("done")) as provider:
        model: dict[str, Any] = {
            "OPENAI_API_KEY": "k",
            "PILOTFISH_MODEL": "openai-chat:scripted",
            "PILOTFISH_BASE_URL": provider.openai_url,
        }
        async with connect(folder, settings={"mcpConfig": file}, **model) as client:
            session = await client.new_session(mode="auto")
            await _answer_user(client)
            result = await client.prompt(session, "go")
            assert result.stop_reason == "end_turn"
            status = {one["name"]: one for one in (await client.request("pilotfish/status"))["mcpServers"]}
        messages = provider.requests[-1].messages
        return [json.dumps(one["content"]) for one in messages if one["role"] == "tool"], status, provider


async def _answer_user(client: Client) -> None:
    async def answer(_: Any) -> Any:
        return {"answer": "Ada"}

    client.answers["pilotfish/user/ask"] = answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("here\n", "utf-8")
    return folder


async def test_the_server_everything(tmp_path: Path, folder: Path) -> None:
    file = config(tmp_path, everything=[str(NPM / "mcp-server-everything")])
    echoed, summed = call("everything_echo", message="hello"), call("everything_get-sum", a=2, b=40)
    image = call("everything_get-tiny-image")
    long = call("everything_trigger-long-running-operation", duration=1, steps=2)
    given, status, provider = await results(folder, file, echoed, summed, image, long)
    assert status["everything"]["state"] == "ready"
    assert "hello" in given[0]
    assert "42" in given[1]
    assert "[1 image]" in given[2]
    assert "data:image/png;base64," in json.dumps(provider.requests[-1].messages)
    assert "completed" in given[3]


@pytest.mark.parametrize(("transport", "place"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
async def test_the_server_everything_over_http(tmp_path: Path, folder: Path, transport: str, place: str) -> None:
    program = NPM / "mcp-server-everything"
    if not program.exists():
        pytest.skip("mcp-server-everything is not installed; run `make servers`")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(program), transport, env={**os.environ, "PORT": str(port)}, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.1)  # nothing says that a foreign process is ready
        (tmp_path / "mcp.json").write_text(
            json.dumps({"mcpServers": {"far": {"url": f"http://127.0.0.1:{port}{place}"}}}), "utf-8"
        )
        given, status, _ = await results(folder, str(tmp_path / "mcp.json"), call("far_echo", message="hello"))
        assert status["far"]["state"] == "ready"
        assert "hello" in given[0]
    finally:
        process.kill()
        await process.wait()


async def test_the_server_filesystem(tmp_path: Path, folder: Path) -> None:
    file = config(tmp_path, files=[str(NPM / "mcp-server-filesystem"), str(folder)])
    read = call("files_read_text_file", path=str(folder / "a.txt"))
    outside = call("files_read_text_file", path="/etc/hostname")
    given, status, _ = await results(folder, file, read, outside)
    assert status["files"]["tools"] > 5
    assert "here" in given[0]
    assert "denied" in given[1]


async def test_the_server_memory(tmp_path: Path, folder: Path) -> None:
    file = config(tmp_path, memory=[str(NPM / "mcp-server-memory")])
    entity = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
    given, _, _ = await results(
        folder, file, call("memory_create_entities", entities=[entity]), call("memory_search_nodes", query="tea")
    )
    assert "likes tea" in given[1]


async def test_the_servers_git_and_time(tmp_path: Path, folder: Path) -> None:
    file = config(
        tmp_path, git=[str(PYPI / "mcp-server-git")], time=[str(PYPI / "mcp-server-time"), "--local-timezone=UTC"]
    )
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    status_call = call("git_git_status", repo_path=str(folder))
    given, status, _ = await results(folder, file, status_call, call("time_get_current_time", timezone="UTC"))
    assert {name: one["state"] for name, one in status.items()} == {"git": "ready", "time": "ready"}
    assert "a.txt" in given[0]
    assert re.search(r"\d{4}-\d{2}-\d{2}T", given[1])
