"""read_file shows images to models that take them, and says it to those that do not."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from tests.support.engine import Dialect, rig
from tests.support.provider import call, say

from pilotfish.conversation.items import PromptItem
from pilotfish.engine.model.catalog.listing import takes_images

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
READ = call("read_file", path="a.png")
VISION: dict[Dialect, str] = {
    "chat": "openai-chat:gpt-4o",
    "responses": "openai-responses:gpt-5",
    "anthropic": "anthropic:scripted",
    "google": "google:scripted",
}


def has_image(body: object) -> bool:
    """Google's base64 has other signs."""
    return b64encode(PNG).decode() in json.dumps(body).replace("-", "+").replace("_", "/")


@pytest.mark.parametrize("dialect", VISION)
async def test_the_model_is_shown_the_image(tmp_path: Path, dialect: Dialect) -> None:
    async with rig(tmp_path, READ, say("A dot."), say("Still."), dialect=dialect, model=VISION[dialect]) as turn:
        (turn.root / "a.png").write_bytes(PNG)
        assert (await turn.prompt("what is it?")).stop_reason == "end_turn"
        await turn.prompt("and now?")
        assert [has_image(request.body) for request in turn.provider.requests] == [False, True, True]
        items = (await turn.engine.load(turn.session_id)).items
        assert len([item for item in items if isinstance(item, PromptItem)]) == 2
        turn.check_laws()


async def test_a_model_that_may_not_take_images_is_told_so(tmp_path: Path) -> None:
    async with rig(tmp_path, READ, say("I cannot see it.")) as turn:
        (turn.root / "a.png").write_bytes(PNG)
        await turn.prompt("what is it?")
        assert "is an image, and you cannot be shown images here" in json.dumps(turn.provider.requests[1].messages)


@pytest.mark.parametrize("data", [b"\0 no image", PNG + b"\0" * 4_000_000])
async def test_what_is_no_image_or_too_large_is_said(tmp_path: Path, data: bytes) -> None:
    async with rig(tmp_path, READ, say("ok"), model="openai-chat:gpt-4o") as turn:
        (turn.root / "a.png").write_bytes(data)
        await turn.prompt("what is it?")
        told = json.dumps(turn.provider.requests[1].messages)
        assert "is not one" in told or "more than 3.5 MB" in told


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("openai:gpt-5.2", True),
        ("openrouter:anthropic/claude-sonnet-4", True),
        ("google-vertex:gemini-3-pro", True),
        ("ollama:qwen2.5-vl:7b", True),
        ("deepseek:deepseek-chat", False),
        ("ollama:qwen2.5-coder:1.5b", False),
        ("openai:gpt-3.5-turbo", False),
    ],
)
def test_which_models_take_images(model: str, expected: bool) -> None:
    assert takes_images(model) == expected
