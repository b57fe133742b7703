"""Real servers of models: LiteLLM's proxy in front of the scripted provider, and llama.cpp: its server, and in our own
process.

`make servers` installs them in `.servers`, apart from our own locked packages, and runs these tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_ai import Agent
from tests.support.client import Client, connect
from tests.support.provider import Gate, Provider, Reply, call, fails, say, serve

from pilotfish.config.settings import Settings
from pilotfish.engine.model import resolve
from pilotfish.engine.model.local.weights import is_installed

log = logging.getLogger(__name__)

SERVERS = Path(os.environ.get("PILOTFISH_SERVERS", Path(__file__).parents[2] / ".servers"))
LITELLM = SERVERS / "litellm/bin/litellm"
KEY = "sk-of-the-proxy"
START_SECONDS = 240.0

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


@contextlib.asynccontextmanager
async def litellm(folder: Path, upstream: Provider) -> AsyncGenerator[str]:
    """LiteLLM's proxy: a model that is the scripted provider, and one whose answers LiteLLM makes up itself."""
    if not LITELLM.exists():
        pytest.skip("LiteLLM is not installed; run `make servers`")
    config = folder / "litellm.yaml"
    config.write_text(
        f"""
model_list:
  - model_name: scripted
    litellm_params: {{ model: openai/scripted, api_base: {upstream.openai_url}, api_key: x, max_retries: 0 }}
  - model_name: mocked
    litellm_params: {{ model: openai/mocked, api_key: x, mock_response: "Made up by the proxy." }}
litellm_settings: {{ num_retries: 0, telemetry: false }}
general_settings: {{ master_key: {KEY} }}
""",
        "utf-8",
    )
    port = free_port()
    words = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": str(folder)}
    async with running(folder, words, f"http://127.0.0.1:{port}/health/liveliness", **environ):
        yield f"http://127.0.0.1:{port}/v1"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.asynccontextmanager
async def running(folder: Path, command: list[str], health: str, **environ: str) -> AsyncGenerator[None]:
    """A server process, from when it answers at `health`."""
    log = folder / "server.log"
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=sink, stderr=sink, env={**os.environ, **environ}, cwd=folder
        )
        try:
            async with asyncio.timeout(START_SECONDS), httpx2.AsyncClient(trust_env=False) as client:
                while True:
                    with contextlib.suppress(httpx2.HTTPError):
                        if (await client.get(health)).status_code == 200:
                            break
                    assert process.returncode is None, log.read_text("utf-8", "replace")[-3000:]
                    await asyncio.sleep(0.3)  # nothing says that a foreign process is ready
            yield
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def asked(client: Client, session: str, prompt: str) -> str:
    """The text of the answer to a prompt, or the message of the error."""
    before = len(client.updates)
    result = await client.prompt(session, prompt)
    if result.error is not None:
        return f"{result.error.kind}: {result.error.message}"
    chunks = [update.update for update in client.updates[before:] if update.update.kind == "agent_message_chunk"]
    return "".join(chunk.text for chunk in chunks)


async def test_a_proxy_of_litellm(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("here\n", "utf-8")
    replies = (
        *(call("read_file", path="a.txt"), say("It says here.")),
        *(fails("context"), say("a summary"), say("shorter")),
        Reply(parts=(Gate(), *say("too late").parts)),
        say("after the stop"),
    )
    async with serve(*replies) as upstream, litellm(tmp_path, upstream) as url:
        environ: dict[str, Any] = {
            "LITELLM_BASE_URL": url,
            "LITELLM_API_KEY": KEY,
            "PILOTFISH_MODEL": "litellm:scripted",
        }
        async with connect(folder, **environ) as client:
            models = (await client.request("pilotfish/model/list"))["models"]
            found = {model["id"]: model["local"] for model in models if model["provider"] == "LiteLLM"}
            assert found == {"litellm:scripted": False, "litellm:mocked": False}

            made_up = await client.new_session(model="litellm:mocked")
            assert await asked(client, made_up, "hello") == "Made up by the proxy."

            session = await client.new_session()
            assert await asked(client, session, "look") == "It says here."  # a streamed call and its result
            assert await asked(client, session, "more") == "shorter"  # ContextWindowExceededError, then a summary

            unknown = await client.new_session(model="litellm:nothing")
            said = await asked(client, unknown, "hello")
            assert said.startswith("configuration: The provider does not know the model nothing")

            running = client.begin(session, "wait")
            await upstream.received(6)
            await client.request("pilotfish/session/cancel", {"sessionId": session})
            assert (await running).stop_reason == "cancelled"
            upstream.release()
            assert await asked(client, session, "and now?") == "after the stop"

            await client.request("pilotfish/secret/set", {"provider": "litellm", "key": "sk-wrong"})
            assert (await asked(client, session, "wrong key")).startswith("authentication: ")


WEIGHTS = Path(os.environ.get("PILOTFISH_TEST_WEIGHTS", SERVERS / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"))


LLAMA = SERVERS / "llama/bin/python"
NAME = "qwen2.5-coder-1.5b"


@contextlib.asynccontextmanager
async def llama_server(folder: Path) -> AsyncGenerator[dict[str, Any]]:
    """llama.cpp's server. Gives the environment in which it is found."""
    if not WEIGHTS.exists():
        pytest.skip("there are no weights: set PILOTFISH_TEST_WEIGHTS to a GGUF file")
    if not LLAMA.exists():
        pytest.skip("llama.cpp is not installed; run `make servers`")
    port = free_port()
    script = Path(__file__).with_name("llama_server.py")
    command = [str(LLAMA), str(script), str(WEIGHTS), str(port), "8192"]
    async with running(folder, command, f"http://127.0.0.1:{port}/health"):
        yield {"LLAMACPP_BASE_URL": f"http://127.0.0.1:{port}/v1"}


async def test_a_server_of_llama_cpp_is_found_and_its_overflow_is_recognised(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with llama_server(tmp_path) as environ:
        # The window that is set is wrong, so the server sends more than fits.
        settings = {"model": f"llamacpp:{NAME}", "contextWindow": 200_000}
        async with connect(folder, settings=settings, **environ) as client:
            models = (await client.request("pilotfish/model/list"))["models"]
            (found,) = [model for model in models if model["id"] == f"llamacpp:{NAME}"]
            assert (found["available"], found["local"], found["contextWindow"]) == (True, True, 8192)
            said = await asked(client, await client.new_session(), "word " * 20_000)
            assert said.startswith("context: The conversation no longer fits"), said
            assert "exceeds the available context size (8192 tokens)" in said


async def test_a_server_of_llama_cpp_streams_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a short prompt, so that it ends soon on a slow machine."""
    async with llama_server(tmp_path) as environ:
        monkeypatch.setenv("LLAMACPP_BASE_URL", environ["LLAMACPP_BASE_URL"])
        model = resolve.resolve(f"llamacpp:{NAME}", Settings(temperature=0), {})
        began, words = time.monotonic(), list[float]()
        async with Agent(model).run_stream("Count from one to one thousand in words.") as answer:
            async for _ in answer.stream_text(delta=True, debounce_by=None):
                words.append(time.monotonic() - began)
                if len(words) == 8:
                    break
            await answer.cancel()
        pace = (len(words) - 1) / (words[-1] - words[0])
        log.info("first word after %.1f s, then %.1f chunks a second", words[0], pace)
        root = environ["LLAMACPP_BASE_URL"].removesuffix("/v1")
        async with httpx2.AsyncClient(trust_env=False) as client:
            async with asyncio.timeout(60):  # the slot is free again: the server does not write on
                while any(slot["is_processing"] for slot in (await client.get(f"{root}/slots")).json()):
                    await asyncio.sleep(0.2)
        assert (await Agent(model).run("Say yes.")).output
        await resolve.aclose()


async def test_a_real_small_model_runs_in_the_server_streams_and_stops(tmp_path: Path) -> None:
    """llama.cpp in our own process, with the weights that `PILOTFISH_TEST_WEIGHTS` names."""
    if not WEIGHTS.exists() or not is_installed():
        pytest.skip("needs `pilotfish[local]` and weights: set PILOTFISH_TEST_WEIGHTS to a GGUF file")
    async with connect(tmp_path, settings={"model": f"local:{WEIGHTS}", "contextWindow": 8192}) as client:
        session = await client.new_session()
        turn = client.begin(session, "Write a poem about the sea with one hundred lines.")
        await client.first_update("agent_message_chunk", session, timeout=500)
        began = asyncio.get_running_loop().time()
        await client.request("pilotfish/status", {})
        assert asyncio.get_running_loop().time() - began < 5  # the event loop is free while the model writes
        await client.request("pilotfish/session/cancel", {"sessionId": session})
        assert (await turn).stop_reason == "cancelled"
