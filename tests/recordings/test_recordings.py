"""What the server tells of a provider's answer equals what stock pydantic-ai reads in it.

`make recordings` replays the recorded answers of real providers that other projects publish; none is kept here.
`make test` replays scripted answers the same way, which shows that a difference is found.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.engine.model.test_delta_joiner import KINDS, written
from tests.recordings.cassettes import Recording, recordings
from tests.recordings.replay import CHUNKINGS, DONE, Replay, Told, replaying
from tests.support.provider import Call, calls

from pilotfish.tools.incoming.calls import own_name

FOLDERS = os.environ.get("PILOTFISH_RECORDINGS", "")
"""separated as in PATH"""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@cache
def recorded() -> dict[str, Recording]:
    folders = [Path(folder) for folder in FOLDERS.split(os.pathsep) if folder]
    found = {recording.name: recording for folder in folders for recording in recordings(folder)}
    assert found or not folders, f"there is no recording in {FOLDERS}"
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module", name="replay")
async def _replay(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Replay]:
    async with replaying(tmp_path_factory.mktemp("replay")) as replay:
        yield replay


@pytest.mark.recordings
@pytest.mark.skipif(not FOLDERS, reason="PILOTFISH_RECORDINGS names no folder; `make recordings` fetches one")
@pytest.mark.parametrize("name", recorded())
async def test_a_recorded_answer_is_told_as_the_library_reads_it(replay: Replay, name: str) -> None:
    await check(replay, recorded()[name])


@pytest.mark.parametrize("kind", ["chat", *(pytest.param(kind, marks=pytest.mark.recordings) for kind in KINDS[1:])])
async def test_a_scripted_answer_is_told_as_the_library_reads_it(replay: Replay, kind: Any) -> None:
    await check(replay, scripted(kind))


async def test_a_difference_is_found(replay: Replay) -> None:
    recording = scripted("chat")
    other = replace(recording, body=recording.body.replace(b"look", b"leak"))
    stock, ours = await replay.stock(recording), await replay.ours(other, CHUNKINGS["lines"])
    assert (stock.text, ours.text) == ("look", "leak")
    assert explained(other, ours, stock) is None
    assert expected(recording, stock) != ours


def scripted(kind: Any) -> Recording:
    """An answer with thoughts, text and two calls."""
    wanted = (Call("weather", {"city": "Łódź"}), Call("weather", {"city": "Rome"}))
    body = written(kind, calls(*wanted, text="look", thoughts=("h", "m")))
    return Recording(f"scripted:{kind}", kind, "", "m", 200, body)


async def check(replay: Replay, recording: Recording) -> None:
    stock = await replay.stock(recording)
    for name, chunks in CHUNKINGS.items():
        if name != "whole" and not recording.is_stream:
            continue  # JSON is read to its end before anything is made of it
        ours = await replay.ours(recording, chunks)
        if explained(recording, ours, stock) is None:
            assert (name, ours) == (name, expected(recording, stock))


def expected(recording: Recording, stock: Told) -> Told:
    """What we tell of what the library read: with our names of tools."""
    renamed = [(own_name(name) or name, args) for name, args in stock.calls]
    return replace(stock, calls=renamed)


def explained(recording: Recording, ours: Told, stock: Told) -> str | None:
    """Why the two differ on purpose. None: they must be equal."""
    said = (ours.text, ours.thoughts, ours.calls)
    if recording.status >= 400 and ours.stop == "failed":
        message = provider_words(recording.body)
        assert message in " ".join((ours.error or "").split()), (message, ours.error)
        return "an error is told in the provider's words, which the library puts into an exception"
    if stock.error is not None and ours.stop == "failed" and said == (stock.text, stock.thoughts, stock.calls):
        return "both refuse the answer"
    if b'"tool_use_failed"' in recording.body and ours.stop == "end_turn":
        assert ours.text or ours.calls
        return "a call that the provider refused is answered to the model"
    if stock.error is not None and (ours.stop, ours.text) == ("end_turn", DONE):
        return "an answer that nothing could be read from is asked for again"
    if stock.error is not None and "Invalid response from openai chat" in stock.error and not recording.is_stream:
        choice = json.loads(recording.body)["choices"][0]["message"]
        assert ours.text == (choice.get("content") or "")
        assert [name for name, _ in ours.calls] == [
            own_name(call["function"]["name"]) or call["function"]["name"] for call in choice.get("tool_calls") or ()
        ]
        return "Mistral and Snowflake leave out fields that the library asks for only in an answer that is no stream"
    if b'"type": "mcp_' not in recording.body and own_arguments(ours, stock):
        return "a tool that has another name here is called with our arguments"
    if ours.went_on and ours.text == stock.text + DONE:
        return "a paused answer is continued"
    if stock.stop == "max_tokens" and ours.stop == "failed" and said == ("", "", []):
        return "a token limit that thinking used up is an error with a remedy"
    if b'"refusal": "' in recording.body and not recording.is_stream and ours.stop == "refusal":
        assert ours.text
        assert ours.text in json.loads(recording.body)["choices"][0]["message"]["refusal"]
        return "the words of a refusal are shown"
    if not recording.is_stream and ours.thoughts and b"<think>" in recording.body and b"</think>" not in recording.body:
        assert (ours.text, ours.thoughts) == ("", stock.text)
        return "thoughts that a token limit cut off are thoughts"
    return None


def own_arguments(ours: Told, stock: Told) -> bool:
    """Whether the calls differ in nothing but the arguments of tools that are ours by another name."""
    same = len(ours.calls) == len(stock.calls) and all(
        call[0] == (own_name(name) or name) and (own_name(name) is not None or call[1] == args)
        for call, (name, args) in zip(ours.calls, stock.calls, strict=True)
    )
    return same and any(own_name(name) for name, _ in stock.calls) and replace(ours, calls=stock.calls) == stock


def provider_words(body: bytes) -> str:
    """The beginning of the message in an error body."""
    try:
        value: Any = json.loads(body)
    except ValueError:
        return ""
    for key in (0, "error", "message"):
        with contextlib.suppress(LookupError, TypeError):
            value = value[key]
    return " ".join(value.split())[:40] if isinstance(value, str) else ""
