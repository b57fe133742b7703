"""What the input of one task costs, here and with other agents: `python -m tests.bench.peers`.

A scripted model reads forty files, one a round, through the shell tool of each agent. The agents are the published
programs, installed from npm into a temporary folder; they talk to the scripted provider on loopback. What is measured
is what they send: all input, and the part that begins as the request before it did, which providers sell for less.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.cached_prefix import input_cost
from tests.support.provider import Provider, Reply, Request, call, say
from tests.support.tools import plant

ROUNDS = 40
SECONDS = 300
MODEL = "gpt-5.1"
PROMPT = "Read all the files"
PACKAGES = ("@openai/codex", "opencode-ai")


@dataclass(frozen=True)
class Agent:
    """`command` gives the arguments for a provider; `config` is written to the workspace."""

    name: str
    tool: Callable[[str], Reply]
    """the call that runs a command"""
    command: Callable[[str], list[str]]
    environ: Callable[[str], Mapping[str, str]] = lambda _: {}
    config: Callable[[str], Mapping[str, str]] = lambda _: {}


def _codex(url: str) -> list[str]:
    provider = f'{{name="scripted",base_url="{url}",env_key="OPENAI_API_KEY",wire_api="responses"}}'
    given = ("-c", 'model_provider="scripted"', "-c", f"model_providers.scripted={provider}", "-m", MODEL)
    return ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", *given, PROMPT]


def _opencode(url: str) -> Mapping[str, str]:
    models = {MODEL: {"name": MODEL, "limit": {"context": 400_000, "output": 32_000}}}
    options = {"baseURL": url, "apiKey": "scripted"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options, "models": models}
    return {"opencode.json": json.dumps({"provider": {"scripted": provider}, "model": f"scripted/{MODEL}"})}


AGENTS = (
    Agent(
        "Pilotfish",
        lambda command: call("bash", command=command),
        lambda _: [sys.executable, "-m", "pilotfish", "run", "--mode", "auto", PROMPT],
        environ=lambda url: {"PILOTFISH_MODEL": f"openai-responses:{MODEL}", "PILOTFISH_BASE_URL": url},
    ),
    Agent("Codex", lambda command: call("exec_command", cmd=command), _codex),
    Agent(
        "opencode",
        lambda command: call("bash", command=command, description="Reads a file"),
        lambda _: ["opencode", "run", PROMPT],
        config=_opencode,
    ),
)


def _done(request: Request) -> int:
    """The number of calls that have a result."""
    items = [*request.body.get("messages", ()), *request.body.get("input", ())]
    return sum(item.get("role") == "tool" or item.get("type") == "function_call_output" for item in items)


async def measure(agent: Agent, folder: Path, bin_: Path) -> list[Request]:
    """The requests of the task that offer tools; requests for titles are not among them."""

    def reply(request: Request) -> Reply:
        done = _done(request)
        return agent.tool(f"cat src/f{done}.py") if request.body.get("tools") and done < ROUNDS else say("Done.")

    root, home = folder / "work", folder / "home"
    home.mkdir()
    provider = Provider(otherwise=reply)
    provider.strict = False
    await provider.start()
    try:
        url = provider.openai_url
        files = {f"src/f{number}.py": "v = 0\n" + "y = 2\n" * 200 for number in range(ROUNDS)}
        plant(root, files | {"AGENTS.md": "Use tabs."} | dict(agent.config(url)))
        subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
        environ = {"HOME": str(home), "LANG": "C.UTF-8", "PATH": f"{bin_}:{os.environ['PATH']}", "OPENAI_API_KEY": "k"}
        process = await asyncio.create_subprocess_exec(
            *agent.command(url),
            cwd=root,
            env=environ | dict(agent.environ(url)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        async with asyncio.timeout(SECONDS):
            if await process.wait():
                raise SystemExit(f"{agent.name} failed with {process.returncode}")
        return [request for request in provider.requests if request.body.get("tools")]
    finally:
        await provider.stop()


async def main() -> None:
    print("| agent | requests | first request | all input | cached share | paid, in tokens of full price |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for agent in AGENTS:
            with tempfile.TemporaryDirectory() as place:
                requests = await measure(agent, Path(place), Path(folder) / "node_modules" / ".bin")
            cost = input_cost(requests)
            sizes = f"{cost.first / 1000:.1f}k | {cost.total / 1000:.0f}k | {cost.share:.1%} | {cost.paid / 1000:.0f}k"
            print(f"| {agent.name} | {len(requests)} | {sizes} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
