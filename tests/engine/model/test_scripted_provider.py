"""The scripted provider: the real SDKs read its replies, and it refuses invalid requests."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_ai import exceptions as library
from pydantic_ai.messages import ModelMessage, ModelRequest, ThinkingPart, ToolReturnPart, UserPromptPart
from tests.support.provider import (
    Call,
    Gate,
    Pause,
    Raw,
    Refusal,
    Reply,
    Text,
    Thought,
    Tokens,
    call,
    calls,
    fails,
    from_json,
    say,
    serve,
)
from tests.support.stock import KINDS, PARAMETERS, PROMPT, ask, ask_stock, spoken, stock


@pytest.mark.parametrize("kind", KINDS)
async def test_text_thoughts_and_parallel_calls_arrive_as_scripted(kind: str) -> None:
    wanted = (Call("read", {"path": "a"}, split=3), Call("read", {"path": "b"}, split=2))
    reply = calls(*wanted, text="Let me look.", thoughts=("Hm", "m."))
    async with serve(reply) as provider:
        response = await ask_stock(kind, provider)
    assert spoken(response) == [
        ("thinking", "Hmm."),
        ("text", "Let me look."),
        ("read", '{"path":"a"}'),
        ("read", '{"path":"b"}'),
    ]
    assert response.finish_reason == ("stop" if kind in ("responses", "google") else "tool_call")


@pytest.mark.parametrize("kind", KINDS)
async def test_the_answer_without_a_stream_is_the_same(kind: str) -> None:
    reply = calls(Call("read", {"path": "a"}), text="Look.", thoughts=("Hm",))
    async with serve(reply, reply) as provider, stock(kind, provider) as model:
        settings, parameters = model.prepare_request(None, PARAMETERS)
        whole = await model.request(list(PROMPT), settings, parameters)
        streamed = await ask(model)
    assert spoken(whole) == spoken(streamed)
    assert whole.finish_reason == streamed.finish_reason


@pytest.mark.parametrize("kind", KINDS)
async def test_usage_is_what_the_script_says(kind: str) -> None:
    async with serve(say("hi", usage=Tokens(input=100, output=7, cached=60))) as provider:
        response = await ask_stock(kind, provider)
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (100, 7, 60)


@pytest.mark.parametrize(("finish", "expected"), [("length", "length"), ("content_filter", "content_filter")])
@pytest.mark.parametrize("kind", KINDS)
async def test_finish_reasons_are_those_of_the_dialect(kind: str, finish: str, expected: str) -> None:
    async with serve(say("cut", finish=finish)) as provider:
        assert (await ask_stock(kind, provider)).finish_reason == expected


@pytest.mark.parametrize("kind", KINDS)
async def test_a_whole_round_goes_back_and_is_accepted(kind: str) -> None:
    first = calls(Call("read", {"path": "a"}), Call("read", {"path": "b"}), thoughts=("Hm",))
    async with serve(first, say("done")) as provider, stock(kind, provider) as model:
        response = await ask(model)
        returns = [ToolReturnPart(part.tool_name, "ok", part.tool_call_id) for part in response.tool_calls]
        final = await ask(model, [*PROMPT, response, ModelRequest(parts=returns)])
        assert [request.refused for request in provider.requests] == [None, None]
    assert spoken(final) == [("text", "done")]


@pytest.mark.parametrize(
    ("kind", "error", "name"),
    [
        (kind, error, name)
        for kind in KINDS
        for error, name in (
            ("rate_limit", "ModelRateLimitError"),
            ("overloaded", "ModelOverloadedError"),
            ("server", "ModelServerError"),
            ("authentication", "ModelAuthenticationError"),
            ("permission", "ModelAuthenticationError"),
            ("credit", "ModelQuotaExceededError"),
            ("context", "ModelContextWindowExceededError"),
            ("not_found", "ModelNotFoundError"),
            ("bad_request", "ModelRequestRejectedError"),
        )
    ],
)
async def test_errors_are_recognised_by_kind(kind: str, error: str, name: str) -> None:
    if (kind, error) == ("google", "credit"):
        name = "ModelRateLimitError"  # Google answers both with RESOURCE_EXHAUSTED
    async with serve(fails(error)) as provider:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # the type is what is asserted
            await ask_stock(kind, provider)
    assert type(caught.value).__name__ == name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["drop", "garbage", "error:overloaded"])
async def test_a_stream_that_breaks_raises(kind: str, end: str) -> None:
    async with serve(say("one", "two", end=end)) as provider:
        with pytest.raises(Exception):  # noqa: B017, PT011  # each library has its own
            await ask_stock(kind, provider)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["stall", "endless"])
async def test_a_disconnect_of_the_client_is_detected_at_once(kind: str, end: str) -> None:
    async with serve(say("one", "two", end=end, after=1)) as provider:
        asking = asyncio.create_task(ask_stock(kind, provider))
        request = await provider.received(1)
        while request.first_byte_at is None:
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.wait_for(request.disconnected.wait(), 5)
        assert request.disconnected_at is not None
        assert request.finished_at is None


async def test_a_gate_holds_the_stream_until_the_test_opens_it() -> None:
    async with serve(Reply(parts=(Text("a"), Gate(), Pause(0.001), Text("b")))) as provider:
        asking = asyncio.create_task(ask_stock("chat", provider))
        await provider.received(1)
        await asyncio.sleep(0.02)
        assert not asking.done()
        provider.release()
        assert spoken(await asking) == [("text", "ab")]


async def test_raw_lines_and_refusals_are_sent_as_they_are() -> None:
    async with serve(Reply(parts=(Raw(": keep-alive\n\n"), Refusal("I will not.")))) as provider:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        async with httpx2.AsyncClient() as client:
            answer = await client.post(f"{provider.openai_url}/chat/completions", json=body)
    assert ": keep-alive\n\n" in answer.text
    assert '"delta": {"refusal": "I will not."}' in answer.text


async def test_replies_are_chosen_by_text_and_repeated() -> None:
    script = [{"text": "title", "when": "name this"}, {"text": "again", "repeat": 2}]
    provider = from_json({"replies": script, "otherwise": {"text": "over"}})
    await provider.start()
    titled: tuple[ModelMessage, ...] = (ModelRequest(parts=[UserPromptPart("name this please")]),)
    async with stock("chat", provider) as model:
        texts = [spoken(await ask(model, messages))[0][1] for messages in (PROMPT, PROMPT, titled, PROMPT)]
    await provider.stop()
    assert texts == ["again", "again", "title", "over"]


async def test_a_callable_sees_the_request() -> None:
    async with serve(lambda request: say(f"{request.kind} {request.tools}")) as provider:
        assert spoken(await ask_stock("responses", provider)) == [("text", "responses ['read']")]


async def test_thoughts_can_use_the_other_field() -> None:
    async with serve(Reply(parts=(Thought("hm"), Text("hi")), reasoning_field="reasoning")) as provider:
        assert spoken(await ask_stock("chat", provider)) == [("thinking", "hm"), ("text", "hi")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_huge_answer_arrives_whole(kind: str) -> None:
    async with serve(say("0123456789" * 10_000, times=30)) as provider:
        assert spoken(await ask_stock(kind, provider)) == [("text", "0123456789" * 300_000)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_can_be_cut_inside_the_arguments_of_a_call(kind: str) -> None:
    reply = calls(Call("read", {"path": "abcdef"}, split=4), end="drop", after=3)
    seen: list[str] = []
    async with serve(reply) as provider, stock(kind, provider) as model:
        settings, parameters = model.prepare_request(None, PARAMETERS)

        async def read() -> None:
            async with model.request_stream(list(PROMPT), settings, parameters) as stream:
                async for _ in stream:
                    seen[:] = [part.tool_name for part in stream.get().tool_calls]

        with pytest.raises(library.ModelConnectionError):
            await read()
    assert seen == ["read"]


@pytest.mark.parametrize("kind", ["chat", "responses"])
async def test_arguments_of_parallel_calls_can_be_interleaved(kind: str) -> None:
    wanted = (Call("read", {"path": "aaaa"}, split=2), Call("read", {"path": "bbbb"}, split=3))
    async with serve(calls(*wanted, interleave=True)) as provider:
        assert spoken(await ask_stock(kind, provider)) == [("read", '{"path":"aaaa"}'), ("read", '{"path":"bbbb"}')]


def test_a_mistake_in_a_script_raises() -> None:
    with pytest.raises(TypeError, match="txt"):
        from_json([{"txt": "hi"}])
    with pytest.raises(TypeError, match="a part of a reply is not called 'say'"):
        from_json([{"parts": [{"say": "hi"}]}])


def test_every_part_has_a_json_form() -> None:
    parts = [
        {"thought": "a"},
        {"text": ["b", "c"]},
        {"refusal": "d"},
        {"call": {"name": "read", "args": "{"}},
        {"pause": 1},
        {"gate": True},
        {"raw": ":\n\n"},
    ]
    (reply,) = from_json([{"parts": parts, "retryAfter": 3}]).replies
    assert reply == Reply(
        parts=(Thought("a"), Text("b"), Text("c"), Refusal("d"), Call("read", "{"), Pause(1), Gate(), Raw(":\n\n")),
        retry_after=3,
    )


USER = {"role": "user", "content": "x"}
CALLED = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


@pytest.mark.parametrize(
    ("messages", "refused"),
    [
        ([USER, ASKED, RESULT], None),
        ([], "Invalid 'messages': empty array"),
        ([USER, ASKED], "An assistant message with 'tool_calls' must be followed"),
        ([USER, ASKED, USER], "An assistant message with 'tool_calls' must be followed"),
        ([USER, RESULT], "messages with role 'tool' must be a response to a preceeding message"),
        ([USER, ASKED, RESULT, RESULT], "Duplicate value for 'tool_call_id' of 'c1'"),
        ([USER, ASKED, {**RESULT, "tool_call_id": "other"}], "'tool_call_id' of 'other' not found"),
        ([USER, {**ASKED, "tool_calls": [CALLED, CALLED]}, RESULT], "Duplicate value for 'tool_call_id'"),
        ([USER, {**ASKED, "tool_calls": []}], "empty array"),
        ([USER, {"role": "assistant", "content": None}], "expected a string, got null"),
        ([{"role": "user", "content": None}], "expected a string, got null"),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
        ([USER, {**ASKED, "tool_calls": [{**CALLED, "id": "x" * 41}]}], "string too long"),
    ],
)
async def test_chat_refuses_what_openai_refuses(messages: list[dict[str, Any]], refused: str | None) -> None:
    await check_refusal("/v1/chat/completions", {"model": "m", "messages": messages}, refused)


REASONING: dict[str, Any] = {"type": "reasoning", "summary": []}
ITEM = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}


@pytest.mark.parametrize(
    ("items", "refused"),
    [
        ([USER, ITEM, OUTPUT], None),
        ([], "Missing required parameter: 'input'"),
        ([USER, ITEM], "No tool output found for function call c1"),
        ([USER, OUTPUT], "No tool call found for function call output with call_id c1"),
        ([USER, REASONING], "without its required following item"),
        ([USER, {**ITEM, "id": "fc_strange"}, OUTPUT], "Item with id 'fc_strange' not found"),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    ],
)
async def test_responses_refuses_what_openai_refuses(items: list[dict[str, Any]], refused: str | None) -> None:
    await check_refusal("/v1/responses", {"model": "m", "input": items}, refused)


def told(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


USED: dict[str, Any] = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}]}
DONE = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
WORD = {"type": "text", "text": "x"}
TOLD = told(DONE)
SIGNED = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "forged"}]}


@pytest.mark.parametrize(
    ("messages", "refused"),
    [
        ([USER, USED, TOLD], None),
        ([USER, USED, TOLD, USER], None),
        ([], "at least one message is required"),
        ([USED, TOLD], 'first message must use the "user" role'),
        ([{"role": "system", "content": "x"}, USER], 'Unexpected role "system"'),
        ([USER, USED], "without `tool_result` blocks immediately after: t1"),
        ([USER, USED, USER], "without `tool_result` blocks immediately after: t1"),
        (
            [USER, USED, {"role": "user", "content": [{"type": "text", "text": "x"}, *TOLD["content"]]}],
            "immediately after",
        ),
        ([USER, TOLD], "unexpected `tool_use_id` found in `tool_result` blocks: t1"),
        ([USER, USED, told(DONE, DONE)], "must have a single result"),
        ([{"role": "user", "content": ""}], "must have non-empty content"),
        ([told({**WORD, "text": ""})], "must be non-empty"),
        ([told({**WORD, "text": " \n"})], "non-whitespace"),
        ([USER, SIGNED, USER], "Invalid `signature` in `thinking` block"),
        ([USER, {"role": "assistant", "content": "so"}], "does not support assistant message prefill"),
        ([USER, USED, TOLD, USED, TOLD], "`tool_use` ids must be unique"),
    ],
)
async def test_messages_refuses_what_anthropic_refuses(messages: list[dict[str, Any]], refused: str | None) -> None:
    await check_refusal("/v1/messages", {"model": "m", "max_tokens": 9, "messages": messages}, refused)


ASKS: dict[str, Any] = {"role": "user", "parts": [{"text": "x"}]}
SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()
FUNCTION: dict[str, Any] = {"functionCall": {"name": "read", "args": {}}}
CALLS: dict[str, Any] = {"role": "model", "parts": [{**FUNCTION, "thoughtSignature": SIGNATURE}]}
ANSWER: dict[str, Any] = {"functionResponse": {"name": "read", "response": {"output": "ok"}}}
ANSWERS: dict[str, Any] = {"role": "user", "parts": [ANSWER]}
SAYS: dict[str, Any] = {"role": "model", "parts": [{"text": "so"}]}


CONTENTS: list[tuple[list[dict[str, Any]], str | None]] = [
    ([ASKS, CALLS, ANSWERS], None),
    ([ASKS, CALLS, ANSWERS, ASKS], None),
    ([ASKS, SAYS, ASKS], None),
    ([ASKS, {**CALLS, "parts": [*CALLS["parts"], FUNCTION]}, {**ANSWERS, "parts": [ANSWER, ANSWER]}], None),
    ([ASKS, {"role": "model", "parts": [FUNCTION]}, ANSWERS, ASKS], None),
    ([], "contents is not specified"),
    ([{**ASKS, "role": "system"}], "Please use a valid role: user, model."),
    ([ASKS, {"role": "model", "parts": []}, ASKS], "contents[1].parts: contents.parts must not be empty."),
    ([{"role": "user", "parts": [{}]}], "must have one initialized field"),
    ([{"role": "user", "parts": [{"text": "x", **ANSWER}]}], "must have one initialized field"),
    ([{"role": "user", "parts": [{"txt": "x"}]}], "Unknown name \"txt\" at 'contents[0].parts[0]'"),
    ([CALLS, ANSWERS], "function call turn comes immediately after a user turn"),
    ([ASKS, SAYS, CALLS, ANSWERS], "function call turn comes immediately after a user turn"),
    ([ASKS, ANSWERS], "function response turn comes immediately after a function call turn"),
    ([ASKS, CALLS, ASKS], "number of function response parts is equal"),
    ([ASKS, CALLS], "number of function response parts is equal"),
    ([ASKS, CALLS, {**ANSWERS, "parts": [ANSWER, ANSWER]}], "number of function response parts is equal"),
    ([ASKS, CALLS, ASKS, ANSWERS], "number of function response parts is equal"),
    (
        [ASKS, CALLS, {"role": "user", "parts": [{"functionResponse": {"name": "", "response": {}}}]}],
        "Name cannot be empty",
    ),
    (
        [ASKS, CALLS, {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": "ok"}}]}],
        "Invalid value at 'contents[2].parts[0].function_response.response'",
    ),
    ([ASKS, {"role": "model", "parts": [{"functionCall": {"name": "1 2"}}]}, ANSWERS], "Invalid function name"),
    ([ASKS, {"role": "model", "parts": [FUNCTION]}, ANSWERS], "missing a thought_signature"),
    ([ASKS, {"role": "model", "parts": [{**FUNCTION, "thoughtSignature": "forged"}]}, ANSWERS], "is not valid"),
    ([ASKS, SAYS], "end with a user role or a function response"),
]


@pytest.mark.parametrize(("contents", "refused"), CONTENTS)
async def test_google_refuses_what_google_refuses(contents: list[dict[str, Any]], refused: str | None) -> None:
    for path in ("/v1/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"):
        await check_refusal(path, {"contents": contents}, refused)


FIELDS: list[tuple[dict[str, Any], str | None]] = [
    ({"system_instruction": {"parts": [{"text": "x"}]}}, None),
    ({"messages": []}, 'Unknown name "messages": Cannot find field.'),
    ({"tools": [{"functionDeclarations": [{"name": "a b"}]}]}, "Invalid function name"),
    ({"tools": [{"functionDeclarations": [{"name": "a"}, {"name": "a"}]}]}, "Duplicate function declaration"),
    (
        {"tools": [{"functionDeclarations": [{"name": "a", "parameters": {}, "parametersJsonSchema": {}}]}]},
        "Only one of parameters",
    ),
    (
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}},
        "only one of thinking budget and thinking level",
    ),
]


@pytest.mark.parametrize(("more", "refused"), FIELDS)
async def test_google_refuses_unknown_names_and_wrong_tools(more: dict[str, Any], refused: str | None) -> None:
    await check_refusal("/v1/models/m:generateContent", {"contents": [ASKS], **more}, refused)


async def test_a_signature_of_google_is_only_accepted_on_a_call_of_its_function() -> None:
    reply = calls(Call("read", {"path": "a"}), thoughts=("Hm",))
    async with serve(reply, say("x")) as provider, stock("google", provider) as model:
        response = await ask(model)
        response.tool_calls[0].tool_name = "other"
        returned = ModelRequest(parts=[ToolReturnPart("other", "ok", response.tool_calls[0].tool_call_id)])
        with pytest.raises(library.ModelRequestRejectedError, match="Thought signature is not valid"):
            await ask(model, [*PROMPT, response, returned])


async def test_google_signs_a_thought_without_a_call_at_its_end_and_accepts_it_back() -> None:
    async with serve(say("hi", thoughts=("Hm",)), say("x")) as provider, stock("google", provider) as model:
        response = await ask(model)
        await ask(model, [*PROMPT, response, *PROMPT])
        thought, text = provider.requests[1].messages[1]["parts"]
    assert (thought["thought"], text["text"], provider.requests[1].refused) == (True, "hi", None)
    signature = base64.b64encode(base64.urlsafe_b64decode(text["thoughtSignature"])).decode()
    assert signature in provider.memory.google_signatures


async def test_google_says_how_long_to_wait_in_the_body_of_an_error() -> None:
    async with serve(fails("rate_limit", retry_after=7)) as provider, httpx2.AsyncClient() as client:
        answer = await client.post(f"{provider.url}/v1/models/m:generateContent", json={"contents": [ASKS]})
    assert "retry-after" not in answer.headers
    assert answer.json()["error"] == {
        "code": 429,
        "message": "Resource has been exhausted (e.g. check quota). Please retry in 7s.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}],
    }


async def test_google_ends_a_call_with_broken_arguments_as_malformed() -> None:
    async with serve(calls(Call("read", "{broken"), text="hm")) as provider:
        response = await ask_stock("google", provider)
    assert (spoken(response), response.finish_reason) == ([("text", "hm")], "error")


async def check_refusal(path: str, body: dict[str, Any], refused: str | None) -> None:
    async with serve(say("fine")) as provider, httpx2.AsyncClient() as client:
        answer = await client.post(provider.url + path, json=body, headers={"anthropic-version": "2023-06-01"})
        request = provider.requests[0]
    if refused is None:
        assert (answer.status_code, request.refused) == (200, None)
    else:
        assert answer.status_code == 400
        assert refused in answer.json()["error"]["message"]
        assert request.refused is not None
        assert len(provider.replies) == 1, "a refused request uses no reply"


async def test_a_thought_is_only_accepted_unchanged() -> None:
    reply = calls(Call("read", {}), thoughts=("Hm",))
    async with serve(reply, say("x")) as provider, stock("anthropic", provider) as model:
        response = await ask(model)
        thought = response.parts[0]
        assert isinstance(thought, ThinkingPart)
        thought.content = "changed"
        returned = ModelRequest(parts=[ToolReturnPart("read", "ok", response.tool_calls[0].tool_call_id)])
        with pytest.raises(Exception, match="Invalid `signature`"):
            await ask(model, [*PROMPT, response, returned])


@pytest.mark.parametrize(("kind", "message"), [("chat", "Incorrect API key"), ("google", "API key not valid")])
async def test_a_wrong_key_is_refused(kind: str, message: str) -> None:
    async with serve(say("x"), key="right") as provider:
        with pytest.raises(library.ModelAuthenticationError, match=message):
            await ask_stock(kind, provider)


async def test_models_are_listed() -> None:
    async with serve(models=("a", {"id": "b", "max_model_len": 9})) as provider, httpx2.AsyncClient() as client:
        found = (await client.get(f"{provider.openai_url}/models")).json()["data"]
    assert [(each["id"], each.get("max_model_len")) for each in found] == [("a", None), ("b", 9)]


async def test_a_call_made_by_name_is_a_reply() -> None:
    assert call("read", path="a") == Reply(parts=(Call("read", {"path": "a"}),))


def test_as_a_process_it_prints_its_port_and_lists_its_requests(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": ["a", "b"]}]))
    command = [sys.executable, "-m", "tests.support.provider", "--script", str(script), "--port", "0"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        base = f"http://127.0.0.1:{int(process.stdout.readline())}"
        body = {"model": "m", "messages": [USER]}
        with httpx2.Client() as client:
            said = client.post(f"{base}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
            client.post(f"{base}/_script", json=[{"text": "more"}])
            more = client.post(f"{base}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
            seen = client.get(f"{base}/_requests").json()
        process.terminate()
    assert (said, more) == ("ab", "more")
    assert [request["body"] for request in seen] == [body, body]
