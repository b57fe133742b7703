"""Checks the requests that pydantic-ai's real models send for a history against independent provider rules
(`tests/support/provider_rules.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from tests.support import provider_rules
from tests.support.history import broken_histories, parse, sound_histories
from tests.support.tries import tries

from pilotfish.conversation.history.call_ids import with_plain_ids
from pilotfish.conversation.history.sanitizer import repair
from pilotfish.conversation.history.trim import trim
from pilotfish.conversation.messages import CanonicalMessage, MessageRole, ThoughtPart, UserPromptPart, message_to_json
from pilotfish.conversation.model_history import get_messages_for_llm
from pilotfish.conversation.records import CompactionRecord, MessageRecord
from pilotfish.engine.model.adapter import from_canonical

some = settings(
    max_examples=tries(80),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
NOW = CanonicalMessage(MessageRole.USER, (UserPromptPart("and now?"),))


class Camera:
    """The four models on a transport that records request bodies and sends nothing."""

    def __init__(self) -> None:
        self._bodies: list[dict[str, Any]] = []
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._keep), timeout=60)
        openai = OpenAIProvider(base_url="http://provider.invalid/v1", api_key="x", http_client=client)
        anthropic = AnthropicProvider(api_key="x", http_client=client)
        google = GoogleProvider(api_key="x", http_client=client)
        self.models: dict[str, tuple[Model, Callable[[provider_rules.Body], list[str]]]] = {
            "openai chat": (OpenAIChatModel("gpt-5", provider=openai), provider_rules.openai_chat),
            "openai responses": (OpenAIResponsesModel("gpt-5", provider=openai), provider_rules.openai_responses),
            "anthropic": (AnthropicModel("claude-sonnet-5", provider=anthropic), provider_rules.anthropic),
            "google": (GoogleModel("gemini-3-pro", provider=google), provider_rules.google),
        }

    def _keep(self, request: httpx2.Request) -> httpx2.Response:
        self._bodies.append(json.loads(request.content))
        return httpx2.Response(418, json={"error": {"message": "kept", "type": "kept"}})

    async def body(self, name: str, history: Sequence[CanonicalMessage]) -> dict[str, Any]:
        with pytest.raises(ModelHTTPError, match="kept"):
            await model_request(self.models[name][0], [from_canonical(message) for message in history])
        return self._bodies.pop()

    async def problems(self, history: Sequence[CanonicalMessage]) -> dict[str, list[str]]:
        """The problems that each provider reports; providers that accept the request are omitted."""
        seen = {name: eye(await self.body(name, history)) for name, (_, eye) in self.models.items()}
        return {name: problems for name, problems in seen.items() if problems}


@pytest.fixture(scope="module")
def camera() -> Camera:
    return Camera()


ALL = {"openai chat", "openai responses", "anthropic", "google"}
BROKEN = {
    "user: hi / model: call a / user: stop": ALL,
    "user: hi / model: call a, call b / user: return a / model: on": ALL,
    "user: hi / model: call a / model: well / user: return a": {"openai chat", "google"},
    "user: hi / model: call a / user: wait, return a": {"openai chat", "anthropic"},
    "user: hi / model: call a / user: on / model: x / user: return a": {"openai chat", "anthropic", "google"},
    "user: hi, return z": ALL,
    "user: hi / model: call a / user: return a, return a": ALL,
    "user: hi / model: call a, call a / user: return a, return a": ALL - {"google"},
    "user: hi / model: call a / user: return a / model: call a / user: return a": {"openai responses", "anthropic"},
    "user: hi / model: call a no such! / user: return a no such!": ALL,
    "user: hi / model: blank / user: so?": {"anthropic"},
    "user: hi / model: call a / user: return a =  ": set[str](),
    "model: hello / user: hi": {"anthropic"},
    "system: system rules / model: hello": {"anthropic"},
    "user: hi / model: hello / system: system rules / model: call a": ALL,
    "user: hi / model: hello / system: system rules / model: call a / user: return a": {"google"},
    "user: return a / model: call a": ALL,
}


@pytest.mark.parametrize("notation", BROKEN)
async def test_broken_histories_are_refused_and_repaired_ones_are_not(camera: Camera, notation: str) -> None:
    history = (*parse(notation), NOW)
    assert set(await camera.problems(history)) == BROKEN[notation]
    assert await camera.problems(repair(history)) == {}


async def test_an_empty_result_is_refused_until_repair_fills_it(camera: Camera) -> None:
    from dataclasses import replace

    user, model, answer = parse("user: hi / model: call a / user: return a")
    history = (user, model, replace(answer, parts=(replace(answer.returns[0], content=""),)), NOW)
    assert set(await camera.problems(history)) == {"anthropic"}
    assert await camera.problems(repair(history)) == {}


async def test_ids_of_another_provider_are_refused_until_they_are_replaced(camera: Camera) -> None:
    long = "x" * 45
    history = repair(parse(f"user: hi / model: call functions.read:0, call {long} / user: return functions.read:0"))
    assert set(await camera.problems(history)) == {"openai chat", "anthropic"}
    assert await camera.problems(with_plain_ids(history)) == {}


@some
@given(broken_histories)
async def test_any_repaired_history_is_accepted_whole_and_trimmed(
    camera: Camera, history: tuple[CanonicalMessage, ...]
) -> None:
    repaired = with_plain_ids(repair((*history, NOW)))
    assert await camera.problems(repaired) == {}
    assert await camera.problems(trim(repaired, tool_history_rounds=1, step=1)) == {}


async def test_most_broken_histories_are_refused_without_repair(camera: Camera) -> None:
    """Guards against checkers that accept everything: most unrepaired histories must be refused."""
    from random import Random

    from tests.support.history import broken_history

    random = Random(7)
    refused = total = 0
    while total < 60:
        history = (*broken_history(random.randbytes(80)), NOW)
        if repair(history) == history or any(_is_misplaced(message) for message in history):
            continue
        total += 1
        refused += bool(await camera.problems(history))
    assert refused >= 40


@some
@given(sound_histories)
async def test_a_sound_history_is_accepted_without_repair(
    camera: Camera, history: tuple[CanonicalMessage, ...]
) -> None:
    assert await camera.problems(history or (NOW,)) == {}


async def test_a_signed_thought_is_sent_back_with_its_closed_call(camera: Camera) -> None:
    user, model = parse("user: hi / model: call a")
    signed = ThoughtPart("hm", {"signature": "sig", "provider_name": "anthropic"})
    history = repair(
        (user, CanonicalMessage(MessageRole.ASSISTANT, (signed, *model.parts), {"provider_name": "anthropic"}), NOW)
    )
    body = await camera.body("anthropic", history)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["thinking", "tool_use"]
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert await camera.problems(history) == {}


async def test_a_compacted_history_is_accepted_and_starts_with_its_summary(camera: Camera) -> None:
    records: list[Any] = [
        MessageRecord(
            turn_id="t",
            message_id=f"m{index}",
            role="assistant" if message.is_response else "user",
            content="",
            message=message_to_json(message),
            timestamp=0.0,
        )
        for index, message in enumerate(
            parse(
                "user: one / model: call a / user: return a / model: two / user: three / model: call b / user: return b"
            )
        )
    ]
    for keep_from in ("m2", "m3", "m4", "gone"):
        compaction = CompactionRecord(
            turn_id="t", before=9, after=1, summary="what was", timestamp=0.0, keep_from=keep_from
        )
        history = (*get_messages_for_llm([*records, compaction]), NOW)
        assert await camera.problems(repair(history)) == {}
        body = await camera.body("openai chat", history)
        assert "what was" in body["messages"][0]["content"]


def _is_misplaced(message: CanonicalMessage) -> bool:
    from pilotfish.conversation.history.validation import side_of

    home = "response" if message.is_response else "request"
    return any(side_of(part) not in (home, None) for part in message.parts)
