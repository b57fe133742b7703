"""Two real servers on one store, each with its client: who shows a session follows it, answers, steers and stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import OURS, Client, allow, connect, never, option
from tests.support.postgres import new_store
from tests.support.provider import Gate, Reply, Text, call, say
from tests.support.served import Rig, served

MARK = call("bash", command="echo done >> ran")
LONG = call("bash", command="sleep 600")


@dataclass(frozen=True)
class Windows:
    rig: Rig
    first: Client
    """its server runs the turns"""
    second: Client
    session: str

    @property
    def ran(self) -> Path:
        return self.rig.folder / "ran"

    def asked(self, client: Client) -> list[Any]:
        return client.of("pilotfish/approval/request")


@pytest.fixture(name="storage", params=["sqlite", "postgres"])
def _storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store") if request.param == "sqlite" else new_store()


@contextlib.asynccontextmanager
async def windows(tmp_path: Path, storage: str) -> AsyncGenerator[Windows]:
    """Both show one session. The client of the first one leaves every question open."""
    folder = tmp_path / "work"
    folder.mkdir()
    hello = {**OURS, "client": {**OURS["client"], "sessionList": True}}
    async with served(folder, hello=hello, PILOTFISH_STORAGE=storage) as rig:
        model = {"PILOTFISH_MODEL": "openai-chat:scripted", "PILOTFISH_BASE_URL": rig.provider.openai_url}
        where: dict[str, Any] = {"PILOTFISH_STORAGE": storage, "OPENAI_API_KEY": "sk-scripted", **model}
        async with connect(folder, hello=hello, **where) as second:
            for client in (rig.client, second):
                client.answers["pilotfish/approval/request"] = never
            session = await rig.client.new_session()
            await second.load(session)
            yield Windows(rig, rig.client, second, session)


def kinds(client: Client) -> list[tuple[int, str]]:
    return [(update.seq, update.update.kind) for update in client.updates]


async def turns_ended(client: Client, count: int) -> None:
    await client.until(lambda: [kind for _, kind in kinds(client)].count("turn_ended") == count)


async def test_a_turn_is_followed_answered_and_stopped_in_the_other_window(tmp_path: Path, storage: str) -> None:
    async with windows(tmp_path, storage) as they:
        # It sees the question, and its answer lets the command run in the first server.
        they.second.answers["pilotfish/approval/request"] = allow
        slowly = Reply(parts=(Text("Written "), Gate(), Text("slowly.")))
        prompt = they.rig.script("mark", MARK, slowly)
        running = they.first.begin(they.session, f"{prompt} please")
        await they.second.until(lambda: "Written " in they.second.laws.texts[they.session].values())
        assert they.ran.read_text("utf-8") == "done\n"
        assert [asked["approvalId"] for asked in they.asked(they.first)] == [
            asked["approvalId"] for asked in they.asked(they.second)
        ]
        assert [done["optionId"] for done in they.first.of("pilotfish/approval/resolved")] == ["allow_once"]
        assert len(they.first.taken_back) == 1, "the first window still shows the question"
        they.rig.provider.release()
        assert (await running).stop_reason == "end_turn"
        await turns_ended(they.second, 1)
        assert list(they.second.laws.texts[they.session].values()) == ["Written slowly."]
        assert [seq for seq, _ in kinds(they.first)] == [seq for seq, _ in kinds(they.second)]
        first, second = await they.first.load(they.session), await they.second.load(they.session)
        assert first == second

        # It stops a command that runs there, and gets the receipt.
        stopped = they.first.begin(they.session, they.rig.script("long", LONG))
        calls = they.second.laws.calls[they.session]
        await they.second.until(lambda: any(one.status == "in_progress" for one in calls.values()))
        receipt = await they.second.request("pilotfish/session/cancel", {"sessionId": they.session})
        result = await stopped
        assert result.stop_reason == "cancelled"
        assert result.receipt is not None
        assert receipt == result.receipt.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert len(receipt["killedProcesses"]) == 1
        await turns_ended(they.second, 2)


async def test_the_first_answer_wins_and_one_for_another_preview_is_refused(tmp_path: Path, storage: str) -> None:
    async with windows(tmp_path, storage) as they:
        running = they.first.begin(they.session, they.rig.script("mark", MARK, say("So be it.")))
        await they.second.until(lambda: bool(they.asked(they.second)))
        [asked] = they.asked(they.second)
        both = {"approvalId": asked["approvalId"], "optionId": "reject"}
        answers = await asyncio.gather(
            they.first.request("pilotfish/approval/answer", {**both, "feedback": "not here"}),
            they.second.request("pilotfish/approval/answer", {**both, "optionId": "allow_once"}),
            return_exceptions=True,
        )
        assert [answer for answer in answers if answer == {"accepted": True}] == [{"accepted": True}]
        assert (await running).stop_reason == "end_turn"
        assert they.ran.exists() == (answers[1] == {"accepted": True})
        await turns_ended(they.second, 1)
        for client in (they.first, they.second):
            await client.until(lambda client=client: bool(client.of("pilotfish/approval/resolved")))
            listed = await client.request("pilotfish/approval/list", {"sessionId": they.session})
            assert listed == {"approvals": []}


async def test_feedback_and_amended_arguments_reach_the_turn(tmp_path: Path, storage: str) -> None:
    async with windows(tmp_path, storage) as they:
        amended = {"command": "echo amended >> ran"}
        they.second.answers["pilotfish/approval/request"] = option("allow_once", args=amended)
        prompt = they.rig.script("mark", MARK, say("Done."))
        assert (await they.first.prompt(they.session, prompt)).stop_reason == "end_turn"
        assert they.ran.read_text("utf-8") == "amended\n"
        they.second.answers["pilotfish/approval/request"] = option("reject", feedback="use make")
        await they.first.prompt(they.session, they.rig.script("again", MARK, say("I see.")))
        assert "use make" in str(they.rig.provider.requests[-1].messages)
        assert they.ran.read_text("utf-8") == "amended\n"


async def test_a_question_of_the_agent_is_answered_in_the_other_window(tmp_path: Path, storage: str) -> None:
    async def blue(_: dict[str, Any]) -> Any:
        return {"answer": "blue"}

    async with windows(tmp_path, storage) as they:
        they.first.answers["pilotfish/user/ask"] = never
        they.second.answers["pilotfish/user/ask"] = blue
        asks = call("ask_user", question="Which colour?", options=["red", "blue"])
        assert (
            await they.first.prompt(they.session, they.rig.script("ask", asks, say("Blue.")))
        ).stop_reason == "end_turn"
        assert "blue" in str(they.rig.provider.requests[-1].messages[-1])
        assert len(they.first.taken_back) == 1


async def test_a_prompt_of_the_other_window_steers_the_turn_or_waits_for_it(tmp_path: Path, storage: str) -> None:
    async with windows(tmp_path, storage) as they:
        steps = (Reply(parts=(Text("One. "), Gate(), *call("list_dir", path=".").parts)), say("Two."), say("Three."))
        running = they.first.begin(they.session, they.rig.script("steps", *steps))
        await they.second.until(lambda: "One. " in they.second.laws.texts[they.session].values())
        steered = they.second.begin(they.session, "and quickly", whenBusy="steer")
        waiting = they.second.begin(they.session, "#steps# afterwards", whenBusy="queue", promptId="later")

        async def queued() -> list[str]:
            listed = await they.first.request("pilotfish/queue/list", {"sessionId": they.session})
            return [prompt["kind"] for prompt in listed["prompts"]]

        while await queued() != ["steer", "queue"]:
            await asyncio.sleep(0.01)
        with pytest.raises(Exception, match="A turn is running in this session"):
            await they.second.prompt(they.session, "no", whenBusy="reject")
        they.rig.provider.release()
        outcomes = [await running, await steered, await waiting]
        assert [outcome.stop_reason for outcome in outcomes] == ["end_turn"] * 3
        assert outcomes[0].turn_id == outcomes[1].turn_id != outcomes[2].turn_id
        await turns_ended(they.first, 2)
        assert (await they.first.load(they.session)) == (await they.second.load(they.session))


async def test_the_other_window_goes_on_with_a_question_when_the_server_is_killed(tmp_path: Path, storage: str) -> None:
    async with windows(tmp_path, storage) as they:
        running = they.first.begin(they.session, they.rig.script("mark", MARK, say("Continued.")))
        running.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        await they.second.until(lambda: bool(they.asked(they.second)))
        lost = they.second.begin(
            they.session, they.rig.script("next", say("Not lost.")), whenBusy="queue", promptId="p"
        )
        while not (await they.first.request("pilotfish/queue/list", {"sessionId": they.session}))["prompts"]:
            await asyncio.sleep(0.01)
        they.first.process.kill()
        await asyncio.wait_for(they.first.process.wait(), 60)
        assert (await lost).stop_reason == "end_turn"
        assert not they.ran.exists(), "a new prompt lets the old question go"
        items = (await they.second.load(they.session)).items
        assert [item.kind for item in items] == ["prompt", "tool_call", "turn_end", "prompt", "message", "turn_end"]


async def test_a_question_of_a_killed_server_is_asked_and_answered_in_the_other_window(
    tmp_path: Path, storage: str
) -> None:
    async with windows(tmp_path, storage) as they:
        running = they.first.begin(they.session, they.rig.script("mark", MARK, say("Continued.")))
        running.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        await they.second.until(lambda: bool(they.asked(they.second)))
        they.second.answers["pilotfish/approval/request"] = allow
        they.first.process.kill()
        await asyncio.wait_for(they.first.process.wait(), 60)
        await turns_ended(they.second, 1)
        assert they.ran.read_text("utf-8") == "done\n"
        assert [asked["call"]["id"] for asked in they.asked(they.second)] == [
            they.asked(they.first)[0]["call"]["id"]
        ] * 2
        assert they.second.laws.texts[they.session] == {
            item.id: "Continued." for item in (await they.second.load(they.session)).items if item.kind == "message"
        }


async def test_lists_of_the_other_window_change_by_themselves(tmp_path: Path, storage: str) -> None:
    async with windows(tmp_path, storage) as they:
        another = await they.first.new_session(title="Made elsewhere")
        await they.second.until(lambda: bool(they.second.of("pilotfish/session/listChanged")))
        running = they.first.begin(another, they.rig.script("slow", Reply(parts=(Text("One"), Gate()))))

        async def shown() -> dict[str, bool]:
            listed = await they.second.request("pilotfish/session/list", {})
            return {session["title"]: session["busy"] for session in listed["sessions"]}

        await they.first.first_update("turn_started", another)
        while not (await shown()).get("Made elsewhere"):
            await asyncio.sleep(0.01)
        they.rig.provider.release()
        await running
        while (await shown())["Made elsewhere"]:
            await asyncio.sleep(0.01)
