"""Every method of ACP beyond a plain prompt, as a client written from the specification uses it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.support import mcp_server
from tests.support.acp_client import Client, Message, connected, prompt
from tests.support.provider import Gate, Text, call, say
from tests.support.provider_script import Reply
from tests.support.terminal import work_folder
from tests.support.waiting import until

TINY: Message = {"name": "my tiny", "command": sys.executable, "args": [mcp_server.__file__], "env": []}
FILES: Message = {"fs": {"readTextFile": True, "writeTextFile": True}}
FORMS: Message = {"elicitation": {"form": {}}}


def edit(path: str, old: str, new: str) -> Any:
    return call("update_file", path=path, edits=[{"old_string": old, "new_string": new}])


class Files:
    """The documents of a client with `fs/*`."""

    def __init__(self, client: Client, **unsaved: str) -> None:
        self.texts = unsaved
        self.sessions: set[str] = set()
        client.answers |= {"fs/read_text_file": self._read, "fs/write_text_file": self._write}

    def _read(self, params: Message) -> Message | None:
        self.sessions.add(params["sessionId"])
        path = Path(params["path"])
        if path.name in self.texts:
            return {"content": self.texts[path.name]}
        return {"content": path.read_text()} if path.is_file() else None

    def _write(self, params: Message) -> Message:
        self.texts[Path(params["path"]).name] = params["content"]
        return {}


async def test_unsaved_text_is_read_shown_in_the_question_and_edited_in_the_editor(tmp_path: Path) -> None:
    (work_folder(tmp_path) / "a").write_text("on disk\n")
    replies = (call("read_file", path="a"), edit("a", "unsaved", "edited"), say("done"))
    async with connected(tmp_path, *replies, offers=FILES) as (client, provider, session):
        files = Files(client, a="unsaved wörds 😀\n")
        await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        assert "unsaved wörds 😀" in json.dumps(provider.requests[1].body, ensure_ascii=False)
        diff = client.questions[-1]["toolCall"]["content"][0]
        assert (diff["oldText"], diff["newText"]) == ("unsaved wörds 😀\n", "edited wörds 😀\n")
        assert (files.texts, files.sessions) == ({"a": "edited wörds 😀\n"}, {session})
        final = client.kinds("tool_call_update")[-1]
        assert final["content"] == [
            {
                "type": "diff",
                "path": str(tmp_path / "work" / "a"),
                "oldText": "unsaved wörds 😀\n",
                "newText": "edited wörds 😀\n",
            }
        ]
    assert (tmp_path / "work" / "a").read_text() == "on disk\n"


async def test_typing_after_the_approval_is_not_overwritten(tmp_path: Path) -> None:
    text = "first\n2\n3\n4\n5\nlast\n"
    (work_folder(tmp_path) / "a").write_text(text)
    replies = (call("read_file", path="a"), edit("a", "last", "LAST"), say("done"))
    async with connected(tmp_path, *replies, offers=FILES) as (client, _, session):
        files = Files(client, a=text)
        client.picks = None
        running = client.ask("session/prompt", sessionId=session, prompt=prompt("go"))
        await until(lambda: len(client.questions) == 2)
        files.texts["a"] = text.replace("first", "first, typed")
        client.picks = "allow_once"
        client.answer_open_questions()
        await running
        assert len(client.questions) == 3, "the question is asked again for the new text"
        assert files.texts["a"] == "first, typed\n2\n3\n4\n5\nLAST\n"


async def test_the_options_of_a_question_have_kinds_of_their_own_and_trust_is_asked_in_words(tmp_path: Path) -> None:
    colors = call("ask_user", question="Which color?", options=["red", "green", "blue"])
    free = call("ask_user", question="Which name?")
    async with connected(tmp_path, colors, free, say("I wait")) as (client, provider, session):
        client.picks = "reject_once"
        await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        trust, question = client.questions
        assert [(option["name"], option["kind"]) for option in trust["options"]] == [
            ("Trust this folder", "allow_always"),
            ("Read only", "reject_always"),
        ]
        assert "Nothing is changed and nothing is run" in trust["toolCall"]["content"][0]["content"]["text"]
        kinds = [option["kind"] for option in question["options"]]
        assert len(set(kinds)) == len(kinds) == 3
        assert "green" in str(provider.requests[1].body)
        assert "Which name?" in client.text()
        assert "answers with the next prompt" in str(provider.requests[2].body)


async def test_a_question_is_a_form_where_the_client_has_forms(tmp_path: Path) -> None:
    replies = (call("ask_user", question="Which name?"), say("thanks"))
    async with connected(tmp_path, *replies, offers=FORMS) as (client, provider, session):
        asked: list[Message] = []

        def fill(params: Message) -> Message:
            asked.append(params)
            return {"action": "accept", "content": {"answer": "Ada"}}

        client.answers["elicitation/create"] = fill
        await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        assert (asked[0]["mode"], asked[0]["sessionId"], asked[0]["message"]) == ("form", session, "Which name?")
        assert "Ada" in str(provider.requests[1].body)


async def test_servers_that_the_client_gives_are_used_in_their_session(tmp_path: Path) -> None:
    replies = (call("my_tiny_echo", text="hello"), say("done"), say("nothing here"))
    async with connected(tmp_path, *replies, servers=[TINY]) as (client, provider, session):
        await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        assert "again: hello" in str(provider.requests[1].body)
        shown = client.questions[-1]["toolCall"]
        assert '"text": "hello"' in shown["content"][0]["content"]["text"]
        await until(lambda: "my_tiny:explain" in str(client.kinds("available_commands_update")))
        other = await client.result("session/new", cwd=str(tmp_path / "work"), mcpServers=[])
        await client.result("session/prompt", sessionId=other["sessionId"], prompt=prompt("go"))
        assert "my_tiny_echo" not in str(provider.requests[2].body)
        http = {"type": "acp", "name": "x", "serverId": "y"}
        refused = await client.error("session/new", cwd=str(tmp_path / "work"), mcpServers=[http])
        assert refused["code"] == -32602


async def test_a_session_is_resumed_forked_closed_and_deleted(tmp_path: Path) -> None:
    async with connected(tmp_path, say("one"), say("two"), say("three")) as (client, provider, session):
        folder = str(tmp_path / "work")
        await client.result("session/prompt", sessionId=session, prompt=prompt("remember 7391"))
        assert await client.result("session/close", sessionId=session) == {}
        client.updates.clear()
        resumed = await client.result("session/resume", sessionId=session, cwd=folder, mcpServers=[])
        assert {option["id"] for option in resumed["configOptions"]} == {"mode", "model", "thinking"}
        assert client.text("user_message_chunk") == "", "nothing is replayed"
        await client.result("session/prompt", sessionId=session, prompt=prompt("and"))
        assert "remember 7391" in str(provider.requests[-1].body)
        forked = (await client.result("session/fork", sessionId=session, cwd=folder, mcpServers=[]))["sessionId"]
        await client.result("session/prompt", sessionId=forked, prompt=prompt("fork"))
        assert "remember 7391" in str(provider.requests[-1].body)
        assert await client.result("session/delete", sessionId=session) == {}
        left = [one["sessionId"] for one in (await client.result("session/list"))["sessions"]]
        assert (session in left, forked in left) == (False, True)
        assert (await client.error("session/delete", sessionId=session))["code"] == -32002
        assert (await client.error("session/delete"))["code"] == -32602


async def test_model_mode_and_thinking_are_options_and_changes_are_told(tmp_path: Path) -> None:
    async with connected(tmp_path) as (client, _, session):

        async def set_option(name: str, value: str) -> dict[str, str]:
            answer = await client.result("session/set_config_option", sessionId=session, configId=name, value=value)
            return {option["id"]: option["currentValue"] for option in answer["configOptions"]}

        assert (await set_option("mode", "plan"))["mode"] == "plan"
        assert (await set_option("thinking", "high"))["thinking"] == "high"
        assert await set_option("model", "openai-chat:other") == {
            "mode": "plan",
            "model": "openai-chat:other",
            "thinking": "high",
        }
        wrong = await client.error("session/set_config_option", sessionId=session, configId="mode", value="bold")
        assert wrong["code"] == -32602
        wrong = await client.error("session/set_config_option", sessionId=session, configId="color", value="red")
        assert wrong["code"] == -32602

        def told() -> dict[str, Any]:
            last = client.kinds("config_option_update")[-1:]
            return {option["id"]: option for update in last for option in update["configOptions"]}

        await until(lambda: told().get("model", {}).get("currentValue") == "openai-chat:other")
        await until(lambda: "demo" in str(told()["model"]["options"]))  # the list of models was found meanwhile


async def test_a_key_is_asked_for_kept_in_memory_and_forgotten(tmp_path: Path) -> None:
    async with connected(tmp_path, offers=FORMS, MISTRAL_API_KEY="") as (client, _, _):
        asked: list[Message] = []

        def fill(params: Message) -> Message:
            asked.append(params)
            return {"action": "accept", "content": {"key": "sk-of-the-form"}}

        assert await client.result("authenticate", methodId="openai") == {}, "the environment has the key"
        client.answers["elicitation/create"] = fill
        assert await client.result("authenticate", methodId="mistral") == {}
        assert (asked[0]["mode"], "requestId" in asked[0]) == ("form", True)
        assert await client.result("logout") == {}
        client.answers["elicitation/create"] = lambda _: {"action": "cancel"}
        refused = await client.error("authenticate", methodId="mistral")
        assert (refused["code"], "MISTRAL_API_KEY" in refused["message"]) == (-32000, True)
        assert (await client.error("authenticate", methodId="nobody"))["code"] == -32602
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"sk-of-the-form" not in kept


async def test_a_prompt_is_cancelled_by_the_id_of_its_request(tmp_path: Path) -> None:
    replies = (Reply(parts=(Text("half"), Gate())), say("whole"))
    (tmp_path / "config.toml").write_text("contextWindow = 50000\n")
    async with connected(tmp_path, *replies) as (client, _, session):
        running = client.ask("session/prompt", sessionId=session, prompt=prompt("go"))
        await client.until("agent_message_chunk")
        client.send({"method": "$/cancel_request", "params": {"requestId": 987}})
        client.send({"method": "$/cancel_request", "params": {"requestId": client.last_id}})
        answer = await asyncio.wait_for(running, 60)
        assert answer["result"]["stopReason"] == "cancelled"
        again = await client.result("session/prompt", sessionId=session, prompt=prompt("go on"))
        assert again["stopReason"] == "end_turn"
        assert again["usage"]["totalTokens"] > 0
        usage = client.kinds("usage_update")[-1]
        assert (usage["size"], usage["used"] > 0) == (50000, True)


async def test_the_output_of_a_command_is_shown_while_it_runs(tmp_path: Path) -> None:
    command = "echo first; until [ -e go ]; do sleep 0.05; done; echo last"
    async with connected(tmp_path, call("bash", command=command), say("done")) as (client, _, session):
        running = client.ask("session/prompt", sessionId=session, prompt=prompt("go"))
        engine = {"type": "content", "content": {"type": "text", "text": "```\nfirst\n\n```"}}
        await until(lambda: [engine] in [update.get("content") for update in client.kinds("tool_call_update")])
        (tmp_path / "work" / "go").touch()
        await asyncio.wait_for(running, 60)
        final = client.kinds("tool_call_update")[-1]
        assert (final["status"], "last" in str(final["content"])) == ("completed", True)
