"""The start of `pilotfish acp`, and the table of methods in `docs/acp.md`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.support.acp_client import connected
from tests.support.terminal import environment

import acp
from pilotfish.acp import method_table

METHOD_NOT_FOUND = -32601


def test_initialize_is_answered_before_the_engine_and_pydantic_ai_are_loaded(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from pilotfish.acp.server import AcpServer

async def main():
    await AcpServer().initialize(protocol_version=1)
    print(*(name for name in sys.modules if name.split(".")[0] in ("pydantic_ai", "openai", "httpx2", "fastmcp")
            or name.startswith(("pilotfish.engine.engine", "pilotfish.store", "pilotfish.tools"))))

asyncio.run(main())
"""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_the_page_is_what_make_generate_writes() -> None:
    assert method_table.TARGET.read_text("utf-8") == method_table.render(), "run `make generate`"


async def test_the_methods_of_the_table_are_those_that_the_program_serves(tmp_path: Path) -> None:
    async with connected(tmp_path) as (client, _, _):
        served: list[str] = []
        for method in acp.AGENT_METHODS.values():
            answer = await asyncio.wait_for(client.ask(method), 60)
            if answer.get("error", {}).get("code") != METHOD_NOT_FOUND:
                served.append(method)
    notifications = {"session/cancel", "$/cancel_request"}  # as requests they are not known
    assert {*served} | notifications == {*method_table.SERVED}
