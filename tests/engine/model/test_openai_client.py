"""A body that is sent unchanged against one that the SDK has rewritten: the provider receives the same request."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from tests.support.provider import Provider, Reply, fails, say, serve
from tests.support.stock import PARAMETERS, ask

from pilotfish.engine.model.wire.openai_client import PlainCompletions, send_chat_unchanged
from pilotfish.engine.model.wire.openai_responses import PlainResponses, send_responses_unchanged

KINDS = ["chat", "responses"]
HISTORY: tuple[ModelMessage, ...] = (
    ModelRequest(
        parts=[
            SystemPromptPart("be brief"),
            UserPromptPart(
                ["größe \U0001f41f", ImageUrl("https://x/y.png"), BinaryContent(b"\x89PNG", media_type="image/png")]
            ),
        ],
        instructions="rules",
    ),
    ModelResponse(parts=[ThinkingPart("hm"), TextPart("look"), ToolCallPart("read", '{"path": "a"}', "c1")]),
    ModelRequest(parts=[ToolReturnPart("read", {"text": "ok"}, "c1"), UserPromptPart("go")]),
)
SETTINGS = ModelSettings(
    temperature=0.5, max_tokens=9, timeout=30, extra_body={"top_k": 3}, extra_headers={"x-own": "1"}
)


def pointed(provider: Provider, kind: str, *, plain: bool) -> tuple[AsyncOpenAI, Model[Any]]:
    client = AsyncOpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
    if plain:
        send_chat_unchanged(client)
        send_responses_unchanged(client)
    openai = OpenAIProvider(openai_client=client)
    model_class = OpenAIChatModel if kind == "chat" else OpenAIResponsesModel
    return client, model_class("m", provider=openai, settings=SETTINGS)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_request_is_the_same_with_images_files_tools_and_settings(kind: str) -> None:
    async with serve(otherwise=say("ok")) as provider:
        for plain in (False, True):
            client, model = pointed(provider, kind, plain=plain)
            async with client:
                await ask(model, HISTORY)
                options, parameters = model.prepare_request(None, PARAMETERS)
                await model.request(list(HISTORY), options, parameters)
        stock, stock_whole, plain_, plain_whole = provider.requests
    assert plain_.body == stock.body
    assert plain_whole.body == stock_whole.body
    assert (stock.body["top_k"], stock.headers["x-own"]) == (3, "1")
    ignored = {"content-length", "host"}
    assert {name: value for name, value in plain_.headers.items() if name not in ignored} == {
        name: value for name, value in stock.headers.items() if name not in ignored
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "reply",
    [
        fails("rate_limit", retry_after=7),
        fails("overloaded"),
        fails("server"),
        fails("authentication"),
        fails("context"),
        fails("not_found"),
        Reply(status=502, body="<html>", content_type="text/html"),
        Reply(body="<html>", content_type="text/html"),
        Reply(wire="nonsense\r\n\r\n"),
        say("one", "two", end="drop"),
    ],
)
async def test_errors_are_the_same(kind: str, reply: Reply) -> None:
    found: list[tuple[str, str, object]] = []
    async with serve(reply, reply) as provider:
        for plain in (False, True):
            client, model = pointed(provider, kind, plain=plain)
            async with client:
                with pytest.raises(Exception) as caught:  # noqa: PT011  # compared below
                    await ask(model)
            found.append((type(caught.value).__name__, str(caught.value), getattr(caught.value, "retry_after", None)))
    assert found[0] == found[1]


async def test_a_client_keeps_its_other_resources() -> None:
    client = AsyncOpenAI(api_key="k")
    send_chat_unchanged(client)
    send_responses_unchanged(client)
    assert isinstance(client.chat.completions, PlainCompletions)
    assert isinstance(client.responses, PlainResponses)
    assert client.responses.retrieve
    assert client.models.list
    await client.close()
