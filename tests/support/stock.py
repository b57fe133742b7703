"""Unmodified pydantic-ai models that use the scripted provider, and a helper that sends one request."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import httpx2
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from tests.support.provider import Provider

from pilotfish.engine.model.wire.http import certificates

KINDS = ("chat", "responses", "anthropic", "google")
READ = ToolDefinition(
    name="read",
    parameters_json_schema={"type": "object", "properties": {"path": {"type": "string"}}},
)
PARAMETERS = ModelRequestParameters(function_tools=[READ])
PROMPT: tuple[ModelMessage, ...] = (ModelRequest(parts=[UserPromptPart("hi")]),)


@contextlib.asynccontextmanager
async def stock(kind: str, provider: Provider) -> AsyncGenerator[Model[Any]]:
    """The unmodified pydantic-ai model of this dialect, without retries of the SDK."""
    if kind == "anthropic":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        http = httpx2.AsyncClient(verify=certificates(), timeout=60)
        async with AsyncAnthropic(api_key="k", base_url=provider.url, max_retries=0, http_client=http) as client:
            yield AnthropicModel("scripted", provider=AnthropicProvider(anthropic_client=client))
        return
    if kind == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        async with httpx2.AsyncClient(verify=certificates(), timeout=60) as http:
            google = GoogleProvider(api_key="k", base_url=provider.url, http_client=http)
            yield GoogleModel("scripted", provider=google)
        return
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    http = httpx2.AsyncClient(verify=certificates(), timeout=60)
    async with AsyncOpenAI(api_key="k", base_url=provider.openai_url, max_retries=0, http_client=http) as client:
        openai = OpenAIProvider(openai_client=client)
        if kind == "chat":
            yield OpenAIChatModel("scripted", provider=openai)
        else:
            yield OpenAIResponsesModel("scripted", provider=openai)


async def ask(model: Model[Any], messages: Sequence[ModelMessage] = PROMPT) -> ModelResponse:
    """One streamed request, read to its end."""
    settings, parameters = model.prepare_request(None, PARAMETERS)
    async with model.request_stream(model.prepare_messages(list(messages)), settings, parameters) as stream:
        async for _ in stream:
            pass
        return stream.get()


async def ask_stock(kind: str, provider: Provider, messages: Sequence[ModelMessage] = PROMPT) -> ModelResponse:
    async with stock(kind, provider) as model:
        return await ask(model, messages)


def spoken(response: ModelResponse) -> list[tuple[str, str]]:
    """The parts of a response in order: text, thinking, and calls by name with their arguments."""
    out: list[tuple[str, str]] = []
    for part in response.parts:
        match part:
            case TextPart() | ThinkingPart():
                out.append((part.part_kind, part.content))
            case ToolCallPart():
                out.append((part.tool_name, part.args_as_json_str()))
            case _:
                out.append((part.part_kind, ""))
    return out
