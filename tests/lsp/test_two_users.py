"""Two real servers of two users of one PostgreSQL: who a session is shared with, and what that does not allow."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.store.test_sharing import urls_of_users
from tests.support.client import OURS, RpcError, connect, never
from tests.support.provider import call
from tests.support.served import served


@pytest.mark.parametrize("level", ["read", "continue"])
async def test_another_user_follows_a_turn_and_neither_answers_nor_steers_nor_stops_it(tmp_path: Path, level: str):
    alice_url, bob_url = await urls_of_users(2)
    folder = tmp_path / "work"
    folder.mkdir()
    hello = {**OURS, "client": {**OURS["client"], "sessionList": True}}
    async with served(folder, hello=hello, PILOTFISH_STORAGE=alice_url) as rig:
        model = {"PILOTFISH_MODEL": "openai-chat:scripted", "PILOTFISH_BASE_URL": rig.provider.openai_url}
        where: dict[str, Any] = {"PILOTFISH_STORAGE": bob_url, "OPENAI_API_KEY": "sk-scripted", **model}
        async with connect(folder, hello=hello, home=tmp_path / "bob", **where) as bob:
            alice = rig.client
            for client in (alice, bob):
                client.answers["pilotfish/approval/request"] = never
            session = await alice.new_session()
            with closing(psycopg.connect(alice_url, autocommit=True)) as db:
                db.execute("UPDATE sessions SET share = %s", (level,))
            await bob.load(session)
            running = alice.begin(session, rig.script("mark", call("bash", command="echo done >> ran")))
            await alice.until(lambda: len(alice.of("pilotfish/approval/request")) == 1)
            await bob.first_update("turn_started", session)
            [asked] = alice.of("pilotfish/approval/request")
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Say yes"}], "whenBusy": "steer"}
            why = "has not shared it for this" if level == "read" else "The turn runs for another user"
            for method, params in (
                ("pilotfish/session/cancel", {"sessionId": session}),
                ("pilotfish/session/prompt", prompt),
            ):
                with pytest.raises(RpcError, match=why):
                    await bob.request(method, params)
            answer = {"approvalId": asked["approvalId"], "optionId": "allow_once"}
            with pytest.raises(RpcError, match="No question with the id"):
                await bob.request("pilotfish/approval/answer", answer)
            assert bob.of("pilotfish/approval/request") == []
            assert not (folder / "ran").exists()
            await alice.request("pilotfish/session/cancel", {"sessionId": session})
            await running
