"""The ACP face as a client written from the specification sees it: lines of JSON over stdio, and no SDK."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.acp_client import connected, prompt
from tests.support.provider import Gate, Text, call, fails, say
from tests.support.provider_script import Reply
from tests.support.terminal import work_folder


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
        diff, _reason = question["toolCall"]["content"]
        assert (diff["type"], diff["oldText"], diff["newText"]) == ("diff", "old\n", "new\n")
        (started,) = client.kinds("tool_call")
        assert started["toolCallId"] == question["toolCall"]["toolCallId"]
        final = client.kinds("tool_call_update")[-1]
        assert final["status"] == "completed"
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
        client.trusts = "allow_always"
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
        kinds = [option["kind"] for option in client.questions[1]["options"]]
        assert kinds == ["allow_once", "allow_always", "reject_once", "reject_always"]
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
