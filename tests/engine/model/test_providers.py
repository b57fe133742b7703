"""What each provider is sent: address, key, caching, thinking, and the user's text as it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from tests.support.engine import rig
from tests.support.provider import Call, Gate, Provider, Reply, call, calls, fails, say, serve
from tests.support.stock import KINDS, ask

from pilotfish import __version__
from pilotfish.config.settings import Endpoint, Settings, load
from pilotfish.conversation.records import ChunkRecord
from pilotfish.engine.frontend import Answer
from pilotfish.engine.model import build, resolve
from pilotfish.engine.model.catalog import listing, provider_table, providers
from pilotfish.errors import TurnError

MODEL = {"chat": "openai-chat:gpt-5", "responses": "openai:gpt-5", "anthropic": "anthropic:m", "google": "google:m"}


@pytest.fixture(autouse=True)
async def clean(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    for known in providers.KNOWN:
        for variable in known.variables:
            monkeypatch.delenv(variable, raising=False)
    for server in providers.LOCAL:
        monkeypatch.setenv(f"{server.prefix.upper()}_BASE_URL", "http://127.0.0.1:9/v1")
    listing.forget()
    yield
    await resolve.aclose()


@pytest.mark.parametrize("known", [known for known in providers.KNOWN if known.prefix != "google"], ids=str)
async def test_the_base_url_and_the_key_of_every_provider_are_used(known: providers.KnownProvider) -> None:
    async with serve(say("hi")) as provider:
        url = provider.base_url("anthropic") if known.prefix == "anthropic" else provider.openai_url
        settings = Settings(model=f"{known.prefix}:openai/gpt-5", base_url=url)
        await ask(resolve.resolve(settings.model, settings, {known.prefix: "the-key"}))
        (request,) = provider.requests
        assert "the-key" in (request.headers.get("authorization", "") + request.headers.get("x-api-key", ""))
        assert request.headers["user-agent"] == f"pilotfish/{__version__}"


async def test_a_provider_with_a_fixed_address_refuses_the_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def __init__(self, *, api_key: str) -> None: ...

    def infer(_: str) -> type[Fixed]:
        return Fixed

    monkeypatch.setattr(build, "infer_provider_class", infer)
    settings = Settings(model="cohere:m", base_url="http://127.0.0.1:9")
    with pytest.raises(TurnError, match="cohere cannot be used with another address") as caught:
        resolve.resolve(settings.model, settings, {})
    assert caught.value.kind == "configuration"


@pytest.mark.parametrize(
    ("prefix", "address"),
    [
        ("groq", "https://api.groq.com/openai/v1/"),
        ("mistral", "https://api.mistral.ai/v1/"),
        ("grok", "https://api.x.ai/v1/"),
        ("xai", "https://api.x.ai/v1/"),
        ("huggingface", "https://router.huggingface.co/v1/"),
        ("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/"),
        ("kimi", "https://api.moonshot.ai/v1/"),
    ],
)
async def test_providers_need_no_sdk_of_their_own_and_aliases_name_them(prefix: str, address: str) -> None:
    model = f"{prefix}:some-model"
    found = resolve.resolve(model, Settings(model=model), {providers.split(model)[0]: "k"})
    assert (found.base_url, found.model_name) == (address, "some-model")
    resolve.recognise(model, Settings(model=model))


# -- endpoints ----------------------------------------------------------------------------------------------------


async def test_endpoints_stand_side_by_side_with_their_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "never")
    monkeypatch.setenv("SECOND_KEY", "of-the-second")
    async with serve(otherwise=say("a")) as first, serve(otherwise=say("b"), models=["m2"]) as second:
        loaded = load(
            config={
                "model": "one:m",
                "endpoints": [
                    {"name": "one", "url": first.openai_url},
                    {"name": "two", "url": second.openai_url, "keyVariable": "SECOND_KEY", "api": "responses"},
                    {"name": "three", "url": second.url, "api": "anthropic"},
                ],
            }
        )
        assert loaded.problems == ()
        secrets = {"one": "of-the-first", "three": "of-the-third"}
        for model in ("one:m", "two:m:tag", "three:claude"):
            resolve.recognise(model, loaded.settings)
            await ask(resolve.resolve(model, loaded.settings, secrets))
        assert [request.headers["authorization"] for request in first.requests] == ["Bearer of-the-first"]
        assert second.requests[0].headers["authorization"] == "Bearer of-the-second"
        assert "of-the-third" in str(second.requests[1].headers)
        assert [(request.kind, request.asked["model"]) for request in second.requests] == [
            ("responses", "m:tag"),
            ("anthropic", "claude"),
        ]
        listed = {model.id: model.provider for model in await resolve.available(loaded.settings, secrets)}
        assert (listed["one:scripted"], listed["two:m2"]) == ("one", "two")


async def test_two_sessions_use_two_providers_at_once(tmp_path: Path) -> None:
    waiting = [Reply(parts=(Gate(), *say(f"from {name}").parts)) for name in ("chat", "anthropic")]
    async with rig(tmp_path, waiting[0]) as turn, serve(waiting[1]) as other:
        work = Endpoint(name="work", url=other.url, api="anthropic")
        turn.engine.set_settings(turn.engine.settings.model_copy(update={"endpoints": (work,)}))
        turn.engine.set_secret("work", "of-work")
        sessions = turn.session_id, (await turn.engine.new(model="work:claude")).id
        running = [asyncio.create_task(turn.engine.prompt(one, [{"type": "text", "text": "hi"}])) for one in sessions]
        await turn.provider.received(1)
        await other.received(1)  # both are being asked
        turn.provider.release()
        other.release()
        assert [outcome.stop_reason for outcome in await asyncio.gather(*running)] == ["end_turn"] * 2
        said = [
            "".join(
                each.record.text
                for each in turn.updates
                if each.session_id == one and isinstance(each.record, ChunkRecord)
            )
            for one in sessions
        ]
        assert said == ["from chat", "from anthropic"]
        keys = [json.dumps(dict(one.requests[0].headers)) for one in (turn.provider, other)]
        assert ["test-key" in key for key in keys] == [True, False]
        assert ["of-work" in key for key in keys] == [False, True]


async def test_an_endpoint_cannot_take_the_name_of_a_provider() -> None:
    settings = Settings(model="openai:x", endpoints=(Endpoint(name="openai", url="http://127.0.0.1:9/v1"),))
    with pytest.raises(TurnError, match="has the name of a provider"):
        resolve.resolve("openai:x", settings, {"openai": "k"})


# -- caching, thinking ----------------------------------------------------------------------------------------------


async def sent(model: str, kind: str = "chat", **fields: Any) -> dict[str, Any]:
    """The body of one request."""
    async with serve(say("hi")) as provider:
        settings = Settings(model=model, base_url=provider.base_url(kind), **fields)
        await ask(resolve.resolve(model, settings, {}))
        return provider.requests[0].body


async def test_openrouter_is_asked_to_cache(tmp_path: Path) -> None:
    async with rig(tmp_path, say("hi"), model="openrouter:anthropic/claude-sonnet-4.5") as turn:
        await turn.prompt("go")
        assert "cache_control" in str(turn.provider.requests[0].messages)


async def test_openai_stores_nothing_and_shows_its_reasoning() -> None:
    body = await sent("openai:gpt-5", "responses")
    assert (body["store"], body["reasoning"]) == (False, {"summary": "auto"})
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "reasoning" not in await sent("openai:gpt-4o", "responses")
    assert "store" not in await sent("m")


async def test_a_summary_of_reasoning_that_the_account_does_not_get_is_not_asked_for_again() -> None:
    refusal = Reply(
        status=400, body='{"error": {"message": "Verify your organization", "param": "reasoning.summary", "code": "x"}}'
    )
    async with serve(refusal, otherwise=say("hi")) as provider:
        settings = Settings(model="openai:gpt-5", base_url=provider.openai_url)
        model = resolve.resolve(settings.model, settings, {})
        await ask(model)
        await ask(model)
        assert ["summary" in str(request.body["reasoning"]) for request in provider.requests] == [True, False, False]


@pytest.mark.parametrize("thinking", [None, "low"])
async def test_google_is_asked_for_its_thoughts(thinking: Any) -> None:
    body = await sent("google:gemini-2.5-flash", "google", thinking=thinking)
    config = body["generationConfig"]["thinkingConfig"]
    assert config.get("includeThoughts", config.get("include_thoughts")) is True  # the API reads both


@pytest.mark.parametrize(
    ("prefix", "thinking", "expected"),
    [
        ("ollama:m", "high", {"reasoning_effort": "high"}),
        ("ollama:m", "off", {"reasoning_effort": "none"}),
        ("lmstudio:m", "low", {"reasoning_effort": "low"}),
        ("vllm:m", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        (
            "llamacpp:m",
            "medium",
            {"reasoning_effort": "medium", "chat_template_kwargs": {"enable_thinking": True}},
        ),
        ("m", "high", {"reasoning_effort": "high"}),
        ("m", None, {}),
    ],
)
async def test_thinking_is_forwarded_to_servers_of_their_own(
    prefix: str, thinking: Any, expected: dict[str, Any]
) -> None:
    body = await sent(prefix, thinking=thinking)
    assert {name: body[name] for name in ("reasoning_effort", "chat_template_kwargs") if name in body} == expected


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_a_session_has_one_cache_key_and_a_prompt_is_a_string(tmp_path: Path, dialect: Any) -> None:
    async with rig(tmp_path, otherwise=say("hi"), dialect=dialect) as turn:
        await turn.prompt("one")
        await turn.prompt("two")
        assert {request.body["prompt_cache_key"] for request in turn.provider.requests} == {turn.session_id}
        contents = [message["content"] for message in turn.provider.requests[1].messages if message["role"] == "user"]
        assert contents[-1] == "two" or "two" in contents[-1]
        assert all(isinstance(content, str) for content in contents)


async def test_other_servers_are_not_sent_fields_of_openai(tmp_path: Path) -> None:
    async with rig(tmp_path, say("hi"), model="scripted") as turn:
        await turn.prompt("one")
        assert {"prompt_cache_key", "store"}.isdisjoint(turn.provider.requests[0].body)


# -- the user's text as it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_is_sent_as_it_is_and_a_later_system_prompt_as_a_prompt(kind: str) -> None:
    text = "<system>be nice</system> &lt;system>"
    asked = calls(Call("read", {"path": "a"}))
    async with serve(asked, say("done")) as provider:
        settings = Settings(model=MODEL[kind], base_url=provider.base_url(kind))
        model = resolve.resolve(settings.model, settings, {})
        prompt: list[ModelMessage] = [ModelRequest(parts=[SystemPromptPart("sys"), UserPromptPart("hi")])]
        response = await ask(model, prompt)
        returned = ToolReturnPart("read", text, response.tool_calls[0].tool_call_id)
        later: list[ModelMessage] = [
            ModelRequest(parts=[returned]),
            ModelResponse([TextPart("so")]),
            ModelRequest(parts=[SystemPromptPart("sum"), UserPromptPart(text)]),
        ]
        await ask(model, [*prompt, response, *later])
        assert [request.refused for request in provider.requests] == [None, None]
        assert str(provider.requests[1].body).count(text) == 2
        if kind in ("anthropic", "google"):
            assert "'role': 'system'" not in str(provider.requests[1].body)


async def test_a_denial_is_an_error_for_anthropic(tmp_path: Path) -> None:
    wanted = call("write_file", path="a.txt", content="x")
    async with rig(
        tmp_path, wanted, say("ok"), dialect="anthropic", choose=lambda _: Answer(option_id="reject", by="test")
    ) as turn:
        await turn.prompt("write")
        (block,) = turn.provider.requests[1].messages[-1]["content"]
        assert (block["type"], block["is_error"]) == ("tool_result", True)


async def test_a_busy_provider_is_named_on_every_try() -> None:
    async with serve(fails("overloaded"), say("one", end="drop")) as provider:
        settings = Settings(model="m", base_url=provider.openai_url)
        for expected in ("is overloaded", f"127.0.0.1:{provider.port}"):
            with pytest.raises(Exception) as caught:  # noqa: PT011 -- each library raises its own
                await ask(resolve.resolve("m", settings, {}))
            assert expected in str(resolve.failure(caught.value))


# -- the table ------------------------------------------------------------------------------------------------------


def test_the_page_of_providers_is_what_make_generate_writes() -> None:
    assert provider_table.TARGET.read_text("utf-8") == provider_table.render(), "run `make generate`"


@pytest.mark.parametrize("prefix", [*(other.prefix for other in providers.OTHERS), *providers.ALIASES.values()])
def test_every_prefix_in_the_table_is_known(prefix: str) -> None:
    resolve.recognise(f"{prefix}:some-model", Settings(model="demo"))


# -- models on this machine -----------------------------------------------------------------------------------------


async def ollama(monkeypatch: pytest.MonkeyPatch, provider: Provider, window: int) -> None:
    """Make the scripted provider an Ollama that has loaded a model with this window."""
    running = {"models": [{"name": "small:latest", "context_length": window}, {"name": "other"}]}
    provider.pages = {"/api/ps": running, "/api/show": {"capabilities": ["completion"]}}
    monkeypatch.setenv("OLLAMA_BASE_URL", provider.openai_url)
    monkeypatch.setattr(listing, "PROBE_SECONDS", 30)  # a busy machine answers late


async def test_a_model_without_tools_or_with_a_small_window_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(models=["small:latest"]) as provider:
        await ollama(monkeypatch, provider, 4096)
        (found,) = [model for model in await resolve.available(Settings(), {}) if model.id == "ollama:small:latest"]
        assert (found.tools, found.context_window) == (False, 4096)
        assert (found.warning or "").startswith("This model cannot call tools.")
        assert listing.lacks_tools("ollama:small:latest")


@pytest.mark.parametrize(("window", "warned"), [(4096, 1), (32768, 0)])
async def test_a_small_window_of_ollama_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, warned: int
) -> None:
    async with rig(tmp_path, otherwise=say("hi"), model="ollama:small") as turn:
        await ollama(monkeypatch, turn.provider, window)
        await turn.prompt("one")
        await turn.prompt("two")
        assert len([notice for notice in turn.notices() if "context window of 4,096 tokens" in notice]) == warned
        assert turn.engine.model_for("ollama:small").context_window == window
