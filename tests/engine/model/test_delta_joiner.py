"""Joined deltas against the stock clients: the same bytes in, the same response out, the same errors raised."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import httpx2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
)
from pydantic_ai.models import Model
from pydantic_ai.profiles import ModelProfile
from tests.support.provider import Call, Part, Raw, Refusal, Reply, Text, Thought, Tokens, calls, say
from tests.support.provider_anthropic import Anthropic
from tests.support.provider_chat import Chat
from tests.support.provider_dialect import Dialect
from tests.support.provider_responses import Responses
from tests.support.provider_strict import Memory
from tests.support.stock import PARAMETERS, PROMPT
from tests.support.tries import tries

from pilotfish.engine.model.wire import http
from pilotfish.engine.model.wire.delta_joiner import DeltaJoiner
from pilotfish.engine.model.wire.http import create_client
from pilotfish.engine.model.wire.openai_client import send_chat_unchanged
from pilotfish.engine.model.wire.openai_responses import send_responses_unchanged

DIALECTS: dict[str, type[Dialect]] = {"chat": Chat, "responses": Responses, "anthropic": Anthropic}
KINDS = [*DIALECTS, "google"]


@pytest.fixture(autouse=True)
def no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes in memory arrive at once: nothing to wait for. The frame is tested in `test_http.py`."""
    monkeypatch.setattr(http, "FRAME", 0.0)


# -- streams --------------------------------------------------------------------------------------------------------


def written(kind: str, reply: Reply) -> bytes:
    """A reply as its dialect streams it, byte for byte."""
    if kind == "google":
        return written_by_google(reply)
    dialect = DIALECTS[kind]({"model": "m", "stream_options": {"include_usage": True}}, reply, Memory())
    dialect.n = 1
    pieces = b"".join(piece for piece in dialect.pieces() if isinstance(piece, bytes))
    return pieces + (b"".join(dialect.last()) if reply.end == "done" else b"")


def written_by_google(reply: Reply) -> bytes:
    events: list[bytes] = []

    def add(part: dict[str, Any], **fields: Any) -> None:
        usage = {
            "promptTokenCount": 9,
            "candidatesTokenCount": len(events) + 1,
            "totalTokenCount": 10 + len(events),
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}],
        }
        if len(events) == 2:
            usage["cachedContentTokenCount"] = 5  # reported once: pydantic-ai remembers it
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **fields}
        chunk = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}
        events.append(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n")

    for part in reply.parts:
        match part:
            case Text(text):
                add({"text": text})
            case Thought(text):
                add({"text": text, "thought": True})
                if text == "a":
                    add({"text": "", "thought": True, "thoughtSignature": "c2ln"})
            case Call(name):
                args = {} if isinstance(part.args, str) else dict(part.args)
                add({"functionCall": {"name": name, "args": args, "id": f"call_{len(events)}"}})
            case Raw(text):
                events.append(text.encode())
            case _:
                add({"text": "refused"})
    if reply.end == "done":
        words = {None: "STOP", "stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
        add({"text": ""}, finishReason=words[reply.finish])
    return b"".join(events)


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


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The bytes in chunks of these sizes, again and again."""
    out: list[bytes] = []
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        out.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return out


# -- what a model makes of them -------------------------------------------------------------------------------------


def model_over(kind: str, chunks: Sequence[bytes | Exception], *, joined: bool) -> Model[Any]:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(chunks))

    transport = httpx2.MockTransport(answer)
    client = create_client(30, transport) if joined else httpx2.AsyncClient(transport=transport, timeout=30)
    if kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        provider = AnthropicProvider(api_key="k", base_url="http://provider", http_client=client)
        provider.client.max_retries = 0
        return AnthropicModel("m", provider=provider)
    if kind == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel("m", provider=GoogleProvider(api_key="k", base_url="http://provider", http_client=client))
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    sdk = AsyncOpenAI(api_key="k", base_url="http://provider/v1", http_client=client, max_retries=0)
    if joined:
        send_chat_unchanged(sdk)
        send_responses_unchanged(sdk)
    openai = OpenAIProvider(openai_client=sdk)
    if kind == "responses":
        return OpenAIResponsesModel("m", provider=openai)
    return OpenAIChatModel("m", provider=openai, profile=ModelProfile(ignore_streamed_leading_whitespace=True))


async def outcome(kind: str, chunks: Sequence[bytes | Exception], *, joined: bool) -> tuple[Any, list[tuple[int, str]]]:
    """What a stream gives: the response or the error, without clocks; and the text of each part from its events."""
    model = model_over(kind, chunks, joined=joined)
    texts: dict[int, str] = {}
    options, parameters = model.prepare_request(None, PARAMETERS)
    try:
        async with model.request_stream(list(PROMPT), options, parameters) as stream:
            async for event in stream:
                match event:
                    case PartStartEvent(index=index, part=TextPart(content=text) | ThinkingPart(content=text)):
                        texts[index] = text
                    case PartDeltaEvent(index=index, delta=delta):
                        texts[index] = texts.get(index, "") + (getattr(delta, "content_delta", None) or "")
                    case _:
                        pass
            response = stream.get()
    except Exception as error:  # whatever it is, both must raise it
        return (type(error).__name__, _without_ids(str(error))), sorted(texts.items())
    return _plain(response), sorted(texts.items())


def _plain(response: ModelResponse) -> tuple[Any, ...]:
    parts = _without_ids(re.sub(r"pyd_ai_\w+", "pyd_ai", repr(response.parts)))
    details = {name: value for name, value in (response.provider_details or {}).items() if name != "timestamp"}
    return (
        parts,
        repr(response.usage),
        response.finish_reason,
        response.state,
        response.model_name,
        response.provider_response_id,
        repr(details),
    )


def _without_ids(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|position \d+", "", text)


async def check_same(kind: str, chunks: Sequence[bytes | Exception]) -> Any:
    stock, stock_texts = await outcome(kind, chunks, joined=False)
    joined, joined_texts = await outcome(kind, chunks, joined=True)
    assert joined == stock
    assert joined_texts == stock_texts
    return joined


# -- the same response ----------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["a", " ", "\n\n", "<think>", "</think>", "x>", "<y", "größe", "\U0001f41f", "\u2028", '"', "\\", "data: ", "\r\n"]
)
CALLS = st.builds(Call, st.just("read"), st.sampled_from([{"path": "ä b"}, {}, '{"pa']), split=st.integers(0, 4))
PARTS: st.SearchStrategy[Part] = st.one_of(
    WORDS.map(Text),
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
    max_examples=tries(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it sets a constant
)
@given(st.sampled_from(KINDS), REPLIES, st.lists(st.integers(1, 400), min_size=1, max_size=5), st.booleans())
@example("chat", Reply(parts=tuple(map(Text, ["<think>", "hm", "</think>", "\n\n", "yes", " ", "no"]))), [9999], False)
@example("chat", Reply(parts=tuple(map(Text, ["<thi", "nk>", "a", "<", "think>", "b"]))), [9999], False)
@example("chat", Reply(parts=tuple(map(Text, [" ", "a", "\n", "b"]))), [9999], False)
@example("chat", Reply(parts=(Thought("a"), Text("b"), Thought("c"), Text("d"))), [9999], False)
@example("responses", Reply(parts=(Text("a"), Text("b"), Thought("c"), Text("d"))), [9999], False)
@example(
    "anthropic", Reply(parts=(Thought("a"), Thought("b"), Text("c"), Call("read", {"path": "x"}, split=1))), [7], True
)
@example(
    "google", Reply(parts=(Text("a"), Text("\u2028"), Text("b"), Thought("a"), Text("d"), Text("e"))), [9999], False
)
@example("google", Reply(parts=(Text("a"), Text("b"), Text("c"), Text("d"), Text("e"))), [9999], False)
def test_any_reply_in_any_chunks_gives_the_same_response(kind: str, reply: Reply, sizes: list[int], crlf: bool) -> None:
    if kind == "google":  # its SDK takes a comment for the beginning of an error
        reply = Reply(parts=tuple(part for part in reply.parts if not isinstance(part, Raw)), finish=reply.finish)
    data = written(kind, reply)
    if crlf:
        data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    asyncio.run(check_same(kind, cut(data, sizes)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("interleave", [False, True])
async def test_parallel_calls_with_split_arguments_are_the_same(kind: str, interleave: bool) -> None:
    wanted = (Call("read", {"path": "a" * 50}, split=1), Call("read", {"path": "b" * 50}, split=3))
    data = written(kind, calls(*wanted, text="look", thoughts=("h", "m"), interleave=interleave))
    parts = (await check_same(kind, [data]))[0]
    assert "a" * 50 in parts
    assert "b" * 50 in parts


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
async def test_refusals_are_the_same(kind: str) -> None:
    plain = await check_same(kind, [written(kind, Reply(parts=(Refusal("I "), Refusal("will not."))))])
    assert plain[2] == "content_filter"


def chat_chunk(text: str, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None, **fields.pop("choice", {})}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "2"},
        {"model": "n"},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
        {"choice": {"logprobs": {"content": [{"token": "b", "logprob": -1, "bytes": [1], "top_logprobs": []}]}}},
        {"choice": {"delta": {"content": "b", "reasoning": "c"}}},
        {"choices": []},
        {"choices": None},
    ],
)
async def test_an_event_that_says_more_than_its_text_is_not_joined(fields: dict[str, Any]) -> None:
    odd = [chat_chunk("b", **json.loads(json.dumps(fields))) for _ in range(2)]
    end = chat_chunk("", choice={"finish_reason": "stop", "delta": {}})
    data = b"".join([chat_chunk("a"), *odd, chat_chunk("c"), chat_chunk("d"), end, b"data: [DONE]\n\n"])
    await check_same("chat", [data])


# -- the same errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("error", ["overloaded", "rate_limit", "server", "context"])
async def test_an_error_inside_the_stream_is_raised_after_the_deltas_before_it(kind: str, error: str) -> None:
    reply = say("one ", "two", end="error")
    dialect = DIALECTS[kind]({"model": "m"}, reply, Memory())
    await check_same(kind, [written(kind, reply) + dialect.broken(error)])


async def test_an_error_inside_a_google_stream_is_raised_after_the_deltas_before_it() -> None:
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    data = written("google", say("one ", "two", end="error")) + b"data: " + json.dumps(error).encode() + b"\r\n\r\n"
    (name, _), texts = await outcome("google", [data], joined=True)
    assert (name, texts) == ("ModelOverloadedError", [(0, "one two")])
    await check_same("google", [data])


GARBAGE = [b"data: {broken\n\n", b"data: \xff\xfe\n\n", b"data: [1]\n\n", b"data:\n\n", b"data: NaN\n\n"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_does_not_discard_the_deltas_before_it(kind: str, garbage: bytes) -> None:
    data = written(kind, say("one ", "two ", "three", end="cut")) + garbage
    stock, stock_texts = await outcome(kind, [data], joined=False)
    joined, joined_texts = await outcome(kind, [data], joined=True)
    assert joined_texts == stock_texts == [(0, "one two three")]
    if isinstance(stock[0], str) and len(stock) == 2:  # an error
        assert joined == stock


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "error", [httpx2.ReadError("reset"), httpx2.ReadTimeout("slow"), httpx2.RemoteProtocolError("incomplete")]
)
async def test_a_broken_connection_is_the_same_error(kind: str, error: Exception) -> None:
    data = written(kind, say("one ", "two", end="cut"))
    (name, *_), texts = await outcome(kind, [data, error], joined=True)
    assert name == (await outcome(kind, [data, error], joined=False))[0][0]
    assert texts == [(0, "one two")]


# -- where the end of a Chat stream is ------------------------------------------------------------------------------


async def test_a_chat_stream_with_a_reason_and_without_the_end_marker_is_complete() -> None:
    data = written("chat", say("one ", "two")).replace(b"data: [DONE]\n\n", b"")
    assert (await check_same("chat", [data]))[2] == "stop"


async def test_a_chat_stream_with_the_end_marker_and_without_a_reason_is_complete() -> None:
    data = written("chat", say("one ", "two")).replace(b'"finish_reason": "stop"', b'"finish_reason": null')
    assert b"[DONE]" in data
    assert (await check_same("chat", [data]))[2] == "stop"


@pytest.mark.parametrize("with_marker", [True, False])
async def test_a_reason_beside_a_comment_is_a_reason(with_marker: bool) -> None:
    reply = say("one ", "two", finish="length")
    data = written("chat", reply).replace(b"data: [DONE]\n\n", b"data: [DONE]\n\n" if with_marker else b"")
    events = [b": ping\n" + event if b'"finish_reason": "length"' in event else event for event in data.split(b"\n\n")]
    assert (await check_same("chat", [b"\n\n".join(events)]))[2] == "length"


async def test_a_chat_stream_that_is_cut_off_is_an_error_and_not_an_answer() -> None:
    data = written("chat", say("one ", 'a "finish_reason": "stop" in the text', end="cut"))
    (name, message), texts = await outcome("chat", [data], joined=True)
    assert (name, message) == ("ModelConnectionError", "Connection error.")
    assert texts == [(0, 'one a "finish_reason": "stop" in the text')]


# -- what is joined -------------------------------------------------------------------------------------------------


def joined_events(data: bytes) -> list[dict[str, Any]]:
    joiner = DeltaJoiner()
    joiner.feed(data)
    out = joiner.take() + joiner.close()
    events: list[dict[str, Any]] = []
    for line in out.split(b"\n"):
        with contextlib.suppress(ValueError):
            events.append(cast("dict[str, Any]", json.loads(line.removeprefix(b"data: "))))
    return events


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [Text, Thought])
def test_deltas_that_arrive_together_become_one(kind: str, part: type[Text | Thought]) -> None:
    words = ["one ", "two ", "\n", "three ", "four"]
    data = written(kind, Reply(parts=tuple(map(part, words))))
    deltas = [event for event in joined_events(data) if len(text_of(event)) > 1]
    # Google reports a count in the third event only, which keeps it apart.
    wanted = ["one two ", "\n", "three four"] if kind == "google" else ["".join(words)]
    assert [text_of(event) for event in deltas] == [text for text in wanted if len(text) > 1]


def text_of(event: dict[str, Any]) -> str:
    """The text of a delta of any dialect; empty if the event is another one."""
    match event:
        case {"choices": [{"delta": {"content": str(text)} | {"reasoning_content": str(text)}}]}:
            return text
        case {"candidates": [{"content": {"parts": [{"text": str(text)}]}}]}:
            return text
        case {"type": "content_block_delta", "delta": {"text": str(text)} | {"thinking": str(text)}}:
            return text
        case {"type": str(kind), "delta": str(text)} if kind.endswith("_text.delta"):
            return text
        case _:
            return ""


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
def test_arguments_that_arrive_together_become_one_delta(kind: str) -> None:
    data = written(kind, calls(Call("read", {"path": "<a> " * 10}, split=1)))
    assert data.count(b"\n\n") > 40
    assert len(joined_events(data)) < 14


def test_a_joined_event_has_the_last_sequence_number() -> None:
    events = joined_events(written("responses", say(*"abc")))
    (delta,) = [event for event in events if event["type"] == "response.output_text.delta"]
    after = events[events.index(delta) + 1]
    assert (delta["delta"], after["sequence_number"]) == ("abc", delta["sequence_number"] + 1)


def test_a_joined_event_has_the_last_usage() -> None:
    events = joined_events(written("google", say("a", "b", "c", "d", "e", "f")))
    assert [event["usageMetadata"]["candidatesTokenCount"] for event in events] == [2, 3, 6, 7]


async def test_a_count_that_is_zero_later_is_not_joined_away() -> None:
    data = written("google", say("a", "b", "c", "d", "e"))
    first, second, *rest = data.split(b"\r\n\r\n")
    first = first.replace(b'"promptTokenCount": 9', b'"promptTokenCount": 9, "thoughtsTokenCount": 7')
    second = second.replace(b'"promptTokenCount": 9', b'"promptTokenCount": 9, "thoughtsTokenCount": 0')
    usage = (await check_same("google", [b"\r\n\r\n".join([first, second, *rest])]))[1]
    assert "'thoughts_tokens': 7" in usage


def test_random_padding_does_not_keep_deltas_apart() -> None:
    (event,) = joined_events(chat_chunk("a", obfuscation="xyz") + chat_chunk("b", obfuscation="q"))
    assert event["choices"][0]["delta"]["content"] == "ab"


def test_a_lone_delta_passes_byte_for_byte() -> None:
    data = chat_chunk("größe")
    joiner = DeltaJoiner()
    joiner.feed(data)
    assert joiner.only_deltas
    assert joiner.take() == data
