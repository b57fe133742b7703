"""MCP servers: available in the first turn, judged like any call, disconnected when the settings change."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.support import mcp_server
from tests.support.engine import rig
from tests.support.provider import call, say
from tests.support.waiting import until

from pilotfish.engine import commands
from pilotfish.engine.mcp import servers as servers_module
from pilotfish.engine.mcp.config import ServerDefinition, read_config
from pilotfish.engine.mcp.offers import resources
from pilotfish.engine.mcp.servers import Server, Servers
from pilotfish.errors import BadRequest

SERVER = Path(mcp_server.__file__)
TOOLS = len(mcp_server.TOOLS)


def config(
    folder: Path,
    name: str,
    *,
    seconds: float = 0.0,
    command: str = sys.executable,
    key: str = "mcpServers",
    **more: Any,
) -> Path:
    """A file that names one server."""
    server = {"command": command, "args": [str(SERVER), str(seconds)], **more}
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"mcpServers": {name: server}}))
    return file


async def test_a_server_is_there_in_the_first_turn_and_asked_for(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny", seconds=0.5))
    async with rig(tmp_path, call("tiny_echo", text="hello"), say("done"), mcpConfig=file) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert "again: hello" in str(turn.provider.requests[-1].body)
        (question,) = turn.frontend.asked
        assert question.preview.text == 'tiny_echo\n{\n  "text": "hello"\n}'
        assert turn.engine.status().mcp_servers == (Server("tiny", available=True, tools=TOOLS),)


async def test_a_folder_that_is_not_trusted_starts_no_server(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny"))
    async with rig(tmp_path, say("done"), mcpConfig=file, trusted=False) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert turn.engine.status().mcp_servers == ()


async def test_a_server_that_does_not_start_is_named_with_the_reason_and_costs_nothing_else(tmp_path: Path) -> None:
    file = str(config(tmp_path, "dead", command=str(tmp_path / "no-such-program")))
    async with rig(tmp_path, say("done"), mcpConfig=file) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        (server,) = turn.engine.mcp.found.values()
        assert (server.name, server.available) == ("dead", False)
        assert server.reason not in ("", "connecting")


async def test_a_cancel_does_not_wait_for_a_server(tmp_path: Path) -> None:
    file = str(config(tmp_path, "slow", seconds=60))
    async with rig(tmp_path, say("done"), mcpConfig=file) as turn:
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: not ("turn_start" not in [update.record.type for update in turn.updates]))
        await turn.engine.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"


async def test_another_file_lets_go_of_the_servers_of_the_first(tmp_path: Path) -> None:
    servers = Servers()
    servers.use(config(tmp_path, "one"))
    await servers.settled()
    assert servers.found == {"one": Server("one", available=True, tools=TOOLS)}
    servers.use(config(tmp_path, "two"))
    await servers.settled()
    assert servers.found == {"two": Server("two", available=True, tools=TOOLS)}
    assert len(servers.toolsets) == 1
    servers.use(None)
    assert (servers.found, servers.toolsets) == ({}, {})
    await servers.aclose()


def test_the_workspaces_env_file_sets_nothing_of_the_mcp_library(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FASTMCP_LOG_LEVEL=CRITICAL\nFASTMCP_CLIENT_INIT_TIMEOUT=7\n")
    script = """
        import asyncio
        from pathlib import Path
        from pilotfish.engine.mcp.servers import Servers

        async def main() -> None:
            servers = Servers()
            servers.use(Path("none.json"))
            await servers.settled()

        asyncio.run(main())
        import fastmcp
        print(fastmcp.settings.log_level, fastmcp.settings.client_init_timeout)
    """
    ran = subprocess.run(
        [sys.executable, "-c", dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["INFO", "None"]


def read(folder: Path, text: str) -> list[ServerDefinition]:
    (folder / "mcp.json").write_text(text)
    return list(read_config(folder / "mcp.json", [Path("/work")]))


def test_the_formats_of_claude_and_of_vs_code_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    claude = """{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "${TOKEN}"}},
        "off": {"command": "x", "disabled": true}}}"""
    assert read(tmp_path, claude) == [
        ServerDefinition(name="git", command="uvx", args=("mcp-server-git",), env={"A": "secret"})
    ]
    code = """{
        // as VS Code writes it
        "servers": {
            "hub": {"type": "http", "url": "https://hub.example/mcp", "headers": {"Auth": "Bearer ${env:TOKEN}"}},
            "files": {"type": "stdio", "command": "npx", "args": ["//here", "${workspaceFolder}"], "trusted": true},
            "asks": {"command": "x", "args": ["${input:key}"]}, /* a secret */
            "bare": {"command": "x", "args": ["${NO_SUCH_VARIABLE}", "${OTHER:-default}"]},
        },
    }"""
    hub, files, asks, bare = read(tmp_path, code)
    assert (hub.transport, hub.url, hub.headers) == ("http", "https://hub.example/mcp", {"Auth": "Bearer secret"})
    assert (files.command, files.args, files.trusted) == ("npx", ("//here", "/work"), True)
    assert "only VS Code asks for" in asks.problem
    assert bare.problem == "the environment variable NO_SUCH_VARIABLE is not set"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"servers": []}'])
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadRequest):
        read(tmp_path, text)


async def test_a_server_that_dies_is_told_once_and_is_back_for_the_next_call(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny"))
    replies = (call("tiny_die"), say("it died"), call("tiny_echo", text="hello"), say("done"))
    async with rig(tmp_path, *replies, mcpConfig=file, mode="auto") as turn:
        await turn.prompt("go")
        await until(lambda: "tiny" in turn.engine.mcp.connections and turn.engine.mcp.found["tiny"].available)
        await turn.prompt("again")
        assert "again: hello" in str(turn.provider.requests[-1].body)
        assert turn.notices() == [
            "The MCP server tiny is not available: the connection was lost.",
            "The MCP server tiny is connected again.",
        ]


async def test_a_start_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers_module, "FIRST_PAUSE", 0.01)
    (tmp_path / "flaky.py").write_text(
        f"""
import pathlib, runpy, sys
tried = pathlib.Path({str(tmp_path / "tried")!r})
tried.write_text(tried.read_text() + "x" if tried.exists() else "x")
if len(tried.read_text()) < 3:
    sys.exit(1)
sys.argv = ["server"]
runpy.run_path({str(SERVER)!r}, run_name="__main__")
"""
    )
    servers = Servers()
    servers.use((ServerDefinition(name="flaky", command=sys.executable, args=(str(tmp_path / "flaky.py"),)),))
    await until(lambda: "flaky" in servers.connections)
    assert servers.found == {"flaky": Server("flaky", available=True, tools=TOOLS)}
    assert (tmp_path / "tried").read_text() == "xxx"
    await servers.aclose()


async def test_a_program_that_does_not_exist_is_not_tried_again(tmp_path: Path) -> None:
    servers = Servers()
    servers.use((ServerDefinition(name="none", command=str(tmp_path / "none")),))
    await servers.settled()
    assert servers.found["none"].reason.startswith("FileNotFoundError")
    await until(lambda: "mcp" not in [task.get_name() for task in asyncio.all_tasks()])


async def test_an_image_is_given_to_the_model_as_an_image(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny"))
    async with rig(tmp_path, call("tiny_picture"), say("nice"), say("still there"), mcpConfig=file) as turn:
        await turn.prompt("go")
        assert f"data:image/png;base64,{mcp_server.PIXEL}" in str(turn.provider.requests[-1].body)
        assert "a picture\\n[1 image]" in str(turn.provider.requests[-1].body)
        await turn.prompt("and now?")
        assert mcp_server.PIXEL in str(turn.provider.requests[-1].body), "it stays in the conversation"


@pytest.mark.parametrize("trusted", [False, True])
async def test_what_only_reads_runs_unasked_if_the_user_trusts_the_server(tmp_path: Path, trusted: bool) -> None:
    file = str(config(tmp_path, "tiny", trusted=trusted))
    replies = (call("tiny_peek", text="a"), call("tiny_echo", text="b"), say("done"))
    async with rig(tmp_path, *replies, mcpConfig=file) as turn:
        await turn.prompt("go")
        asked = [question.call.name for question in turn.frontend.asked]
        assert asked == (["tiny_echo"] if trusted else ["tiny_peek", "tiny_echo"])


async def test_a_server_reports_progress_asks_the_user_and_is_told_the_folders(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny"))
    replies = (call("tiny_slow"), call("tiny_ask"), call("tiny_roots"), say("done"))
    async with rig(tmp_path, *replies, mcpConfig=file, mode="auto") as turn:
        turn.frontend.user_answer = "blue"
        await turn.prompt("go")
        assert turn.text("progress") == "1 of 2: step 1\n2 of 2: step 2\n"
        question = "The MCP server tiny asks: Please choose\nWhich color?"
        assert turn.frontend.user_questions == [(question, ("red", "blue"))]
        sent = str(turn.provider.requests[-1].body)
        assert "accept: blue" in sent
        (root,) = turn.engine.mcp_roots()
        assert root.as_uri() in sent


async def test_resources_are_mentioned_and_prompts_are_commands(tmp_path: Path) -> None:
    file = str(config(tmp_path, "tiny"))
    async with rig(tmp_path, say("one"), say("two"), mcpConfig=file) as turn:
        await turn.prompt("connect")
        await turn.prompt('look at @"tiny:tiny://notes" and @"tiny:"')
        assert "remember the milk" in str(turn.provider.requests[-1].body)
        (offered,) = await resources(turn.engine.servers_of(turn.session_id))
        assert (offered.mention, offered.name) == ("tiny:tiny://notes", "notes")
        custom = await commands.custom_commands(turn.engine, turn.session_id)
        explain = custom["tiny:explain"]
        assert (explain.description, explain.argument_hint, explain.source) == ("Explains a topic", "<topic>", "mcp")
        expanded = await commands.expand(explain, "the two words")
        assert expanded == commands.CommandPrompt("Explain the two words in one sentence.", "tiny/explain")


async def test_reading_the_file_again_keeps_the_servers_that_are_the_same(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(SERVER)]}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}))
    servers = Servers()
    servers.use(file)
    await servers.settled()
    kept, other = servers.connections["one"], servers.connections["two"]
    file.write_text(json.dumps({"mcpServers": {"one": entry, "two": {**entry, "env": {"A": "b"}}, "three": entry}}))
    servers.reload()
    await servers.settled()
    assert sorted(servers.connections) == ["one", "three", "two"]
    assert servers.connections["one"] is kept
    assert servers.connections["two"] is not other
    servers.reload("one")
    await servers.settled()
    assert servers.connections["one"] is not kept
    await servers.aclose()
