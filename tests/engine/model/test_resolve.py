"""Model strings to models, what is available, and what a failure is called."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_ai import exceptions as library
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.tools import ToolDefinition
from tests.support.engine import rig
from tests.support.provider import Call, Pause, Provider, Raw, Refusal, Reply, Text, calls, fails, say, serve
from tests.support.stock import KINDS, PROMPT, ask, spoken, stock

from pilotfish.config.settings import Settings
from pilotfish.engine.model import resolve
from pilotfish.engine.model.catalog import listing, providers
from pilotfish.engine.model.failures.errors import redact
from pilotfish.engine.model.guide.demo import DemoModel
from pilotfish.engine.model.wire.http import FIRST_BYTE_FACTOR, ResponseBody, create_client
from pilotfish.errors import FailureKind, TurnError

KEY = "sk-very-secret-0123456789"
MODEL = {"chat": "openai-chat:m", "responses": "openai:m", "anthropic": "anthropic:m", "google": "google:m"}


@pytest.fixture(autouse=True)
async def clean(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Remove keys and local servers from the environment, and close all models at the end."""
    for known in providers.KNOWN:
        for variable in known.variables:
            monkeypatch.delenv(variable, raising=False)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for server in providers.LOCAL:
        monkeypatch.setenv(f"{server.prefix.upper()}_BASE_URL", "http://127.0.0.1:9/v1")
    listing.forget()
    yield
    await resolve.aclose()


def pointed(kind: str, provider: Provider, **fields: Any) -> Model[Any]:
    """A model of this dialect that sends requests to the scripted provider."""
    set_ = Settings(model=MODEL[kind], base_url=provider.base_url(kind), **fields)
    return resolve.resolve(set_.model, set_, {"openai": KEY, "anthropic": KEY, "google": KEY})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_whole_round_goes_through_every_dialect(kind: str) -> None:
    first = calls(Call("read", {"path": "a"}), Call("read", {"path": "b"}), text="look", thoughts=("hm",))
    async with serve(first, say("done")) as provider:
        model = pointed(kind, provider)
        response = await ask(model)
        returns = [ToolReturnPart(part.tool_name, "ok", part.tool_call_id) for part in response.tool_calls]
        final = await ask(model, [*PROMPT, response, ModelRequest(parts=returns)])
        assert [request.refused for request in provider.requests] == [None, None]
        assert KEY in str(provider.requests[0].headers)
    assert spoken(final) == [("text", "done")]
    assert not resolve.broke_off(final)


async def test_a_model_name_without_prefix_uses_the_base_url_and_no_openai_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with serve(otherwise=say("hi")) as provider:
        settings = Settings(model="llama", base_url=provider.openai_url)
        assert spoken(await ask(resolve.resolve("llama", settings, {}))) == [("text", "hi")]
        await ask(resolve.resolve("llama", settings, {"openai-compatible": "other"}))
        assert [request.headers["authorization"] for request in provider.requests] == [
            "Bearer api-key-not-set",
            "Bearer other",
        ]
        assert [request.body["model"] for request in provider.requests] == ["llama", "llama"]


async def test_the_key_of_one_provider_is_never_sent_to_the_base_url_of_another() -> None:
    settings = Settings(model="openai-chat:m", base_url="http://127.0.0.1:9/v1")
    model = resolve.resolve("anthropic:claude-sonnet-5-5", settings, {"anthropic": KEY})
    assert model.base_url == "https://api.anthropic.com"
    for own in ("anthropic:claude-sonnet-5-5", "ollama:llama"):
        settings = Settings(model=own, base_url="http://127.0.0.1:9/v1")
        model = resolve.resolve("openai-chat:gpt-5", settings, {"openai": KEY})
        assert model.base_url == "https://api.openai.com/v1/"


@pytest.mark.parametrize("prefix", ["ollama", "lmstudio", "llamacpp", "vllm"])
async def test_local_servers_need_no_key(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(say("hi")) as provider:
        monkeypatch.setenv(f"{prefix.upper()}_BASE_URL", provider.openai_url)
        model = resolve.resolve(f"{prefix}:llama", Settings(model=f"{prefix}:llama"), {})
        assert spoken(await ask(model)) == [("text", "hi")]


async def test_local_servers_default_to_their_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for server in providers.LOCAL:
        monkeypatch.delenv(f"{server.prefix.upper()}_BASE_URL")
        model = resolve.resolve(f"{server.prefix}:m", Settings(model=f"{server.prefix}:m"), {})
        assert (model.base_url or "").rstrip("/") == server.base_url


async def test_a_key_from_the_client_overrides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    async with serve(otherwise=say("hi")) as provider:
        settings = Settings(model="openai-chat:m", base_url=provider.openai_url)
        await ask(resolve.resolve(settings.model, settings, {}))
        await ask(resolve.resolve(settings.model, settings, {"openai": "from-client"}))
        sent = [request.headers["authorization"] for request in provider.requests]
    assert sent == ["Bearer from-environment", "Bearer from-client"]


@pytest.mark.parametrize("kind", KINDS)
async def test_no_key_is_in_any_repr(kind: str) -> None:
    async with serve() as provider:
        model = pointed(kind, provider, fallback_model="demo")
        assert KEY not in repr(model) + repr(vars(model)) + str(model)
        assert KEY not in repr(resolve._CLIENTS[asyncio.get_running_loop()].models)


async def test_the_same_arguments_give_the_same_model() -> None:
    settings = Settings(model="openai-chat:m")
    first = resolve.resolve("openai-chat:m", settings, {"openai": KEY})
    assert resolve.resolve("openai-chat:m", Settings(model="openai-chat:m"), {"openai": KEY}) is first
    assert resolve.resolve("openai-chat:m", settings, {"openai": "another"}) is not first
    assert (
        resolve.resolve("openai-chat:m", settings.model_copy(update={"temperature": 0.1}), {"openai": KEY}) is not first
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_schema_is_transformed_once_and_gives_the_same_request(kind: str) -> None:
    schema = {"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    parameters = ModelRequestParameters(function_tools=[ToolDefinition(name="t", parameters_json_schema=schema)])
    async with serve() as provider, stock(kind, provider) as original:
        model = pointed(kind, provider)
        first, second = (model.prepare_request(None, parameters)[1].function_tools[0] for _ in range(2))
        assert first == original.prepare_request(None, parameters)[1].function_tools[0]
    assert first.parameters_json_schema is second.parameters_json_schema


async def test_the_demo_needs_no_key() -> None:
    assert isinstance(resolve.resolve("demo", Settings(), {}), DemoModel)


@pytest.mark.parametrize(
    ("model", "message", "remedy", "kind"),
    [
        (
            "gpt-5",
            "The model gpt-5 names no provider, and baseUrl is not set.",
            "Did you mean openai:gpt-5?",
            "configuration",
        ),
        ("nope:x", "The model nope:… is not known.", "A model is written provider:name", "configuration"),
        ("ollama:", "The model ollama: is not known.", "A model is written provider:name", "configuration"),
        (
            "openai-compatible:x",
            "The model openai-compatible:x is one of a server whose address is not set.",
            "Set baseUrl (in the environment PILOTFISH_BASE_URL)",
            "configuration",
        ),
        ("openai:gpt-5", "No API key for OpenAI.", "Set OPENAI_API_KEY in the environment", "authentication"),
        ("anthropic:x", "No API key for Anthropic.", "Set ANTHROPIC_API_KEY in the environment", "authentication"),
        ("groq:x", "No API key for Groq.", "Set GROQ_API_KEY in the environment", "authentication"),
        ("cohere:x", "The model cohere:x needs a package that is not installed: cohere.", "pip inst", "configuration"),
        ("azure:x", "The provider azure is not configured.", "AZURE_OPENAI_ENDPOINT", "configuration"),
    ],
)
async def test_a_missing_setting_is_reported_with_a_remedy(
    model: str, message: str, remedy: str, kind: FailureKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(TurnError) as caught:
        resolve.resolve(model, Settings(model=model), {})
    assert str(caught.value) == message
    assert remedy in caught.value.remedy
    assert caught.value.kind == kind


async def test_an_invalid_base_url_is_reported_without_its_password() -> None:
    with pytest.raises(TurnError, match=r"baseUrl is not an address: ftp://host\.$") as caught:
        resolve.resolve("m", Settings(model="m", base_url="ftp://me:pass@host"), {})
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "thinking", "sent"),
    [
        ("openai:gpt-5", "high", ("reasoning", {"effort": "high", "summary": "auto"})),
        ("openai-chat:gpt-5", "low", ("reasoning_effort", "low")),
        ("anthropic:claude-sonnet-5-5", "medium", ("output_config", {"effort": "medium"})),
    ],
)
async def test_thinking_and_temperature_are_sent(kind: str, thinking: Any, sent: tuple[str, Any]) -> None:
    async with serve(say("hi")) as provider:
        url = provider.url if kind.startswith("anthropic") else provider.openai_url
        settings = Settings(model=kind, base_url=url, thinking=thinking)
        await ask(resolve.resolve(kind, settings, {}))
        assert provider.requests[0].body[sent[0]] == sent[1]


async def test_temperature_is_sent() -> None:
    async with serve(say("hi")) as provider:
        await ask(pointed("chat", provider, temperature=0.25))
        assert provider.requests[0].body["temperature"] == 0.25


@pytest.mark.parametrize(("thinking", "sent"), [("low", None), ("off", 0.25), (None, 0.25)])
async def test_temperature_is_not_sent_to_anthropic_with_thinking(thinking: Any, sent: float | None) -> None:
    async with serve(say("hi")) as provider:
        await ask(pointed("anthropic", provider, temperature=0.25, thinking=thinking))
        assert provider.requests[0].body.get("temperature") == sent
        assert provider.requests[0].refused is None


async def test_anthropic_caches_the_tools_the_instructions_and_the_last_two_requests(tmp_path: Path) -> None:
    many = calls(*(Call("grep", {"pattern": f"p{number}"}) for number in range(25)))
    async with rig(tmp_path, many, many, say("ok"), say("again"), dialect="anthropic") as turn:
        await turn.prompt("one")
        await turn.prompt("two")
        requests = turn.provider.requests
        assert [request.refused for request in requests] == [None] * 4
    assert [marked(request.body) for request in requests] == [
        ["tools", "system", "0"],
        ["tools", "system", "0", "2"],
        ["tools", "system", "2", "4"],
        ["tools", "system", "4", "6"],
    ]


def marked(body: Mapping[str, Any]) -> list[str]:
    """What ends with a cache breakpoint: `tools`, `system`, or a message by its index."""
    places = [(name, body[name]) for name in ("tools", "system")]
    places += [(str(index), message["content"]) for index, message in enumerate(body["messages"])]
    marks = {name: ["cache_control" in block for block in blocks] for name, blocks in places if blocks is not None}
    assert all(not any(each[:-1]) for each in marks.values())
    assert "cache_control" not in body
    return [name for name, each in marks.items() if each[-1]]


async def test_the_sdks_do_not_retry() -> None:
    for kind in KINDS:
        async with serve(otherwise=fails("server")) as provider:
            with pytest.raises(library.ModelServerError):
                await ask(pointed(kind, provider))
            assert len(provider.requests) == 1


@pytest.mark.parametrize("error", ["overloaded", "rate_limit", "server"])
async def test_the_fallback_answers_if_the_first_model_is_overloaded(error: str) -> None:
    async with serve(fails(error), say("from the second")) as provider:
        model = pointed("chat", provider, fallback_model="openai-chat:second")
        assert isinstance(model, FallbackModel)
        assert spoken(await ask(model)) == [("text", "from the second")]
        assert [request.body["model"] for request in provider.requests] == ["m", "second"]


async def test_the_fallback_is_not_used_for_a_refused_request() -> None:
    async with serve(fails("authentication"), say("no")) as provider:
        with pytest.raises(library.ModelAuthenticationError):
            await ask(pointed("chat", provider, fallback_model="openai-chat:second"))
        assert len(provider.requests) == 1


async def test_if_both_models_fail_the_first_error_is_reported() -> None:
    async with serve(fails("overloaded"), fails("server")) as provider:
        with pytest.raises(library.FallbackExceptionGroup) as caught:
            await ask(pointed("chat", provider, fallback_model="openai-chat:second"))
    assert resolve.failure(caught.value).kind == "overloaded"
    assert "is overloaded" in str(resolve.failure(caught.value))


@pytest.mark.parametrize(
    ("model", "absent"),
    [
        ("demo", ["openai", "anthropic", "google.genai"]),
        ("openai-chat:m", ["anthropic", "google.genai"]),
        ("anthropic:m", ["openai", "google.genai"]),
    ],
)
def test_only_the_configured_provider_is_imported(model: str, absent: list[str]) -> None:
    code = f"""
import asyncio, sys
from pilotfish.engine.model import resolve as models
from pilotfish.engine.model.catalog.listing import Price
from pilotfish.config.settings import Settings
async def main():
    models.resolve({model!r}, Settings(model={model!r}), {{"openai": "k", "anthropic": "k"}})
    await models.available(Settings(), {{"openai": "k", "anthropic": "k", "google": "k"}})
    await models.aclose()
asyncio.run(main())
print([name for name in {absent!r} if name in sys.modules])
"""
    assert python(code) == "[]\n"


@pytest.mark.parametrize(
    ("prelude", "model", "message"),
    [
        ("sys.meta_path.insert(0, Hidden())", "google:m", "a package that is not installed: google-genai."),
        ("del openai.RequestOptions", "openai-chat:m", "openai {version} cannot import name 'RequestOptions'"),
        (
            "sys.modules['anthropic.types.beta'] = None",
            "anthropic:m",
            "anthropic {version} No module named 'anthropic.types.beta",
        ),
        ("sys.modules['google.genai.client'] = None", "google:m", "google-genai {version} import of google.genai"),
        ("sys.meta_path.insert(0, Hidden())", "anthropic:m", "a package that is not installed: anthropic."),
    ],
)
def test_a_package_that_cannot_be_imported_is_named_with_the_reason(prelude: str, model: str, message: str) -> None:
    code = f"""
import asyncio, importlib.metadata, sys
import openai
from pilotfish.engine.model import resolve as models
from pilotfish.errors import TurnError
from pilotfish.config.settings import Settings
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "anthropic" or name.startswith("google.genai"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
if "Hidden" in {prelude!r}:
    importlib.metadata.packages_distributions = lambda: {{}}
{prelude}
async def main():
    try:
        models.resolve({model!r}, Settings(model={model!r}), {{"openai": "k", "anthropic": "k", "google": "k"}})
    except TurnError as error:
        print(error.kind, error, error.remedy)
asyncio.run(main())
"""
    package, _, reason = message.partition(" {version} ")
    wanted = message
    if reason:
        wanted = f"the package {package}, and the installed version {version(package)} could not be loaded: {reason}"
    said = python(code)
    assert said.startswith(f"configuration The model {model} needs {wanted}")
    assert "pip install" in said


def test_a_turn_needs_none_of_the_optional_sdks(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {"x": {"command": "true"}}}')
    code = f"""
import asyncio, sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("anthropic", "mcp", "fastmcp") or name.startswith("google.genai"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
from pathlib import Path
from pilotfish.config.settings import Settings
from pilotfish.engine.engine import Engine
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.editor import NoEditor
from tests.support.frontends import SilentFrontend
from tests.support.provider import say, serve
async def main():
    root = Path({str(tmp_path)!r})
    async with serve(say("hi")) as provider:
        settings = Settings(model="m", base_url=provider.openai_url, mcp_config={str(config)!r})
        engine = Engine(settings, Ledger.open(root / "store"), SilentFrontend(NoEditor()), roots=[root], trusted=True)
        session = await engine.new()
        outcome = await engine.prompt(session.id, [{{"type": "text", "text": "go"}}])
        print(outcome.stop_reason, engine.mcp.found["mcp.json"].reason)
        await engine.aclose()
asyncio.run(main())
"""
    said = python(code)
    assert said.startswith("end_turn needs a package that cannot be loaded")
    assert "pip install 'pilotfish[mcp]'" in said


def python(code: str) -> str:
    """The output of a new interpreter."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        text=True,
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin", "PYDANTIC_AI_NO_BANNER": "1"},
        cwd=Path(__file__).parents[3],
    )
    return ran.stdout


# -- what is available -------------------------------------------------------------------------------------------


async def listed(settings: Settings, secrets: Mapping[str, str]) -> dict[str, resolve.Available]:
    return {model.id: model for model in await resolve.available(settings, secrets)}


async def test_the_demo_is_listed_first_and_missing_keys_are_explained() -> None:
    found = await resolve.available(Settings(), {"anthropic": KEY})
    assert found[0] == resolve.Available(
        id="demo",
        label="Guide (scripted, no model connected)",
        provider="demo",
        available=True,
        context_window=128_000,
        images=False,
        local=True,
    )
    mine = [model for model in found if model.provider == "Anthropic"]
    others = [model for model in found if model.provider == "OpenAI"]
    assert all(model.available and model.reason is None for model in mine)
    assert {model.reason for model in others} == {
        "No API key. Set OPENAI_API_KEY in the environment, or connect the provider in your editor if it offers that."
    }
    assert found.index(mine[-1]) < found.index(others[0])
    assert KEY not in repr(found)


@pytest.mark.parametrize("prefix", ["openai", "openai-chat", "openai-responses"])
async def test_the_configured_model_needs_the_key_of_its_provider(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    name = f"{prefix}:of-my-own"
    assert not (await listed(Settings(model=name), {}))[name].available
    assert (await listed(Settings(model=name), {"openai": KEY}))[name].available


async def test_newest_models_are_listed_first_and_unsuitable_ones_are_not() -> None:
    names = [
        model.label for model in await resolve.available(Settings(), {"openai": KEY}) if model.provider == "OpenAI"
    ]
    assert names[0].startswith("gpt-6.1")
    assert not [name for name in names if "audio" in name or "2025" in name or "search" in name]


async def test_a_known_price_is_listed() -> None:
    found = await listed(Settings(), {"openai": KEY})
    assert found["openai:gpt-5.5"].price == listing.Price(input=5.0, output=30.0)
    assert (found["demo"].price, found["openai:gpt-5.5"].context_window) == (None, 1_000_000)
    elsewhere = await listed(Settings(model="openai:gpt-x", base_url="http://127.0.0.1:9"), {"openai": KEY})
    assert elsewhere["openai:gpt-x"].price is None


@pytest.mark.parametrize(
    ("prefix", "entry", "window"),
    [
        ("vllm", {"id": "qwen", "max_model_len": 4096}, 4096),
        ("llamacpp", {"id": "qwen", "meta": {"n_ctx_train": 8192}}, 8192),
        ("ollama", {"id": "qwen"}, None),
    ],
)
async def test_servers_on_loopback_are_found_with_their_windows(
    prefix: str, entry: dict[str, Any], window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(models=(entry, {"id": "nomic-embed-text"})) as provider:
        monkeypatch.setenv(f"{prefix.upper()}_BASE_URL", provider.openai_url)
        found = await listed(Settings(), {})
        model = found[f"{prefix}:qwen"]
        assert (model.available, model.context_window) == (True, window)
        assert f"{prefix}:nomic-embed-text" not in found
        if window is not None:
            assert resolve.resolve(model.id, Settings(model=model.id), {}).context_window == window


@asynccontextmanager
async def answering(answers: Mapping[str, object]) -> AsyncGenerator[str]:
    """The address of a server that serves only these paths."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        asked = head.split()[1] + (await reader.readexactly(int(length[1]))).decode() if length else head.split()[1]
        found = answers.get(asked.replace(" ", ""))
        body = json.dumps(found if found is not None else {"error": "not found"}).encode()
        status = b"200 OK" if found is not None else b"404 Not Found"
        writer.write(b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("prefix", "beside", "told"),
    [
        ("ollama", {'/api/show{"model":"seer"}': {"capabilities": ["completion", "vision"]}}, (None, True)),
        ("ollama", {'/api/show{"model":"seer"}': {"capabilities": ["completion", "tools"]}}, (None, False)),
        ("ollama", {'/api/show{"model":"seer"}': {"license": "MIT"}}, (None, None)),
        ("ollama", {'/api/show{"model":"seer"}': ["?"]}, (None, None)),
        ("lmstudio", {"/api/v0/models": {"data": [{"id": "seer", "type": "vlm", "max_context_length": 9}]}}, (9, True)),
        ("lmstudio", {"/api/v0/models": {"data": [{"id": "seer", "type": "llm"}]}}, (None, False)),
        ("lmstudio", {"/api/v0/models": {"data": [{"id": "seer"}]}}, (None, None)),
        ("llamacpp", {"/props": {"modalities": {"vision": True}}}, (None, True)),
        (
            "llamacpp",
            {"/props": {"modalities": {"vision": False}, "default_generation_settings": {"n_ctx": 7}}},
            (7, False),
        ),
        ("llamacpp", {"/props": {"default_generation_settings": {"n_ctx": 7}}}, (7, None)),
        ("vllm", {}, (None, None)),
    ],
)
async def test_image_support_is_known_only_from_the_server(
    prefix: str, beside: dict[str, object], told: tuple[int | None, bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering({"/v1/models": {"data": [{"id": "seer"}]}, **beside}) as address:
        monkeypatch.setenv(f"{prefix.upper()}_BASE_URL", address)
        model = (await listed(Settings(), {}))[f"{prefix}:seer"]
    assert (model.context_window, model.images) == told


@pytest.mark.parametrize(
    ("entry", "images"),
    [
        ({"architecture": {"input_modalities": ["text", "image"]}}, True),
        ({"architecture": {"input_modalities": ["text"]}}, False),
        ({"architecture": {"modality": "text->text"}}, None),
        ({"architecture": None}, None),
    ],
)
async def test_image_support_is_read_from_the_list_at_the_base_url(
    entry: dict[str, object], images: bool | None
) -> None:
    async with answering({"/v1/models": {"data": [{"id": "seer", **entry}]}}) as address:
        found = await listed(Settings(model="seer", base_url=address), {})
    assert found["seer"].images is images


async def test_image_support_of_hosted_models_is_unknown() -> None:
    found = await resolve.available(Settings(), {"openai": KEY, "anthropic": KEY})
    assert {model.images for model in found if model.provider in ("OpenAI", "Anthropic")} == {None}


async def test_models_at_the_base_url_are_listed_with_its_key() -> None:
    async with serve(models=("foo",)) as provider:
        settings = Settings(model="openai-chat:bar", base_url=provider.openai_url)
        found = await listed(settings, {"openai": KEY})
    assert found["openai-chat:foo"].available
    assert found["openai-chat:bar"].available


async def test_the_list_of_local_models_is_cached() -> None:
    async with serve(models=("foo",)) as provider:
        settings = Settings(model="foo", base_url=provider.openai_url)
        first = await resolve.available(settings, {})
    assert await resolve.available(settings, {}) == first


@pytest.mark.parametrize("body", ["<html>", "{}", "[]", '{"data": 5}', '{"data": [5]}', '{"data": [{}]}'])
async def test_another_service_on_the_port_is_not_listed(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def strange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()

    async with await asyncio.start_server(strange, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("VLLM_BASE_URL", f"http://127.0.0.1:{port}/v1")
        found = await listed(Settings(), {})
    assert not [name for name in found if name.startswith("vllm:")]


async def test_a_port_that_never_answers_does_not_delay_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PROBE_SECONDS", 0.05)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        monkeypatch.setenv("OLLAMA_BASE_URL", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        found = await asyncio.wait_for(listed(Settings(), {}), 10)
    assert "demo" in found


# -- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("reply", "failure", "retryable"),
    [
        (fails("rate_limit", retry_after=7), "rate_limit", True),
        (fails("overloaded"), "overloaded", True),
        (fails("server"), "overloaded", True),
        (fails("authentication"), "authentication", False),
        (fails("permission"), "authentication", False),
        (fails("credit"), "credit", False),
        (fails("context"), "context", False),
        (fails("not_found"), "configuration", False),
        (fails("bad_request"), "bad_request", False),
        (Reply(status=413), "context", False),
        (Reply(status=408), "network", True),
        (Reply(status=418), "bad_request", False),
        (Reply(status=502, body="<html>gateway</html>", content_type="text/html"), "overloaded", True),
        (Reply(body="<html>hello</html>", content_type="text/html"), "empty", True),
        (Reply(wire="nonsense\r\n\r\n"), "network", True),
        (say("one", end="drop"), "network", True),
        (say("one", end="garbage"), "network", True),
        (say("one", end="error:overloaded"), "overloaded", True),
        (say("one", end="stall"), "stalled", True),
    ],
)
async def test_provider_errors_have_a_kind_and_a_remedy(
    kind: str, reply: Reply, failure: FailureKind, retryable: bool
) -> None:
    async with serve(reply) as provider:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # each library has its own
            await ask(pointed(kind, provider, stall_timeout=0.1 if reply.end == "stall" else 20))
    found = resolve.failure(caught.value)
    if kind == "google" and failure in ("credit", "empty"):
        # Google answers an empty account as it answers a rate limit, and its SDK cannot read a page
        failure, retryable = ("rate_limit", True) if failure == "credit" else ("network", True)
    assert (found.kind, found.retryable) == (failure, retryable)
    assert found.remedy
    assert KEY not in str(found) + found.remedy
    assert "Traceback" not in str(found)
    assert "status_code" not in str(found)
    assert "<html>" not in str(found)


@pytest.mark.parametrize(
    ("fields", "wait", "words"),
    [
        ({"retry_after": 7}, 7.0, "Try again in 7 s"),
        ({"retry_after": 0.5}, 0.5, "Try again in 1 s"),
        ({"retry_after": 300}, 300.0, "Try again in 5 min"),
        ({"message": "Rate limit reached. Please try again in 1.2s."}, 1.2, "Try again in 1 s"),
        ({"message": "Please try again in 20ms."}, 0.02, "Try again in 1 s"),
        ({}, None, "Wait a moment and try again"),
    ],
)
async def test_a_rate_limit_error_has_the_wait_time(fields: dict[str, Any], wait: float | None, words: str) -> None:
    async with serve(fails("rate_limit", **fields)) as provider:
        with pytest.raises(library.ModelRateLimitError) as caught:
            await ask(pointed("chat", provider))
    found = resolve.failure(caught.value)
    assert found.retry_after == wait
    assert found.remedy.startswith(words)


async def test_an_unreachable_server_is_a_network_error() -> None:
    settings = Settings(model="m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(library.ModelConnectionError) as caught:
        await ask(resolve.resolve("m", settings, {}))
    found = resolve.failure(caught.value)
    assert (str(found), found.kind) == ("The provider at 127.0.0.1:9 could not be reached.", "network")


@pytest.mark.parametrize("model", ["m", "openai-chat:m", "openai:m", "anthropic:m", "ollama:m"])
@pytest.mark.parametrize("address", ["localhost:9/v1", "notaurl", "http://", "https:///v1"])
async def test_an_invalid_base_url_is_reported_before_any_request(model: str, address: str) -> None:
    settings = Settings(model=model, base_url=address)
    with pytest.raises(TurnError) as caught:
        resolve.resolve(model, settings, {"openai": "k", "anthropic": "k"})
    assert (str(caught.value), caught.value.kind) == (f"baseUrl is not an address: {address}.", "configuration")


def test_a_turn_error_is_unchanged_and_a_bug_is_hidden() -> None:
    error = TurnError("x", remedy="y")
    assert resolve.failure(error) is error
    found = resolve.failure(ZeroDivisionError(f"{KEY} in /home/me"))
    assert (str(found), found.kind) == ("Something went wrong inside Pilotfish.", "internal")


def test_a_key_in_a_provider_error_is_redacted() -> None:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}. See https://me:pass@host/x."}}
    error = library.ModelHTTPError.for_category(
        library.ModelAuthenticationError, status_code=401, model_name="m", body=body
    )
    text = str(resolve.failure(error))
    assert text == ("The provider did not accept the API key: “Incorrect API key provided: [key] See https://host/x”.")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Bearer abcdefgh123", "Bearer [key]"),
        ("key=abc123456789", "key=[key]"),
        ("AIzaSyA1234567890", "[key]"),
        ("the token limit of this key is reached", "the token limit of this key is reached"),
        ("task-based models", "task-based models"),
    ],
)
def test_redaction_removes_keys_only(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_a_long_provider_message_is_truncated() -> None:
    error = library.ModelHTTPError(418, "m", {"error": {"message": "x" * 5000}})
    assert len(str(resolve.failure(error))) < 500


@pytest.mark.parametrize(
    ("fields", "broken"),
    [
        ({"finish_reason": "stop", "provider_name": "x"}, False),
        ({"provider_name": "x"}, True),
        ({"provider_name": "x", "state": "incomplete"}, True),
        ({"provider_name": "x", "state": "interrupted"}, False),
        ({}, False),
        ({"finish_reason": "stop", "provider_name": "openai"}, False),
        ({"finish_reason": "content_filter", "provider_name": "openai"}, False),
        ({"provider_name": "openai", "provider_details": {"finish_reason": "eos"}}, False),
        ({"provider_name": "openai", "provider_details": {"finish_reason": "in_progress"}}, True),
    ],
)
def test_a_response_without_a_finish_reason_is_incomplete(fields: dict[str, Any], broken: bool) -> None:
    assert resolve.broke_off(ModelResponse(parts=[TextPart("x")], **fields)) is broken


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_is_a_complete_response(kind: str) -> None:
    async with serve(Reply(parts=(Refusal("I will not."),))) as provider:
        assert not resolve.broke_off(await ask(pointed(kind, provider)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "responses"])
async def test_an_unknown_finish_reason_is_a_complete_response(kind: str) -> None:
    word = "OTHER" if kind == "google" else "eos_token"  # Google's SDK warns of a word that is not Google's
    async with serve(say("one", finish=word)) as provider:
        assert not resolve.broke_off(await ask(pointed(kind, provider)))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_truncated_stream_is_an_error(kind: str) -> None:
    async with serve(say("one", end="cut")) as provider:
        answer = (await asyncio.gather(ask(pointed(kind, provider)), return_exceptions=True))[0]
    assert isinstance(answer, library.ModelConnectionError if kind == "chat" else ModelResponse)
    assert resolve.failure(answer).retryable if isinstance(answer, Exception) else resolve.broke_off(answer)


# -- the watchdog ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_but_active_stream_does_not_time_out(kind: str) -> None:
    raw = {"anthropic": 'event: ping\ndata: {"type": "ping"}\n\n', "google": "\n\n"}.get(kind, ": ping\n\n")
    parts = (Text("a"), Pause(0.2), Text("b"), Pause(0.2), Raw(raw), Pause(0.2), Text("c"), Pause(0.2), Text("d"))
    async with serve(Reply(parts=parts)) as provider:
        model = pointed(kind, provider, stall_timeout=0.7)
        assert spoken(await ask(model)) == [("text", "abcd")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stall_before_the_first_byte_times_out(kind: str) -> None:
    async with serve(say("late", wait=30)) as provider:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # each library has its own
            await ask(pointed(kind, provider, stall_timeout=0.05))
        await asyncio.wait_for(provider.requests[0].disconnected.wait(), 5)
    assert resolve.failure(caught.value).kind == "stalled"


class Body(httpx2.AsyncByteStream):
    def __init__(self, *waits: float) -> None:
        self.waits = waits
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for wait in self.waits:
            await asyncio.sleep(wait)
            yield b"x"

    async def aclose(self) -> None:
        self.closed = True


async def test_the_first_byte_may_take_longer_than_the_others() -> None:
    chunks = aiter(ResponseBody(Body(0.05 * (FIRST_BYTE_FACTOR - 2), 0.01, 30), 0.05, None))
    assert [await anext(chunks), await anext(chunks)] == [b"x", b"x"]
    with pytest.raises(httpx2.ReadTimeout, match=r"no byte for 0\.05 seconds"):
        await anext(chunks)


async def test_time_spent_by_the_reader_does_not_count_as_a_stall() -> None:
    got = 0
    async for block in ResponseBody(Body(0, 0.04, 0.04), 0.03, None):
        await asyncio.sleep(0.06)
        got += len(block)
    assert got == 3


async def test_a_cancel_from_outside_stays_a_cancel() -> None:
    async def read() -> None:
        async for _ in ResponseBody(Body(30), 30, None):
            pass

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_bytes_that_arrived_while_suspended_prevent_a_timeout() -> None:
    body = ResponseBody(Body(0.05), 0.1 / FIRST_BYTE_FACTOR, None)
    asyncio.get_running_loop().call_later(0.01, time.sleep, 0.2)
    assert [block async for block in body] == [b"x"]


async def test_aclose_closes_connections_and_proxies_are_used() -> None:
    body = Body()
    await ResponseBody(body, 1, None).aclose()
    assert body.closed
    client = create_client(1)
    assert client.trust_env
    await client.aclose()


# -- another model in the same conversation ------------------------------------------------------------------------


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
async def test_a_conversation_can_switch_to_another_provider_and_back(first: str, second: str) -> None:
    """A thought signature is valid for its own provider only; the scripted providers refuse others."""
    reply = calls(Call("read", {"path": "a"}), Call("read", {"path": "b"}), text="look", thoughts=("hm",))
    async with serve(otherwise=reply) as one, serve(otherwise=reply) as two:
        if first == second:
            two.memory = one.memory  # one service, two addresses
        history: list[ModelMessage] = list(PROMPT)
        for kind, provider in ((first, one), (second, two), (first, one)):
            response = await ask(pointed(kind, provider, thinking="high"), history)
            returns = [ToolReturnPart(part.tool_name, "ok", part.tool_call_id) for part in response.tool_calls]
            history += [response, ModelRequest(parts=returns)]
        assert [request.refused for request in (*one.requests, *two.requests)] == [None] * 3
