"""Language models that the client serves: the client of these tests plays the model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import OURS, Client, RpcError, connect, never

from pilotfish.protocol import wire

HELLO: dict[str, Any] = {**OURS, "client": {"approvals": True, "languageModels": True}}
MODEL = "vscode:copilot/gpt-x"
OFFERED = {"id": "copilot/gpt-x", "label": "GPT X", "contextWindow": 64_000, "images": False, "tools": True}

Answer = tuple[list[Any], dict[str, Any]]
"""the parts of an answer (or what to wait for), and how it ends"""


class Played:
    """The language models of a client, scripted: one entry for each request."""

    def __init__(self, client: Client, *script: Answer) -> None:
        self.client = client
        self.script = list(script)
        self.requests: list[wire.ModelRequestParams] = []
        client.answers["pilotfish/model/request"] = self.answer
        self.offer(OFFERED)

    def offer(self, *models: dict[str, Any]) -> None:
        self.client.notify("pilotfish/model/offered", {"models": list(models)})

    async def answer(self, params: dict[str, Any]) -> Any:
        request = wire.ModelRequestParams.model_validate(params)
        self.requests.append(request)
        said, result = self.script.pop(0)
        for part in said:
            if inspect.iscoroutinefunction(part):
                await part(params)
            else:
                self.chunk(request, part)
        return result

    def chunk(self, request: wire.ModelRequestParams, part: dict[str, Any]) -> None:
        self.client.notify("pilotfish/model/chunk", {"requestId": request.request_id, "part": part})


def text(*words: str) -> list[Any]:
    return [{"type": "text", "text": word} for word in words]


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": f"call_{name}", "name": name, "input": arguments}


def fails(kind: str, message: str) -> Answer:
    return [], {"error": {"kind": kind, "message": message}}


@asynccontextmanager
async def playing(
    folder: Path, *script: Answer, hello: dict[str, Any] = HELLO, **settings: Any
) -> AsyncGenerator[tuple[Client, Played]]:
    folder.mkdir(exist_ok=True)
    settings = {"model": MODEL, "fallbackModel": None, "titles": False, **settings}
    async with connect(folder, hello=hello, settings=settings) as client:
        yield client, Played(client, *script)


def answer_of(client: Client) -> str:
    chunks = [update.update for update in client.updates if isinstance(update.update, wire.MessageChunk)]
    return "".join(chunk.text for chunk in chunks)


async def editor_models(client: Client) -> list[dict[str, Any]]:
    listed = (await client.request("pilotfish/model/list"))["models"]
    return [model for model in listed if model["id"].startswith("vscode:")]


async def test_a_whole_turn_with_a_tool_call(tmp_path: Path) -> None:
    script: tuple[Answer, ...] = (
        ([*text("I look."), calls("read_file", path="a.txt")], {}),
        (text("It says ", "here."), {"usage": {"inputTokens": 700, "outputTokens": 7}}),
    )
    async with playing(tmp_path / "work", *script, temperature=0.5) as (client, played):
        (tmp_path / "work" / "a.txt").write_text("here\n", "utf-8")
        session = await client.new_session()
        result = await client.prompt(session, "What is in a.txt?")
        assert (result.stop_reason, answer_of(client)) == ("end_turn", "I look.It says here.")
        first, second = played.requests
        assert (first.model, first.options) == ("copilot/gpt-x", {"temperature": 0.5})
        assert "read_file" in [tool.name for tool in first.tools]
        assert [message.role for message in first.messages] == ["system", "user"]
        assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
        assert second.messages[2].parts == (
            wire.TextBlock(text="I look."),
            wire.ModelToolCall(id="call_read_file", name="read_file", input={"path": "a.txt"}),
        )
        returned = second.messages[3].parts[0]
        assert isinstance(returned, wire.ModelToolResult)
        assert (returned.id, "here" in returned.text) == ("call_read_file", True)
        # The first request is estimated, the second one counted; the price is not known.
        assert result.usage.input_tokens > 700
        assert (result.usage.requests, result.usage.tool_calls, result.usage.cost) == (2, 1, None)
        assert result.usage.unpriced_requests == 2


async def test_models_are_listed_as_the_client_offers_them(tmp_path: Path) -> None:
    async with playing(tmp_path / "work") as (client, played):
        assert await editor_models(client) == [
            {
                "id": MODEL,
                "label": "GPT X",
                "provider": "VS Code’s language models",
                "available": True,
                "contextWindow": 64_000,
                "images": False,
                "tools": True,
                "local": False,
            }
        ]
        played.offer()
        (gone,) = await editor_models(client)
        assert (gone["id"], gone["available"]) == (MODEL, False)


async def test_a_client_that_does_not_announce_it_never_sees_it(tmp_path: Path) -> None:
    async with playing(tmp_path / "work", hello=OURS, model="demo") as (client, played):
        assert await editor_models(client) == []
        with pytest.raises(RpcError, match="is one of VS Code"):
            await client.new_session(model=MODEL)
        assert played.requests == []


async def test_a_session_with_such_a_model_says_what_to_do_in_another_client(tmp_path: Path) -> None:
    async with playing(tmp_path / "work", hello=OURS) as (client, played):
        result = await client.prompt(await client.new_session(), "hello")
        assert result.error is not None
        assert (result.error.kind, played.requests) == ("configuration", [])
        assert "is one of VS Code" in result.error.message


async def test_stop_ends_the_request_in_the_client(tmp_path: Path) -> None:
    script: tuple[Answer, ...] = (([*text("One "), never], {}), (text("after the stop"), {}))
    async with playing(tmp_path / "work", *script) as (client, played):
        session = await client.new_session()
        turn = client.begin(session, "count")
        await client.first_update("agent_message_chunk", session)
        await client.request("pilotfish/session/cancel", {"sessionId": session})
        assert (await turn).stop_reason == "cancelled"
        await client.until(lambda: bool(client.taken_back))
        played.chunk(played.requests[0], {"type": "text", "text": "too late"})
        client.updates.clear()
        assert (await client.prompt(session, "and now?")).stop_reason == "end_turn"
        assert answer_of(client) == "after the stop"
        sent = played.requests[1].messages
        assert wire.TextBlock(text="One ") in [part for message in sent for part in message.parts]


async def test_a_stalled_answer_ends_by_the_watchdog_and_is_asked_for_again(tmp_path: Path) -> None:
    script: tuple[Answer, ...] = (([*text("One "), never], {}), (text("Two"), {}))
    async with playing(tmp_path / "work", *script, stallTimeout=0.3) as (client, played):
        result = await client.prompt(await client.new_session(), "count")
        assert (result.stop_reason, len(played.requests)) == ("end_turn", 2)
        await client.until(lambda: bool(client.taken_back))


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        (
            "permission",
            "User declined",
            ("configuration", "The editor does not let Pilotfish use copilot/gpt-x: “User declined”.", False),
        ),
        (
            "not_found",
            "No such model",
            ("configuration", "The editor has no model copilot/gpt-x: “No such model”.", False),
        ),
        (
            "quota",
            "You have used all premium requests",
            (
                "credit",
                "The provider says that your quota or credit is used up: “You have used all premium requests”.",
                False,
            ),
        ),
        ("blocked", "Filtered", ("bad_request", "The provider refused the request: “Filtered”.", False)),
    ],
)
async def test_errors_keep_the_words_of_the_provider(
    tmp_path: Path, kind: str, words: str, expected: tuple[str, str, bool]
) -> None:
    async with playing(tmp_path / "work", fails(kind, words)) as (client, played):
        result = await client.prompt(await client.new_session(), "hello")
        assert result.error is not None
        assert (result.error.kind, result.error.message, result.error.retryable) == expected
        assert len(played.requests) == 1


async def test_a_rate_limit_and_a_broken_answer_are_asked_again(tmp_path: Path) -> None:
    script: tuple[Answer, ...] = (
        fails("rate_limit", "Try again in 0.1 s"),
        (text("half of "), {"error": {"kind": "other", "message": "net::ERR_CONNECTION_RESET"}}),
        (text("the answer"), {}),
    )
    async with playing(tmp_path / "work", *script) as (client, played):
        result = await client.prompt(await client.new_session(), "hello")
        assert (result.stop_reason, len(played.requests)) == ("end_turn", 3)
        notices = [update.update for update in client.updates if isinstance(update.update, wire.Notice)]
        assert ["ERR_CONNECTION_RESET" in notice.message for notice in notices] == [False, True]


async def test_an_overflow_is_recognised_by_its_words_and_summarised(tmp_path: Path) -> None:
    script: tuple[Answer, ...] = (
        (text("Hello."), {}),
        fails("other", "Message exceeds token limit: prompt is too long"),
        (text("a summary"), {}),
        (text("shorter"), {}),
    )
    async with playing(tmp_path / "work", *script) as (client, played):
        session = await client.new_session()
        await client.prompt(session, "hello")
        client.updates.clear()
        assert (await client.prompt(session, "more")).stop_reason == "end_turn"
        assert (answer_of(client), len(played.requests)) == ("shorter", 4)


async def test_a_budget_holds_although_the_client_counts_nothing(tmp_path: Path) -> None:
    script: list[Answer] = [([calls("list_dir", path=".")], {})] * 3
    async with playing(tmp_path / "work", *script, budget={"tokens": 3_000}) as (client, played):
        result = await client.prompt(await client.new_session(), "go on")
        assert result.stop_reason == "budget"
        assert len(played.requests) < 3


async def test_the_fallback_model_answers_when_the_first_one_is_limited(tmp_path: Path) -> None:
    script: tuple[Answer, ...] = (fails("rate_limit", "Too many requests"), (text("from the second"), {}))
    second = {**OFFERED, "id": "copilot/other", "label": "Other"}
    async with playing(tmp_path / "work", *script, fallbackModel="vscode:copilot/other") as (client, played):
        played.offer(OFFERED, second)
        result = await client.prompt(await client.new_session(), "hello")
        assert (result.stop_reason, answer_of(client)) == ("end_turn", "from the second")
        assert [request.model for request in played.requests] == ["copilot/gpt-x", "copilot/other"]


async def test_the_server_ends_with_its_client_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    home = tmp_path / "work-home"
    async with playing(tmp_path / "work", ([*text("One "), never], {})) as (client, _):
        session = await client.new_session()
        turn = client.begin(session, "count")
        await client.first_update("agent_message_chunk", session)
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert await client.ended() == 1
        await asyncio.gather(turn, return_exceptions=True)
    async with connect(tmp_path / "work", hello=HELLO, home=home) as client:
        loaded = await client.load(session)
        assert "One " in loaded.model_dump_json()
        assert "closed or reloaded" in loaded.model_dump_json()
