"""MCP servers: available in the first turn, judged like any call, disconnected when the settings change."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from textwrap import dedent

from tests.support.engine import rig
from tests.support.provider import call, say

from pilotfish.engine.mcp import Server, Servers

SERVER = dedent(
    """
    import json, sys, time

    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        match asked["method"]:
            case "initialize":
                time.sleep(float(sys.argv[1]))
                version = asked["params"]["protocolVersion"]
                about = {"name": "tiny", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
                result = {"tools": [{"name": "echo", "description": "Says it again.", "inputSchema": schema}]}
            case "tools/call":
                said = asked["params"]["arguments"]["text"]
                result = {"content": [{"type": "text", "text": f"again: {said}"}]}
            case _:
                result = {}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
    """
)


def config(folder: Path, name: str, *, seconds: float = 0.0, command: str = sys.executable) -> Path:
    """A file that names one server."""
    (folder / "server.py").write_text(SERVER)
    server = {"command": command, "args": [str(folder / "server.py"), str(seconds)]}
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"mcpServers": {name: server}}))
    return file


async def test_a_server_is_there_in_the_first_turn_and_asked_for(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny", seconds=0.5))
    async with rig(tmp_path, call("tiny_echo", text="hello"), say("done"), mcpConfig=file) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert "again: hello" in str(turn.provider.requests[-1].body)
        (question,) = turn.face.asked
        assert question.preview.text == 'tiny_echo\n{\n  "text": "hello"\n}'
        status = turn.live.status()["mcp"]
        assert status == [{"name": "tiny", "available": True, "reason": "", "tools": 1}]


async def test_a_folder_that_is_not_trusted_starts_no_server(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny"))
    async with rig(tmp_path, say("done"), mcpConfig=file, trusted=False) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert turn.live.status()["mcp"] == []


async def test_a_server_that_does_not_start_is_named_with_the_reason_and_costs_nothing_else(tmp_path: Path) -> None:
    file = str(config(tmp_path, "dead", command=str(tmp_path / "no-such-program")))
    async with rig(tmp_path, say("done"), mcpConfig=file) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        (server,) = turn.live.mcp.found.values()
        assert (server.name, server.available) == ("dead", False)
        assert server.reason not in ("", "connecting")


async def test_a_cancel_does_not_wait_for_a_server(tmp_path: Path) -> None:
    file = str(config(tmp_path, "slow", seconds=60))
    async with rig(tmp_path, say("done"), mcpConfig=file) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        while "turn_start" not in [told.record.type for told in turn.told]:
            await asyncio.sleep(0.005)
        await turn.live.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"


async def test_another_file_lets_go_of_the_servers_of_the_first(tmp_path: Path) -> None:
    servers = Servers()
    servers.use(config(tmp_path, "one"))
    await servers.settled()
    assert servers.found == {"one": Server("one", available=True, tools=1)}
    servers.use(config(tmp_path, "two"))
    await servers.settled()
    assert servers.found == {"two": Server("two", available=True, tools=1)}
    assert len(servers.toolsets) == 1
    servers.use(None)
    assert (servers.found, servers.toolsets) == ({}, [])
    await servers.aclose()
