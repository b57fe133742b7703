"""Wire forms that are kept are the ones that would be made."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any, cast

import httpx2
import pytest
from openai import AsyncOpenAI
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openrouter import OpenRouterProvider
from tests.support.stock import PARAMETERS

from pilotfish.engine.http import certificates
from pilotfish.engine.lean_history import Kept, is_plain, remember


def provider() -> OpenAIProvider:
    http = httpx2.AsyncClient(verify=certificates())
    return OpenAIProvider(openai_client=AsyncOpenAI(api_key="k", base_url="http://x/v1", http_client=http))


def history() -> list[ModelMessage]:
    picture = BinaryContent(b"\x89PNG", media_type="image/png")
    return [
        ModelRequest(
            parts=[SystemPromptPart("be brief"), UserPromptPart(["hi", ImageUrl("https://x/y.png"), picture])]
        ),
        ModelResponse(parts=[ThinkingPart("hm", id="reasoning_content", provider_name="openai"), TextPart("look")]),
        ModelRequest(parts=[UserPromptPart("go")]),
        ModelResponse(parts=[ToolCallPart("read", {"path": "a"}, "c1"), ToolCallPart("read", "{}", "c2")]),
        ModelRequest(parts=[ToolReturnPart("read", "ok", "c1"), ToolReturnPart("read", [picture], "c2")]),
        ModelResponse(parts=[]),
    ]


async def wire(model: OpenAIChatModel, messages: list[ModelMessage]) -> list[Any]:
    return list(await model._map_messages(messages, PARAMETERS))


async def test_the_form_is_the_same_the_first_time_and_every_other() -> None:
    stock, lean = OpenAIChatModel("m", provider=provider()), OpenAIChatModel("m", provider=provider())
    assert remember(lean)
    messages = history()
    expected = await wire(stock, messages)
    assert [await wire(lean, messages) for _ in range(3)] == [expected] * 3


async def test_what_the_library_changes_is_not_what_is_kept() -> None:
    model = OpenAIChatModel("m", provider=provider())
    remember(model)
    messages = history()
    first = await wire(model, messages)
    expected = await wire(model, messages)
    for form in first:
        form["marked"] = True
        if isinstance(form.get("content"), list):
            form["content"][0]["marked"] = True
            form["content"].append("more")
    assert await wire(model, messages) == expected


async def test_a_replaced_part_is_noticed() -> None:
    model = OpenAIChatModel("m", provider=provider())
    remember(model)
    messages = history()
    await wire(model, messages)
    parts = cast("list[Any]", messages[2].parts)
    for number in range(10):  # each may lie where another one lay
        parts[0] = None
        parts[0] = UserPromptPart(f"stop {number}")
        assert {"role": "user", "content": f"stop {number}"} in await wire(model, messages)


def growing() -> list[ModelMessage]:
    """A conversation with plain messages, and ones that the library turns into something else."""
    back = ToolReturnPart("read", "no", "c7", outcome="retried")
    return [
        ModelRequest(parts=[UserPromptPart(["look", "here"])]),
        ModelResponse(parts=[TextPart("I look"), ToolCallPart("read", {"path": "a"}, "c1")]),
        ModelRequest(parts=[ToolReturnPart("read", "<system>text</system>", "c1"), UserPromptPart("and b")]),
        ModelResponse(parts=[ToolCallPart("read", "{", "c2"), ToolCallPart("read", {}, "c3")]),
        ModelRequest(parts=[ToolReturnPart("read", "two", "c2"), ToolReturnPart("read", "three", "c3")]),
        ModelResponse(parts=[ToolCallPart("read", {}, "c4"), ToolCallPart("read", {}, "c5")]),
        ModelRequest(parts=[ToolReturnPart("read", "five", "c5"), ToolReturnPart("read", "four", "c4")]),
        ModelResponse(parts=[ToolCallPart("read", {}, "c6")]),
        ModelRequest(parts=[ToolReturnPart("read", {"a": [1]}, "c6", outcome="failed")]),
        ModelResponse(parts=[TextPart(""), ToolCallPart("read", {}, "c7")]),
        ModelRequest(parts=[back, RetryFeedbackPart("again", retry=RetryInfo(cause="model_retry"))]),
        ModelResponse(parts=[ThinkingPart("hm", id="reasoning_content", provider_name="openai"), TextPart("done")]),
        ModelRequest(parts=[SystemPromptPart("briefly"), UserPromptPart("and now?")]),
    ]


@pytest.mark.parametrize("left_out", range(-1, 12))
async def test_what_was_found_out_of_the_beginning_changes_nothing(left_out: int) -> None:
    stock, lean = OpenAIChatModel("gpt-5", provider=provider()), OpenAIChatModel("gpt-5", provider=provider())
    remember(lean)
    parameters = replace(PARAMETERS, instruction_parts=[InstructionPart("be brief", dynamic=True)])
    messages = growing()
    if left_out >= 0:
        del messages[left_out : left_out + 2]
    for count in (*range(1, len(messages) + 1), 3, len(messages)):
        found: list[Any] = []
        for model in (stock, lean):
            prepared = model.prepare_messages(messages[:count], parameters)
            found.append((prepared, list(await model._map_messages(prepared, parameters))))
        assert found[1] == found[0]


def test_only_what_the_library_leaves_alone_is_plain() -> None:
    messages = growing()
    pairs = zip([None, *messages], messages, strict=False)
    plain = [is_plain(message, before) for before, message in pairs]
    assert plain == [True, True, True, True, True, True, False, True, False, False, False, False, False]


async def test_nothing_outlives_its_message() -> None:
    kept = Kept()
    messages = [ModelRequest(parts=[UserPromptPart("hi")]) for _ in range(10)]
    assert [kept.put(message, [{"role": "user"}]) for message in messages] == [[{"role": "user"}]] * 10
    assert len(kept) == 10
    messages.clear()
    gc.collect()
    assert len(kept) == 0


@pytest.mark.parametrize("kind", ["openrouter", "responses", "none"])
def test_models_that_map_in_their_own_way_are_left_alone(kind: str) -> None:
    if kind == "openrouter":
        model: object = OpenRouterModel("x/y", provider=OpenRouterProvider(api_key="k"))
    else:
        model = OpenAIResponsesModel("m", provider=provider()) if kind == "responses" else object()
    assert remember(model) is False
