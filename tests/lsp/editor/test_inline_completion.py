"""Inline completion over the wire, with servers of every dialect of fill-in-the-middle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import OURS, Client, RpcError, connect
from tests.support.provider import Gate, Provider, Reply, Text, Tokens, fails, say, serve
from tests.support.waiting import until

METHOD = "textDocument/inlineCompletion"
CAPABILITIES: dict[str, Any] = {"textDocument": {"inlineCompletion": {"dynamicRegistration": True}}}
CODE = "def add(a, b):\n    return \n\n\ndef main():\n    print(add(1, 2))\n"
AT = (1, 11)
SUFFIX = "\n\n\ndef main():\n    print(add(1, 2))\n"


@contextlib.asynccontextmanager
async def completing(
    folder: Path,
    *replies: Reply,
    model: str = "ollama:qwen2.5-coder",
    hello: Any = OURS,
    capabilities: Any = CAPABILITIES,
    **settings: Any,
) -> AsyncGenerator[tuple[Client, Provider]]:
    """A client with `CODE` in an open file, and the provider that completes it."""
    async with serve(*replies) as provider:
        names = ("OLLAMA", "LLAMACPP", "PILOTFISH")
        environ: dict[str, Any] = {f"{name}_BASE_URL": provider.openai_url for name in names}
        environ |= {"PILOTFISH_MODEL": model, "MISTRAL_API_KEY": "sk-scripted", "OPENAI_API_KEY": "sk-scripted"}
        configured: dict[str, Any] = {"completionModel": model, **settings}
        async with connect(folder, hello=hello, settings=configured, capabilities=capabilities, **environ) as client:
            client.answers["client/registerCapability"] = client.answers["client/unregisterCapability"] = nothing
            await loaded(client)
            open_(client, folder / "app.py", CODE)
            yield client, provider


async def nothing(_: Any) -> None:
    return None


async def loaded(client: Client) -> None:
    await client.request("pilotfish/session/list")


def open_(client: Client, file: Path, text: str, language: str = "python") -> None:
    item = {"uri": file.as_uri(), "languageId": language, "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": item})


def type_(client: Client, file: Path, at: tuple[int, int], text: str) -> None:
    place = {"line": at[0], "character": at[1]}
    changes = [{"range": {"start": place, "end": place}, "text": text}]
    document = {"uri": file.as_uri(), "version": 2}
    client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})


def asking(file: Path, at: tuple[int, int] = AT, kind: int = 2, **context: Any) -> dict[str, Any]:
    return {
        "textDocument": {"uri": file.as_uri()},
        "position": {"line": at[0], "character": at[1]},
        "context": {"triggerKind": kind, **context},
    }


async def complete(client: Client, file: Path, at: tuple[int, int] = AT, kind: int = 2) -> str | None:
    """The text that is proposed; `kind` 1 is a key that asks for it."""
    found = await client.request(METHOD, asking(file, at, kind))
    return None if found is None else found["items"][0]["insertText"]


DIALECTS = {
    "ollama:qwen2.5-coder": ("/api/generate", "prompt", "suffix"),
    "llamacpp:any": ("/infill", "input_prefix", "input_suffix"),
    "mistral:codestral-latest": ("/v1/fim/completions", "prompt", "suffix"),
    "openai-compatible:starcoder": ("/v1/completions", "prompt", "suffix"),
}


@pytest.mark.parametrize("model", DIALECTS)
async def test_a_server_is_asked_to_fill_in_with_its_own_request(tmp_path: Path, model: str):
    path, prefix, suffix = DIALECTS[model]
    async with completing(tmp_path, say("a + b"), model=model) as (client, provider):
        assert await complete(client, tmp_path / "app.py") == "a + b"
        (request,) = provider.requests
        assert (request.path, request.body[suffix]) == (path, SUFFIX)
        assert request.body[prefix].endswith("def add(a, b):\n    return ")
        found = (await client.request("pilotfish/status"))["completions"]
        used = {name: found["usage"][name] for name in ("inputTokens", "outputTokens", "requests")}
        assert (found["model"], used) == (model, {"inputTokens": 7, "outputTokens": 3, "requests": 1})


async def test_a_model_that_cannot_fill_in_is_asked_by_chat_from_then_on(tmp_path: Path):
    replies = fails("not_found"), say("```python\na + b\n```"), say("a * b")
    async with completing(tmp_path, *replies, model="openai-compatible:gpt") as (client, provider):
        file = tmp_path / "app.py"
        assert await complete(client, file) == "a + b"
        assert await complete(client, file, (5, 4), kind=1) == "a * b"
        paths = ["/v1/completions", "/v1/chat/completions", "/v1/chat/completions"]
        assert [request.path for request in provider.requests] == paths
        assert "    return <cursor/>\n" in str(provider.requests[1].messages[-1]["content"])


async def test_typing_what_is_proposed_and_going_back_makes_no_request(tmp_path: Path):
    async with completing(tmp_path, say("a + b")) as (client, provider):
        file = tmp_path / "app.py"
        assert await complete(client, file) == "a + b"
        type_(client, file, AT, "a +")
        assert await complete(client, file, (1, 14)) == " b"
        assert await complete(client, file, (1, 14)) == " b"
        assert len(provider.requests) == 1


async def test_a_cancelled_request_ends_at_the_provider(tmp_path: Path):
    async with completing(tmp_path, Reply(parts=(Gate(), Text("late")))) as (client, provider):
        answer = client.ask(METHOD, asking(tmp_path / "app.py"), key="first")
        request = await provider.received(1)
        client.notify("$/cancelRequest", {"id": "first"})
        with pytest.raises(RpcError) as error:
            await answer
        assert error.value.code == -32800
        await asyncio.wait_for(request.disconnected.wait(), 60)


async def test_a_later_request_supersedes_an_earlier_one(tmp_path: Path):
    async with completing(tmp_path, Reply(parts=(Gate(), Text("late"))), say("b")) as (client, provider):
        file = tmp_path / "app.py"
        first = client.ask(METHOD, asking(file))
        request = await provider.received(1)
        type_(client, file, AT, "a + ")
        assert await complete(client, file, (1, 15)) == "b"
        assert await first is None
        await asyncio.wait_for(request.disconnected.wait(), 60)


async def test_while_the_user_types_the_last_request_is_sent(tmp_path: Path):
    held = Reply(parts=(Gate(), Text("later")), repeat=9)
    async with completing(tmp_path, held) as (client, provider):
        file = tmp_path / "app.py"
        answers = [client.ask(METHOD, asking(file))]
        for number, letter in enumerate("abcd"):
            type_(client, file, (1, 11 + number), letter)
            answers.append(client.ask(METHOD, asking(file, (1, 12 + number))))
        await until(lambda: provider.requests and provider.requests[-1].body["prompt"].endswith("return abcd"))
        provider.release()
        found = [one and one["items"][0]["insertText"] for one in await asyncio.gather(*answers)]
        assert found == [None, None, None, None, "later"]
        assert len(provider.requests) < len(answers)


async def test_without_a_model_nothing_is_offered_registered_or_asked(tmp_path: Path):
    async with completing(tmp_path, model="", capabilities=CAPABILITIES) as (client, provider):
        assert "inlineCompletionProvider" not in client.initialized["capabilities"]
        assert await complete(client, tmp_path / "app.py", kind=1) is None
        assert provider.requests == []
        assert "completions" not in await client.request("pilotfish/status")
        assert registrations(client) == []


async def test_it_is_registered_when_the_setting_comes_and_taken_back_when_it_goes(tmp_path: Path):
    async with completing(tmp_path, say("a + b"), model="") as (client, _):
        configured = {"settings": {"pilotfish": {"completionModel": "ollama:qwen2.5-coder"}}}
        client.notify("workspace/didChangeConfiguration", configured)
        await until(lambda: registrations(client) == ["client/registerCapability"])
        await loaded(client)
        assert await complete(client, tmp_path / "app.py") == "a + b"
        client.notify("workspace/didChangeConfiguration", {"settings": {"pilotfish": {"completionModel": ""}}})
        await until(lambda: registrations(client)[1:] == ["client/unregisterCapability"])


def registrations(client: Client) -> list[str]:
    return [
        message["method"]
        for message in client.heard
        if "egisterCapability" in message.get("method", "") and "inlineCompletion" in str(message["params"])
    ]


async def test_a_plain_client_without_dynamic_registration_is_offered_it_from_the_config_file(tmp_path: Path):
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    (home / "config.toml").write_text('completionModel = "ollama:qwen2.5-coder"\n')
    async with serve(say("a + b")) as provider:
        more: dict[str, Any] = {"home": home, "hello": None, "capabilities": {"textDocument": {"inlineCompletion": {}}}}
        async with connect(folder, **more, OLLAMA_BASE_URL=provider.openai_url) as client:
            assert client.initialized["capabilities"]["inlineCompletionProvider"] is True
            await loaded(client)
            open_(client, folder / "app.py", CODE)
            assert await complete(client, folder / "app.py") == "a + b"


async def test_a_secret_file_a_place_outside_and_what_a_rule_denies_are_never_sent(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    rules = [{"decision": "deny", "tool": "read_file", "pattern": "private/**"}]
    async with completing(folder, say("never"), rules=rules) as (client, provider):
        for file in (folder / ".env", tmp_path / "outside.py", folder / "private/notes.py"):
            open_(client, file, "KEY = ")
            assert await complete(client, file, (0, 6), kind=1) is None
        assert provider.requests == []


async def test_secrets_in_the_text_are_masked(tmp_path: Path):
    async with completing(tmp_path, say("2")) as (client, provider):
        file = tmp_path / "keys.py"
        open_(client, file, 'KEY = "ghp_' + "A1b2C3d4" * 4 + 'A1b2"\nx = ')
        assert await complete(client, file, (1, 4)) == "2"
        assert "ghp_" not in str(provider.requests[0].body)


async def test_what_was_changed_lately_elsewhere_is_told(tmp_path: Path):
    async with completing(tmp_path, say("a + b")) as (client, provider):
        other = tmp_path / "price.py"
        open_(client, other, "def price():\n    pass\n")
        type_(client, other, (1, 4), "return TAX + ")
        open_(client, tmp_path / ".env", "TOKEN=1\n")
        type_(client, tmp_path / ".env", (0, 0), "A")
        assert await complete(client, tmp_path / "app.py") == "a + b"
        prompt = provider.requests[0].body["prompt"]
        assert "# price.py:\n# def price():\n#     return TAX + pass\n" in prompt
        assert "TOKEN" not in prompt


async def test_a_failure_is_told_once_and_the_provider_is_left_alone(tmp_path: Path):
    async with completing(tmp_path, fails("authentication"), say("never")) as (client, provider):
        file = tmp_path / "app.py"
        assert await complete(client, file) is None
        assert await complete(client, file, (5, 4), kind=1) is None
        assert len(provider.requests) == 1
        shown = [message["params"] for message in client.heard if message.get("method") == "window/showMessage"]
        assert [(one["type"], "No inline completion from ollama" in one["message"]) for one in shown] == [(2, True)]


async def test_a_completion_goes_on_from_what_the_list_of_suggestions_has_chosen(tmp_path: Path):
    async with completing(tmp_path, say("(1, 2)")) as (client, provider):
        file = tmp_path / "app.py"
        type_(client, file, AT, "ad")
        range_ = {"start": {"line": 1, "character": 11}, "end": {"line": 1, "character": 13}}
        params = asking(file, (1, 13), selectedCompletionInfo={"range": range_, "text": "add"})
        (item,) = (await client.request(METHOD, params))["items"]
        assert (item["insertText"], item["range"]) == ("add(1, 2)", range_)
        assert provider.requests[0].body["prompt"].endswith("return add")


async def test_the_usage_is_in_no_session(tmp_path: Path):
    reply = say("a + b", usage=Tokens(input=900))
    async with completing(tmp_path, reply) as (client, _):
        session = (await client.request("pilotfish/session/new", {}))["session"]
        assert await complete(client, tmp_path / "app.py") == "a + b"
        listed = (await client.request("pilotfish/session/list"))["sessions"]
        assert [one["usage"]["inputTokens"] for one in listed if one["id"] == session["id"]] == [0]
        assert (await client.request("pilotfish/status"))["completions"]["usage"]["inputTokens"] == 900
