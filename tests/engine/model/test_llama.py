"""Models in this process: a stand-in for llama.cpp's package answers, so that no weights are needed.

`tests/e2e/test_servers.py` runs the real package with real weights.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import PartDeltaEvent, TextPartDelta
from tests.support.waiting import until

from pilotfish.config.settings import Settings
from pilotfish.engine.model import resolve
from pilotfish.engine.model.catalog.listing import available
from pilotfish.engine.model.failures.errors import failure
from pilotfish.engine.model.local import weights
from pilotfish.errors import TurnError

Callback = Callable[[dict[str, Any]], bool]


class StandIn:
    """What a test scripts, and what llama.cpp was given."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.stopped = threading.Event()
        self.answers: Callable[[dict[str, Any], Callback], None] = self.say

    def say(self, body: dict[str, Any], callback: Callback) -> None:
        """Three tokens after two batches of the prompt."""
        if not body.get("stream"):
            message = {"role": "assistant", "content": "one two three"}
            callback(_chunk("chat.completion", message=message, finish_reason="stop"))
            return
        for done in (64, 128):
            callback({**_chunk(delta={"role": "assistant"}), "prompt_progress": {"processed": done, "total": 128}})
        for word in ("one ", "two ", "three"):
            callback(_chunk(delta={"content": word}))
        callback(_chunk(delta={}, finish_reason="stop"))

    def forever(self, body: dict[str, Any], callback: Callback) -> None:
        while not callback(_chunk(delta={"content": "and "})):
            threading.Event().wait(0.005)
        self.stopped.set()

    def reading(self, body: dict[str, Any], callback: Callback) -> None:
        """A prompt that takes long to read."""
        while not callback({**_chunk(delta={}), "prompt_progress": {"processed": 64, "total": 10_000}}):
            threading.Event().wait(0.005)
        self.stopped.set()


def _chunk(kind: str = "chat.completion.chunk", finish_reason: str | None = None, **choice: Any) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": finish_reason, **choice}]
    usage = {"prompt_tokens": 128, "completion_tokens": 3, "total_tokens": 131}
    return {"id": "c", "object": kind, "created": 1, "model": "m", "choices": choices, "usage": usage}


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()

    class Server:
        def __init__(self, params: Any) -> None:
            stand_in.loaded.append(params.model.path)
            if "broken" in params.model.path:
                raise RuntimeError("bad magic")

        def handle_chat_completions(self, body: dict[str, Any], callback: Callback) -> None:
            stand_in.bodies.append(body)
            stand_in.answers(body, callback)

    def params() -> SimpleNamespace:
        threads = (SimpleNamespace(), SimpleNamespace())
        return SimpleNamespace(model=SimpleNamespace(), cpuparams=threads[0], cpuparams_batch=threads[1])

    module: Any = ModuleType(weights.PACKAGE)
    module.Server, module.CommonParams = Server, params
    monkeypatch.setitem(sys.modules, weights.PACKAGE, module)
    monkeypatch.setattr(weights, "is_installed", lambda: True)
    return stand_in


@asynccontextmanager
async def agent_of(file: Path) -> AsyncGenerator[Agent[None, str]]:
    file.touch()
    try:
        yield Agent(resolve.resolve(f"local:{file}", Settings(), {}))
    finally:
        await resolve.aclose()


async def streamed(agent: Agent[None, str], started: Callable[[], None] = lambda: None) -> str:
    text = ""
    async with agent.run_stream_events("hi") as events:
        async for event in events:
            if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                text += event.delta.content_delta
                started()
    return text


async def test_an_answer_is_streamed_and_the_model_is_loaded_once(llama: StandIn, tmp_path: Path) -> None:
    async with agent_of(tmp_path / "m.gguf") as agent:
        assert (await agent.run("hi")).output == "one two three"
        assert "one two three".endswith(await streamed(agent))
    assert llama.loaded == [str(tmp_path / "m.gguf")]
    assert [body.get("return_progress") for body in llama.bodies] == [None, True]


@pytest.mark.parametrize("way", ["forever", "reading"])
async def test_a_cancelled_request_stops_the_model(llama: StandIn, tmp_path: Path, way: str) -> None:
    llama.answers = getattr(llama, way)
    async with agent_of(tmp_path / "m.gguf") as agent:
        asking = asyncio.ensure_future(streamed(agent))
        await until(lambda: bool(llama.bodies))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(llama.stopped.is_set)


async def test_an_overflow_of_the_context_is_recognised(llama: StandIn, tmp_path: Path) -> None:
    message = "request (9030 tokens) exceeds the available context size (8192 tokens), try increasing it"
    llama.answers = lambda _, callback: _ignore(callback({"error": {"code": 400, "message": message}}))
    async with agent_of(tmp_path / "m.gguf") as agent:
        with pytest.raises(Exception, match="exceeds the available context") as caught:
            await streamed(agent)
    assert failure(caught.value).kind == "context"


def _ignore(_: object) -> None:
    """for callbacks in a lambda"""


async def test_a_file_that_cannot_be_loaded_is_said(llama: StandIn, tmp_path: Path) -> None:
    async with agent_of(tmp_path / "broken.gguf") as agent:
        with pytest.raises(Exception, match=r"llama\.cpp cannot load broken\.gguf: bad magic"):
            await streamed(agent)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("local:/no/such/file.gguf", "is not there: /no/such/file.gguf"),
        ("local:gpt-9", "is not known"),
        ("local:qwen2.5-coder-1.5b", "is not there"),
    ],
)
async def test_a_model_without_its_file_says_what_to_do(
    llama: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, message: str
) -> None:
    monkeypatch.setenv("PILOTFISH_MODELS", str(tmp_path))
    with pytest.raises(TurnError, match=message) as caught:
        resolve.resolve(model, Settings(), {})
    assert caught.value.kind == "configuration"


@pytest.mark.parametrize(
    ("installed", "there", "expected"),
    [
        (True, True, (True, None)),
        (True, False, (False, weights.KNOWN[0].size)),
        (False, True, (False, None)),
    ],
)
async def test_the_list_of_models_says_what_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: bool,
    there: bool,
    expected: tuple[bool, int | None],
) -> None:
    monkeypatch.setenv("PILOTFISH_MODELS", str(tmp_path))
    monkeypatch.setattr(weights, "is_installed", lambda: installed)
    if there:
        weights.KNOWN[0].path.touch()
    listed = await available(Settings(), {})
    model = next(each for each in listed if each.id == "local:qwen2.5-coder-1.5b")
    assert (model.available, model.download_bytes) == expected
    assert (model.available, model.reason is None) in ((True, True), (False, False))
    assert "1.1 GB" in model.label
    assert "Nothing leaves this machine" in (model.warning or "")
