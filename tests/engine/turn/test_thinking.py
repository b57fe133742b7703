"""Signed and encrypted thoughts go back to the provider that signed them, whatever happens to the conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Rig, beside, rig, texts
from tests.support.provider import Call, Request, calls, say

WIRES = ("anthropic", "responses", "google")
MODEL = "gpt-5"  # OpenAI's models return encrypted reasoning; the other wires take any name


def seals(request: Request) -> int:
    """How many signatures or encrypted thoughts a request carries."""
    found = str(request.body)
    return (
        found.count("'signature': 'sig-")
        + found.count("'encrypted_content': 'sealed-")
        + found.count("'thoughtSignature'")
    )


def endpoints(turn: Rig) -> tuple[dict[str, str], ...]:
    urls = {wire: turn.provider.base_url(wire) for wire in (*WIRES, "chat")}
    return tuple({"name": f"to-{wire}", "url": url, "api": wire} for wire, url in urls.items())


@pytest.mark.parametrize("wire", WIRES)
async def test_sealed_thoughts_survive_rounds_restart_fork_compaction_and_a_change_of_model(
    tmp_path: Path, wire: Any
) -> None:
    thinks = calls(Call("read_file", {"path": "a.txt"}), thoughts=("hm",))
    async with rig(
        tmp_path, thinks, say("done", thoughts=("so",)), otherwise=say("fine"), dialect=wire, files={"a.txt": "a\n"}
    ) as turn:
        settings = turn.engine.settings.model_validate({"model": f"to-{wire}:{MODEL}", "endpoints": endpoints(turn)})
        turn.engine.set_settings(settings)
        await turn.engine.configure(turn.session_id, model=settings.model)
        requests = turn.provider.requests

        await turn.prompt("look")
        assert seals(requests[1]) == 1, "in the next round"
        await turn.prompt("and now?")
        before = seals(requests[-1])
        assert before >= 1, "in the next turn"
        async with beside(turn, tmp_path) as other:
            await other.load(turn.session_id)
            await other.prompt(turn.session_id, texts(["after a restart"]))
            assert seals(requests[-1]) == before
            fork = await other.fork(turn.session_id)
            await other.prompt(fork.id, texts(["in a fork"]))
            assert seals(requests[-1]) == before

            for stranger in (*WIRES, "chat"):
                await other.configure(fork.id, model=f"to-{stranger}:{MODEL}")
                await other.prompt(fork.id, texts([f"to {stranger}"]))
                if stranger not in (wire, "google"):  # calls for Google carry the mark for "not signed"
                    assert seals(requests[-1]) == 0, f"{stranger} would refuse what it has not sealed"
            await other.configure(fork.id, model=settings.model)
            await other.prompt(fork.id, texts(["back again"]))
            assert seals(requests[-1]) == before

            await other.compact(fork.id)
            assert (await other.prompt(fork.id, texts(["after a summary"]))).stop_reason == "end_turn"
        assert [request.refused for request in requests] == [None] * len(requests)
