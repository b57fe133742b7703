"""The ACP face, driven by the SDK's own client over a real process's stdio."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.provider import Answer, Gate, Provider, Text, call, say, serve
from tests.support.provider_script import Reply
from tests.support.waiting import until

import acp
from acp import schema
from pilotfish.workspace.sandbox.sandbox import find_sandbox


class Person:
    """A client that keeps what it hears and answers permissions by kind."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.decided = asyncio.Event()
        """whether it trusts a folder: until then that question waits"""
        self.decided.set()
        self.updates: list[Any] = []
        self.asked: list[str] = []
        self.shown: list[tuple[schema.ToolCallUpdate, list[str]]] = []
        """each call that it was asked about, with the options"""

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: Sequence[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call.title or "")
        self.shown.append((tool_call, [option.option_id for option in options]))
        if (tool_call.title or "").startswith("Trust "):
            await self.decided.wait()
            chosen = options[0].option_id
        else:
            chosen = next(option.option_id for option in options if option.kind == self.answer)
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    def text(self) -> str:
        return "".join(
            update.content.text
            for update in self.updates
            if isinstance(update, schema.AgentMessageChunk) and isinstance(update.content, schema.TextContentBlock)
        )


@asynccontextmanager
async def connected(
    tmp_path: Path, *replies: Answer, answer: str = "allow_once"
) -> AsyncGenerator[tuple[Any, Person, Provider, str]]:
    folder = tmp_path / "work"
    folder.mkdir()
    person = Person(answer)
    async with serve(*replies) as provider:
        environment = {
            **os.environ,
            "PILOTFISH_MODEL": "openai-chat:scripted",
            "PILOTFISH_BASE_URL": provider.openai_url,
            "OPENAI_API_KEY": "test-key",
            "PILOTFISH_STORAGE": str(tmp_path / "store"),
            "PILOTFISH_CONFIG": str(tmp_path / "config.toml"),
            "PILOTFISH_LOG": str(tmp_path / "log"),
            "PILOTFISH_LANGUAGE_SERVERS": "off",
        }
        async with acp.spawn_agent_process(
            cast("acp.Client", person),
            sys.executable,
            "-m",
            "pilotfish",
            "acp",
            env=environment,
            cwd=folder,
            transport_kwargs={"stderr": None, "shutdown_timeout": 30.0},
        ) as (connection, _):
            await connection.initialize(protocol_version=1)
            session = await connection.new_session(cwd=str(folder), mcp_servers=[])
            yield connection, person, provider, session.session_id


async def test_a_prompt_streams_asks_runs_and_ends(tmp_path: Path) -> None:
    async with connected(tmp_path, call("bash", command="touch made"), say("do", "ne")) as (agent, person, _, session):
        answer = await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
        assert answer.stop_reason == "end_turn"
        assert person.text() == "done"
        assert person.asked[1:] == ["Run touch made"]
        assert (tmp_path / "work" / "made").exists()
        statuses = [getattr(update, "status", None) for update in person.updates if hasattr(update, "tool_call_id")]
        assert statuses[-1] == "completed"


@pytest.mark.skipif(find_sandbox().bwrap is None, reason="the workspace sandbox does not work here")
async def test_allowing_a_tried_command_applies_exactly_what_was_shown(tmp_path: Path) -> None:
    replies = (call("bash", command="date +%N > stamp; rm a.txt\necho \u202eout"), say("done"))
    async with connected(tmp_path, *replies) as (agent, person, _, session):
        (tmp_path / "work" / "a.txt").write_text("one\n")
        await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
        asked, options = person.shown[-1]
        assert options[0] == "allow_once"
        assert "allow_real" not in options
        content = asked.content or []
        diffs = {Path(part.path).name: part for part in content if isinstance(part, schema.FileEditToolCallContent)}
        assert (tmp_path / "work" / "stamp").read_text() == diffs["stamp"].new_text
        assert not (tmp_path / "work" / "a.txt").exists()
        words = content[-1].content.text if isinstance(content[-1], schema.ContentToolCallContent) else ""
        assert words.startswith("$ date +%N > stamp; rm a.txt\necho \\u{202e}out\nin ")
        assert "\ndeletes a.txt\n" in words
        last = [update for update in person.updates if isinstance(update, schema.ToolCallProgress)][-1]
        kinds = [part.type for part in last.content or []]
        assert kinds[-1] == "content", "the output of the command is shown beside what it changed"
        assert "out" in str((last.content or [])[-1])


async def test_a_rejection_reaches_the_model_and_nothing_runs(tmp_path: Path) -> None:
    replies = (call("bash", command="touch made"), say("fine"))
    async with connected(tmp_path, *replies, answer="reject_once") as (agent, _, provider, session):
        assert (await agent.prompt(session_id=session, prompt=[acp.text_block("go")])).stop_reason == "end_turn"
        assert not (tmp_path / "work" / "made").exists()
        assert "denied" in str(provider.requests[1].body)


async def test_cancel_ends_the_turn(tmp_path: Path) -> None:
    async with connected(tmp_path, Reply(parts=(Text("half"), Gate()))) as (agent, person, _, session):
        running = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("go")]))
        await until(person.text)
        await agent.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"


async def test_cancel_ends_a_prompt_that_waits_for_trust_and_the_next_one_asks_again(tmp_path: Path) -> None:
    async with connected(tmp_path, say("hello")) as (agent, person, provider, session):
        person.decided.clear()
        running = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("go")]))
        await until(lambda: person.asked)
        await agent.cancel(session_id=session)
        assert (await asyncio.wait_for(running, 60)).stop_reason == "cancelled"
        assert provider.requests == []
        person.decided.set()
        assert (await agent.prompt(session_id=session, prompt=[acp.text_block("go")])).stop_reason == "end_turn"
        assert (len(person.asked), person.text()) == (2, "hello")


async def test_sessions_are_listed_and_loaded_with_their_transcript(tmp_path: Path) -> None:
    async with connected(tmp_path, say("hello there")) as (agent, person, _, session):
        await agent.prompt(session_id=session, prompt=[acp.text_block("hi")])
        listed = await agent.list_sessions()
        assert [(found.session_id, found.title) for found in listed.sessions] == [(session, "hi")]
        person.updates.clear()
        await agent.load_session(cwd=str(tmp_path / "work"), session_id=session, mcp_servers=[])
        assert person.text() == "hello there"


async def test_an_unknown_session_is_a_clear_error(tmp_path: Path) -> None:
    async with connected(tmp_path) as (agent, _, _, _):
        with pytest.raises(acp.RequestError, match="no session"):
            await agent.prompt(session_id="nonsense", prompt=[acp.text_block("hi")])


async def test_a_session_is_not_made_where_there_is_no_folder(tmp_path: Path) -> None:
    async with connected(tmp_path) as (agent, _, _, _):
        for cwd in (str(tmp_path / "gone"), "work"):
            with pytest.raises(acp.RequestError, match="Invalid params"):
                await agent.new_session(cwd=cwd, mcp_servers=[])


async def test_trust_holds_though_it_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("broken = = ")
    async with connected(tmp_path, call("bash", command="touch made"), say("done")) as (agent, _, _, session):
        assert (await agent.prompt(session_id=session, prompt=[acp.text_block("go")])).stop_reason == "end_turn"
        assert (tmp_path / "work" / "made").exists()


async def test_slash_commands_are_offered_and_run_without_the_model(tmp_path: Path) -> None:
    async with connected(tmp_path, say("reviewed")) as (agent, person, provider, session):
        async with asyncio.timeout(30):
            await until(lambda: any(isinstance(update, schema.AvailableCommandsUpdate) for update in person.updates))
        offered = next(update for update in person.updates if isinstance(update, schema.AvailableCommandsUpdate))
        names = [command.name for command in offered.available_commands]
        assert names == ["help", "model", "mode", "undo", "compact", "export", "memory", "plan", "review"]
        answer = await agent.prompt(session_id=session, prompt=[acp.text_block("/mode plan")])
        assert answer.stop_reason == "end_turn"
        assert person.text() == "This session is in mode `plan` from now on."
        assert provider.requests == []


async def test_a_custom_command_is_expanded_before_the_model_sees_it(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "review.md").write_text("Look at $1 closely.")
    async with connected(tmp_path, say("reviewed")) as (agent, person, provider, session):
        await agent.prompt(session_id=session, prompt=[acp.text_block("/review a.py")])
        assert person.text() == "reviewed"
        assert "Look at a.py closely." in str(provider.requests[0].body)
