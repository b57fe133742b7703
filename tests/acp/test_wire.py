"""The ACP face as a client written from the specification sees it: lines of JSON over stdio, and no SDK."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.provider import Answer, Gate, Provider, Text, call, fails, say, serve
from tests.support.provider_script import Reply
from tests.support.terminal import environment, work_folder

Message = dict[str, Any]


class Client:
    """Sends and hears lines. Permissions are answered with the option of the kind in `picks`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.heard: list[Message] = []
        self.updates: list[Message] = []
        self.questions: list[Message] = []
        self.picks: str | None = "allow_once"
        self.trusts: str | None = "allow_once"
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._reader = asyncio.ensure_future(self._read())

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, **params: Any) -> asyncio.Future[Message]:
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send({"id": number, "method": method, "params": params})
        return self._waiting[number]

    async def result(self, method: str, **params: Any) -> Message:
        answer = await asyncio.wait_for(self.ask(method, **params), 60)
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, method: str, **params: Any) -> Message:
        return (await asyncio.wait_for(self.ask(method, **params), 60))["error"]

    async def until(self, kind: str) -> Message:
        async with asyncio.timeout(60):
            while not (found := self.kinds(kind)):
                await asyncio.sleep(0.01)
        return found[0]

    def kinds(self, kind: str) -> list[Message]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.kinds(kind))

    async def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = await asyncio.wait_for(self.process.wait(), 20)
        await self._reader
        return code

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            self.heard.append(message)
            match message.get("method"):
                case None:
                    self._waiting.pop(message["id"]).set_result(message)
                case "session/update":
                    self.updates.append(message["params"]["update"])
                case "session/request_permission":
                    self.questions.append(message["params"])
                    self._answer(message)
                case other:
                    self.send({"id": message["id"], "error": {"code": -32601, "message": f"no {other} here"}})

    def _answer(self, message: Message) -> None:
        params = message["params"]
        wanted = self.trusts if params["toolCall"]["title"].startswith("Trust ") else self.picks
        if wanted is None:
            return
        chosen = next(option["optionId"] for option in params["options"] if option["kind"] == wanted)
        self.send({"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": chosen}}})


@asynccontextmanager
async def connected(tmp_path: Path, *replies: Answer) -> AsyncGenerator[tuple[Client, Provider, str]]:
    folder = work_folder(tmp_path)
    async with serve(*replies) as provider:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "pilotfish", "acp"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env=environment(tmp_path, provider),
        )
        client = Client(process)
        try:
            hello = await client.result("initialize", protocolVersion=1, clientCapabilities={})
            assert hello["protocolVersion"] == 1
            assert hello["agentCapabilities"]["loadSession"] is True
            assert list(hello["agentCapabilities"]["sessionCapabilities"]) == ["list"]
            made = await client.result("session/new", cwd=str(folder), mcpServers=[])
            yield client, provider, made["sessionId"]
            assert await client.close() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def prompt(text: str) -> list[Message]:
    return [{"type": "text", "text": text}]


async def test_an_edit_is_announced_asked_with_its_diff_made_and_told(tmp_path: Path) -> None:
    (work_folder(tmp_path) / "a.txt").write_text("old\n")
    edit = call("update_file", path="a.txt", edits=[{"old_string": "old", "new_string": "new"}])
    async with connected(tmp_path, edit, say("all ", "done")) as (client, _, session):
        answer = await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        assert answer["stopReason"] == "end_turn"
        assert client.heard[-1].get("result") == answer, "the answer is the last that is heard of a turn"
        assert client.text() == "all done"
        trust, question = client.questions
        assert trust["toolCall"]["title"] == f"Trust {tmp_path / 'work'}?"
        (diff,) = question["toolCall"]["content"]
        assert (diff["type"], diff["oldText"], diff["newText"]) == ("diff", "old\n", "new\n")
        (started,) = client.kinds("tool_call")
        assert started["toolCallId"] == question["toolCall"]["toolCallId"]
        assert [update["status"] for update in client.kinds("tool_call_update")][-1] == "completed"
        final = client.kinds("tool_call_update")[-1]
        assert (final["kind"], final["locations"][0]["path"]) == ("edit", str(tmp_path / "work" / "a.txt"))
    assert (tmp_path / "work" / "a.txt").read_text() == "new\n"


async def test_cancel_ends_the_turn_and_the_question_that_waited(tmp_path: Path) -> None:
    replies = (call("bash", command="touch made"), Reply(parts=(Text("half"), Gate())), say("whole"))
    async with connected(tmp_path, *replies) as (client, _, session):
        client.picks = None
        waiting = client.ask("session/prompt", sessionId=session, prompt=prompt("go"))
        while len(client.questions) < 2:
            await asyncio.sleep(0.01)
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert (await asyncio.wait_for(waiting, 60))["result"]["stopReason"] == "cancelled"
        streaming = client.ask("session/prompt", sessionId=session, prompt=prompt("go"))
        await client.until("agent_message_chunk")
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert (await asyncio.wait_for(streaming, 60))["result"]["stopReason"] == "cancelled"
        answer = await client.result("session/prompt", sessionId=session, prompt=prompt("again"))
        assert (answer["stopReason"], client.text()) == ("end_turn", "halfwhole")
    assert not (tmp_path / "work" / "made").exists()


async def test_cancel_ends_a_prompt_that_has_not_begun(tmp_path: Path) -> None:
    """The client answers no question of its own accord when it cancels."""
    async with connected(tmp_path, say("at last")) as (client, provider, session):
        client.trusts = None
        for asked in (0, 1):
            waiting = client.ask("session/prompt", sessionId=session, prompt=prompt("go"))
            while len(client.questions) < asked:
                await asyncio.sleep(0.01)
            client.send({"method": "session/cancel", "params": {"sessionId": session}})
            assert (await asyncio.wait_for(waiting, 60))["result"]["stopReason"] == "cancelled"
        client.trusts = "allow_once"
        answer = await client.result("session/prompt", sessionId=session, prompt=prompt("again"))
        assert (answer["stopReason"], client.text(), len(provider.requests)) == ("end_turn", "at last", 1)


async def test_the_mode_of_a_session_is_told_changed_and_obeyed(tmp_path: Path) -> None:
    async with connected(tmp_path, call("bash", command="touch made"), say("done")) as (client, _, session):
        made = await client.result("session/new", cwd=str(tmp_path / "work"), mcpServers=[])
        assert made["modes"]["currentModeId"] == "ask"
        assert [mode["id"] for mode in made["modes"]["availableModes"]] == ["ask", "plan", "edit", "auto"]
        await client.result("session/set_mode", sessionId=session, modeId="auto")
        assert (await client.until("current_mode_update"))["currentModeId"] == "auto"
        await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        assert len(client.questions) == 1, "the folder's trust, and nothing else"
        assert (await client.error("session/set_mode", sessionId=session, modeId="bold"))["code"] == -32602
    assert (tmp_path / "work" / "made").exists()


async def test_a_session_is_loaded_in_another_process_and_goes_on(tmp_path: Path) -> None:
    (work_folder(tmp_path) / "a.txt").write_text("text\n")
    thinking = say("it says text", thoughts=("let me see",))
    async with connected(tmp_path, call("read_file", path="a.txt"), thinking) as (client, _, session):
        await client.result("session/prompt", sessionId=session, prompt=prompt("what is in a.txt?"))
    async with connected(tmp_path, say("once more")) as (client, provider, _):
        listed = (await client.result("session/list"))["sessions"]
        assert (session, "what is in a.txt?") in [(one["sessionId"], one.get("title")) for one in listed]
        client.updates.clear()
        await client.result("session/load", sessionId=session, cwd=str(tmp_path / "work"), mcpServers=[])
        assert client.text("user_message_chunk") == "what is in a.txt?"
        assert client.text("agent_thought_chunk") == "let me see"
        assert client.text() == "it says text"
        assert [update["status"] for update in client.kinds("tool_call")] == ["completed"]
        await client.result("session/prompt", sessionId=session, prompt=prompt("again"))
        assert "what is in a.txt?" in str(provider.requests[-1].body)


async def test_what_goes_wrong_is_an_error_with_words_and_the_session_goes_on(tmp_path: Path) -> None:
    async with connected(tmp_path, fails("authentication"), say("fine")) as (client, _, session):
        failed = await client.error("session/prompt", sessionId=session, prompt=prompt("go"))
        assert "key" in failed["message"]
        assert (await client.error("session/new", cwd="not/absolute", mcpServers=[]))["code"] == -32602
        assert (await client.error("session/nonsense"))["code"] == -32601
        assert (await client.error("session/prompt", sessionId="nobody", prompt=prompt("x")))["code"] == -32002
        assert (await client.error("session/prompt", sessionId=session, prompt="words"))["code"] == -32602
        audio = [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]
        assert (await client.error("session/prompt", sessionId=session, prompt=audio))["code"] == -32602
        answer = await client.result("session/prompt", sessionId=session, prompt=prompt("go on"))
        assert (answer["stopReason"], client.text()) == ("end_turn", "fine")
        assert "Traceback" not in str(client.heard)


@pytest.mark.parametrize("answer", ["allow_always", "reject_always"])
async def test_a_standing_answer_is_offered_with_its_rule_and_kept(tmp_path: Path, answer: str) -> None:
    command = call("bash", command="touch made")
    async with connected(tmp_path, command, command, say("done")) as (client, _, session):
        client.picks = answer
        await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        assert len(client.questions) == 2
        names = [option["name"] for option in client.questions[1]["options"] if option["kind"] == answer]
        assert "touch made" in names[-1]
    assert (tmp_path / "work" / "made").exists() is (answer == "allow_always")


async def test_files_come_with_a_prompt_as_links_and_as_text(tmp_path: Path) -> None:
    (work_folder(tmp_path) / "a b.txt").write_text("from the disk\n")
    uri = (tmp_path / "work" / "a b.txt").as_uri()
    blocks = [
        *prompt("compare"),
        {"type": "resource_link", "uri": uri, "name": "a b.txt"},
        {"type": "resource", "resource": {"uri": "file:///elsewhere.txt", "text": "from the client\n"}},
    ]
    async with connected(tmp_path, say("equal")) as (client, provider, session):
        await client.result("session/prompt", sessionId=session, prompt=blocks)
        sent = str(provider.requests[0].body)
        assert ("from the disk" in sent, "from the client" in sent) == (True, True)
