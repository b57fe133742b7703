"""Several processes on one session: all follow the turn of one of them, answer its questions, steer and stop it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.engine import Rig, rig, texts
from tests.support.frontends import ALLOW, DENY, SilentFrontend
from tests.support.postgres import new_store
from tests.support.provider import Gate, Text, call, say
from tests.support.provider_script import Reply
from tests.support.waiting import until

from pilotfish.conversation.records import ChunkRecord, TurnEndRecord
from pilotfish.engine.engine import Engine
from pilotfish.engine.questions.question_json import to_json
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.editor import NoEditor

ASKS = call("bash", command="echo done >> ran")


@pytest.fixture(name="store", params=["sqlite", "postgres"])
def _store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store") if request.param == "sqlite" else new_store()


@asynccontextmanager
async def window(turn: Rig, store: str) -> AsyncGenerator[tuple[Engine, SilentFrontend]]:
    """Another process on the same store."""
    frontend = SilentFrontend(NoEditor())
    engine = Engine(turn.engine.settings, Ledger.open(store), frontend, roots=[turn.root], trusted=True)
    engine.set_secret("openai", "test-key")
    try:
        yield engine, frontend
    finally:
        await engine.aclose()


def ended(frontend: SilentFrontend) -> list[str]:
    return [each.record.stop_reason for each in frontend.updates if isinstance(each.record, TurnEndRecord)]


def text_of(frontend: SilentFrontend) -> str:
    records = [each.record for each in frontend.updates]
    return "".join(r.text for r in records if isinstance(r, ChunkRecord) and r.channel == "message")


async def test_a_turn_is_followed_live_with_the_same_numbers(tmp_path: Path, store: str) -> None:
    reply = Reply(parts=(Text("Hello "), Gate(), Text("world")))
    async with rig(tmp_path, reply, store=store) as turn, window(turn, store) as (other, frontend):
        await other.load(turn.session_id)
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: text_of(frontend) == "Hello ")
        assert (await other.session(turn.session_id)).busy
        turn.provider.release()
        await running
        await until(lambda: ended(frontend) == ["end_turn"])
        assert text_of(frontend) == "Hello world"
        assert [each.seq for each in frontend.updates] == [each.seq for each in turn.updates]
        assert not (await other.session(turn.session_id)).busy


async def test_a_question_is_answered_from_another_process(tmp_path: Path, store: str) -> None:
    async with (
        rig(tmp_path, ASKS, say("fine"), choose=None, store=store) as turn,
        window(turn, store) as (other, shown),
    ):
        running = asyncio.create_task(turn.prompt("go"))
        await until(lambda: bool(turn.frontend.asked))
        await other.load(turn.session_id)
        await until(lambda: bool(shown.asked))
        loaded = await other.load(turn.session_id)
        [question] = shown.asked
        assert loaded.questions == (question,)
        assert to_json(question) == to_json(turn.frontend.asked[0])
        assert other.answer(question.approval_id, ALLOW)
        assert await other.answered(question.approval_id, accepted=True)
        assert (await running).stop_reason == "end_turn"
        await until(lambda: ended(shown) == ["end_turn"])
        assert (turn.root / "ran").read_text() == "done\n"
        assert turn.frontend.cleared == [(question.approval_id, "allow_once", "test")]
        assert [cleared[:2] for cleared in shown.cleared] == [(question.approval_id, "allow_once")]
        assert other.questions() == ()


async def test_the_first_answer_wins(tmp_path: Path, store: str) -> None:
    async with (
        rig(tmp_path, ASKS, say("fine"), choose=None, store=store) as turn,
        window(turn, store) as (other, shown),
    ):
        running = asyncio.create_task(turn.prompt("go"))
        await other.load(turn.session_id)
        await until(lambda: bool(shown.asked))
        [question] = shown.asked
        turn.answer(question, DENY)
        assert not (
            other.answer(question.approval_id, ALLOW) and await other.answered(question.approval_id, accepted=True)
        )
        await running
        assert not (turn.root / "ran").exists()


async def test_a_turn_is_stopped_from_another_process(tmp_path: Path, store: str) -> None:
    slow = call("bash", command="sleep 60")
    async with rig(tmp_path, slow, store=store) as turn, window(turn, store) as (other, _):
        running = asyncio.create_task(turn.prompt("go"))
        await other.load(turn.session_id)
        await until(lambda: "in_progress" in [line[-1] for line in turn.statuses().values()])
        while not (await other.session(turn.session_id)).elsewhere:
            await asyncio.sleep(0.01)
        receipt = await other.cancel(turn.session_id)
        outcome = await running
        assert outcome.stop_reason == "cancelled"
        assert receipt == outcome.receipt
        assert receipt.killed_processes


async def test_a_prompt_is_queued_to_the_process_that_runs_a_turn(tmp_path: Path, store: str) -> None:
    reply = Reply(parts=(Text("one"), Gate()))
    async with rig(tmp_path, reply, say("two"), store=store) as turn, window(turn, store) as (other, frontend):
        await other.load(turn.session_id)
        running = asyncio.create_task(turn.prompt("first"))
        await until(lambda: text_of(frontend) == "one")
        second = asyncio.create_task(other.prompt(turn.session_id, texts(["second"]), when_busy="queue"))
        await until(lambda: bool(turn.engine._sessions[turn.session_id].line.waiting))
        turn.provider.release()
        await running
        assert (await second).stop_reason == "end_turn"
        assert ended(frontend) == ["end_turn", "end_turn"]
        assert [each.seq for each in frontend.updates] == [each.seq for each in turn.updates][-len(frontend.updates) :]
        turn.check_laws()
