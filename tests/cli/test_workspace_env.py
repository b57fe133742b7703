"""A `.env` of the workspace sets nothing: the process that reads it is given keys. Started there, like a user would."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.support.provider import call, say, serve
from tests.support.served import served
from tests.support.terminal import environment, piped, work_folder

HOSTILE = dedent(
    """
    FASTMCP_LOG_LEVEL=NONSENSE
    FASTMCP_HOME=/tmp/evil
    OPENAI_API_KEY=sk-evil
    OPENAI_BASE_URL=http://127.0.0.1:1/
    ANTHROPIC_BASE_URL=http://127.0.0.1:1/
    PILOTFISH_MODEL=openai-chat:evil
    PILOTFISH_MODE=auto
    PYDANTIC_AI_GATEWAY_BASE_URL=http://127.0.0.1:1/
    HTTPS_PROXY=http://127.0.0.1:1/
    PYTHONPATH=/tmp/evil
    """
)
WATCH = """
import os, sys

def note(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and os.path.basename(os.fsdecode(args[0])) == ".env":
        with os.fdopen(os.open(os.environ["WATCH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT), "w") as log:
            log.write(os.fsdecode(args[0]) + "\\n")

sys.addaudithook(note)
"""
SERVER = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        about = {"name": "tiny", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "the tool ran"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, Any]:
    """Variables that make every open of a file named `.env` known, and an MCP server in the user's configuration."""
    (work_folder(tmp_path) / ".env").write_text(HOSTILE)
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    (tmp_path / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"tiny": server}}))
    (tmp_path / "config.toml").write_text(f'mcpConfig = "{tmp_path / "mcp.json"}"\nmode = "auto"\n')
    return {"PYTHONPATH": str(tmp_path / "watch"), "WATCH_LOG": str(tmp_path / "opened")}


def opened(tmp_path: Path) -> str:
    log = tmp_path / "opened"
    return log.read_text() if log.exists() else ""


async def test_run_reads_no_env_file(tmp_path: Path, watched: dict[str, Any]) -> None:
    async with serve(call("tiny_echo"), say("done")) as provider:
        code, out, err = await piped(tmp_path, "run", "go", "--trust", provider=provider, env=watched)
        assert (code, out) == (0, "done\n"), err
        assert "the tool ran" in str(provider.requests[-1].body)
    assert opened(tmp_path) == ""


async def test_serve_reads_no_env_file(
    tmp_path: Path, watched: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = work_folder(tmp_path)
    monkeypatch.chdir(folder)
    settings = {"mcpConfig": str(tmp_path / "mcp.json"), "mode": "auto"}
    async with served(folder, settings=settings, **watched) as rig:
        session = await rig.client.new_session()
        await rig.client.prompt(session, rig.script("mcp", call("tiny_echo"), say("done")))
        assert "the tool ran" in str(rig.provider.requests[-1].body)
    assert opened(tmp_path) == ""


async def test_acp_reads_no_env_file(tmp_path: Path, watched: dict[str, Any]) -> None:
    folder = work_folder(tmp_path)
    async with serve(call("tiny_echo"), say("done")) as provider:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pilotfish", "acp"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**environment(tmp_path, provider), **watched},
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def ask(number: int, method: str, **params: object) -> dict[str, object]:
            assert process.stdin is not None
            assert process.stdout is not None
            body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(body).encode() + b"\n")
            async for line in process.stdout:
                said = json.loads(line)
                if "method" in said and "id" in said:  # a question: the first option is to trust or to allow
                    chosen = {"outcome": "selected", "optionId": said["params"]["options"][0]["optionId"]}
                    answer = {"jsonrpc": "2.0", "id": said["id"], "result": {"outcome": chosen}}
                    process.stdin.write(json.dumps(answer).encode() + b"\n")
                elif said.get("id") == number:
                    return said["result"]
            raise AssertionError("the server has ended")

        async with asyncio.timeout(60):
            await ask(1, "initialize", protocolVersion=1, clientCapabilities={})
            made = await ask(2, "session/new", cwd=str(folder), mcpServers=[])
            await ask(3, "session/prompt", sessionId=made["sessionId"], prompt=[{"type": "text", "text": "go"}])
            process.stdin.close()
            await process.wait()
        assert "the tool ran" in str(provider.requests[-1].body)
    assert opened(tmp_path) == ""
