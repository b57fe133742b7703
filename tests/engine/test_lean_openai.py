"""The lean path against the SDK's own: the same bytes in, the same response out, the same errors raised."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Generator, Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from openai import AsyncAzureOpenAI, AsyncOpenAI, AsyncStream
from openai._models import FinalRequestOptions, construct_type
from openai._types import NOT_GIVEN, omit
from openai.types.chat import ChatCompletionChunk
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from tests.support.provider import (
    Call,
    Part,
    Pause,
    Provider,
    Raw,
    Refusal,
    Reply,
    Text,
    Thought,
    Tokens,
    calls,
    fails,
    say,
    serve,
)
from tests.support.provider_chat import Chat
from tests.support.provider_responses import Responses
from tests.support.provider_strict import Memory
from tests.support.stock import PARAMETERS, PROMPT, ask

from pilotfish.engine import lean_chunks, lean_stream
from pilotfish.engine.lean_openai import hasten, install, raw_body
from pilotfish.engine.lean_stream import MAX_WAITING, Intake, LeanDecoder

KINDS = ["chat", "responses"]
LONG = os.environ.get("PILOTFISH_LONG") == "1"


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes in memory arrive at once: nothing to wait for. The window has its own tests."""
    monkeypatch.setattr(lean_stream, "WINDOW", 0.0)


def written(kind: str, reply: Reply) -> bytes:
    """A reply as its dialect streams it, byte for byte."""
    dialect = (Chat if kind == "chat" else Responses)(
        {"model": "m", "stream_options": {"include_usage": True}}, reply, Memory()
    )
    dialect.n = 1
    pieces = b"".join(piece for piece in dialect.pieces() if isinstance(piece, bytes))
    return pieces + (b"".join(dialect.last()) if reply.end == "done" else b"")


class Body(httpx2.AsyncByteStream):
    """A body in given chunks. An exception among them is raised in its place."""

    def __init__(self, chunks: Sequence[bytes | Exception]) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for index, chunk in enumerate(self.chunks):
            if index % 3 == 2:
                await asyncio.sleep(0)
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


def model_over(kind: str, chunks: Sequence[bytes | Exception], *, lean: bool) -> Model[Any]:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(chunks))

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = AsyncOpenAI(api_key="k", base_url="http://provider/v1", http_client=http, max_retries=0)
    if lean:
        assert install(client)
    provider = OpenAIProvider(openai_client=client)
    profile = ModelProfile(ignore_streamed_leading_whitespace=True)
    model = (
        OpenAIChatModel("m", provider=provider, profile=profile)
        if kind == "chat"
        else OpenAIResponsesModel("m", provider=provider)
    )
    assert hasten(model) is lean
    return model


async def outcome(kind: str, chunks: Sequence[bytes | Exception], *, lean: bool) -> tuple[Any, list[tuple[int, str]]]:
    """What a stream gives: the response or the error, without clocks; and the text of each part as its events tell.
    The second answer of a lean client, which asks without the SDK once it has asked with it."""
    model = model_over(kind, chunks, lean=lean)
    first = await told_by(model)
    if lean:
        assert await told_by(model) == first
    return first


async def told_by(model: Model[Any]) -> tuple[Any, list[tuple[int, str]]]:
    told: dict[int, str] = {}
    options, parameters = model.prepare_request(None, PARAMETERS)
    try:
        async with model.request_stream(list(PROMPT), options, parameters) as stream:
            async for event in stream:
                match event:
                    case PartStartEvent(index=index, part=TextPart(content=text) | ThinkingPart(content=text)):
                        told[index] = text
                    case PartDeltaEvent(index=index, delta=delta):
                        told[index] = told.get(index, "") + (getattr(delta, "content_delta", None) or "")
                    case _:
                        pass
            response = stream.get()
    except Exception as error:  # whatever it is, both must raise it
        return (type(error).__name__, _without_ids(str(error))), sorted(told.items())
    return _plain(response), sorted(told.items())


def _plain(response: ModelResponse) -> tuple[Any, ...]:
    parts = _without_ids(re.sub(r"pyd_ai_\w+", "pyd_ai", repr(response.parts)))
    usage = response.usage
    details = {name: value for name, value in (response.provider_details or {}).items() if name != "timestamp"}
    return parts, repr(usage), response.finish_reason, response.state, response.model_name, repr(details)


def _without_ids(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|position \d+", "", text)


async def check_same(kind: str, chunks: Sequence[bytes | Exception]) -> Any:
    stock, stock_told = await outcome(kind, chunks, lean=False)
    lean, lean_told = await outcome(kind, chunks, lean=True)
    assert lean == stock
    assert lean_told == stock_told
    return lean


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The bytes in chunks of these sizes, again and again."""
    out: list[bytes] = []
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        out.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return out


WORDS = st.sampled_from(
    ["a", " ", "\n\n", "<think>", "</think>", "x>", "<y", "größe", "\U0001f41f", "\u2028", '"', "\\", "data: ", "\r\n"]
)
CALLS = st.builds(Call, st.just("read"), st.sampled_from([{"path": "ä b"}, {}, '{"pa']), split=st.integers(0, 4))
PARTS: st.SearchStrategy[Part] = st.one_of(
    WORDS.map(Text),
    WORDS.map(Text),
    WORDS.map(Thought),
    CALLS,
    st.sampled_from([Raw(": ping\n\n"), Raw("\n\n"), Raw("retry: 5\n\n"), Raw(":\r\n\r\n")]),
)
REPLIES = st.builds(
    Reply,
    parts=st.lists(PARTS, min_size=1, max_size=12).map(tuple),
    interleave=st.booleans(),
    finish=st.sampled_from([None, "stop", "length", "content_filter"]),
    usage=st.just(Tokens(input=9, output=4, cached=3)),
    reasoning_field=st.sampled_from(["reasoning_content", "reasoning"]),
)


@settings(
    max_examples=400 if LONG else 60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it sets a constant
)
@given(st.sampled_from(KINDS), REPLIES, st.lists(st.integers(1, 400), min_size=1, max_size=5), st.booleans())
@example("chat", Reply(parts=tuple(map(Text, ["<think>", "hm", "</think>", "\n\n", "yes", " ", "no"]))), [9999], False)
@example("chat", Reply(parts=tuple(map(Text, [" ", "a", "\n", "b"]))), [9999], False)
@example("chat", Reply(parts=(Thought("a"), Text("b"), Thought("c"), Text("d"))), [9999], False)
@example("responses", Reply(parts=(Text("a"), Text("b"), Thought("c"), Text("d"))), [9999], False)
def test_any_reply_in_any_chunks_reads_the_same(kind: str, reply: Reply, sizes: list[int], crlf: bool) -> None:
    data = written(kind, reply)
    if crlf:
        data = data.replace(b"\n", b"\r\n")
    asyncio.run(check_same(kind, cut(data, sizes)))


@pytest.mark.parametrize("kind", KINDS)
async def test_parallel_calls_with_split_arguments_read_the_same(kind: str) -> None:
    wanted = (Call("read", {"path": "a" * 50}, split=1), Call("read", {"path": "b" * 50}, split=3))
    for interleave in (False, True):
        data = written(kind, calls(*wanted, text="look", thoughts=("h", "m"), interleave=interleave))
        parts = (await check_same(kind, [data]))[0]
        assert "a" * 50 in parts
        assert "b" * 50 in parts


@pytest.mark.parametrize("kind", KINDS)
async def test_refusals_read_the_same(kind: str) -> None:
    plain = await check_same(kind, [written(kind, Reply(parts=(Refusal("I "), Refusal("will not."))))])
    assert plain[2] == "content_filter"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ["overloaded", "rate_limit", "server", "context"])
async def test_an_error_inside_the_stream_is_raised_after_what_came_before(kind: str, error: str) -> None:
    reply = say("one ", "two", end="error")
    dialect = (Chat if kind == "chat" else Responses)({"model": "m"}, reply, Memory())
    await check_same(kind, [written(kind, reply) + dialect.broken(error)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "garbage", [b"data: {broken\n\n", b"data: \xff\xfe\n\n", b"data: [1]\n\n", b"data:\n\n", b"data: NaN\n\n"]
)
async def test_garbage_does_not_swallow_the_deltas_before_it(kind: str, garbage: bytes) -> None:
    data = written(kind, say("one ", "two ", "three", end="cut")) + garbage
    stock, stock_told = await outcome(kind, [data], lean=False)
    lean, lean_told = await outcome(kind, [data], lean=True)
    assert lean_told == stock_told
    if isinstance(stock[0], str) and stock[0].endswith("Error"):
        assert lean == stock


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "error", [httpx2.ReadError("reset"), httpx2.ReadTimeout("slow"), httpx2.RemoteProtocolError("incomplete")]
)
async def test_a_broken_connection_is_the_same_error(kind: str, error: Exception) -> None:
    data = written(kind, say("one ", "two", end="cut"))
    (name, _), told = await outcome(kind, [data, error], lean=True)
    assert ((name, told)) == ((await outcome(kind, [data, error], lean=False))[0][0], told)
    assert told == [(0, "one two")]


async def test_an_end_without_done_is_an_end_when_the_answer_was_whole() -> None:
    data = written("chat", say("one ", "two")).replace(b"data: [DONE]\n\n", b"")
    plain = await check_same("chat", [data])
    assert plain[2] == "stop"


async def test_an_end_that_is_marked_and_not_explained_is_an_end() -> None:
    data = written("chat", say("one ", "two")).replace(b'"finish_reason": "stop"', b'"finish_reason": null')
    assert b"[DONE]" in data
    (parts, _, reason, *_, details), told = await outcome("chat", [data], lean=True)
    assert (reason, told) == ("stop", [(0, "one two")])
    assert "'finish_reason': 'stop'" in details
    assert "one two" in parts


@pytest.mark.parametrize("with_done", [True, False])
async def test_a_reason_beside_a_comment_is_the_reason(with_done: bool) -> None:
    data = written("chat", say("one ", "two", finish="length"))
    *before, end = data.split(b"\n\n")[:-2] if b"[DONE]" in data else data.split(b"\n\n")
    pieces = [b": ping\n" + piece if b'"finish_reason": "length"' in piece else piece for piece in (*before, end)]
    odd = b"\n\n".join(pieces) + b"\n\n" + (b"data: [DONE]\n\n" if with_done else b"")
    assert b": ping\ndata:" in odd
    (_, _, reason, *_), told = await outcome("chat", [odd], lean=True)
    assert (reason, told) == ("length", [(0, "one two")])


async def test_an_end_before_the_answers_end_is_an_error_and_not_an_answer() -> None:
    data = written("chat", say("one ", "two", end="cut"))
    (name, message), told = await outcome("chat", [data], lean=True)
    assert (name, message) == ("ModelConnectionError", "Connection error.")
    assert told == [(0, "one two")]


async def test_another_id_or_model_is_a_barrier() -> None:
    data = written("chat", say("a", "b", "c")).decode()
    first, second, *rest = data.split("\n\n")[1:]
    changed = "\n\n".join([data.split("\n\n")[0], first, second.replace('"model": "m"', '"model": "n"'), *rest])
    events = [event async for event in decoded([changed.encode()])]
    assert [event["choices"][0]["delta"].get("content") for event in events[:4]] == ["", "a", "b", "c"]


async def decoded(chunks: Sequence[bytes]) -> AsyncIterator[Any]:
    async for event in LeanDecoder().aiter_bytes(aiter(Body(chunks))):
        if not event.data:
            yield event.json()


async def test_what_arrives_together_behind_the_first_words_is_one_delta() -> None:
    events = [event async for event in decoded([written("chat", say(*"abcdefgh"))])]
    assert [event["choices"][0]["delta"].get("content") for event in events[:3]] == ["", "a", "bcdefgh"]
    assert len(events) == 5


async def test_arguments_that_arrive_together_are_one_delta() -> None:
    events = [event async for event in decoded([written("chat", calls(Call("read", {"path": "abc"}, split=1)))])]
    texts = [
        call["function"]["arguments"]
        for event in events
        if event["choices"]
        for call in event["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert texts == ["", '{"path": "abc"}']


async def test_joined_events_of_responses_keep_the_last_sequence_number() -> None:
    events = [event async for event in decoded([written("responses", say(*"abc"))])]
    (delta,) = [event for event in events if event["type"] == "response.output_text.delta"]
    after = events[events.index(delta) + 1]
    assert (delta["delta"], after["sequence_number"]) == ("abc", delta["sequence_number"] + 1)


class Slow:
    """Chunks that come when the test says so."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self.queue.get()) is not None:
            yield chunk


async def test_a_lone_delta_waits_for_nothing() -> None:
    slow = Slow()
    intake = Intake(aiter(slow))
    pulling = asyncio.create_task(intake.pull())
    for text in (b"one", b"two"):
        slow.queue.put_nowait(text)
        assert await intake.take() == text
    slow.queue.put_nowait(None)
    assert await intake.take() == b""
    await pulling


async def test_what_comes_in_the_quiet_is_handed_on_in_one_piece_after_it() -> None:
    slow = Slow()
    intake = Intake(aiter(slow))
    pulling = asyncio.create_task(intake.pull())
    intake.rest(1)
    taking = asyncio.create_task(intake.take())
    for text in (b"one ", b"two ", b"three"):
        slow.queue.put_nowait(text)
    await asyncio.sleep(0.005)
    assert not taking.done()
    assert await taking == b"one two three"
    slow.queue.put_nowait(None)
    await pulling


async def test_the_end_breaks_the_quiet() -> None:
    slow = Slow()
    intake = Intake(aiter(slow))
    pulling = asyncio.create_task(intake.pull())
    intake.rest(3600)
    slow.queue.put_nowait(b"data: [DONE]")
    assert await intake.take() == b"data: [DONE]"
    slow.queue.put_nowait(None)
    await pulling


async def test_the_quiet_ends_by_itself() -> None:
    slow = Slow()
    intake = Intake(aiter(slow))
    pulling = asyncio.create_task(intake.pull())
    intake.rest(0.001)
    slow.queue.put_nowait(b"one")
    assert await intake.take() == b"one"
    slow.queue.put_nowait(None)
    await pulling


async def test_a_reader_that_does_not_read_stops_the_intake() -> None:
    taken = 0

    async def flood() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(100_000)
            await asyncio.sleep(0)

    intake = Intake(flood())
    pulling = asyncio.create_task(intake.pull())
    for _ in range(100):
        await asyncio.sleep(0)
    assert taken == MAX_WAITING // 100_000 + 1
    await intake.take()
    for _ in range(3):
        await asyncio.sleep(0)
    assert taken > MAX_WAITING // 100_000 + 1
    pulling.cancel()
    await asyncio.gather(pulling, return_exceptions=True)


def pointed(provider: Provider, *, lean: bool, kind: str = "chat") -> tuple[AsyncOpenAI, Model[Any]]:
    client = AsyncOpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
    if lean:
        install(client)
    openai = OpenAIProvider(openai_client=client)
    model = OpenAIChatModel("m", provider=openai) if kind == "chat" else OpenAIResponsesModel("m", provider=openai)
    return client, model


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


@pytest.mark.parametrize("kind", KINDS)
async def test_the_request_is_the_same_with_images_files_tools_and_settings(kind: str) -> None:
    async with serve(otherwise=say("ok")) as provider:
        for lean in (False, True):
            client, model = pointed(provider, lean=lean, kind=kind)
            model._settings = ModelSettings(
                temperature=0.5,
                max_tokens=9,
                extra_body={"top_k": 3},
                extra_headers={"x-own": "1"},
            )
            async with client:
                await ask(model, PROMPT)  # from the second on a lean client asks without the SDK
                await ask(model, HISTORY)
                options, parameters = model.prepare_request(None, PARAMETERS)
                await model.request(list(HISTORY), options, parameters)
        _, stock, stock_plain, _, lean_, lean_plain = provider.requests
    assert lean_.body == stock.body
    assert lean_plain.body == stock_plain.body
    ignored = {"content-length", "host"}
    assert {name: value for name, value in lean_.headers.items() if name not in ignored} == {
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
@pytest.mark.parametrize("before", [0, 1])
async def test_errors_over_a_real_connection_are_the_same(kind: str, reply: Reply, before: int) -> None:
    found: list[tuple[str, str, object]] = []
    async with serve(*(say("fine"),) * before, reply, *(say("fine"),) * before, reply) as provider:
        for lean in (False, True):
            client, model = pointed(provider, lean=lean, kind=kind)
            async with client:
                for _ in range(before):
                    await ask(model)
                with pytest.raises(Exception) as caught:  # noqa: PT011  # compared below
                    await ask(model)
            found.append((type(caught.value).__name__, str(caught.value), getattr(caught.value, "retry_after", None)))
    assert found[0] == found[1]


async def test_the_connection_is_used_again_after_a_whole_answer() -> None:
    async with serve(say("a"), say("b"), say("c")) as provider:
        client, model = pointed(provider, lean=True)
        async with client:
            for _ in range(3):
                await ask(model)
            pool = client._client._transport._pool  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # the only place that knows
            assert len(pool.connections) == 1  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]  # likewise


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["stall", "endless"])
async def test_a_cancel_disconnects_and_leaves_no_task(kind: str, end: str) -> None:
    before = asyncio.all_tasks()
    async with serve(say("one", "two", end=end)) as provider:
        client, model = pointed(provider, lean=True, kind=kind)
        async with client:
            asking = asyncio.create_task(ask(model))
            request = await provider.received(1)
            while request.first_byte_at is None:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.wait_for(request.disconnected.wait(), 5)
    assert asyncio.all_tasks() == before


async def test_the_end_of_the_body_may_come_after_the_end_of_the_answer() -> None:
    parts = (Text("a"), Raw("data: [DONE]\n\n"), Pause(0.03))
    async with serve(otherwise=Reply(parts=parts, end="cut")) as provider:
        client, model = pointed(provider, lean=True)
        async with client:
            for _ in range(3):
                await ask(model)
            pool = client._client._transport._pool  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # the only place that knows
            assert len(pool.connections) == 1  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]  # likewise


async def test_a_large_block_is_read_in_slices_that_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (Text("one "), Text("two – "), Text("three"), Call("read", {"path": "a" * 300}))
    found: list[ModelResponse] = []
    for size in (7, 64 * 1024):
        monkeypatch.setattr(lean_stream, "SLICE", size)
        async with serve(Reply(parts=parts)) as provider:
            client, model = pointed(provider, lean=True)
            async with client:
                found.append(await ask(model))
    assert [[getattr(part, "content", None) for part in each.parts] for each in found] == [
        ["one two – three", None]
    ] * 2
    assert [each.parts[1].args_as_dict() for each in found if isinstance(each.parts[1], ToolCallPart)] == [
        {"path": "a" * 300}
    ] * 2


async def test_a_body_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_stream, "DRAIN_SECONDS", 0.01)
    parts = (Text("a"), Raw("data: [DONE]\n\n"), Pause(0.5))
    async with serve(otherwise=Reply(parts=parts, end="stall")) as provider:
        client, model = pointed(provider, lean=True)
        async with client:
            answers = [await ask(model) for _ in range(2)]
    assert [answer.parts for answer in answers] == [[TextPart("a")]] * 2


async def test_a_stream_that_is_left_in_the_quiet_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_stream, "WINDOW", 3600.0)
    before = asyncio.all_tasks()
    async with serve(Reply(parts=(Text("one"), Pause(0.01), Text("two"), Pause(0.01)), end="stall")) as provider:
        client, model = pointed(provider, lean=True)
        async with client:
            options, parameters = model.prepare_request(None, PARAMETERS)
            async with model.request_stream(list(PROMPT), options, parameters) as stream:
                async for _ in stream:
                    break
                await asyncio.sleep(0.05)
            assert {task for task in asyncio.all_tasks() - before if "pull" in repr(task)} == set()


async def test_a_stream_that_is_closed_early_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    async with serve(say("one", "two", end="endless", delay=0.001)) as provider:
        client, model = pointed(provider, lean=True)
        async with client:
            options, parameters = model.prepare_request(None, PARAMETERS)
            async with model.request_stream(list(PROMPT), options, parameters) as stream:
                async for _ in stream:
                    break
            await asyncio.wait_for(provider.requests[0].disconnected.wait(), 5)
            del stream
            for _ in range(20):
                await asyncio.sleep(0.001)
    assert asyncio.all_tasks() == before


async def test_slow_tokens_are_shown_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_stream, "WINDOW", 0.016)
    parts = (Text("one"), Pause(0.03), Text("two"), Pause(0.03), Text("three"))
    async with serve(Reply(parts=parts)) as provider:
        client, _ = pointed(provider, lean=True)
        async with client:
            stream: AsyncStream[ChatCompletionChunk] = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x"}], stream=True
            )
            chunks = [chunk async for chunk in stream if chunk.choices]
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert pieces == ["one", "two", "three"]


def test_what_json_cannot_take_is_left_to_the_sdk() -> None:
    assert raw_body({"model": "m", "messages": (message for message in ())}) is None
    assert raw_body({"model": "m", "messages": ["\ud800"]}) is None
    assert raw_body({"seed": 2**70}) is None
    given: dict[str, Any] = {
        "model": "m",
        "tools": omit,
        "stop": NOT_GIVEN,
        "timeout": 3,
        "extra_body": {"model": "n", "k": None},
    }
    assert json.loads(raw_body(given) or b"") == {"model": "n", "k": None}


async def test_a_body_left_to_the_sdk_still_arrives() -> None:
    async with serve(say("ok")) as provider:
        client, _ = pointed(provider, lean=True)
        async with client:
            whole = await client.chat.completions.create(
                model="m",
                messages=(message for message in [{"role": "user", "content": "x"}]),  # pyright: ignore[reportArgumentType]  # an iterable, as the SDK allows
            )
    assert whole.choices[0].message.content == "ok"


def clients() -> tuple[AsyncOpenAI, AsyncOpenAI]:
    """The SDK's client and a lean one, alike, with headers and cookies of their own."""
    stock, lean = (
        AsyncOpenAI(
            api_key="k",
            base_url="http://provider/v1",
            organization="o",
            default_headers={"x-all": "1"},
            http_client=httpx2.AsyncClient(headers={"x-http": "2"}),
        )
        for _ in range(2)
    )
    install(lean)
    return stock, lean


def test_a_request_with_a_known_head_is_the_sdks() -> None:
    stock, lean = clients()

    def check(body: bytes, **fields: Any) -> None:
        usual: dict[str, Any] = {
            "method": "post",
            "url": "/chat/completions",
            "content": body,
            "headers": {"Content-Type": "application/json", "User-Agent": "me"},
            "security": {"bearer_auth": True},
        }
        options = FinalRequestOptions.construct(**usual | fields)
        expected, found = stock._build_request(options), lean._build_request(options)
        assert (found.method, found.url, found.content) == (expected.method, expected.url, expected.content)
        assert found.headers.raw == expected.headers.raw
        assert found.extensions == expected.extensions

    check(b"{}")
    check(b'{"longer": 1}')
    check(b"{}", headers={"Content-Type": "application/json", "x-own": "3"})
    check(b"{}", url="/responses")
    check(b"{}", url="/responses", params={"a": "b"})
    check(b"{}", url="/responses", timeout=3.0)
    for client in (stock, lean):
        client._client.cookies.set("c", "1", domain="provider")
    check(b"{}", url="/responses")
    for client in (stock, lean):
        client._client.cookies.set("c", "2", domain="provider")
    check(b"{}", url="/responses")
    for client in (stock, lean):
        client.api_key = "another"
    check(b"{}", url="/responses")
    for client in (stock, lean):
        client.base_url = "https://elsewhere/v2"
    check(b"{}", url="/responses")
    check(b"{}", url="/responses")


def test_only_the_body_of_a_known_request_is_made_anew() -> None:
    _, lean = clients()
    options = FinalRequestOptions.construct(
        method="post", url="/chat/completions", content=b"{}", headers={"a": "b"}, security={"bearer_auth": True}
    )
    first = lean._build_request(options)
    lean.organization = "unseen"  # not looked at again
    second = lean._build_request(options)
    assert second is not first
    assert second.headers == first.headers
    second.headers["a"] = "changed"  # by whoever sends it
    assert lean._build_request(options).headers == first.headers


@contextlib.contextmanager
def counted_turns() -> Generator[list[None]]:
    """As many entries as the event loop has turned meanwhile."""
    turns: list[None] = []
    loop, going = asyncio.get_running_loop(), True

    def turn() -> None:
        if going:
            turns.append(None)
            loop.call_soon(turn)

    loop.call_soon(turn)
    try:
        yield turns
    finally:
        going = False


@pytest.mark.parametrize("kind", KINDS)
async def test_events_that_are_here_are_taken_without_a_turn_of_the_loop(kind: str) -> None:
    reply = calls(*(Call("read", {"path": str(number)}) for number in range(20)))
    turns = {False: 0, True: 0}
    for quick in turns:
        model = model_over(kind, [written(kind, reply)], lean=quick)
        options, parameters = model.prepare_request(None, PARAMETERS)
        async with model.request_stream(list(PROMPT), options, parameters) as stream:
            with counted_turns() as count:
                events = [event async for event in stream if isinstance(event, PartStartEvent)]
            turns[quick] = len(count)
        assert len(events) == 20
    assert turns[False] >= 40
    assert turns[True] < 10


def test_only_a_model_with_a_lean_client_is_hastened() -> None:
    stock, lean = clients()
    assert hasten(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=lean)))
    assert not hasten(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=stock)))
    assert not hasten(TestModel())


def test_only_plain_clients_of_the_sdk_are_made_lean() -> None:
    azure = AsyncAzureOpenAI(api_key="k", azure_endpoint="https://x", api_version="1")
    assert install(azure) is False
    assert install(object()) is False


BASE: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
CALL = {"index": 0, "id": "x", "type": "function", "function": {"name": "a", "arguments": ""}}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 1}}
COUNTS = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, **DETAILS}


def delta(**fields: Any) -> dict[str, Any]:
    return {**BASE, "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


USUAL: list[dict[str, Any]] = [
    delta(role="assistant", content=""),
    delta(content="hi", refusal=None, reasoning_content="hm"),
    delta(tool_calls=[CALL]),
    delta(function_call={"name": "a", "arguments": "{}"}),
    {**BASE, "choices": [], "usage": COUNTS, "provider": "p", "system_fingerprint": "f", "service_tier": "default"},
    {**BASE, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "logprobs": None}]},
]
UNUSUAL: list[Any] = [
    {"choices": []},
    [],
    {**BASE, "choices": [{"index": "0", "delta": {}, "finish_reason": None}]},
    {**BASE, "choices": [{"index": 0, "delta": {}, "finish_reason": "bored"}]},
    {**BASE, "choices": [{"index": 0, "delta": {}, "logprobs": {"content": 5}, "finish_reason": None}]},
    delta(content=5),
    delta(tool_calls={"0": CALL}),
    {**BASE, "created": 1.5, "choices": []},
]


@pytest.mark.parametrize("data", USUAL)
def test_a_chunk_built_by_hand_is_the_sdks(data: dict[str, Any]) -> None:
    ours, theirs = lean_chunks.chunk(data), construct_type(type_=ChatCompletionChunk, value=data)
    assert ours == theirs
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("data", UNUSUAL)
def test_an_unusual_chunk_is_left_to_the_sdk(data: Any) -> None:
    assert lean_chunks.chunk(data) is None


async def test_what_is_known_is_asked_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    request = AsyncOpenAI.request

    async def watched(self: AsyncOpenAI, *args: Any, **options: Any) -> Any:
        asked.append(self.api_key)
        return await request(self, *args, **options)

    monkeypatch.setattr(AsyncOpenAI, "request", watched)
    async with serve(otherwise=say("ok")) as provider:
        client, model = pointed(provider, lean=True)
        async with client:
            for _ in range(3):
                await ask(model)
            assert asked == ["k"]
            client.api_key = "another"
            for _ in range(2):
                await ask(model)
            assert asked == ["k", "another"]
            client.max_retries = 1  # repeating is the SDK's business
            await ask(model)
            assert asked == ["k", "another", "another"]
        assert [seen.headers["authorization"] for seen in provider.requests] == ["Bearer k"] * 3 + [
            "Bearer another"
        ] * 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("end", ["", "\n\n"])
async def test_an_error_that_is_no_stream_says_what_the_provider_said(kind: str, before: int, end: str) -> None:
    said = '{"error":\n {"message": "the model is being loaded"}}'
    refused = Reply(body=f"{said}{end}", content_type="application/json")
    async with serve(*(say("fine"),) * before, refused) as provider:
        client, model = pointed(provider, lean=True, kind=kind)
        async with client:
            for _ in range(before):
                await ask(model)
            with pytest.raises(Exception, match="the model is being loaded"):  # whose kind is the library's
                await ask(model)
