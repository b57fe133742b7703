"""Answers that deviate from the API of their dialect, through the real client and the scripted provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, ToolCallPart
from tests.support.engine import rig
from tests.support.provider import Call, Raw, Reply, Text, calls, say, serve
from tests.support.provider_http import DIALECTS
from tests.support.provider_strict import Memory
from tests.support.stock import KINDS, ask, spoken

from pilotfish.config.settings import Settings
from pilotfish.engine.model import resolve

MODEL = {"chat": "openai-chat:m", "responses": "openai:m", "anthropic": "anthropic:m", "google": "google:m"}
WHOLE = calls(
    Call("read", {"path": "a"}, id="call_1"), Call("read", {"path": "b"}, id="call_2"), text="look", thoughts=("hm",)
)


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    await resolve.aclose()


async def answer(kind: str, *replies: Reply) -> ModelResponse:
    async with serve(*replies) as provider:
        settings = Settings(model=MODEL[kind], base_url=provider.base_url(kind))
        return await ask(resolve.resolve(settings.model, settings, {"openai": "k", "anthropic": "k", "google": "k"}))


def whole(kind: Any, reply: Reply) -> str:
    """The answer without a stream, as JSON."""
    dialect = DIALECTS[kind]({"model": "m", "stream": False}, reply, Memory())
    for _ in dialect.pieces():
        pass
    return json.dumps(dialect.whole())


@pytest.mark.parametrize("kind", KINDS)
async def test_json_in_answer_to_a_request_for_a_stream_is_read(kind: str) -> None:
    found = await answer(kind, Reply(body=whole(kind, WHOLE)))
    streamed = await answer(kind, WHOLE)
    assert spoken(found) == spoken(streamed)
    assert [part.args_as_dict() for part in found.tool_calls] == [{"path": "a"}, {"path": "b"}]
    assert (found.finish_reason, resolve.broke_off(found)) == (streamed.finish_reason, False)
    assert found.usage.output_tokens == streamed.usage.output_tokens


async def test_thoughts_of_a_whole_answer_are_not_its_text() -> None:
    found = await answer("chat", Reply(body=whole("chat", say("<think>\nhm\n</think>\n\nfour"))))
    assert spoken(found) == [("thinking", "\nhm\n"), ("text", "\n\nfour")]


@pytest.mark.parametrize("kind", ["anthropic", "responses"])
async def test_a_tool_of_the_provider_in_a_whole_answer_is_read(kind: str) -> None:
    found = await answer(kind, Reply(body=json.dumps(WITH_MCP[kind])))
    assert spoken(found) == [("builtin-tool-call", ""), ("builtin-tool-return", ""), ("text", "two")]


WITH_MCP: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "content": [
            {"type": "mcp_tool_use", "id": "t1", "name": "ask", "server_name": "wiki", "input": {"question": "how?"}},
            {"type": "mcp_tool_result", "tool_use_id": "t1", "is_error": False, "content": []},
            {"type": "text", "text": "two"},
        ],
    },
    "responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {
                "id": "mcp_1",
                "type": "mcp_call",
                "server_label": "wiki",
                "name": "ask",
                "arguments": '{"question": "how?"}',
                "output": "so",
                "error": None,
            },
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "two", "annotations": []}],
            },
        ],
    },
}


def chunk(*tool_calls: dict[str, Any]) -> Raw:
    choice = {"index": 0, "delta": {"tool_calls": list(tool_calls)}, "finish_reason": None}
    event = {"id": "x", "model": "m", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}
    return Raw(f"data: {json.dumps(event)}\n\n")


def delta(index: int, args: str, name: str | None = None, call_id: str | None = None) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": args}}


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (  # Kimi K2 through Novita: the name in every chunk
            [delta(0, "", "read", "a"), delta(0, '{"path"', "read", "a"), delta(0, ': "x"}', "read", "a")],
            [("read", '{"path": "x"}')],
        ),
        (  # several calls at index 0
            [delta(0, '{"path": "x"}', "read", "a"), delta(0, '{"path": "y"}', "read", "b")],
            [("read", '{"path": "x"}'), ("read", '{"path": "y"}')],
        ),
        (  # in pieces
            [delta(0, '{"path"', "read", "a"), delta(0, ': "x"}'), delta(0, '{"path"', "list", "b"), delta(0, ": 1}")],
            [("read", '{"path": "x"}'), ("list", '{"path": 1}')],
        ),
        (  # a name in pieces, an id that changes without a name
            [delta(0, "", "re", "a"), delta(0, "", "ad", "a"), delta(0, "{}", None, "b")],
            [("read", "{}")],
        ),
        (  # parallel calls as they should be, interleaved
            [delta(0, "", "read", "a"), delta(1, "", "list", "b"), delta(0, "{}"), delta(1, "[]")],
            [("read", "{}"), ("list", "[]")],
        ),
    ],
)
@pytest.mark.parametrize("together", [True, False])
async def test_calls_are_told_apart(
    chunks: list[dict[str, Any]], expected: list[tuple[str, str]], together: bool
) -> None:
    parts = [chunk(*chunks)] if together else [chunk(each) for each in chunks]
    found = await answer("chat", Reply(parts=parts, finish="tool_calls"))
    assert [(part.tool_name, part.args) for part in found.parts if isinstance(part, ToolCallPart)] == expected
    assert len({part.tool_call_id for part in found.tool_calls}) == len(expected)


@pytest.mark.parametrize(
    "event", ['error: {"code": 400, "message": "the model is gone"}\n\n', "error: the model is gone\n\n"]
)
async def test_an_error_field_of_a_stream_is_the_provider_s_error(event: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the SDK's or the library's
        await answer("chat", Reply(parts=(Text("a"), Raw(event)), end="cut"))
    assert "the model is gone" in str(resolve.failure(caught.value))


@pytest.mark.parametrize("status", [429, 503])
async def test_an_error_with_status_200_keeps_the_status_it_names(status: int) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- each library raises its own
        await answer("chat", Reply(body=json.dumps({"error": {"code": status, "message": "busy"}})))
    assert resolve.failure(caught.value).kind == ("rate_limit" if status == 429 else "overloaded")


async def test_an_error_with_status_200_keeps_the_status_that_azure_names() -> None:
    error = {"error": {"code": "content_filter", "status": 400, "message": "filtered by policy"}}
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- each library raises its own
        await answer("chat", Reply(body=json.dumps(error)))
    told = resolve.failure(caught.value)
    assert (told.retryable, "filtered by policy" in str(told)) == (False, True)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_limit_that_thinking_used_up_is_named(tmp_path: Path, kind: Any) -> None:
    async with rig(tmp_path, Reply(parts=(), finish="length"), dialect=kind) as turn:
        error = (await turn.prompt("go")).error
        assert error is not None
        assert "token limit" in error.message
        assert "Send the prompt again" not in (error.remedy or "")


async def test_an_answer_that_is_only_promised_is_asked_for_again(tmp_path: Path) -> None:
    queued: dict[str, object] = {"id": "resp_1", "object": "response", "status": "queued", "output": []}
    async with rig(tmp_path, Reply(body=json.dumps(queued)), say("fine"), dialect="responses") as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert (turn.text(), len(turn.provider.requests)) == ("fine", 2)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_garbled_answer_is_asked_for_again(tmp_path: Path, kind: Any) -> None:
    async with rig(tmp_path, Reply(body='{"id": "x", "choi'), say("fine"), dialect=kind) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert (turn.text(), len(turn.provider.requests)) == ("fine", 2)


@pytest.mark.parametrize(
    ("generated", "answered"),
    [
        ('{"name": "read_file", "arguments": {"pfad": "a.txt"}}', "path"),
        ('<function=read_file{"path": "a.txt"}</function>', "alpha"),
        ('{"name": "open_file", "arguments": {}}', "the tool is called read_file"),
        ("read_file nothing", "not a JSON object"),
    ],
)
async def test_a_call_that_groq_refuses_is_answered_to_the_model(tmp_path: Path, generated: str, answered: str) -> None:
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": generated}
    refusal = Reply(status=400, body=json.dumps({"error": error}))
    async with rig(tmp_path, refusal, say("fine"), files={"a.txt": "alpha\n"}) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert answered in str(turn.provider.requests[1].messages[-1])


async def test_wrong_calls_of_one_tool_do_not_end_the_turn(tmp_path: Path) -> None:
    wrong = [calls(Call("read_file", {"path": "a.txt", "offset": f"line {number}"})) for number in range(6)]
    async with rig(tmp_path, *wrong, say("I give up.")) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert turn.text() == "I give up."
